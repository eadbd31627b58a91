"""The figures of the page Going further: Čech against μ, loops, heat, and memories."""

from collections.abc import Callable

import numpy as np
import torch
from IPython.display import HTML
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from torch import Tensor

from geolab.show.figures import ACCENT, QUIET, SECOND, label_line, look, show, subplots
from geolab.show.letter import F as LETTER
from geolab.show.letter import draw_letter
from notebooks.figures.ch16 import ROWS, kind, mark, names_below, ours


def line(h: Tensor, start: int, window: int) -> Tensor:
    """The best straight line on one window of (T,), by least squares: (window,)."""
    t = torch.arange(start, start + window).to(h)
    powers = torch.stack([torch.ones_like(t), t], dim=1)
    return powers @ torch.linalg.lstsq(powers, h[start:start + window]).solution


def two_lines(cards: Tensor) -> HTML:
    """The best lines through the first four and the last four of six cards."""
    figure, axes = subplots(height=2.4)
    axes.fill_between([2, 3], [2, 3], [2, 2], color="#f3c99b", linewidth=0)
    axes.plot(range(6), cards, "o", color="#555555", markersize=5)
    for start, color in ((0, ACCENT), (2, SECOND)):
        axes.plot([start, start + 3], line(cards, start, 4)[[0, -1]], color=color, linewidth=2)
    axes.set(xlabel="house", ylabel="degrees", xticks=range(6), yticks=range(4))
    return show(figure, "Six dots. The best line through the first four rises from 0 to 3, and the "
                        "best line through the last four is flat at 2.",
                caption="Dots: the cards. Lines: the best line of each window of four houses. "
                        "Shaded: they differ at one of two shared houses.")


def marks(axes: Axes, at: Callable[[str], tuple[np.ndarray, np.ndarray]]) -> None:
    """One mark per row: the means over seeds of the two numbers at(row), with bars of one
    standard deviation."""
    bars = []
    for row in ROWS:
        (x, dx), (y, dy) = ((v.mean(), v.std(ddof=1)) for v in at(row))
        bars += [(x - dx, y), (x + dx, y), (np.nan, 0), (x, y - dy), (x, y + dy), (np.nan, 0)]
        axes.plot(x, y, **mark(row), label=kind(row))
    axes.plot(*np.array(bars).T, color=QUIET, linewidth=0.9, zorder=1)


def cech_and_mean(curve: Callable[[float], float]) -> HTML:
    """The Čech residual of eight networks against μ, and the curve for a random order."""
    figure, panels = subplots(1, 2, height=3.5)
    mu = np.linspace(0, 1, 60)
    for axes, limits, title in zip(panels, ((-0.02, 1, 0, 0.63), (0.36, 0.64, 0.19, 0.31)),
                                   ("whole scale", "enlarged"), strict=True):
        axes.plot(mu, [curve(each) for each in mu], color="#888888", linewidth=1.3)
        marks(axes, lambda row: (ours(row, "share of the mean"), ours(row, "Čech")))
        axes.set(xlim=limits[:2], ylim=limits[2:], xlabel="share of the mean, μ", ylabel="Čech",
                 title=title)
        axes.locator_params(nbins=4)
    panels[0].plot(0, curve(0), "k*", markersize=9, clip_on=False)
    panels[0].text(0.05, curve(0), "noise", va="bottom", fontsize=9)
    names_below(figure, panels[0])
    return show(figure, "The Čech residual against the share of the mean, for eight networks: all "
                        "marks lie near a curve that starts at noise and falls to zero.",
                caption="Grey: what μ alone gives in a random order. Marks: our networks after 300 "
                        "steps, in the order of the text. Bars: one standard deviation over seeds.")


