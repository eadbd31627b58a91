"""The additive and the delta residual in one backbone on a small echo task: 300 and 3000 steps."""

from functools import partial

from geolab.models import ContinuousModel, Transformer, TransformerConfig
from geolab.tasks import Echo
from geolab.training import Budget
from studies.engine.arm import Arm, comparison
from studies.engine.protocol import Protocol
from studies.engine.run import Study

TASK = Echo(dim=16, length=33)
CONFIG = TransformerConfig.ddl(width=64, layers=4, heads=4)
MODELS = {"additive": ("additive", {}), "delta": ("delta", {}),
          "delta, v-Map": ("delta", {"map": "v", "value": "sigmoid"})}


def build(name: str) -> ContinuousModel:
    residual, options = MODELS[name]
    return ContinuousModel(Transformer(CONFIG, residual, **options), TASK.dim)


def small() -> list[Arm]:
    models = {name: partial(build, name) for name in MODELS}
    return [*comparison("short", models, TASK, Budget(steps=300, evaluate_every=50),
                        Protocol.eight()),
            *comparison("long", models, TASK, Budget(steps=3000, evaluate_every=300),
                        Protocol.eight())]


STUDY = Study("echo", "Does a delta residual that may reflect learn to echo better than the "
              "additive one?", {"cpu": small})
