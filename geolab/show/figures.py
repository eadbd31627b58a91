"""The book's matplotlib style, figures as compact SVG text, and plots that recur.

A figure is 5 inches wide, so that a screen of 390 pixels shows it without making its text smaller.
A model has the same colour, line style and marker in all figures, so that plots read well in grey.
"""

import html
import io
import itertools
import re
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

import matplotlib
import numpy as np
from IPython.display import HTML
from matplotlib import textpath
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

STYLE = {
    "font.size": 11, "font.sans-serif": ["DejaVu Sans"],
    "axes.titlesize": 11, "axes.labelsize": 11, "legend.fontsize": 10, "legend.frameon": False,
    "axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True,
    "axes.grid": True, "grid.color": "#e6e6e6", "lines.linewidth": 2,
    "figure.facecolor": "white", "figure.constrained_layout.use": True,
    "svg.fonttype": "none",    # letters stay text: half the size, and a screen reader can read them
    "svg.hashsalt": "geolab",  # the same figure gives the same text
}


# every drawing makes parsers, and each would read "10⁻³" anew
textpath.MathTextParser = cache(textpath.MathTextParser)


class Look(NamedTuple):
    """The style in which every figure draws a model."""

    color: str
    linestyle: str | tuple
    marker: str | tuple   # a letter, or (number of sides, style, rotation in degrees)


LOOKS = {
    "additive": Look("#555555", "-", "o"),
    "delta": Look("#0072b2", "--", "s"),
    "post-LN": Look("#d55e00", "-.", "^"),
    "no residual": Look("#cc79a7", ":", "v"),
    "hyper": Look("#e69f00", "-", "D"),
    "mhc": Look("#009e73", "--", "P"),
    "jpmhc": Look("#56b4e9", "-.", "X"),
    "delta-matrix": Look("#332288", "-", "p"),
    "mgt": Look("#7a5195", "-.", "h"),
    "emhc-cayley": Look("#aa3377", "--", "<"),
    "emhc-hybrid": Look("#cc3311", "-", ">"),
    "emhc-geodesic": Look("#8c6d1f", "-.", "d"),
    "emhc-exact": Look("#117733", "-", "*"),
    "gt-lite": Look("#0072b2", "--", (4, 1, 0)),
    "gt-full": Look("#009e73", "-.", (3, 0, 90)),
    "gt-moe": Look("#b87a00", (0, (4, 1, 1, 1)), (6, 1, 0)),
    "gt-hint": Look("#882255", "-.", "8"),
    "gt-self-hint": Look("#999933", "--", "H"),
    "floor": Look("#000000", ":", ""),
    "baseline": Look("#999999", "-", ""),
}
ACCENT, SECOND, QUIET = "#0072b2", "#d55e00", "#999999"
# the ground of a label that a line may cross
CLEAR = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
LEAK = ", leak"


def subplots(rows: int = 1, cols: int = 1, *, height: float = 3.2, width: float = 5.0, **options):
    """A figure in the book's style and its axes, as `matplotlib.pyplot.subplots` returns them.

    Sizes are in inches. `options` go to `Figure.subplots`. Only `show` displays the figure.
    The first call makes STYLE part of matplotlib's rcParams, because lines, titles and legends read
    their style when the caller adds them. An import of this module leaves rcParams as they are.
    """
    matplotlib.rcParams.update(STYLE)
    figure = Figure(figsize=(width, height))
    return figure, figure.subplots(rows, cols, **options)


def look(name: str) -> dict:
    """The arguments of `plot` that draw the model `name` as everywhere in the book.

    "emhc-hybrid, leak" is the form of a model that reads the future. It has the model's colour, a
    dotted line and open markers.

    Raises: ValueError for a name that is not in LOOKS.
    """
    known = name.removesuffix(LEAK)
    if known not in LOOKS:
        raise ValueError(f"no look for {known!r}; known: {', '.join(LOOKS)}")
    leaking = {"linestyle": ":", "markerfacecolor": "white"} if name.endswith(LEAK) else {}
    return LOOKS[known]._asdict() | leaking


