"""Two halves of a text's held-out part: one for the search, and one for the runs that report.

    comparison("text", models, Reported(context=64), …, selects=Selected(context=64))

So no setting is chosen by the bytes on which it is judged.
"""

from dataclasses import dataclass

import numpy as np

from geolab.tasks import Text


@dataclass(frozen=True)
class Selected(Text):
    """Text whose validation reads the first half of the held-out bytes."""

    def tokens(self, split: str) -> np.ndarray:
        found = super().tokens(split)
        return found[:len(found) // 2] if split == "validation" else found


@dataclass(frozen=True)
class Reported(Text):
    """Text whose validation reads the second half of the held-out bytes."""

    def tokens(self, split: str) -> np.ndarray:
        found = super().tokens(split)
        return found[len(found) // 2:] if split == "validation" else found
