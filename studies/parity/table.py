"""The table of parity, as text for a terminal and as HTML for the book."""

import html
from itertools import groupby

from studies.parity import PUBLIC, Public, agreement

HEAD = ("model", "ours", "outputs", "gradients")


def rows(public: list[Public] = PUBLIC) -> list[tuple[str, ...]]:
    """Return a line per public model: its name, ours, and the largest relative differences."""
    return [_row(model) for model in public]


def _row(public: Public) -> tuple[str, ...]:
    found = agreement(public)
    numbers = (f"{number:.0e}" if number else "0" for number in (found.output, found.gradient))
    return (f"{public.source}: {public.name}", public.ours, *numbers)


def text() -> str:
    """Return the table for a terminal."""
    lines = [HEAD, *rows()]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
                     .rstrip() for line in lines)


def table(public: list[Public] = PUBLIC) -> str:
    """Return a page's tables, one per paper, with a line of numbers and one of words per model.

    Both lines wrap, so that a phone shows the whole table.
    """
    return "".join(f"<p><strong>{html.escape(source)}</strong></p>{_table(list(models))}"
                   for source, models in groupby(public, key=lambda model: model.source))


def _table(public: list[Public]) -> str:
    head = "".join(f"<th>{name}</th>" for name in (HEAD[0], *HEAD[2:]))
    return ('<table class="table parity" style="width: 100%; white-space: normal">'
            f'<tr>{head}</tr>{"".join(map(_lines, public))}</table>')


def _lines(public: Public) -> str:
    _, ours, *numbers = _row(public)
    cells = "".join(f"<td>{number}</td>" for number in numbers)
    words = {"Public": _place(public.fixture.made), "Ours": html.escape(ours),
             "Training": html.escape(public.differs)}
    lines = "<br>".join(f"{name}: {said}" for name, said in words.items() if said)
    return (f'<tr id="{public.label}"><td><strong>{html.escape(public.name)}</strong></td>{cells}'
            f'</tr><tr><td colspan="3" style="overflow-wrap: anywhere">{lines}</td></tr>')


def _place(made: dict[str, str]) -> str:
    """Return the name of the public model, linked to its file in the repository."""
    file, model = html.escape(made["file"]), html.escape(made["model"])
    if "/" in file:
        address = f"https://{made['repository']}/blob/{made['commit']}/{file}"
        file = f'<a href="{address}">{file.rpartition("/")[2]}</a>'
    return f"{model}, {file}"
