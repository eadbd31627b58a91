"""Reported numbers, each table with its source.

Others printed what stands here; our own numbers are in `results/`.
"""

from studies.claims.tables import ddl, emhc, gt, streams
from studies.claims.tables.table import Table

TABLES: dict[str, Table] = emhc.TABLES | ddl.TABLES | streams.TABLES | gt.TABLES

__all__ = ["TABLES", "Table"]
