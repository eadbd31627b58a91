"""What an entry of the theorem registry is, and the papers that it comes from."""

from dataclasses import dataclass

SOURCES = {  # short name -> key in book/references.bib
    "MGT": "su2026mgt",
    "E-MHC-Geo": "shahmansoori2026emhc",
    "DDL": "zhang2026ddl",
    "GT": "mahadevan2026gt",
    "Xiong et al.": "xiong2020prenorm",
    "HC": "zhu2025hyper",
    "mHC": "xie2025mhc",
    "JPmHC": "sengupta2026jpmhc",
    "Survey": "survey2026streams",
}
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
    remark: str = ""  # the correction, or what to keep in mind

    def __post_init__(self):
        if self.source not in SOURCES:
            raise ValueError(f"source must be one of {', '.join(SOURCES)}, got {self.source!r}")
        if self.verdict not in VERDICTS:
            raise ValueError(f"verdict must be one of {', '.join(VERDICTS)}, got {self.verdict!r}")
