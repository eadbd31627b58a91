"""The papers' claims as data: YAML files of theorems, hypotheses and reported tables.

A published model is a Configuration, and a planned experiment is a Plan.
"""

from studies.claims.configurations import CONFIGURATIONS, MGT_PLANS, Configuration, Plan
from studies.claims.repeated import Repeat, repeats
from studies.claims.table import COMPARISON, DDL_RENAMED, TABLES, Table
from studies.claims.theorem import SOURCES, THEOREMS, Theorem

__all__ = ["COMPARISON", "CONFIGURATIONS", "Configuration", "DDL_RENAMED", "MGT_PLANS", "Plan",
           "Repeat", "SOURCES", "TABLES", "THEOREMS", "Table", "Theorem", "repeats"]
