"""The ledger of hypotheses: every claim about trained networks that a source or a chapter makes.

The ledger page prints the list with what the runs say. A chapter's sentence that compares trained
models points at its row, by {row}`label`.
"""

from studies.claims.hypotheses import ddl, emhc, lecture, mgt, streams
from studies.claims.hypotheses.hypothesis import BOOK, Hypothesis

FILES = (mgt, emhc, ddl, streams, lecture)
HYPOTHESES: list[Hypothesis] = [hypothesis for file in FILES for hypothesis in file.HYPOTHESES]

__all__ = ["BOOK", "HYPOTHESES", "Hypothesis"]
