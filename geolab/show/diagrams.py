"""Block diagrams of residuals, all by the same rules: `diagram("mhc")` draws one, `describe("mhc")` says it in words.

The state runs from left to right, a line a stream. The box on it is the operator: what the state is multiplied by. Dots
are where the sublayer F reads, ⊕ where its output is added, and the labels under both say with which weights. Dashed
arrows come from what an operator or a weight is computed from: one token, the mean of tokens, or nothing but learned numbers.
"""

from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from geolab.show.figures import ACCENT, SECOND, subplots

SOURCES = {
    "token": "from this token",
    "mean": "from the mean of the tokens so far",
    "static": "learned, the same for all tokens",
    "static and token": "learned, and changed by this token",
}
MARKS = {"token": "o", "mean": "ooo", "static": "s", "static and token": "so"}
LEAK = "published: of later ones too, a leak"


class Block(NamedTuple):
    """What is drawn of a residual."""

    equation: str                          # mathtext
    words: str                             # the alt text
    state: str                             # what the lines are
    lines: int = 1
    order: str = "read operator write"     # along the state
    operator: str = ""                     # mathtext; empty: the bare line
    does: str = ""                         # what the operator does
    read: str = ""                         # weights, mathtext; empty: all of the state, as it is
    write: str = ""
    branch: tuple[str, ...] = ("norm", "F")
    drives: str = ""                       # what the branch hands to the operator
    sources: tuple[tuple[str, tuple[str, ...]], ...] = ()   # a key of SOURCES, and what is computed from it
    leaks: bool = False                    # the published form reads later tokens


D_FEATURES, STREAMS = "state x: D features", "state X: n = 4 streams of D features"
SLICES, CHANNELS = "state X: D features as n = 4 slices", "state X: D features × 4 value channels"
MIX = dict(state=STREAMS, lines=4, read="a", write="b", does="mixes streams")
SERIES = dict(state=SLICES, lines=4, order="operator read write", branch=("norm", "P₁", "F", "P₂"))
POOLED = dict(sources=(("mean", ("operator",)),), leaks=True)
READS_ALL = (" It stands before the sublayer, which reads all slices of Z and adds its output. The operator is computed from the mean of "
             "the tokens so far; as published, of later tokens too, which is a leak.")

