"""The figures of chapter 6: streams that are mixed and written to, and what a difference keeps.

    X ← H X + b F(aᵀX), where H mixes the streams and b writes to them

Without a write, H of four streams with one number on the diagonal of its logits and 0 elsewhere
multiplies each difference between streams by σ₂ = (e^diagonal − 1) / (e^diagonal + 3).
"""

import math
from collections.abc import Mapping

import numpy as np
from IPython.display import HTML
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from geolab.show.figures import ACCENT, QUIET, look, show, subplots
from geolab.show.letter import draw_letter
from geolab.show.schematic import BOXED, LINE, TINT, arrow, box, canvas, plus
from studies.engine.results import interval

WORDS = "#555555"
WRITTEN, STARTS = 0.1, (2.0, 0.0)  # of a difference: what each sublayer adds, and where it begins


def recipes() -> HTML:
    """The letter F under three ways to mix two streams, before and after some sublayers."""
    figure, axes = canvas(4.2, xlim=(-3.1, 11.9), ylim=(-1.6, 11.0))
    columns = ((0, "before"), (2, "2 sublayers"), (5, "5"), (10, "10"))
    rows = (("take", 1.0, 0.1), ("exchange", 0.9, 0.1), ("subtract", 1.0, -0.1))
    for row, (name, own, other) in enumerate(rows):
        y, H = 8.4 - 4.2 * row, np.array([[own, other], [other, own]])
        axes.text(-3.0, y, name, fontsize=11, weight="bold", va="center")
        for column, (count, said) in enumerate(columns):
            x = 3.2 * column
            axes.plot([x - 1.5, x + 1.5], [y - 1.5, y + 1.5], ":", color="black", linewidth=1)
            draw_letter(axes, np.linalg.matrix_power(H, count), at=(x, y), size=1.3,
                        color=ACCENT if count else "#aaaaaa", ghost=False)
            if row == 0:
                axes.text(x, 10.6, said, fontsize=10, ha="center", va="center")
    return show(figure, "The letter F under three ways to mix, after 2, 5 and 10 sublayers. Taking "
                        "stretches it along the diagonal, exchanging makes it a line on the "
                        "diagonal, and subtracting stretches it across the diagonal.",
                caption="Each point of the F is a pair of numbers: stream 1 to the right, stream 2 "
                        "upwards. On the dotted line both are equal.")


