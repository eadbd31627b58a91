"""The controls that E-MHC-Geo's tables lack, on echo and the gyroscope.

They are its block, causal, with other operators in place of its gated one, and the residuals that
its benchmark changed, in their papers' form. All have the same number of parameters within a tenth,
the same steps and the same search.
"""

from collections.abc import Mapping
from functools import partial

import torch
from torch import nn

from geolab.probes import operators_by_layer
from geolab.tasks import Task
from studies.emhc import BLOCK, CAUSAL, SEEDS, TASKS, Model, builds, on
from studies.runner.arm import Arm
from studies.runner.run import Study

MODELS: dict[str, Model] = {
    "additive": ("additive", {}),
    "hybrid": ("emhc-hybrid", CAUSAL),
    "hybrid, hard": ("emhc-hybrid", CAUSAL | {"gate": "hard", "penalty": 0.0}),
    "cayley": ("emhc-cayley", BLOCK | {"start": "published"}),
    "geodesic": ("emhc-geodesic", BLOCK | {"start": "published", "gate_bias": 0.0}),
    "exact": ("emhc-exact", BLOCK),
    "mhc": ("mhc", {}),
    "delta": ("delta", {}),
}
OF_THE_BLOCK = ("emhc-hybrid", "emhc-cayley", "emhc-geodesic", "emhc-exact")
LAYERS = {  # 58 000 to 65 000 parameters, and 1.82 to 1.84 million
    "cpu": {"additive": 5, "mhc": 3, "delta": 5} | dict.fromkeys(OF_THE_BLOCK, 3),
    "paper": {"additive": 9, "mhc": 8, "delta": 9} | dict.fromkeys(OF_THE_BLOCK, 6),
}


def measure(task: Task, model: nn.Module) -> dict:
    """How far the operators are from doing nothing, by sublayer, as means over 16 sequences.

    These are the Frobenius norms of G − I, where the residual has a matrix G, and of Q − I, where G
    has a part Q: √8 sin(θ/2) for one plane turned by θ. Beside them stand its γ or β.
    """
    layers, found = operators_by_layer(model, task.sample("validation").inputs[:16]), {}
    fields = (("mix", "|G - I|"), ("rotation", "|Q - I|"), ("gate", "gate"), ("beta", "beta"))
    for field, name in fields:
        values = [getattr(layer, field, None) for layer in layers]
        if values[0] is not None:
            if name.startswith("|"):
                values = [(matrix - torch.eye(matrix.shape[-1])).norm(dim=(-2, -1))
                          for matrix in values]
            found[name] = [round(value.mean().item(), 4) for value in values]
    return found


def arms(size: str) -> list[Arm]:
    """Small: two rates on echo for one seed, and 56 runs of 300 steps in all, about 7 minutes on
    one core.

    At the paper's size there are 48 runs of 2000 steps at the paper's one rate: 96 000 steps of 10
    to 20 ms on an H200 are 16 to 32 minutes one after another, and about 8 with --jobs 8.
    """
    found = []
    for name in ("echo", "gyroscope"):
        far = partial(measure, TASKS[size][name])
        found += on(size, name, builds(size, name, MODELS, LAYERS[size]),
                    search_seeds=SEEDS[size][:1], measure=far, untrained=far)
    return found


def arrange(found: dict[str, dict], tasks: Mapping[str, Task], size: str) -> dict:
    """One entry per task."""
    models = {arm: (residual, LAYERS[size][residual], options)
              for arm, (residual, options) in MODELS.items()}
    return {name: content | {"floor": tasks[name].bayes_floor(),
                             "baselines": tasks[name].baselines()}
            for name, content in found.items()} | {"models": models}


STUDY = Study(
    "emhc_controls",
    "What does E-MHC-Geo's gated operator add to its block, and what do others' residuals add in "
    "their own form?",
    {size: partial(arms, size) for size in ("cpu", "paper")}, arrange)
