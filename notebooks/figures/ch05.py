"""The figures of chapter 5: jugs that are mixed, letters that become alike, and the members.

A member is a doubly stochastic matrix: no entry is negative, and rows and columns sum to 1.
`boxes` draws a matrix as boxes with numbers, and most figures use it.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from IPython.display import HTML
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from geolab.show.figures import ACCENT, QUIET, SECOND, label_line, look, show, subplots
from geolab.show.letter import F, draw_depth, moved
from geolab.show.schematic import TINT, arrow, canvas

WORDS = "#555555"


def boxes(axes: Axes, values, x: float = 0, y: float = 0, size: float = 1,
          digits: int | None = 2, marked=(), font: float = 11) -> None:
    """Draw a matrix as boxes, darker where it is larger; (x, y) is its lower left corner.

    Arguments:
        digits: of the numbers in the boxes; None writes none.
        marked: the (row, column) of boxes with an orange edge.
    """
    values = np.asarray(values)
    for (i, j), value in np.ndenumerate(values):
        left, low = x + size * j, y + size * (len(values) - 1 - i)
        edge, width, front = (SECOND, 2.5, 3) if (i, j) in marked else ("black", 0.8, 2)
        axes.fill(left + size * np.array([0, 1, 1, 0]), low + size * np.array([0, 0, 1, 1]),
                  edgecolor=edge, linewidth=width, zorder=front,
                  facecolor=1 - min(abs(value), 1) * np.array([0.6, 0.35, 0.15]))
        if digits is not None:
            axes.text(left + size / 2, low + size / 2, f"{value:.{digits}f}", ha="center",
                      va="center", fontsize=font, zorder=4)
    axes.set(aspect="equal", frame_on=False, xticks=[], yticks=[])


def jug(axes: Axes, x: float, y: float, litres: float) -> None:
    """Draw a jug of water that stands at height y; ten litres are two units high."""
    wall = np.array([x - 0.8, x - 0.8, x + 0.8, x + 0.8])
    axes.fill(wall, y + 0.2 * litres * np.array([1, 0, 0, 1]), facecolor=TINT)
    axes.plot(wall, [y + 2.2, y, y, y + 2.2], color="black", linewidth=1.3)
    axes.text(x, y + 1, f"{litres:.1f}", ha="center", va="center", fontsize=11)


def draw_flow(s: float) -> Figure:
    """Two jugs of 10 and 2 litres give shares to two new jugs. Only where jug 1 gives away exactly 100 per cent, at s = 0.3, do the new jugs hold 12 litres. At s = 0.5 they hold 13.6."""  # noqa: E501  (the docstring is the figure's alt text)
    shares, old, low = np.array([[0.7, 0.3], [s, 1 - s]]), np.array([10.0, 2.0]), (3.5, 0.0)
    new = shares @ old
    figure, axes = canvas(3.7, xlim=(-0.3, 10.3), ylim=(-1, 6.3))
    for j in range(2):
        jug(axes, 1.3, low[j], old[j])
        jug(axes, 8.7, low[j], new[j])
        given = shares[:, j].sum()
        axes.text(1.3, low[j] + 2.35, f"jug {j + 1} gives {100 * given:.0f} %", ha="center",
                  fontsize=10, color="black" if abs(given - 1) < 1e-9 else SECOND)
        axes.text(8.7, low[j] + 2.35, f"new jug {j + 1}", ha="center", fontsize=10)
        for i in range(2):
            start, end = np.array([2.3, low[j] + 1]), np.array([7.6, low[i] + 1])
            axes.plot(*zip(start, end, strict=True), color=ACCENT, alpha=0.45,
                      linewidth=0.3 + 11 * shares[i, j])
            axes.text(*(0.74 * start + 0.26 * end), f"{100 * shares[i, j]:.0f} %", ha="center",
                      va="center", fontsize=9,
                      bbox=dict(boxstyle="round,pad=0.15", facecolor="white", edgecolor="none"))
    axes.text(1.3, -0.7, f"{old.sum():.1f} litres before", ha="center", fontsize=10)
    axes.text(8.7, -0.7, f"{new.sum():.1f} litres after", ha="center", fontsize=10, weight="bold")
    return figure


def draw_rounds(share: float) -> Figure:
    """Six letters F, before mixing and after each of five rounds. With shares between 0 and 1 the F becomes flat on the line of equal jugs, at once for one half. With the share 0 it stays as it is. With the share 1 it is mirrored in each round and keeps its size."""  # noqa: E501  (the docstring is the figure's alt text)
    P, jugs = np.array([[1 - share, share], [share, 1 - share]]), np.array([10.0, 2.0])
    figure, axes = canvas(1.75, xlim=(-0.7, 7.45))
    for layer in range(6):
        at = 1.35 * layer
        axes.plot([at - 0.6, at + 0.6], [-0.6, 0.6], "--", color=QUIET, linewidth=1, zorder=0)
        axes.text(at, -0.85, f"round {layer}" if layer else "before", ha="center", fontsize=9)
        axes.text(at, -1.13, f"{jugs[0]:.2f}, {jugs[1]:.2f}", ha="center", fontsize=9, color=WORDS)
        jugs = P @ jugs
    draw_depth(axes, [P] * 5, step=1.35)
    axes.set(ylim=(-1.3, 0.85))
    return figure


SHAPES = [[[1, 0], [0, 1.1]], [[1, 0.5], [0, 1]], [[1.3, 0], [0, 0.65]], [[-0.9, 0], [0, 1]]]
STREAMS = torch.tensor(np.stack([moved(F, shape).ravel() for shape in SHAPES]))
NEIGHBOURS = torch.eye(4)[[1, 2, 3, 0]] + torch.eye(4)[[3, 0, 1, 2]]
BOTH = (0.8 * torch.eye(4) + 0.1 * NEIGHBOURS).double()
ROWS_ONLY = 0.8 * torch.eye(4).double()
ROWS_ONLY[:, 3] += 0.2


def alone() -> HTML:
    """Four letters and their mean before, and after 5 and 60 layers of either recipe."""
    figure, axes = canvas(5.4, xlim=(-0.8, 9.6), ylim=(-1.42, 9.82))
    start = STREAMS.mean(0).view(-1, 2)[[*range(12), 0]]
    rows = ((0, BOTH, "before"), (5, ROWS_ONLY, "rows only, 5 layers"),
            (60, ROWS_ONLY, "rows only, 60 layers"), (5, BOTH, "rows and columns, 5 layers"),
            (60, BOTH, "rows and columns, 60 layers"))
    for row, (layers, recipe, name) in enumerate(rows):
        low = 8.8 - 2.25 * row
        power = torch.linalg.matrix_power(recipe, layers)
        now = power @ STREAMS
        for k, letter in enumerate((*now, now.mean(0))):
            axes.fill(*(letter.view(-1, 2) + torch.tensor([1.5 * k, low])).T, alpha=0.8,
                      color=ACCENT if k < 4 else "#aaaaaa", linewidth=2)
        for k, count in enumerate(power.sum(0)):
            axes.text(1.5 * k, low - 0.95, f"× {count:.2f}", ha="center", va="center",
                      fontsize=8.5)
        axes.text(6, low - 0.95, "the mean", ha="center", va="center", fontsize=8.5)
        axes.plot(*(start + torch.tensor([6.0, low])).T, color="black", linewidth=1)
        axes.text(-0.75, low + 0.72, name, fontsize=10, weight="bold")
        if row in (1, 3):
            boxes(axes, recipe, x=7.3, y=low - 2.2, size=0.55, digits=1, font=9)
    return show(figure, "Five rows of four letters and their mean. With rows only, three letters "
                        "turn within sixty layers into the mirrored letter of stream 4, which "
                        "then counts 4 times, and the mean moves away. With rows and columns all "
                        "four become the mean, which stays, and each counts once.",
                caption="Under each letter: how much the letter that started there counts. Fifth place: the mean of the four letters, now (grey) and at the start (outline). Right: the matrix of one layer.")  # noqa: E501


def peeled(P, terms: Sequence[tuple[float, tuple[int, ...]]]) -> HTML:
    """What is left of a 3 × 3 member while the (weight, permutation) of `terms` are taken out."""
    figure, axes = subplots(height=1.5)
    rest = np.asarray(P)
    for k, (weight, sigma) in enumerate(terms):
        boxes(axes, abs(rest), x=3.7 * k, digits=1, marked=[*enumerate(sigma)], font=9)
        axes.text(3.7 * k + 1.5, -0.7, f"take {weight:.1f}", ha="center", color=SECOND, fontsize=10)
        rest = rest - weight * np.eye(3)[list(sigma)]
    boxes(axes, abs(rest), x=3.7 * len(terms), digits=1, font=9)
    axes.text(3.7 * len(terms) + 1.5, -0.7, "nothing left", ha="center", fontsize=10)
    axes.set(xlim=(-0.2, 3.7 * len(terms) + 3.2), ylim=(-1.1, 3.1))
    return show(figure, "A matrix of three rows is taken apart in four steps. In each step one permutation is taken out with its weight, 0.5, 0.3, 0.1 and 0.1, and then nothing is left.",  # noqa: E501
                caption="Orange frames: the permutation that is taken out next. Its smallest entry is its weight.")  # noqa: E501


def members() -> HTML:
    """All members of two streams, and the mixtures of the three shifts of three streams."""
    figure, (left, right) = subplots(1, 2, height=2.9, width_ratios=[1, 1.25])
    left.plot([0, 0], [0, 3], color=ACCENT)
    for t, name in ((0, "identity"), (0.3, "our jugs"), (0.5, "all 1/2"), (1, "exchange")):
        boxes(left, [[1 - t, t], [t, 1 - t]], 0.35, 3 * t - 0.27, size=0.27, digits=None)
        left.plot(0, 3 * t, "o", color=SECOND if t == 0.3 else ACCENT, markersize=7)
        left.text(-0.15, 3 * t, name, ha="right", va="center", fontsize=9)
    left.set(xlim=(-1.8, 1.6), ylim=(-0.45, 3.45), title="two streams")
    shifts = [np.eye(3), np.eye(3)[[1, 2, 0]], np.eye(3)[[2, 0, 1]]]
    corners = [np.array([np.sin(a), np.cos(a)]) for a in 2 * np.pi * np.arange(3) / 3]
    right.fill(*np.transpose(corners), facecolor="#e6f0f7", edgecolor=ACCENT, linewidth=1.2)
    for corner, shift, name in zip(corners, shifts, ("I", "C", "C²"), strict=True):
        boxes(right, shift, *(1.52 * corner - 0.3), size=0.2, digits=None)
        right.plot(*corner, "o", color=ACCENT, markersize=7)
        right.text(*(1.52 * corner + (0.4, 0)), name, va="center", fontsize=11)
    right.plot(0, 0, "+", color="black", markersize=11)
    right.text(0, -0.14, "all 1/3", ha="center", va="top", fontsize=9)
    right.set(xlim=(-1.75, 2.05), ylim=(-1.15, 1.9), title="mixtures of three shifts")
    for axes in (left, right):
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
    return show(figure, "Left: all members for two streams are a segment from the identity to the "
                        "exchange, with our jugs at three tenths of the way. Right: the mixtures "
                        "of the three shifts of three streams are a triangle with the shifts at "
                        "its corners and the matrix of thirds in the middle.",
                caption="Left: all members for two streams. Right: mixtures of three shifts, a "
                        "slice of all members for three streams. C makes of each stream the next.")


def funnel(sums: Sequence) -> HTML:
    """The sums that are wrong after 0, 1, 2, … half-steps from the first iteration on: (n,) each.

    Even ones are column sums. The grey bars are the ranges of the reciprocals one half-step before.
    """
    figure, axes = subplots(height=3.1)
    for k, before in enumerate(sums[:-1], start=1):
        axes.plot([k, k], [1 / before.max(), 1 / before.min()], color="#cccccc", linewidth=15,
                  solid_capstyle="butt")
    for k, now in enumerate(sums):
        axes.plot([k] * len(now), now, "s" if k % 2 else "o", color=SECOND, markersize=5)
    axes.axhline(1, color="black", linewidth=0.8)
    names = ["rows" if k % 2 else "columns" for k in range(len(sums))]
    axes.set(xticks=range(len(sums)), xticklabels=names, ylabel="sums",
             title="The sums that are wrong at each half-step")
    axes.tick_params(axis="x", labelsize=9)
    return show(figure, "The column sums and row sums of a matrix of four rows through the "
                        "half-steps of three iterations. All sums lie inside the range of the "
                        "reciprocals of the sums before, and these ranges become narrower.",
                caption="A random matrix of four rows. Dots: column sums. Squares: row sums. The "
                        "first dots: after one iteration. Grey: the range of 1 / (the sums one "
                        "step to the left).")


def apart(kappa: float) -> HTML:
    """Two rows of two weights with the cross ratio kappa: how far apart their first weights are."""
    x = np.linspace(0, 1, 201)
    tied = kappa * x / (kappa * x + 1 - x)
    widest = (x - tied).argmax()
    figure, (left, right) = subplots(1, 2, height=2.4, width_ratios=[1.25, 1])
    for low, first in ((1.1, x[widest]), (0, tied[widest])):
        for start, share, fill in ((0, first, TINT), (first, 1 - first, "white")):
            left.fill(start + share * np.array([0, 1, 1, 0]), low + 0.7 * np.array([0, 0, 1, 1]),
                      facecolor=fill, edgecolor="black", linewidth=1.3)
            left.text(start + share / 2, low + 0.35, f"{share:.2f}", ha="center", va="center",
                      fontsize=10)
    arrow(left, (tied[widest], -0.25), (x[widest], -0.25), color=SECOND, arrowstyle="<|-|>")
    left.text((x + tied)[widest] / 2, -0.4, f"{(x - tied)[widest]:.3f}", ha="center", va="top",
              fontsize=10, color=SECOND)
    left.set(xlim=(-0.02, 1.02), ylim=(-0.85, 1.9), title="two rows")
    left.set_axis_off()
    right.plot(x, x - tied, color=SECOND, linewidth=1.5)
    right.plot(x[widest], (x - tied)[widest], "o", color=SECOND, markersize=7)
    right.set(xlim=(0, 1), ylim=(0, 0.5), xticks=[0, 0.5, 1], yticks=[0, 0.25, 0.5],
              xlabel="first weight, upper row", title="how far apart")
    return show(figure, "Two bars, each split into two weights, and a curve. As the first weight "
                        "of the upper row grows from 0 to 1, the difference of the two first "
                        f"weights rises to {(x - tied)[widest]:.3f} and falls again.",
                caption="Left: two rows with the cross ratio of K, as far apart as they can be. "
                        "Right: the difference of their first weights, for all such pairs of rows.")


def wrong_columns(spreads, share: Mapping[int, Sequence[float]]) -> HTML:
    """The share of random matrices with a wrong column sum: iterations -> (spreads,)."""
    figure, axes = subplots(height=3.1)
    for (count, of), style in zip(share.items(), (":", "-", "--"), strict=True):
        color = look("mhc")["color"] if count == 20 else "black"
        axes.plot(spreads, 100 * np.array(of), style, color=color, linewidth=1.6)
        label_line(axes, spreads[-1], 100 * of[-1], f"{count} iterations", color=color)
    axes.set(xlabel="spread of the logits", ylabel="matrices (%)", xlim=(0, 1.45 * spreads[-1]),
             ylim=(-3, 103), xticks=range(0, int(spreads[-1]) + 1, 2),
             title="A column sum is off by more than a hundredth")
    return show(figure, "The share of random matrices with a column sum that is off by more than a "
                        "hundredth, against the spread of their logits. It rises with the spread, "
                        "and later the more iterations are made.",
                caption="400 random matrices of four rows for each spread.")


def stacks(curves: Mapping[str, Sequence[float]], reported: float) -> HTML:
    """The largest column sum of stacks by depth: name -> (depth,)."""
    figure, axes = subplots(height=3.2)
    depth = len(next(iter(curves.values())))
    for height, said, place in ((4, "ceiling: 4", (1, 4)), (1, "exact: 1", (1, -12)),
                                (reported, f"reported for mHC: {reported}", (90, 4))):
        axes.plot([0, depth], [height, height], color=QUIET, linewidth=1)
        axes.annotate(said, (1, height), xytext=place, textcoords="offset points", fontsize=9,
                      color=WORDS)
    for (name, curve), color, style in zip(curves.items(), ("black", look("mhc")["color"], SECOND),
                                           (":", "-", "--"), strict=True):
        axes.plot(np.arange(1, depth + 1), curve, style, color=color)
        label_line(axes, depth, float(curve[-1]), f"{name}: {curve[-1]:.2f}", color=color)
    axes.set(xlabel="layers", ylabel="largest column sum", xlim=(0, 1.4 * depth), ylim=(0.4, 4.5),
             xticks=range(0, depth + 1, 20), yticks=[1, 2, 3, 4],
             title="Stacks of layers, logits of spread 6")
    return show(figure, "The largest column sum of a stack against its depth, for logits of spread "
                        "6, in the ninetieth percentile of 400 stacks. Rows alone come close to "
                        "the ceiling of 4. With a new matrix of 20 iterations in each layer it "
                        "stays close to 1. With one matrix repeated it grows.",
                caption="Nine of ten stacks lie below each curve. Rows only: a new softmax in each "
                        "layer. Fresh: a new matrix of 20 iterations in each layer. Repeated: one "
                        "such matrix in all layers.")


def trained(steps: Sequence[int], gains: np.ndarray) -> HTML:
    """The backward gain of networks while they learn: (networks, steps)."""
    figure, axes = subplots(height=2.8)
    for run in gains:
        axes.plot(steps, run, color=look("mhc")["color"], linewidth=1.2)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set(xlabel="steps of training", ylabel="backward gain", ylim=(0.95, gains.max() + 0.05),
             title="Trained mHC, all sublayers together")
    return show(figure, "The backward gain of several mHC networks against the steps of training. "
                        "It starts at 1 in each of them, rises, and stays above 1.",
                caption="Each line is one network, with a seed of its own. Black: exact matrices.")


def leaving(biases: Sequence[float], steps: Mapping[str, np.ndarray]) -> HTML:
    """Steps that optimisers need to leave the identity: name -> (runs, biases)."""
    figure, axes = subplots(height=3)
    for (name, needed), color, style, marker in zip(steps.items(), (ACCENT, SECOND), ("-", "--"),
                                                    "os", strict=True):
        for run in needed:
            axes.plot(biases, run, style, color=color, marker=marker, markersize=4, linewidth=1.3)
        label_line(axes, biases[-1], needed[:, -1].mean(), name, color=color)
    axes.set(xlabel="bias on the diagonal at the start", ylabel="steps", yscale="log",
             xlim=(-0.2, biases[-1] + 1.4), xticks=biases, title="From the identity to a shift")
    axes.minorticks_off()
    return show(figure, "Steps needed against the bias at the start, for each run. Gradient "
                        "descent needs about twice as many steps for each further unit of bias. "
                        "Adam needs a few more.",
                caption="How long it takes to leave a corner, on a logarithmic axis.")


def two_slices(squares, pairs) -> HTML:
    """Curves in two flat slices of the members, as weights of the slices' three corners: (k, 3)."""
    corners = np.array([[0, 0], [2, 0], [1, 3**0.5]])
    figure, both = subplots(1, 2, height=2.9)
    for axes, weights, color, said, names, title in (
            (both[0], squares, SECOND, ("squares, s = 1", (1, 0.35)),
             ("stay", "shift", "shift twice"), "three streams"),
            (both[1], pairs, ACCENT, ("Kronecker", (0.86, 0.6)),
             ("stay", "half of\neach swap", "both swaps"), "four streams")):
        axes.fill(*corners.T, facecolor="#e8f1f7", edgecolor="black", linewidth=1, zorder=0)
        axes.plot(*(np.asarray(weights) @ corners).T, color=color, linewidth=2)
        axes.text(*said[1], said[0], color=color, fontsize=9, ha="center")
        for (x, y), name, low in zip(corners, names, (True, True, False), strict=True):
            axes.text(x, y - 0.1 if low else y + 0.08, name, ha="center",
                      va="top" if low else "bottom", fontsize=9)
        axes.set(aspect="equal", title=title, xlim=(-0.4, 2.4), ylim=(-0.5, 2.1))
        axes.set_axis_off()
    return show(figure, "Two triangles. In the first, of mixtures of the three shifts of three "
                        "streams, the squares of orthogonal matrices are a curve with three cusps "
                        "at the corners. In the second, Kronecker products of four streams are a "
                        "curve from corner to corner.",
                caption="Mixtures of permutations, and Sinkhorn's iteration in the limit, reach "
                        "the whole inside of both triangles. Circulant mixtures reach the inside "
                        "of the left one, and of the right one only its left corner.")