# Patterns that a page doesn't need, and their replacements.
UNNEEDED = (
    # a style sheet inside a figure would act on the whole page
    (r"\s*(<metadata>.*?</metadata>|<!--.*?-->|<style.*?</style>)", ""),
    (r" *\n *", r"\n"), (r"<g [^>]*/>\n", ""),  # what isn't shown
    (r'<g id="(?!map-kept)[^"]*">', "<g>"),  # a style sheet names that one alone
    (r"; font-family: 'DejaVu Sans'(, sans-serif)?(?=[;\"])", ""),  # OUTERMOST says so for all
    (r' transform="rotate\(-0 [^"]*"', ""),
    (r'(<use [^>]*) style="stroke: #000000; stroke-width: 0.8"', r"\1"),  # as in its definition
)
OUTERMOST = "<g style=\"stroke-linejoin:round;font-family:'DejaVu Sans',sans-serif\""
ROOT = (r'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        r'viewBox="\1" style="width:100%;max-width:38rem;height:auto">')


def svg(figure: Figure) -> str:
    """The figure as SVG text that scales with the page. Coordinates have two decimals of a point.

    The same figure always gives the same text.
    """
    buffer, canvas, dpi = io.StringIO(), figure.canvas, figure.dpi
    with matplotlib.rc_context(STYLE):
        FigureCanvasSVG(figure).print_svg(buffer)  # savefig would draw twice, once for the layout
    figure.set_canvas(canvas)
    figure.dpi = dpi
    text = buffer.getvalue()[buffer.getvalue().index("<svg"):]
    for pattern, replacement in UNNEEDED:
        text = re.sub(pattern, replacement, text, flags=re.S)
    text = re.sub("<g(?=>| id)", OUTERMOST, text, count=1)
    text = _without_bare_groups(text)
    text = re.sub(r"<[^>]+>", _rounded, text)  # only inside tags: a number that is text stays
    return re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', ROOT, text, count=1)


def _without_bare_groups(text: str) -> str:
    """Drop groups without attributes, which take a tenth of a figure's text."""
    kept, bare = [], []
    for line in text.split("\n"):
        if line.startswith("<g"):
            bare.append(line == "<g>")
        if line != "<g>" and not (line == "</g>" and bare.pop()):
            kept.append(line)
    return "\n".join(kept)


def _rounded(tag: re.Match) -> str:
    return re.sub(r"-?\d+\.\d{3,}", lambda x: f"{float(x[0]):.2f}".rstrip("0").rstrip("."), tag[0])


def show(figure: Figure, alt: str, caption: str = "") -> HTML:
    """Return the figure for the last line of a cell, which displays it.

    Arguments:
        alt: its message, for those who can't see it.
        caption: one or two sentences under it; the page numbers it.
    Raises: ValueError for an alt text without words.
    """
    alt = " ".join(alt.split())
    if not alt:
        raise ValueError("alt must say what the figure shows, in words")
    picture = f'<div role="img" aria-label="{html.escape(alt)}">{svg(figure)}</div>'
    return HTML(captioned(picture, caption))


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> HTML:
    """Return a table of texts, which may be HTML."""
    def line(tag: str, cells: Iterable[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in cells) + "</tr>"
    return HTML(f"<table class='table'>{line('th', head)}"
                f"{''.join(line('td', cells) for cells in rows)}</table>")


def captioned(picture: str, caption: str) -> str:
    """HTML with a caption under it. Without a caption the HTML is returned unchanged."""
    if not caption:
        return picture
    return f"<figure>{picture}<figcaption>{toned(caption)}</figcaption></figure>"


def toned(caption: str) -> str:
    """HTML of a caption in which black and white change places, as the dark theme does in figures.
    """
    word = r'<span class="tone \1"><span>\1</span></span>'
    return re.sub(r"\b(black|white|(?:dark|light)(?:er)?)\b", word, printed(caption), flags=re.I)


def printed(text: str) -> str:
    """HTML of plain text, with the quotation marks and apostrophes that Sphinx gives to prose."""
    return html.escape(re.sub(r'(?<![^\s(])"', "“", text).replace('"', "”").replace("'", "’"))


def plane(axes: Axes, limit: float = 1.6, unit_circle: bool = True) -> Axes:
    """A square plane from -limit to limit on these axes, with equal scales and the unit circle."""
    if unit_circle:
        angle = np.linspace(0, 2 * np.pi, 73)
        axes.plot(np.cos(angle), np.sin(angle), color=QUIET, linewidth=1)
    axes.set(xlim=(-limit, limit), ylim=(-limit, limit), aspect="equal")
    return axes


def label_line(axes: Axes, x: float, y: float, text: str, color="#000000", **options) -> None:
    """Write a label beside the end (x, y) of its line. `options` go to `Axes.annotate`."""
    axes.annotate(text, (x, y), xytext=(6, 0), textcoords="offset points", color=color, va="center",
                  fontsize=10, **options)


def name_level(axes: Axes, level: Line2D, text: str) -> None:
    """Write the name of a horizontal line at its left or right end, above or below it, where the
    other lines keep farthest away. The axes have all their lines, and their scales."""
    axes.autoscale_view()
    box, value = axes.get_window_extent(), level.get_ydata()[0]
    size = 9 * axes.get_figure().dpi / 72  # of its letters in pixels, as are all lengths here
    width, height = 0.6 * size * len(text), axes.transData.transform((0, value))[1]
    others = [line.get_transform().transform(line.get_xydata()).T for line in axes.lines
              if line is not level and len(line.get_xydata())]

    def room(place: tuple[int, int]) -> float:
        right, up = place
        start = box.x1 - width if right else box.x0
        columns = np.linspace(start, start + width, 20)
        middle = height + 0.7 * up * size
        near = [abs(np.interp(columns, *line, left=np.inf, right=np.inf) - middle).min()
                for line in others]
        return min([3 * size, *near]) - 10 * abs(middle - np.clip(middle, box.y0, box.y1))

    right, up = max(itertools.product((1, 0), (1, -1)), key=room)
    axes.annotate(text, (right, value), (3 - 6 * right, 2 * up), level.get_transform(),
                  "offset points", fontsize=9, color="#555555", ha=("left", "right")[right],
                  va="bottom" if up > 0 else "top")
