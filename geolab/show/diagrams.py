"""Block diagrams of residuals: `diagram("mhc")` draws one, and `describe("mhc")` says it in words.

The state runs from left to right, with one line per stream. The box on it is the operator, which
multiplies the state. The sublayer F reads the state at the dots, and each ⊕ adds its output. The
labels below dots and ⊕ are the weights with which F reads and writes; with one line for the state,
the box before the ⊕ is what multiplies the output. Dashed arrows show what
operators and weights are computed from: one token, the mean of tokens, or learned numbers alone.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from geolab.show.figures import ACCENT, SECOND
from geolab.show.schematic import BOXED, CENTRE, LINE, SUBLAYER, TINT, canvas

SOURCES = {
    "token": "from this token", "mean": "from the mean of the tokens so far",
    "static": "learned, the same for all tokens",
    "static and token": "learned, and changed by this token",
}
MARKS = {"token": "o", "mean": "ooo", "static": "s", "static and token": "so"}
LEAK = "published: of later ones too, a leak"
D_FEATURES, STREAMS = "state x: D features", "state X: n = 4 streams of D features"
SLICES, CHANNELS = "state X: D features as n = 4 slices", "state X: D features × 4 value channels"


class Block(NamedTuple):
    """The content of a residual's diagram. Equation and operator are mathtext."""

    equation: str
    words: str                             # the alt text
    state: str = D_FEATURES
    order: str = "read operator write"     # along the state
    operator: str = ""                     # empty: the state passes unchanged
    does: str = ""                         # what the operator does, in a word or two
    read: str = ""                         # weights; empty: F reads the whole state as it is
    write: str = ""
    branch: tuple[str, ...] = ("norm", "F")
    drives: str = ""                       # the branch's output for the operator
    sources: tuple[tuple[str, tuple[str, ...]], ...] = ()  # (key of SOURCES, what it computes)
    leaks: bool = False                    # the published form reads later tokens


ALL, BY_MEAN = ("read", "operator", "write"), (("mean", ("operator",)),)
streams = partial(Block, state=STREAMS, read="a", write="b", sources=(("token", ALL),))
slices = partial(Block, state=SLICES, order="operator read write", sources=BY_MEAN,
                 branch=("norm", "P₁", "F", "P₂"))
erasing = partial(Block, operator=r"$I - \beta k k^{\!\top}$", does="erases", drives="k",
                  write="β v", branch=("norm", "F", "unit"))
FIRST = " The operator stands before the sublayer and comes from the mean of the tokens so far."

