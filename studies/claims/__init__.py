"""What the papers claim, as data.

Theorems come with their verdicts, reported tables with their sources. Models are configurations,
planned experiments are protocols.
"""

from studies.claims.configurations import CONFIGURATIONS, MGT_PLANS, Configuration, Plan
from studies.claims.repeated import Repeat, repeats
from studies.claims.tables import TABLES, Table
from studies.claims.theorems import SOURCES, THEOREMS, Theorem

__all__ = ["CONFIGURATIONS", "Configuration", "MGT_PLANS", "Plan", "Repeat",
           "SOURCES", "TABLES", "THEOREMS", "Table", "Theorem", "repeats"]
