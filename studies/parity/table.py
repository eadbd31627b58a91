"""The tables of parity, as text for a terminal and as HTML for the book."""

import html
import re
from collections.abc import Iterable
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from studies.parity import PUBLIC, RELEASED, Installed, Public, agreement, installed_agreement

HEAD = ("model", "ours", "outputs", "gradients")
PINS = Path(__file__).parents[2] / "requirements.txt"


class Line(NamedTuple):
    """One model: its place on the page, its names, the two differences, and what to say of it."""

    label: str
    source: str
    name: str
    ours: str
    numbers: tuple[str, str]
    words: dict[str, str]   # HTML

    @property
    def cells(self) -> tuple[str, ...]:
        return (f"{self.source}: {self.name}", self.ours, *self.numbers)


def line(model: Public | Installed) -> Line:
    """Compare a model with ours."""
    if isinstance(model, Public):
        found, source = agreement(model), model.source
        words = {"Public": _place(model.fixture.made), "Training": html.escape(model.differs)}
    else:
        found, source = installed_agreement(model), "transformers"
        words = {"Public": f"transformers.{model.module}",
                 "Not compared": html.escape(model.differs)}
    output, gradient = (f"{number:.0e}" if number else "0"
                        for number in (found.output, found.gradient))
    return Line(model.label, source, model.name, model.ours, (output, gradient), words)


def library() -> str:
    """Say which transformers the released rows ran with, and whether it is the pinned one."""
    got = version("transformers")
    pinned = re.search(r"^transformers==(\S+)", PINS.read_text(encoding="utf-8"), re.MULTILINE)
    if pinned is None:
        raise ValueError(f"{PINS} must pin transformers")
    other = "" if got == pinned[1] else (
        f", which isn't the pinned {pinned[1]}: a row that disagrees may be a change of the "
        "library")
    return f"Released models: the code of transformers {got}{other}"


def rows(models: Iterable[Public | Installed] = (*PUBLIC, *RELEASED)) -> list[tuple[str, ...]]:
    """Return a line per model: its name, ours, and the largest relative differences."""
    return [line(model).cells for model in models]


def text() -> str:
    """Return the table for a terminal."""
    lines = [HEAD, *rows()]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    table = ("  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
             .rstrip() for cells in lines)
    return "\n".join((*table, library()))


def table(models: Iterable[Public | Installed] = PUBLIC) -> str:
    """Return a page's tables, one per source, with a line of numbers and one of words per model.

    Both lines wrap, so that a phone shows the whole table.
    """
    return "".join(f"<p><strong>{html.escape(source)}</strong></p>{_table(lines)}"
                   for source, lines in groupby(map(line, models), key=lambda one: one.source))


def released(models: Iterable[Installed] = RELEASED) -> str:
    """Return the page's table of released models, under the version of the library."""
    return f"<p>{html.escape(library())}.</p>{_table(map(line, models))}"


def _table(lines: Iterable[Line]) -> str:
    head = "".join(f"<th>{name}</th>" for name in (HEAD[0], *HEAD[2:]))
    return ('<table class="table parity" style="width: 100%; white-space: normal">'
            f'<tr>{head}</tr>{"".join(map(_lines, lines))}</table>')


def _lines(one: Line) -> str:
    cells = "".join(f"<td>{number}</td>" for number in one.numbers)
    public, *others = one.words.items()
    words = (public, ("Ours", html.escape(one.ours)), *others)
    said = "<br>".join(f"{name}: {word}" for name, word in words if word)
    return (f'<tr id="{one.label}"><td><strong>{html.escape(one.name)}</strong></td>{cells}'
            f'</tr><tr><td colspan="3" style="overflow-wrap: anywhere">{said}</td></tr>')


def _place(made: dict[str, str]) -> str:
    """Return the name of the public model, linked to its file in the repository."""
    file, model = html.escape(made["file"]), html.escape(made["model"])
    if "/" in file:
        address = f"https://{made['repository']}/blob/{made['commit']}/{file}"
        file = f'<a href="{address}">{file.rpartition("/")[2]}</a>'
    return f"{model}, {file}"
