"""Reported numbers, each table with its source. What stands here was printed by others; our own are in `results/`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """Rows of reported numbers: {row name: {column name: (mean, standard deviation over seeds or None)}}."""

    source: str   # a key of papers.SOURCES
    number: str   # as the paper numbers it
    origin: str   # where the numbers were read, when not in the paper's text
    unit: str
    rows: dict[str, dict[str, tuple[float, float | None]]]


TABLES = {
    "emhc-table-6-stability": Table(
        "E-MHC-Geo", "table 6, stability row", "the README of the paper's repository; three seeds, best validation MSE",
        "MSE a coordinate", {"stability": {
            "GPT": (16.4e-6, 0.7e-6), "DDL": (15.3e-6, 1.8e-6), "mHC": (8650e-6, 140e-6),
            "JPmHC": (8.19e-6, 3.69e-6), "E-MHC-Geo": (4.35e-6, 0.27e-6)}}),
    "emhc-table-7": Table(
        "E-MHC-Geo", "table 7", "the README and notes of the paper's repository; one seed for fewer than 500 samples",
        "β, and cosine of prediction and target", {
            "DDL beta": {"10": (1.40, None), "25": (1.58, None), "50": (1.88, None), "100": (1.95, None),
                         "200": (1.98, None), "500": (1.995, 0.001)},
            "DDL alignment": {"10": (-0.98, None), "25": (-0.85, None), "50": (-0.80, None), "100": (-0.16, None),
                              "200": (0.61, None), "500": (0.96, None)}}),
}
