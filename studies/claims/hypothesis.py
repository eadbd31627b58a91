"""The ledger of hypotheses: every claim about trained networks that a source or a chapter makes.

The entries are in hypotheses/*.yml. The ledger page prints them with what the runs say. A chapter's
sentence that compares trained models links to its row: [ledger](../book/hypotheses.ipynb#label).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from studies.claims.files import entries
from studies.claims.quantities import quantity as named
from studies.claims.theorem import SOURCES
from studies.engine.judge import Claim

BOOK = "this book"   # a claim that no source makes, and that a chapter needs


@dataclass(frozen=True, eq=False)  # by identity, since its contrast is a dictionary
class Hypothesis:
    """One claim about trained networks.

    Arguments:
        label: its anchor in the ledger; chapters refer to it by #label.
        source, number: a key of SOURCES, and the place in that source; or `BOOK`.
        quote: the source's own words, in its language, with "…" between two places; a claim of
            `BOOK` has none.
        statement: the claim in our words.
        chapter: the notebook that discusses it; without a number, a page of book/.
        study, part, size: the file and its comparison that decide the claim; without a study, no
            run here can.
        claim: the contrast that decides it.
        unit: of the effect. "log ratio" is printed as a ratio.
        remark: a note beside the size and the verdict.
    Raises: ValueError for an unknown source, a source without a quote, and a quote of `BOOK`.
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
    quote: str = ""

    def __post_init__(self):
        if self.source not in (*SOURCES, BOOK):
            raise ValueError(f"source must be one of {', '.join((*SOURCES, BOOK))}, got "
                             f"{self.source!r}")
        if self.source == BOOK and self.quote:
            raise ValueError(f"quote must be empty for a claim of {BOOK}, got {self.quote!r}")
        if self.source != BOOK and not self.quote:
            raise ValueError(f"quote must be the words of {self.source}, got none")


def hypothesis(*, contrast: Mapping[str, float] | None = None, above: float = 0.0,
               quantity: str | dict = "loss", beats: str = "", varies: bool = True,
               spread: bool = False, **row) -> Hypothesis:
    """Make a row of a file from the parts of its claim and the other fields of `Hypothesis`."""
    return Hypothesis(claim=Claim(contrast or {}, above, named(quantity), beats, varies,
                                  spread),
                      **row)


FILES = ("mgt", "emhc", "ddl", "ddl_million", "streams", "released", "lecture")
HYPOTHESES: list[Hypothesis] = list(entries("hypotheses", FILES, hypothesis))
