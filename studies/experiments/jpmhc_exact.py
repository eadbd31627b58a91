"""JPmHC with its transform computed in two ways: by two steps of an iteration, and exactly.

    iterated   Y₀ = I + αW,   Y ← I + (α/2) W (I + Y), twice
    exact      Y = (I − (α/2) W)⁻¹ (I + (α/2) W)

All else is equal: width, generator, reads and writes. At the paper's α = 0.1 the two differ by the
fourth power of (α/2) W. At α = 2 a generator needn't be large to tell them apart.
"""

from functools import partial

from studies.engine.arm import Arm, comparison
from studies.engine.protocol import Protocol
from studies.engine.run import Study
from studies.experiments.emhc import SHORT, TASKS, build

LAYERS, TASK = 2, TASKS["cpu"]["near_pi_multi"]
MODELS = {f"{said}, α = {alpha:g}": {"retraction": retraction, "alpha": alpha}
          for alpha in (0.1, 2.0) for said, retraction in (("two steps", "iterated"),
                                                           ("exact", "exact"))}


def small() -> list[Arm]:
    models = {name: partial(build, "cpu", "jpmhc", options, LAYERS, TASK.dim)
              for name, options in MODELS.items()}
    return comparison("near_pi_multi", models, TASK, SHORT, Protocol.brief())


STUDY = Study("jpmhc_exact", "Is JPmHC better with the exact Cayley transform than with two steps "
              "of its iteration?", {"cpu": small})
