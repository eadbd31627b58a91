"""What an entry of the ledger of hypotheses is, and what its runs say."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache

from studies import results
from studies.papers.theorems.theorem import SOURCES
from studies.verdict import Claim, Finding, judge

BOOK = "this book"   # a claim that no source makes, and that a chapter needs
NOT_TRIED = "not tried"


@dataclass(frozen=True)
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


def comparison_of(hypothesis: Hypothesis) -> dict | None:
    """The comparison that a hypothesis is read off; None where it wasn't made."""
    if not hypothesis.study or not results.path_of(hypothesis.study, hypothesis.size).exists():
        return None
    return part_of(hypothesis, _stored(hypothesis.study, hypothesis.size))


def part_of(hypothesis: Hypothesis, content: dict) -> dict | None:
    """Its comparison in the content of a file.

    None where the protocol didn't make it, or where one of its arms isn't finished.
    """
    found = content.get(hypothesis.part, content if "runs" in content else None)
    unfinished = {f"{hypothesis.part}: {arm}" for arm in hypothesis.claim.contrast}
    made = found and "protocol" in found and unfinished.isdisjoint(content.get("unfinished", ()))
    return found if made else None


@cache
def _stored(study: str, size: str) -> dict:
    return results.stored(study, size)


@cache
def baselines_of(study: str, part: str, size: str) -> Mapping[str, float]:
    """The simple predictors of a comparison's task."""
    from studies.registry import STUDIES  # the studies import the papers' configurations
    task = next(arm.task for arm in STUDIES[study].arms(size) if arm.part == part)
    return task.baselines()


def findings(hypotheses: Iterable[Hypothesis]) -> dict[str, Finding | None]:
    """label -> what its runs say; None where there are none.

    Claims that are read off the same comparison share its level.
    """
    hypotheses = list(hypotheses)
    together = Counter((h.study, h.part, h.size) for h in hypotheses)
    found: dict[str, Finding | None] = {}
    for h in hypotheses:
        comparison = comparison_of(h)
        if comparison is None:
            found[h.label] = None
            continue
        simple = baselines_of(h.study, h.part, h.size) if h.claim.beats else {}
        found[h.label] = judge(comparison, h.claim, together[h.study, h.part, h.size], simple)
    return found