def draw_step(weight: float) -> Figure:
    """Two streams with 3 and 1 pass from left to right. They are mixed to 2.8 and 1.2. F reads half of each, and its answer 1 is added to stream 1 with the weight 1, and to stream 2 with the weight of the slider. At 0.6 the streams differ by 2 again."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, axes = canvas(2.4)
    axes.plot([2.2, 2.2, 7.6, 7.6], [0.9, 4, 4, 0.9], zorder=1, **LINE)
    ways = ((1.9, 1, 3, 2.8, 1.0), (0.9, 2, 1, 1.2, weight))
    for y, name, before, mixed, times in ways:
        arrow(axes, (1.45, y), (9.1, y), zorder=1)
        axes.text(0.1, y, f"stream {name}", fontsize=10, va="center")
        axes.text(1.75, y + 0.18, f"{before}", fontsize=11, ha="center")
        axes.text(6.3, y + 0.18, f"{mixed}", fontsize=11, ha="center")
        axes.text(9.2, y, f"{mixed + times:.1f}", fontsize=12, va="center", weight="bold")
        axes.plot(2.2, y, "ko", markersize=5)
        plus(axes, 7.6, y, size=10)
        axes.text(7.85, y + 0.18, f"× {times:.1f}", fontsize=10)
    box(axes, 4.4, 1.4, 1.6, 1.9, "mix", color=TINT, edge=ACCENT, zorder=2)
    for x, said in ((2.2, "½ + ½"), (4.4, "F"), (7.6, "write")):
        axes.text(x, 4, said, **BOXED)
    axes.text(3.4, 4.15, "2", ha="center", fontsize=11)
    axes.text(6.0, 4.15, "1", ha="center", fontsize=11)
    axes.text(9.9, 0.2, f"difference {abs(2.6 - weight):.1f}", fontsize=10, ha="right",
              va="center")
    return figure


def mixed_and_written(writes: np.ndarray):
    """Return draw(share): four streams and their mean over sublayers that write these numbers.

    Arguments:
        writes: (sublayers, 4), what each sublayer adds to each stream.
    """
    def paths(share: float) -> np.ndarray:
        """P to T, sublayer by sublayer: (5, sublayers + 1)."""
        H, X = (1 - share) * np.eye(4) + share / 4, [np.array([5.0, 2.5, -1.0, -3.5])]
        for written in writes:
            X.append(H @ X[-1] + written)
        return np.insert(np.array(X), 2, np.mean(X, axis=1), axis=1).T

    # a line that left the axes would lose points, and pictures between frames need all of them
    reached = np.array([paths(share) for share in np.linspace(0, 1, 41)])
    limits = reached.min() - 0.8, reached.max() + 0.8

    def draw_mean(share: float) -> Figure:
        """Five lines, P to T from the top at their starts. When the share grows, P, Q, S and T, the streams, come together. Line R, their mean, is the same for every share."""  # noqa: E501  (the docstring is the figure's alt text)
        figure, axes = subplots(height=3.2)
        for name, line, style in zip("PQRST", paths(share),
                                     ("-", "--", (0, (7, 2)), "-.", ":"), strict=True):
            axes.plot(line, linestyle=style, color=ACCENT, linewidth=1.6)
            axes.text(-0.2, line[0], name, fontsize=10, ha="right", va="center")
        axes.set(xlabel="sublayer", ylabel="value", xlim=(-0.8, len(writes)), ylim=limits,
                 xticks=range(0, len(writes) + 1, 2),
                 title="Four streams, and a line made of them")
        return figure

    return draw_mean


def token_matrices(matrices: np.ndarray) -> HTML:
    """H of three tokens, as tables of shaded numbers: (3, 4, 4)."""
    figure, panels = subplots(1, 3, height=2.1)
    for k, (axes, H) in enumerate(zip(panels, matrices, strict=True), start=1):
        axes.imshow(H, cmap="Blues", vmin=0, vmax=1.2)
        for (i, j), value in np.ndenumerate(H):
            axes.text(j, i, f"{value:.2f}"[1:] if value < 0.995 else "1", ha="center",
                      va="center", fontsize=9)
        axes.set(xticks=[], yticks=[], title=f"token {k}")
        axes.grid(False)
    return show(figure, "Three matrices of four rows, for three tokens. All have rows and columns "
                        "with sum one, and their entries differ.",
                caption="H of three random tokens in one sublayer with random weights φ. Each "
                        "token mixes the streams in its own way.")


def stays(diagonal: float) -> float:
    """σ₂ of four streams: the share of a difference that one mixing leaves."""
    return math.expm1(diagonal) / (math.exp(diagonal) + 3)


def draw_notes(diagonal: float) -> Figure:
    """Four bars, one per stream, with what each holds of four notes after ten sublayers, and a curve of what is left of a difference over sixty. With 2 on the diagonal the bars are alike and the curve falls to nothing at once. With 6 about a half is left after sixty, and with 8 nearly all."""  # noqa: E501  (the docstring is the figure's alt text)
    left = stays(diagonal) ** np.arange(61)
    figure, (bars, curve) = subplots(1, 2, height=2.8, width_ratios=[1.15, 1])
    for i in range(4):
        edge = 0.0
        for j, note in enumerate("ABCD"):
            share = (1 - left[10]) / 4 + (left[10] if i == j else 0)
            bars.barh(i, share, left=edge, height=0.7, edgecolor="black", linewidth=0.8,
                      color="#9ecae1" if i == j else "#f2f2f2")
            # a letter shrinks with its share, so that each picture has the same letters
            bars.text(edge + share / 2, i, note, ha="center", va="center",
                      fontsize=12.5 * share / (share + 0.06))
            edge += share
    bars.set(yticks=range(4), yticklabels=[f"stream {i}" for i in range(1, 5)], ylim=(3.5, -0.5),
             xlim=(0, 1), xticks=[0, 0.5, 1], title="the notes after ten")
    bars.grid(False)
    curve.plot(100 * left, color=ACCENT)
    curve.plot(60, 100 * left[60], "o", color=ACCENT, markersize=7)
    curve.text(62, 104, f"after 60: {100 * left[60]:.0f} %", ha="right", fontsize=10)
    curve.set(xlabel="sublayers", xlim=(0, 63), ylim=(0, 115), xticks=[0, 10, 30, 60],
              yticks=[0, 50, 100], title="left of a difference (%)")
    return figure


def draw_memory(σ: float) -> Figure:
    """Two curves of the difference between two streams over thirty sublayers, from 2 and from 0. Below σ = 1 they meet, at 0.5 for σ = 0.8. At 0.95 the upper one stays at 2. At 1 both rise for ever."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, axes = subplots(height=2.9)
    for start, style in zip(STARTS, ("-", "--"), strict=True):
        path = [start]
        for _ in range(30):
            path.append(σ * path[-1] + WRITTEN)
        axes.plot(path, style, color=ACCENT)
    axes.set(xlabel="sublayer", ylabel="difference", xlim=(0, 30), ylim=(0, 5.2),
             xticks=range(0, 31, 5))
    return figure


