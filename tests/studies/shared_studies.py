"""What tests of studies share: a small study, an arm by its name, and the tasks of some arms."""

from functools import partial

from torch import nn

from geolab.tasks import Negation, Task
from geolab.training import Budget
from studies.engine.arm import Arm, comparison
from studies.engine.protocol import Protocol
from studies.engine.run import Study

TASK = Negation(dim=4, train=32, validation=16)
MAPS = {"biased": partial(nn.Linear, 4, 4), "linear": partial(nn.Linear, 4, 4, bias=False)}


def small_arms(protocol: Protocol, part: str = "negation", **budget) -> list[Arm]:
    """Two linear maps, with a bias and without."""
    return comparison(part, MAPS, TASK,
                      Budget(**{"steps": 6, "evaluate_every": 3, "warmup": 1} | budget), protocol)


def small_study(arms) -> Study:
    """The study whose arms a function gives."""
    return Study("toy", "Does it run?", {"cpu": arms})


def arm_of(study: Study, part: str, name: str, size: str = "cpu") -> Arm:
    """The arm of a study."""
    found, = (arm for arm in study.arms(size) if (arm.part, arm.name) == (part, name))
    return found


def tasks_of(arms: list[Arm]) -> dict[str, Task]:
    """part -> task."""
    return {arm.part: arm.task for arm in arms}