BLOCKS = {
    "additive": Block(
        r"$x \leftarrow x + F(\mathrm{norm}\ x)$",
        "The additive residual: the state passes unchanged, the sublayer reads a normalised copy, and its output is added.", D_FEATURES),
    "post-LN": Block(
        r"$x \leftarrow \mathrm{norm}\,(x + F(x))$",
        "The post-LN block: the sublayer's output is added to the state, and a norm on the state itself follows.", D_FEATURES,
        order="read write operator", operator=r"$\mathrm{norm}$", does="rescales", branch=("F",)),
    "hyper": Block(
        r"$X \leftarrow A^{\!\top} X + b \otimes F(\mathrm{norm}\ a^{\!\top} X)$",
        "Hyper-connections: four streams meet a free matrix A. The sublayer reads a weighted sum of the streams and adds its output to each "
        "with a weight of its own. All weights are learned numbers plus what the token says.", operator=r"$A^{\!\top}$",
        sources=(("static and token", ("read", "operator", "write")),), **MIX),
    "mhc": Block(
        r"$X \leftarrow H X + b \otimes F(\mathrm{norm}\ a^{\!\top} X),\quad H\ \mathrm{doubly\ stochastic}$",
        "mHC: four streams meet a doubly stochastic matrix H. Matrix, read and write weights are computed from the token.",
        operator="$H$", sources=(("token", ("read", "operator", "write")),), **MIX | {"does": "averages streams"}),
    "jpmhc": Block(
        r"$X \leftarrow Y X + s\,b \otimes F(\mathrm{norm}\ a^{\!\top} X),\quad Y \approx \mathrm{Cayley}$",
        "JPmHC: four streams meet a nearly orthogonal matrix Y. Matrix, read and write weights are computed from the token.",
        operator="$Y$", sources=(("token", ("read", "operator", "write")),), **MIX | {"does": "turns streams", "write": "s b"}),
    "delta": Block(
        r"$x \leftarrow (I - \beta k k^{\!\top})\,x + \beta v\,k,\quad k = F(\mathrm{norm}\ x)/\|\cdot\|$",
        "The delta residual: the sublayer gives a direction k. The operator erases the state along k at the rate beta, and v is written "
        "along k at the same rate. Beta and v are computed from the token.", D_FEATURES, operator=r"$I - \beta k k^{\!\top}$",
        does="erases", branch=("norm", "F", "unit"), drives="k", write="β v", sources=(("token", ("operator", "write")),)),
    "delta-matrix": Block(
        r"$X \leftarrow (I - \beta k k^{\!\top})\,X + \beta k v^{\!\top},\quad k = F(\mathrm{norm}\ x)/\|\cdot\|$",
        "The delta residual on four value channels: a compressor makes one vector of them, the sublayer gives the direction k from it, all "
        "channels are erased along k, and channel j receives v j along k. The compressor is learned, beta and v come from the token.",
        CHANNELS, 4, operator=r"$I - \beta k k^{\!\top}$", does="erases", branch=("norm", "F", "unit"), drives="k", read="compress",
        write="β v", sources=(("static", ("read",)), ("token", ("operator", "write")))),
    "mgt": Block(
        r"$x \leftarrow (1 - \alpha\beta) \odot x + \beta \odot G \odot F(\mathrm{norm}\ x)$",
        "The MGT block: each feature is scaled by a number of its own, one minus alpha beta, and the sublayer's output is added feature by "
        "feature with the weight beta G. Beta and G come from the token, alpha is learned.", D_FEATURES,
        operator=r"$1 - \alpha\beta$", does="scales features", write="β G", sources=(("static", ("operator",)), ("token", ("operator", "write")))),
    "emhc-cayley": Block(
        r"$Z = Q X,\quad X \leftarrow Z + P_2 F(P_1\, \mathrm{norm}\ Z)$",
        "E-MHC-Geo, rotation alone: the matrix Q turns one plane of the four slices." + READS_ALL, operator="$Q$", does="turns a plane",
        **SERIES, **POOLED),
    "emhc-hybrid": Block(
        r"$Z = (\gamma Q + (1-\gamma) H) X,\quad X \leftarrow Z + P_2 F(P_1\, \mathrm{norm}\ Z)$",
        "E-MHC-Geo, hybrid: a gate gamma blends a rotation Q and a reflection H of the four slices." + READS_ALL,
        operator=r"$\gamma Q + (1-\gamma) H$", does="blends two", **SERIES, **POOLED),
    "emhc-geodesic": Block(
        r"$Z = Q H^{1-\gamma} X,\quad X \leftarrow Z + P_2 F(P_1\, \mathrm{norm}\ Z)$",
        "The geodesic gate: a fractional power of a reflection H, then a rotation Q, length-preserving at every gate. It stands before the "
        "sublayer and is computed from the mean of the tokens so far.",
        operator=r"$Q H^{1-\gamma}$", does="turns", **SERIES, sources=(("mean", ("operator",)),)),
    "emhc-exact": Block(
        r"$Z = (I+W)^{-1}(I-W)\, X,\quad X \leftarrow Z + P_2 F(P_1\, \mathrm{norm}\ Z)$",
        "The exact rotation: a Cayley transform of six numbers turns the four slices before the sublayer reads them. It is computed from "
        "the token alone.",
        operator=r"$(I+W)^{-1}(I-W)$", does="turns", **SERIES, sources=(("token", ("operator",)),)),
    "emhc-stream": Block(
        r"$Z = (\gamma Q + (1-\gamma) H) X,\quad X \leftarrow Z + b \otimes F(\mathrm{norm}\ a^{\!\top} Z)$",
        "E-MHC-Geo on streams: the gated blend acts on four streams of full width before the sublayer. The token gives the weights with "
        "which it reads and writes. The operator is computed from the mean of the tokens so far; as published, of later tokens too, "
        "which is a leak.", STREAMS, 4, "operator read write", r"$\gamma Q + (1-\gamma) H$", "blends two", "a", "b",
        sources=(("token", ("read", "write")), ("mean", ("operator",))), leaks=True),
}

# In units of half an inch: where things stand from left to right, for each order, and from bottom to top.
PLACES = {"read operator write": (1.3, 5.2, 8.7), "operator read write": (1.9, 3.9, 9.2), "read write operator": (1.3, 5.4, 8.2)}
STREAM, BRANCH, WEIGHTS, LANE, PITCH = 1.9, 3.5, 0.95, 0.2, 0.8
BOX = dict(boxstyle="round,pad=0.35", facecolor="white", edgecolor="black", linewidth=1)
LINE = dict(color="black", linewidth=1.3, solid_capstyle="round")
HALF = 1.4  # of the operator's width


def describe(name: str) -> str:
    """The diagram in words: its alt text. Names and errors as for `diagram`."""
    return _block(name).words