def _runs(axes: Axes, row: float, values: np.ndarray, like: str, bar: bool = True) -> None:
    """Draw runs as strokes, and their mean, with its 95 % interval if `bar`."""
    (mean, half), style = interval(values), look(like)
    axes.plot(values, np.full(len(values), row + 0.25), "|", color=WORDS, markersize=9)
    if bar:
        axes.plot([mean - half, mean + half], [row, row], color=style["color"], linewidth=4,
                  alpha=0.5)
    axes.plot(mean, row, marker=style["marker"], color=style["color"], markersize=8, linestyle="")


def trained_shares(after: np.ndarray, before: float, by_chance: Mapping[int, float]) -> HTML:
    """What two sublayers leave of a difference after training, in stored runs: (runs,).

    Arguments:
        before: the same share before training.
        by_chance: the same share when a random number is added to each logit, by its deviation.
    """
    figure, axes = subplots(height=1.9)
    _runs(axes, 0, after, "mhc", bar=False)
    for at in (before, *by_chance.values()):
        axes.plot([at, at], [-0.45, 0.12], ":", color="black", linewidth=1.6)
    axes.text(before - 0.02, -0.4, "before training", fontsize=10, ha="right", va="center")
    for deviation, at in by_chance.items():
        axes.text(at + 0.015, -0.4, f"random\nby {deviation}", fontsize=10, va="center")
    axes.set(yticks=[], ylim=(0.6, -0.8), xlim=(0, 1.03),
             xlabel="left of a difference after the two sublayers in the middle")
    axes.grid(axis="y", visible=False)
    told = ", ".join(f"{at:.2f} at deviation {deviation}" for deviation, at in by_chance.items())
    return show(figure, f"What two sublayers leave of a difference. It is {before:.2f} before "
                        f"training and {after.mean():.2f} on average after training. All "
                        f"{len(after)} runs lie above the share before training. If the logits "
                        f"change at random, it is {told}.",
                caption="The largest share that a token's matrices leave, as a mean over tokens. "
                        f"Strokes: {len(after)} stored runs after training. Mark: their mean. "
                        "Random: to each logit a normal number of this deviation is added.")


def above_one_stream(gains: Mapping[str, tuple], loss: float, setting: str) -> HTML:
    """How far HC and mHC end above one stream: name -> (effect of the lead, ...).

    Arguments:
        loss: at which one stream ends, in nats per byte.
        setting: how each model's rate was found.
    """
    names = {"hyper": "HC", "mhc, published start": "mHC, published start",
             "mhc": "mHC, our start"}
    figure, axes = subplots(height=2.1)
    for y, name in enumerate(names):
        more, half = -gains[name][0].mean, gains[name][0].half
        axes.errorbar(more, -y, xerr=half, fmt="o", color=ACCENT, markersize=8)
        axes.text(more + half + 0.002, -y, f"{more:+.3f} ± {half:.3f}".replace("-", "−"),
                  va="center", fontsize=10)
    axes.axvline(0, color="black", linewidth=1)
    axes.text(0.001, 0.5, "one stream", fontsize=10)
    axes.set(yticks=[0, -1, -2], yticklabels=names.values(), ylim=(-2.5, 1), xlim=(-0.03, 0.1),
             xticks=[-0.02, 0, 0.02, 0.04, 0.06, 0.08],
             xlabel="nats per byte above one stream")
    axes.grid(axis="y", visible=False)
    return show(figure, "Loss above that of one stream. For HC, and for mHC from its published "
                        "start, about 0.01, with intervals that hold zero. For mHC from our start "
                        "0.027, with an interval that lies above zero.",
                caption=f"Our own runs: a million weights, 800 steps, eight seeds, {setting}. One "
                        f"stream ends at {loss:.2f} nats per byte, and to the right is worse. The "
                        "intervals hold together with 95 %, with those of the comparison's other "
                        "residuals.")


def last_losses(final: Mapping[str, np.ndarray], counts: Mapping[str, float]) -> HTML:
    """The last losses of stored runs of three networks, beside predictors that count bytes."""
    names = {"additive": "one stream", "hyper": "HC", "mhc": "mHC"}
    figure, axes = subplots(height=2.3)
    for row, name in enumerate(names):
        _runs(axes, row, final[name], name)
    for name in ("unigram", "bigram"):
        axes.axvline(counts[name], color=QUIET, linewidth=1)
        axes.text(counts[name], -0.62, name, ha="center", va="bottom", fontsize=10, color=WORDS)
    axes.set(yticks=range(3), yticklabels=names.values(), ylim=(2.6, -0.6), xlim=(2.62, 3.3),
             xlabel="loss at the end (nats per byte)")
    axes.grid(axis="y", visible=False)
    return show(figure, "The last losses of twelve stored runs with one stream, with HC and with "
                        "mHC, with mean and interval. They lie between 2.8 and 3.2 nats per byte, "
                        "above the bigram.",
                caption="Strokes: twelve stored runs of each network. Mark and bar: their mean and "
                        "its 95 % interval. Unigram and bigram are predictors that count bytes and "
                        "pairs of bytes.")
