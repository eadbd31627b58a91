"""Observations of one real network, as rows: each says that a number lies beyond a border.

The rows are in observed/*.yml, and the numbers in the files of `python -m studies real` and its
like. A row speaks of one network and of the texts that it read, and of no other network.
"""

from dataclasses import dataclass

from studies.claims.files import entries
from studies.engine.results import interval

HOLDS, FAILS, OPEN = "seen", "not seen", "open"


@dataclass(frozen=True)
class Observation:
    """One row.

    Arguments:
        label: its anchor in the ledger.
        statement: in our words.
        of: the way to a number of the file, with "/" between its names, or two for a difference.
        chapter: where it is discussed.
        above, below: the border, one of them.
        count: count the entries of a list above this number, and compare the count.
        unit: of the number.
        study, size: whose file it is read off.
    Raises: ValueError for both borders, or none.
    """

    label: str
    statement: str
    of: str | list[str]
    chapter: str
    above: float | None = None
    below: float | None = None
    count: float | None = None
    unit: str = ""
    study: str = "real"
    size: str = "cpu"

    def __post_init__(self):
        if (self.above is None) == (self.below is None):
            raise ValueError(f"row {self.label} must have a border above or below, got "
                             f"{self.above} and {self.below}")

    def measured(self, content: dict) -> tuple[float, float]:
        """The mean over windows or seeds and half its 95 % interval; of a count, itself and 0.

        Raises: KeyError for a way that the file doesn't have.
        """
        if isinstance(self.of, list):
            first, second = (_at(content, way)["windows"] for way in self.of)
            return interval([a - b for a, b in zip(first, second, strict=True)])
        found = _at(content, self.of)
        if isinstance(found, list):
            return interval(found)
        if self.count is None:
            return found["mean"], found["half width"]
        return float(sum(mean - half > self.count for mean, half in
                         zip(found["mean"], found["half width"], strict=True))), 0.0

    def verdict(self, content: dict) -> str:
        """The verdict: the whole interval lies beyond the border, on the other side, or on both."""
        mean, half = self.measured(content)
        border = self.below if self.above is None else self.above
        distance = border - mean if self.above is None else mean - border
        return HOLDS if distance > half else FAILS if distance < -half else OPEN


def _at(content: dict, way: str) -> dict | list:
    *names, last = way.split("/")
    for name in names:
        content = content[name]
    if not last.isdigit():
        return content[last]
    return {name: values[int(last)] for name, values in content.items()}


OBSERVATIONS: list[Observation] = list(entries("observed", ("smollm2",), Observation))
