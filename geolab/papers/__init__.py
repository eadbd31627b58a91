"""What the papers claim, as data: theorems with their verdicts, and reported tables with their sources."""

from geolab.papers.tables import TABLES, Table
from geolab.papers.theorems import SOURCES, THEOREMS, Theorem

__all__ = ["SOURCES", "TABLES", "THEOREMS", "Table", "Theorem"]
