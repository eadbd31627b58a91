"""What a reported table is, and how one is written down."""

from dataclasses import dataclass

Rows = dict[str, dict[str, tuple[float, float | None]]]


@dataclass(frozen=True)
class Table:
    """Rows of reported numbers: {row: {column: (mean, standard deviation over seeds or None)}}.

    Every row has the same columns. Every number is finite, except where the source itself says
    infinite (inf) or undefined (nan).
    """

    source: str   # a key of claims.SOURCES
    number: str   # as the paper numbers it, or what it is about where the number isn't known
    origin: str   # where the numbers were read, when not in the paper's text; what to keep in mind
    unit: str
    rows: Rows


def grid(columns: str, rows: dict[str, str], scale: float = 1.0) -> Rows:
    """Rows from text: columns separated by ", ", and the numbers of a row by blanks.

    "a±b" is a mean and its deviation.

    Arguments:
        scale: what one unit as written is in the table's unit.
    Raises: ValueError when a row and the columns differ in number, or a cell is no number.
    """
    def cell(text: str) -> tuple[float, float | None]:
        mean, _, deviation = text.partition("±")
        return scale * float(mean), scale * float(deviation) if deviation else None

    names = columns.split(", ")
    return {row: dict(zip(names, map(cell, cells.split()), strict=True))
            for row, cells in rows.items()}
