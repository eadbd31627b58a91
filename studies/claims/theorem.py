"""The theorem registry: every statement of the papers that a chapter proves, and its verdict.

The entries are in theorems/*.yml. A statement's `label` is the label of its proof directive in the
chapter; a cell there asserts it, under the comment `# asserts <label>`. Two papers that state the
same thing share a label. The ledger page is printed from this list.
"""

from dataclasses import dataclass

from studies.claims.files import entries, read

SOURCES: dict[str, str] = read("sources")  # short name -> key in book/references.bib
VERDICTS = ("holds", "holds with a correction", "fails as stated", "measured")


@dataclass(frozen=True)
class Theorem:
    """One numbered statement of a paper."""

    source: str       # a key of SOURCES
    number: str       # as the paper numbers it
    statement: str    # in one sentence, in our words
    chapter: str      # notebook stem
    label: str        # of the directive in that chapter
    verdict: str      # one of VERDICTS; "measured" is quoted without proof, beside a measurement
    remark: str = ""  # the correction, or a caution

    def __post_init__(self):
        if self.source not in SOURCES:
            raise ValueError(f"source must be one of {', '.join(SOURCES)}, got {self.source!r}")
        if self.verdict not in VERDICTS:
            raise ValueError(f"verdict must be one of {', '.join(VERDICTS)}, got {self.verdict!r}")


FILES = ("foundations", "streams", "delta", "rotations", "mgt", "lecture", "kernels")
THEOREMS: list[Theorem] = list(entries("theorems", FILES, Theorem))