BLOCKS = {
    "additive": Block(
        r"$x \leftarrow x + F(\mathrm{norm}\ x)$",
        "The additive residual: the sublayer reads a normalised copy, and its output is added."),
    "post-LN": Block(
        r"$x \leftarrow \mathrm{norm}\,(x + F(x))$",
        "The post-LN block: the sublayer's output is added to the state, and a norm follows.",
        order="read write operator", operator=r"$\mathrm{norm}$", does="rescales", branch=("F",)),
    "hyper": streams(
        r"$X \leftarrow A^{\!\top} X + b \otimes F(\mathrm{norm}\ a^{\!\top} X)$",
        "Hyper-connections: a free matrix A mixes four streams. The sublayer reads their sum with "
        "weights a and writes with weights b. All are learned numbers plus what the token says.",
        operator=r"$A^{\!\top}$", does="mixes streams", sources=(("static and token", ALL),)),
    "mhc": streams(
        r"$X \leftarrow H X + b \otimes F(\mathrm{norm}\ a^{\!\top} X),"
        r"\quad H\ \mathrm{doubly\ stochastic}$",
        "mHC: a doubly stochastic H averages four streams. The token gives H and weights a and b.",
        operator="$H$", does="averages streams"),
    "jpmhc": streams(
        r"$X \leftarrow Y X + s\,b \otimes F(\mathrm{norm}\ a^{\!\top} X),"
        r"\quad Y \approx \mathrm{Cayley}$",
        "JPmHC: a nearly orthogonal Y turns four streams. The token gives Y and weights a and s b.",
        operator="$Y$", does="turns streams", write="s b"),
    "delta": erasing(
        r"$x \leftarrow (I - \beta k k^{\!\top})\,x + \beta v\,k,"
        r"\quad k = F(\mathrm{norm}\ x)/\|\cdot\|$",
        "The delta residual: the sublayer gives a direction k. The state is erased along k at the "
        "rate beta, and v is written along k at the same rate. The token gives beta and v.",
        sources=(("token", ("operator", "write")),)),
    "delta-matrix": erasing(
        r"$X \leftarrow (I - \beta k k^{\!\top})\,X + \beta k v^{\!\top},"
        r"\quad k = F(\mathrm{norm}\ x)/\|\cdot\|$",
        "The delta residual on four value channels: a learned compressor makes one vector of them, "
        "and the sublayer gives the direction k from it. All channels are erased along k, and "
        "channel j receives v j along k. The token gives beta and v.", CHANNELS, read="compress",
        sources=(("static", ("read",)), ("token", ("operator", "write")))),
    "mgt": Block(
        r"$x \leftarrow (1 - \alpha\beta) \odot x + \beta \odot G \odot F(\mathrm{norm}\ x)$",
        "The MGT block: each feature is scaled by one minus alpha beta, and the sublayer's output "
        "is added with the weight beta G. The token gives beta and G; alpha is learned.",
        operator=r"$1 - \alpha\beta$", does="scales features", write="β G",
        sources=(("static", ("operator",)), ("token", ("operator", "write")))),
    "emhc-cayley": slices(
        r"$Z = Q X,\quad X \leftarrow Z + P_2 F(P_1\, \mathrm{norm}\ Z)$",
        f"E-MHC-Geo, rotation alone: the matrix Q turns one plane of the four slices.{FIRST}",
        operator="$Q$", does="turns a plane", leaks=True),
    "emhc-hybrid": slices(
        r"$Z = (\gamma Q + (1-\gamma) H) X,\quad X \leftarrow Z + P_2 F(P_1\, \mathrm{norm}\ Z)$",
        f"E-MHC-Geo, hybrid: a gate gamma blends a rotation Q and a reflection H.{FIRST}",
        operator=r"$\gamma Q + (1-\gamma) H$", does="blends Q and H", leaks=True),
    "emhc-geodesic": slices(
        r"$Z = Q H^{1-\gamma} X,\quad X \leftarrow Z + P_2 F(P_1\, \mathrm{norm}\ Z)$",
        "The geodesic gate: a fractional power of a reflection H and a rotation Q, which keep the "
        f"length at every gate.{FIRST}", operator=r"$Q H^{1-\gamma}$", does="turns"),
    "emhc-exact": slices(
        r"$Z = (I+W)^{-1}(I-W)\, X,\quad X \leftarrow Z + P_2 F(P_1\, \mathrm{norm}\ Z)$",
        "The exact rotation: a Cayley transform of six numbers turns the four slices before the "
        "sublayer reads them. It is computed from the token alone.",
        operator=r"$(I+W)^{-1}(I-W)$", does="turns", sources=(("token", ("operator",)),)),
    "emhc-stream": streams(
        r"$Z = (\gamma Q + (1-\gamma) H) X,"
        r"\quad X \leftarrow Z + b \otimes F(\mathrm{norm}\ a^{\!\top} Z)$",
        "E-MHC-Geo on streams: a gate gamma blends a rotation and a reflection of four streams of "
        f"full width. The token gives the weights a and b.{FIRST}", leaks=True,
        order="operator read write", operator=r"$\gamma Q + (1-\gamma) H$", does="blends Q and H",
        sources=(("token", ("read", "write")), *BY_MEAN)),
}

# Places in units of half an inch: from left to right for each order, then from bottom to top.
PLACES = {"read operator write": (1.3, 5.2, 8.7), "operator read write": (1.9, 3.9, 9.2),
          "read write operator": (1.3, 5.4, 8.2)}
FIRST, PITCH, WEIGHTS, STREAM, SCALE, BRANCH, TOP = 0.2, 0.8, 0.95, 1.9, 2.65, 3.5, 4.6
LEFT, RIGHT, HALF = 0.15, 9.8, 1.4  # the ends of the state, and half of the operator's width


def describe(name: str) -> str:
    """The diagram in words, which are its alt text. Names and errors are those of `diagram`."""
    leak = " As published, later tokens enter this mean too, which is a leak."
    return _block(name).words + leak * _block(name).leaks


