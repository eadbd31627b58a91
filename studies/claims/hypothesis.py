"""The ledger of hypotheses: every claim about trained networks that a source or a chapter makes.

The entries are in hypotheses/*.yml. The ledger page prints them with what the runs say. A chapter's
sentence that compares trained models points at its row, by {row}`label`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from studies.claims.files import entries
from studies.claims.quantities import quantity as named
from studies.claims.theorem import SOURCES
from studies.engine.judge import Claim

BOOK = "this book"   # a claim that no source makes, and that a chapter needs


@dataclass(frozen=True, eq=False)  # compared and hashed as itself: a contrast is a dictionary
class Hypothesis:
    """One claim about trained networks.

    Arguments:
        label: its anchor in the ledger; chapters refer to it by {row}`label`.
        source, number: a key of SOURCES and where it says so; or `BOOK`.
        statement: in our words.
        chapter: the notebook that discusses it.
        study, part, size: which comparison of which file the claim is read off; no study where
            nothing here can try it.
        claim: what is read off.
        unit: of the effect. "log ratio" is printed as a ratio.
        remark: what the size and the verdict don't say.
    Raises: ValueError for a source that isn't there.
    """

    label: str
    source: str
    number: str
    statement: str
    chapter: str
    study: str = ""
    part: str = ""
    size: str = "cpu"
    claim: Claim = field(default_factory=lambda: Claim({}))
    unit: str = "nats"
    remark: str = ""

    def __post_init__(self):
        if self.source not in (*SOURCES, BOOK):
            raise ValueError(f"source must be one of {', '.join((*SOURCES, BOOK))}, got "
                             f"{self.source!r}")


def hypothesis(*, contrast: Mapping[str, float] | None = None, above: float = 0.0,
               quantity: str | dict = "loss", beats: str = "", varies: bool = True,
               **row) -> Hypothesis:
    """A row of a file: what its claim is made of, and the other fields of `Hypothesis`."""
    return Hypothesis(claim=Claim(contrast or {}, above, named(quantity), beats, varies),
                      **row)


FILES = ("mgt", "emhc", "ddl", "streams", "lecture")
HYPOTHESES: list[Hypothesis] = list(entries("hypotheses", FILES, hypothesis))
