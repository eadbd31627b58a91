"""What tests of studies share: an arm by its name, and the tasks of some arms."""

from geolab.tasks import Task
from studies.engine.arm import Arm
from studies.engine.run import Study


def arm_of(study: Study, part: str, name: str, size: str = "cpu") -> Arm:
    """The arm of a study."""
    found, = (arm for arm in study.arms(size) if (arm.part, arm.name) == (part, name))
    return found


def tasks_of(arms: list[Arm]) -> dict[str, Task]:
    """part -> task."""
    return {arm.part: arm.task for arm in arms}