def diagram(name: str) -> Figure:
    """The block diagram of a residual, with its equation. `name` is a key of BLOCKS.

    Raises: ValueError for a name without a diagram.
    """
    block = _block(name)
    bottom = FIRST - PITCH * len(block.sources) - 0.6 if block.sources else STREAM - 1.5
    figure, axes = canvas((TOP - bottom) / 2, ylim=(bottom, TOP))
    place = dict(zip(block.order.split(), PLACES[block.order], strict=True))
    lines = 1 if block.state == D_FEATURES else 4
    ys = [STREAM + 0.25 * (k - (lines - 1) / 2) for k in range(lines)]
    low, high = ys[0] - 0.3, ys[-1] + 0.3
    axes.text(LEFT, 4.3, block.state, fontsize=10, va="center")
    axes.text(5, bottom + 0.4, block.equation, fontsize=12, **CENTRE)
    axes.plot(np.tile([LEFT, RIGHT, np.nan], lines), np.repeat(ys, 3), zorder=1, **LINE)
    axes.plot([RIGHT] * lines, ys, "k>", markersize=6)
    _draw_branch(axes, block, place, ys)
    if block.operator:
        _draw_operator(axes, block, place["operator"], low, high)
    ends = {key: [(x, WEIGHTS - 0.25)] for key, x in place.items()}
    if lines == 1:  # from the right, into the box on the line
        ends["write"] = [(place["write"] + 0.9, SCALE), (place["write"] + 0.55, SCALE)]
    for row, (source, targets) in enumerate(block.sources):
        ends["operator"] = [(place["operator"] + 0.8 * row, low)]
        _draw_source(axes, source, FIRST - PITCH * row, [ends[key] for key in targets], block.leaks)
    return figure


def _block(name: str) -> Block:
    if name not in BLOCKS:
        raise ValueError(f"no diagram of {name!r}; BLOCKS has {', '.join(BLOCKS)}")
    return BLOCKS[name]


def _draw_branch(axes: Axes, block: Block, place: dict[str, float], ys: list[float]) -> None:
    """Draw the line up from the dots, through the boxes of the branch, and down to each ⊕."""
    read, write = place["read"], place["write"]
    scales = bool(block.write) and len(ys) == 1
    start = WEIGHTS if block.read else ys[0]
    stop = WEIGHTS if block.write and not scales else ys[0]
    axes.plot([read, read, write, write], [start, BRANCH, BRANCH, stop], zorder=1, **LINE)
    axes.plot([read] * len(ys), ys, "ko", markersize=5)
    axes.plot([write] * len(ys), ys, "ko", markerfacecolor="white", markersize=9)
    axes.plot([write] * len(ys), ys, "k+", markersize=9)
    end = place["operator"] if block.drives else write
    for k, text in enumerate(block.branch, start=1):
        x = read + k * (end - read) / (len(block.branch) + 1)
        axes.text(x, BRANCH, text, **SUBLAYER if text == "F" else BOXED)
    if block.read:
        axes.text(read, WEIGHTS, block.read, **BOXED)
    if block.write:
        axes.text(write, SCALE if scales else WEIGHTS, "× " * scales + block.write, **BOXED)


def _draw_operator(axes: Axes, block: Block, x: float, low: float, high: float) -> None:
    """Draw the operator's box from `low` to `high`, and what drives it from above."""
    axes.fill([x - HALF, x + HALF, x + HALF, x - HALF], [low, low, high, high], zorder=2,
              facecolor=TINT, edgecolor=ACCENT, linewidth=1.5)
    axes.text(x, STREAM, block.operator, fontsize=12, **CENTRE)
    side = dict(x=x - 0.2, ha="right") if block.drives else dict(x=x, ha="center")
    axes.text(y=high + 0.22, s=block.does, fontsize=10, va="center", **side)
    if block.drives:
        axes.plot([x, x], [BRANCH, high], **LINE)
        axes.plot(x, high + 0.08, "kv", markersize=6)
        middle = (BRANCH + high) / 2
        axes.text(x + 0.2, middle, block.drives, fontsize=12, va="center", style="italic")


def _draw_source(axes: Axes, source: str, y: float, ends: list[tuple], leaks: bool) -> None:
    """Draw the mark of a source at height y, and a dashed arrow through the points of each end."""
    path = [(0.35, y), (max(points[0][0] for points in ends), y)]
    for points in ends:
        path += [(np.nan, np.nan), (points[0][0], y), *points]
        (x, top), up = points[-1], len(points) == 1
        axes.plot(x + 0.08 * (not up), top - 0.08 * up, "k^" if up else "k<", markersize=5)
    axes.plot(*np.transpose(path), **LINE | dict(linewidth=1, linestyle=(0, (4, 3)), zorder=1))
    for k, mark in enumerate(MARKS[source]):
        axes.plot(0.35 + 0.22 * k, y, f"k{mark}", markersize=6)
    axes.text(0.2, y - 0.36, SOURCES[source], fontsize=9, va="center")
    if source == "mean" and leaks:
        axes.plot([1.01, 1.23], [y, y], "o", color=SECOND, markerfacecolor="white", markersize=6)
        axes.text(RIGHT, y - 0.36, LEAK, fontsize=9, ha="right", va="center", color=SECOND)
