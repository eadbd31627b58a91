"""Three residuals in one backbone on a small echo task.

Each has a search over learning rates at 300 steps, then long runs at the rate that won.
"""

from functools import partial

from geolab.models import ContinuousModel, Transformer, TransformerConfig
from geolab.tasks import Echo
from geolab.training import Budget
from studies.runner.arm import Arm, comparison
from studies.runner.run import Study

TASK = Echo(dim=16, length=33)
CONFIG = TransformerConfig.ddl(width=64, layers=4, heads=4)
MODELS = {"additive": ("additive", {}), "delta": ("delta", {}),
          "delta, v-Map": ("delta", {"map": "v", "value": "sigmoid"})}


def build(name: str) -> ContinuousModel:
    residual, options = MODELS[name]
    return ContinuousModel(Transformer(CONFIG, residual, **options), TASK.dim)


def small() -> list[Arm]:
    return comparison("echo", {name: partial(build, name) for name in MODELS}, TASK,
                      Budget(steps=3000, evaluate_every=300),
                      rates=(1e-3, 2e-3, 4e-3, 8e-3), search_steps=300)


STUDY = Study("echo", "Does a delta residual that may reflect learn to echo better than the "
              "additive one?", {"cpu": small}, lambda found, tasks, size: found["echo"])