def diagram(name: str) -> Figure:
    """The block diagram of a residual, with its equation; `name` is a key of BLOCKS. A residual needs none.

    Raises: ValueError for a name without a diagram.
    """
    block = _block(name)
    bottom = LANE - PITCH * len(block.sources) - 0.6 if block.sources else STREAM - 1.5
    figure, axes = subplots(height=(4.6 - bottom) / 2)
    figure.set_layout_engine("none")
    axes.set(position=(0, 0, 1, 1), xlim=(0, 10), ylim=(bottom, 4.6))
    axes.set_axis_off()
    place = dict(zip(block.order.split(), PLACES[block.order]))
    ys = [STREAM] if block.lines == 1 else [STREAM + 0.25 * (k - 1.5) for k in range(4)]

    axes.text(0.15, 4.3, block.state, fontsize=10, va="center")
    axes.text(5, bottom + 0.4, block.equation, fontsize=12, ha="center", va="center")
    axes.plot(np.tile([0.15, 9.8, np.nan], len(ys)), np.repeat(ys, 3), zorder=1, **LINE)
    axes.plot(np.full(len(ys), 9.8), ys, ">", color="black", markersize=6)
    _branch(axes, block, place, ys)
    if block.operator:
        _operator(axes, block, place["operator"], ys)
    for lane, (source, targets) in enumerate(block.sources):
        ends = [(target, place[target] + 0.8 * lane * (target == "operator")) for target in targets]
        _lane(axes, block, LANE - PITCH * lane, source, ends)
    return figure


def _block(name: str) -> Block:
    if name not in BLOCKS:
        raise ValueError(f"no diagram of {name!r}; BLOCKS has {', '.join(BLOCKS)}")
    return BLOCKS[name]


def _branch(axes: Axes, block: Block, place: dict[str, float], ys: list[float]) -> None:
    """Up from the dots, through the boxes of the branch, down to ⊕."""
    read, write = place["read"], place["write"]
    ends = [WEIGHTS if weights else ys[0] for weights in (block.read, block.write)]
    axes.plot([read, read, write, write], [ends[0], BRANCH, BRANCH, ends[1]], zorder=1, **LINE)
    axes.plot(np.full(len(ys), read), ys, "o", color="black", markersize=5)
    axes.plot(np.full(len(ys), write), ys, "o", markerfacecolor="white", color="black", markersize=9)
    axes.plot(np.full(len(ys), write), ys, "+", color="black", markersize=9)
    end = place["operator"] if block.drives else write
    for k, text in enumerate(block.branch, start=1):
        x = read + k * (end - read) / (len(block.branch) + 1)
        axes.text(x, BRANCH, text, ha="center", va="center", fontsize=13 if text == "F" else 10, weight="bold" if text == "F" else "normal",
                  bbox=BOX | {"facecolor": "#d9d9d9" if text == "F" else "white"})
    for x, weights in ((read, block.read), (write, block.write)):
        if weights:
            axes.text(x, WEIGHTS, weights, ha="center", va="center", fontsize=10, bbox=BOX)


def _operator(axes: Axes, block: Block, x: float, ys: list[float]) -> None:
    low, high = ys[0] - 0.3, ys[-1] + 0.3
    axes.fill([x - HALF, x + HALF, x + HALF, x - HALF], [low, low, high, high], facecolor="#cfe3f1", edgecolor=ACCENT, linewidth=1.5, zorder=2)
    axes.text(x, STREAM, block.operator, ha="center", va="center", fontsize=12)
    axes.text(x - 0.2 if block.drives else x, high + 0.22, block.does, ha="right" if block.drives else "center", va="center", fontsize=10)
    if block.drives:
        axes.plot([x, x], [BRANCH, high], **LINE)
        axes.plot(x, high + 0.08, "v", color="black", markersize=6)
        axes.text(x + 0.2, (BRANCH + high) / 2, block.drives, va="center", fontsize=12, style="italic")


def _lane(axes: Axes, block: Block, y: float, source: str, ends: list[tuple[str, float]]) -> None:
    """From the mark of a source along a dashed line, and up to all that is computed from it."""
    below = STREAM - 0.3 - 0.125 * (block.lines - 1)  # the lower edge of the operator
    tops = [below if target == "operator" else WEIGHTS - 0.25 for target, _ in ends]
    xs, ys = [0.35, max(x for _, x in ends)], [y, y]
    for (_, x), top in zip(ends, tops):
        xs, ys = [*xs, np.nan, x, x], [*ys, np.nan, y, top]
    axes.plot(xs, ys, **LINE | {"linewidth": 1, "linestyle": (0, (4, 3)), "zorder": 1})
    axes.plot([x for _, x in ends], np.subtract(tops, 0.08), "^", color="black", markersize=5)
    for k, mark in enumerate(MARKS[source]):
        axes.plot(0.35 + 0.22 * k, y, mark, color="black", markersize=6)
    axes.text(0.2, y - 0.36, SOURCES[source], fontsize=9, va="center")
    if source == "mean" and block.leaks:
        axes.plot([1.01, 1.23], [y, y], "o", color=SECOND, markerfacecolor="white", markersize=6)
        axes.text(9.8, y - 0.36, LEAK, fontsize=9, va="center", ha="right", color=SECOND)
