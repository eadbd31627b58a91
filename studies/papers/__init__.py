"""What the papers claim, as data: theorems with their verdicts, reported tables with their sources, models and experiments."""

from studies.papers.configurations import CONFIGURATIONS, MGT_PROTOCOLS, Configuration, Protocol
from studies.papers.measured import Repeat, repeats
from studies.papers.tables import TABLES, Table
from studies.papers.theorems import SOURCES, THEOREMS, Theorem

__all__ = ["CONFIGURATIONS", "Configuration", "MGT_PROTOCOLS", "Protocol", "Repeat",
           "SOURCES", "TABLES", "THEOREMS", "Table", "Theorem", "repeats"]