def draw_hexagon(r: float) -> Figure:
    """Six points. At r = 1 the sides of a hexagon appear, at 1.73 the connections over one corner, and triangles fill it. At 2 the long diagonals follow."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, axes = subplots(height=3.4)
    angle = 2 * np.pi * np.arange(6) / 6
    points = np.stack([np.cos(angle), np.sin(angle)], 1)
    near = np.linalg.norm(points[:, None] - points, axis=2) <= r + 1e-9
    for a in range(6):
        for b in range(a):
            if near[a, b]:
                axes.plot(*points[[a, b]].T, color="black", linewidth=1.3)
                for c in range(b):
                    if near[a, c] and near[b, c]:
                        axes.fill(*points[[a, b, c]].T, color=ACCENT, alpha=0.15)
        axes.add_patch(Circle(tuple(points[a]), r / 2, fill=False, edgecolor="#8c8c8c",
                              linewidth=0.9))
    axes.plot(*points.T, "o", color="black", markersize=6)
    axes.set(aspect="equal", xlim=(-2.1, 2.1), ylim=(-1.9, 1.9), xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    return figure


def loops_and_noise() -> HTML:
    """Total persistence of eight networks against that of noise with the same covariance."""
    figure, axes = subplots(height=4.1)
    axes.plot([0, 1.5], [0, 1.5], color=QUIET, linewidth=1)
    axes.text(0.72, 0.78, "as much as noise", ha="right", fontsize=9)
    marks(axes, lambda row: (ours(row, "H₁, noise"), ours(row, "H₁")))
    axes.set(xlim=(0, 1.5), ylim=(0, 1.5), aspect="equal", xticks=(0, 0.5, 1, 1.5),
             yticks=(0, 0.5, 1, 1.5), xlabel="total persistence of the noise",
             ylabel="of the network")
    names_below(figure, axes)
    return show(figure, "Total persistence of the states of eight networks against that of noise "
                        "with the same covariance: all eight marks lie below the diagonal.",
                caption="Our eight networks after 300 steps: means and standard deviations of "
                        "sixteen seeds.")


def _outline() -> Tensor:
    """Points along the outline of the letter F, about 0.08 apart: (n, 2)."""
    sides = zip(LETTER, np.roll(LETTER, -1, axis=0), strict=True)
    return torch.from_numpy(np.concatenate([
        np.linspace(p, q, 1 + round(np.hypot(*(q - p)) / 0.08), endpoint=False)
        for p, q in sides]))


OUTLINE = _outline()
RING = 2 * torch.eye(len(OUTLINE), dtype=torch.float64) - sum(
    torch.eye(len(OUTLINE), dtype=torch.float64).roll(k, dims=0) for k in (1, -1))


def draw_heat(tau: float) -> Figure:
    """The outline of an F flows towards its neighbours. The corners get round first, then the arms shrink, and at last little more than an oval remains."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, axes = subplots(height=3.2)
    draw_letter(axes, color="#bbbbbb")
    flowed = torch.matrix_exp(-tau * RING) @ OUTLINE
    axes.plot(*torch.cat([flowed, flowed[:1]]).T, color=ACCENT, linewidth=2.5)
    axes.set(aspect="equal", xlim=(-0.8, 0.8), ylim=(-0.62, 0.62), xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    return figure


def written_once(counts: list[int], mean: dict[str, list[float]]) -> HTML:
    """Mean errors of four memories, each pair written once: name -> one number for each count."""
    figure, axes = subplots(height=3.6)
    last = counts[-1]
    for level, said, style in ((0, "least squares", look("floor") | {"marker": None}),
                               (1, "empty memory", dict(color=QUIET, linewidth=1))):
        axes.plot([counts[0], last], [level, level], **style)
        label_line(axes, last + 0.3, level, said)
    for name, like, said, style in (
            ("additive", "additive", "additive", {}),
            ("scaled", "additive", "additive,\nbest factor", {"marker": "v", "linestyle": ":"}),
            ("delta", "delta", "delta, once", {}),
            ("ten passes", "delta", "delta,\nten passes",
             {"linestyle": "-", "markerfacecolor": "white"})):
        axes.plot(counts, mean[name], **look(like) | style, markersize=5)
        label_line(axes, last + 0.3, mean[name][-1], said, color=look(like)["color"])
    axes.set(xlabel="pairs stored (keys have 16 features)", ylabel="relative squared error",
             xlim=(0, last + 5.5), ylim=(-0.08, 1.15), xticks=counts,
             title="Each pair is written once")
    return show(figure, "Retrieval error against the number of stored pairs. The delta memory "
                        "written once lies below the plain sum and close to the sum with its best "
                        "factor. With ten passes it is lower still.",
                caption="The error of what a memory answers, relative to the size of the values: "
                        "means over random keys and values.")
