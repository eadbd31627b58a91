"""Reported numbers, each table with its source. What stands here was printed by others; our own are in `results/`."""

from studies.papers.tables import ddl, emhc, gt, streams
from studies.papers.tables.table import Table

TABLES: dict[str, Table] = emhc.TABLES | ddl.TABLES | streams.TABLES | gt.TABLES

__all__ = ["TABLES", "Table"]
