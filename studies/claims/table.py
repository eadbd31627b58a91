"""Reported numbers, each table with its source.

The tables are in tables/*.yml. They hold only numbers that others printed; ours are in `results/`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from studies.claims.files import read

Rows = dict[str, dict[str, tuple[float, float | None]]]


@dataclass(frozen=True)
class Table:
    """Rows of reported numbers: {row: {column: (mean, standard deviation over seeds or None)}}.

    Every row has the same columns. Every number is finite, except where the source itself says
    infinite (inf) or undefined (nan).
    """

    source: str   # a key of SOURCES
    number: str   # the table's number in the paper, or its subject if the number isn't known
    origin: str   # the place of the numbers, if not the paper's text; a caution
    unit: str
    rows: Rows


def table(*, columns: Sequence, rows: Mapping, scale: float = 1.0, **origin: str) -> Table:
    """Make a table of a file. Blanks separate a row's numbers; "a±b" is a mean and its deviation.

    Arguments:
        scale: the table's units per unit in the file.
    Raises: ValueError when a row and the columns differ in number, or a cell is no number.
    """
    def cell(text: str) -> tuple[float, float | None]:
        mean, _, deviation = text.partition("±")
        return scale * float(mean), scale * float(deviation) if deviation else None

    names = list(map(str, columns))
    return Table(rows={str(row): dict(zip(names, map(cell, str(cells).split()), strict=True))
                       for row, cells in rows.items()}, **origin)


FILES = ("emhc", "ddl", "streams", "gt")
TABLES: dict[str, Table] = {key: table(**found) for name in FILES
                            for key, found in read(f"tables/{name}").items()}
# a name in DDL's first version -> that in the revision, which calls DDL-CC just DDL
DDL_RENAMED = {"d_v = 4": "DDL-TC w/o EC", "CC": "DDL-CC w/o EC", "EC": "DDL-TC", "CC-EC": "DDL-CC"}
# The survey's comparison (its section 5.2), translated: row -> method -> entry
COMPARISON: dict[str, dict[str, str]] = read("comparison")
