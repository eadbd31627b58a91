"""One matplotlib style for the whole book, figures as compact SVG, and the plots that recur.

A figure is 5 inches wide: readable at 390 pixels as it is. A model has one colour, one line style and one marker
everywhere, so that a plot reads in grey.
"""

import html
import io
import re
from collections.abc import Sequence
from typing import NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

STYLE = {
    "font.size": 11, "font.sans-serif": ["DejaVu Sans"], "axes.titlesize": 11, "axes.labelsize": 11, "legend.fontsize": 10,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": "#e6e6e6",
    "axes.axisbelow": True, "lines.linewidth": 2, "legend.frameon": False, "figure.facecolor": "white",
    "figure.constrained_layout.use": True, "svg.fonttype": "none",  # text stays text: half the size, and read aloud
    "svg.hashsalt": "geolab",  # the same figure is the same text
}
matplotlib.rcParams.update(STYLE)  # for good: lines and legends take it up when they are drawn, long after `subplots`


class Look(NamedTuple):
    """How a model is drawn, in every figure."""

    color: str
    linestyle: str | tuple
    marker: str | tuple   # sides, style, degrees where it is no letter


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
    "gt-moe": Look("#e69f00", (0, (4, 1, 1, 1)), (6, 1, 0)),
    "gt-hint": Look("#882255", "-.", "8"),
    "gt-self-hint": Look("#999933", "--", "H"),
    "floor": Look("#000000", ":", ""),
    "baseline": Look("#999999", "-", ""),
}
ACCENT, SECOND, QUIET = "#0072b2", "#d55e00", "#999999"


def subplots(rows: int = 1, cols: int = 1, *, height: float = 3.2, width: float = 5.0, **options):
    """A figure of the book and its axes, as `matplotlib.pyplot.subplots` returns them; it shows only when asked to."""
    figure = Figure(figsize=(width, height))
    return figure, figure.subplots(rows, cols, **options)


LEAK = ", leak"


def look(name: str) -> dict:
    """Keyword arguments for `plot` that draw model `name` as everywhere in the book.

    "emhc-hybrid, leak" is the form of a model that reads the future: its colour, dotted, with open markers.
    """
    known = name.removesuffix(LEAK)
    if known not in LOOKS:
        raise ValueError(f"no look for {known!r}; known: {', '.join(LOOKS)}")
    leaking = {"linestyle": ":", "markerfacecolor": "white"} if name.endswith(LEAK) else {}
    return LOOKS[known]._asdict() | leaking


def svg(figure: Figure) -> str:
    """The figure as SVG text that scales with the page; coordinates to a hundredth of a point."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = buffer.getvalue()
    text = text[text.index("<svg"):]
    # the style sheet that matplotlib puts in would hold for the whole page, and each new frame would style it anew
    text = re.sub(r"\s*(<metadata>.*?</metadata>|<!--.*?-->|<style.*?</style>)", "", text, flags=re.S)
    text = re.sub(r'<g id="[^"]*">', "<g>", re.sub(r" *\n *", "\n", text))  # names that nothing refers to, indentation
    text = re.sub(r"; font-family: 'DejaVu Sans'(, sans-serif)?(?=[;\"])", "", text)  # once for all, in what follows
    text = text.replace("<g>", "<g style=\"stroke-linejoin:round;font-family:'DejaVu Sans',sans-serif\">", 1)  # the rest of the style sheet
    text = re.sub(r' transform="rotate\(-0 [^"]*"', "", text)
    text = re.sub(r'(<use [^>]*) style="stroke: #000000; stroke-width: 0.8"', r"\1", text)  # a tick's, which its definition has too
    text = _without_bare_groups(text)
    text = re.sub(r"<[^>]+>", lambda tag: re.sub(r"-?\d+\.\d{3,}", _rounded, tag[0]), text)  # what a reader reads stays
    return re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>',
                  r'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
                  r'viewBox="\1" style="width:100%;max-width:38rem;height:auto">', text, count=1)


def _without_bare_groups(text: str) -> str:
    """Groups that say nothing of what is in them are a tenth of a figure."""
    kept, opened = [], []
    for line in text.split("\n"):
        if line == "</g>":
            bare = opened.pop()
        else:
            bare = line == "<g>"
            if line.startswith("<g"):
                opened.append(bare)
        if not bare:
            kept.append(line)
    return "\n".join(kept)


def _rounded(number: re.Match) -> str:
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")


class Picture:
    """A figure with its alt text, shown by Jupyter and on the built page alike."""

    def __init__(self, figure: Figure, alt: str):
        if not alt.strip():
            raise ValueError("alt must say what the figure shows, in words")
        self.figure, self.alt = figure, " ".join(alt.split())

    def _repr_html_(self) -> str:
        return f'<div role="img" aria-label="{html.escape(self.alt)}">{svg(self.figure)}</div>'


def show(figure: Figure, alt: str) -> Picture:
    """Show a figure; `alt` gives its message to whoever can't see it. The last line of a drawing cell."""
    return Picture(figure, alt)


def plane(axes: Axes, limit: float = 1.6, unit_circle: bool = True) -> Axes:
    """A square plane with equal axes from −limit to limit, and the unit circle."""
    if unit_circle:
        angle = np.linspace(0, 2 * np.pi, 73)
        axes.plot(np.cos(angle), np.sin(angle), color=QUIET, linewidth=1)
    axes.set(xlim=(-limit, limit), ylim=(-limit, limit), aspect="equal")
    return axes


def label_line(axes: Axes, x: float, y: float, text: str, color: str = "#000000", **options) -> None:
    """A label beside its line, where a legend would make the eye travel."""
    axes.annotate(text, (x, y), xytext=(4, 0), textcoords="offset points", color=color, va="center",
                  fontsize=10, **options)


def loss_over_floor(axes: Axes, runs: dict[str, Sequence], floor: float, baselines: dict[str, float]) -> Axes:
    """Validation loss over the floor against steps: a thin line a seed, with the trivial baselines across.

    Arguments:
        runs: model name -> the Histories of its seeds.
        floor: the loss that no model beats; where it is 0, losses are drawn as they are.
        baselines: name -> loss.
    """
    unit = floor or 1.0
    for name, histories in runs.items():
        for k, history in enumerate(histories):
            axes.plot(history.evaluated_at, np.array(history.validation_loss) / unit, label=name if k == 0 else None,
                      markersize=4, **{**look(name), "linewidth": 1.4})
    right = max(h.evaluated_at[-1] for hs in runs.values() for h in hs)
    for name, loss in baselines.items():
        axes.axhline(loss / unit, color=QUIET, linewidth=1)
        axes.annotate(name, (right, loss / unit), ha="right", va="bottom", fontsize=9, color="#555555")
    if floor:
        axes.axhline(1, **{**look("floor"), "marker": None})
    axes.set(yscale="log", xlabel="training steps", ylabel="validation loss / floor" if floor else "validation loss (MSE)")
    axes.legend(loc="upper right")
    return axes
