"""The table of parity, as text for a terminal and as HTML for the book."""

import html

from studies.papers.parity import PUBLIC, Public, agreement

COLUMNS = ("model", "public code", "ours", "outputs", "gradients", "where training differs")


def rows(public: list[Public] = PUBLIC) -> list[tuple[str, ...]]:
    """One line per public model: its names, and the largest relative differences."""
    return [_row(model) for model in public]


def _row(public: Public) -> tuple[str, ...]:
    found, made = agreement(public), public.fixture.made
    return (f"{public.source}: {public.name}",
            f"{made['repository']}@{made['commit'][:7]}, {made['file']}, {made['model']}",
            public.ours, f"{found.output:.0e}", f"{found.gradient:.0e}", public.differs or "–")


def text() -> str:
    """For a terminal: without the public code's place, which is long."""
    lines = [(name, ours, output, gradient) for name, _, ours, output, gradient, _ in rows()]
    lines.insert(0, ("model", "ours", "outputs", "gradients"))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
                     .rstrip() for line in lines)


def table(public: list[Public] = PUBLIC) -> str:
    """For a page."""
    head = "".join(f"<th>{name}</th>" for name in COLUMNS)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in line) + "</tr>"
                   for line in rows(public))
    return f'<div class="reported"><table class="table"><tr>{head}</tr>{body}</table></div>'
