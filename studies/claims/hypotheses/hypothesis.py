"""What an entry of the ledger of hypotheses is."""

from dataclasses import dataclass, field

from studies.claims.theorems.theorem import SOURCES
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
