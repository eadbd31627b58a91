"""What the papers claim, as data: theorems with their verdicts, reported tables with their sources, models and experiments."""

from geolab.papers.configurations import CONFIGURATIONS, MGT_PROTOCOLS, Configuration, Protocol
from geolab.papers.measured import Repeat, repeats
from geolab.papers.tables import TABLES, Table
from geolab.papers.theorems import SOURCES, THEOREMS, Theorem

__all__ = ["CONFIGURATIONS", "Configuration", "MGT_PROTOCOLS", "Protocol", "Repeat",
           "SOURCES", "TABLES", "THEOREMS", "Table", "Theorem", "repeats"]
