"""The theorem registry: every statement of the papers that a chapter proves, and what holds.

A statement's `label` is the label of its proof directive in the chapter; a cell there asserts it,
under the comment `# asserts <label>`. Two papers that state the same thing share a label. The
ledger page is printed from this list.
"""

from studies.claims.theorems import delta, foundations, kernels, lecture, mgt, rotations, streams
from studies.claims.theorems.theorem import SOURCES, VERDICTS, Theorem

FILES = (foundations, streams, delta, rotations, mgt, lecture, kernels)
THEOREMS: list[Theorem] = [theorem for file in FILES for theorem in file.THEOREMS]

__all__ = ["SOURCES", "THEOREMS", "Theorem", "VERDICTS"]
