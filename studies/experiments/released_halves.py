"""The arms of `released`, where one text selects a setting and another one reports.

`released` reads one held-out text for both. Here the search reads its first half, and the runs that
report read its second half; networks, grid, seeds and steps are the same.
"""

from dataclasses import replace

from studies.engine.arm import Arm
from studies.engine.held_out import Reported, Selected
from studies.engine.run import Study
from studies.experiments.released import TASK, million


def halves() -> list[Arm]:
    """The arms of `released` on the halves of its text, without variations and curves."""
    return [replace(arm, task=Reported(context=TASK.context),
                    selects=Selected(context=TASK.context),
                    budget=replace(arm.budget, evaluate_every=arm.budget.steps),
                    protocol=replace(arm.protocol, variations=()))
            for arm in million()]


STUDY = Study("released_halves", "Do the gains of `released` stand if one text selects and another "
              "reports?", {"cpu": halves})
