"""The figures of Going further: the Geometric Transformer.

Čech against μ, loops against those of noise, heat, and the order of sublayers.
"""

from collections.abc import Callable

import numpy as np
import torch
from IPython.display import HTML
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from torch import Tensor

from geolab.show.figures import ACCENT, QUIET, SECOND, look, show, subplots
from geolab.show.letter import F as LETTER
from geolab.show.letter import draw_letter
from notebooks.figures import ch13
from notebooks.figures.ch16 import ROWS, kind, mark, names_below, ours
from notebooks.figures.further_12 import KINDS
from studies.engine.results import interval


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
    near = np.linalg.norm(points[:, None] - points, axis=2) < r + 0.005   # 1.73 stands for √3
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


def heat() -> HTML:
    """The outline of an F after the flow, at six times."""
    figure, panels = subplots(2, 3, height=3.6)
    for axes, tau in zip(panels.flat, (0, 1, 4, 12, 25, 50), strict=True):
        draw_letter(axes, color="#bbbbbb")
        flowed = torch.matrix_exp(-tau * RING) @ OUTLINE
        axes.plot(*torch.cat([flowed, flowed[:1]]).T, color=ACCENT, linewidth=2)
        axes.set(aspect="equal", xlim=(-0.5, 0.5), ylim=(-0.6, 0.6), xticks=[], yticks=[],
                 title=f"τ = {tau}")
        axes.spines[:].set_visible(False)
    return show(figure, "The outline of an F flows towards its neighbours, at six times. The "
                        "corners get round first, then the arms shrink, and at last little more "
                        "than an oval remains.",
                caption="Grey: the F. Blue: its outline, a closed chain of points, after the flow.")


def energy_on_the_way() -> HTML:
    """The energy of attention and MLP while the blocks of chapter 13 train."""
    figure, panels = subplots(1, 2, height=3.3, sharey=True)
    at = [0, *runs_of("geometric", "transformer, pre")[0]["evaluated_at"]]
    for axes, where in zip(panels, ("pre", "post"), strict=True):
        for name, (said, shown) in KINDS.items():
            way = [np.log([step[1:] for step in run["measured"]["energy on the way"]]).mean(1)
                   for run in runs_of("geometric", f"{name}, {where}")]
            axes.plot(at, np.exp(np.mean(way, axis=0)), **look(shown) | {"linewidth": 1.6},
                      label=said, markersize=4)
        axes.set(title=f"{where.capitalize()}-LN", xlabel="step", xticks=[0, 150, 300],
                 yscale="log", xlim=(-10, 310))
        axes.minorticks_off()
    panels[0].set(ylabel="energy of attention and MLP", ylim=(4e-4, 0.7))
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return show(
        figure, "Energy of attention and MLP during training, on a logarithmic axis. With Pre-LN "
        "all kinds fall by two powers of ten and rise a little later, and GT-Full ends lowest. "
        "With Post-LN all kinds start alike and rise at once. Then the Transformer and the mixture "
        "rise on, GT-Lite stays a little lower, and GT-Full falls.",
        caption="The energy of attention and MLP (in GT-MoE, its experts) while the networks "
                "train, after the first block. Geometric means of sixteen seeds.")


def runs_of(part: str, model: str) -> list[dict]:
    """The stored runs of a model of chapter 13."""
    return [run for run in ch13.STORED[part]["runs"] if run["model"] == model]


def bars(axes: Axes, x: float, values: np.ndarray, width: float, color: str,
         scale: Callable[[float], float] = float) -> None:
    """A bar for the mean of values, its 95 % interval, and the mean in numbers."""
    mean, half = interval(values)
    axes.bar(x, scale(mean), width, color=color)
    axes.plot([x, x], [scale(mean - half), scale(mean + half)], color="black", linewidth=1.5)
    axes.text(x, scale(mean + half) + 0.03, f"{scale(mean):.2f}", ha="center", va="bottom",
              fontsize=9, bbox=dict(facecolor="white", edgecolor="none", pad=0.4))


def parts_of_energy(change: dict[str, np.ndarray]) -> HTML:
    """The logarithms of three quotients, name -> (seeds,): an energy and its two factors."""
    figure, axes = subplots(height=3.0)
    for x, values in enumerate(change.values()):
        bars(axes, x, values, 0.6, ACCENT if x else QUIET, lambda log: float(np.exp(log)))
    for x, sign in ((0.5, "="), (1.5, "×")):
        axes.text(x, 0.3, sign, ha="center", va="center", fontsize=15)
    axes.axhline(1, color="black", linewidth=1, linestyle=":")
    axes.set(ylim=(0, 1.45), yticks=[0, 0.5, 1], ylabel="GT-Full / Transformer",
             title="attention and MLP, Post-LN", xticks=range(len(change)), xticklabels=change)
    axes.grid(visible=False)
    return show(figure, "GT-Full divided by the Transformer, with Post-LN. Energy and size are far "
                        "below one, and the asymmetry is about one.",
                caption="GT-Full beside the Transformer, over blocks 2 and 3 (block 1 reads the "
                        "bare embedding). Dotted: both alike. The energy is the product of the two "
                        "blue bars. Geometric means of sixteen seeds, with 95 % intervals.")


def beside_chance(scores: Callable[[str, str], np.ndarray]) -> HTML:
    """Bars of scores(model, when), for three kinds of block with both norms."""
    three = ("transformer", "lite", "full")
    figure, panels = subplots(1, 2, height=2.9, sharey=True)
    for axes, where in zip(panels, ("pre", "post"), strict=True):
        for k, name in enumerate(three):
            for when, shift, color in (("untrained", -0.19, "#cccccc"), ("measured", 0.19, ACCENT)):
                bars(axes, k + shift, scores(f"{name}, {where}", when), 0.34, color)
        axes.axhline(1, color="black", linewidth=1, linestyle=":")
        axes.set(title=f"{where.capitalize()}-LN", ylim=(0, 1.65), yticks=[0, 0.5, 1],
                 xticks=range(3), xticklabels=[KINDS[name][0] for name in three])
        axes.grid(visible=False)
        axes.tick_params(axis="x", labelsize=9)
    panels[0].set_ylabel("gap / chance")
    return show(figure, "The score of attention and MLP before and after training. With Pre-LN all "
                        "three kinds start at 1 and end above it. With Post-LN all three start "
                        "below 1, the Transformer ends at about 1, and the other two stay below.",
                caption="The score of attention and MLP, before training (grey) and after it "
                        "(blue), over all blocks but the first. Means of sixteen seeds, with 95 % "
                        "intervals. Dotted: chance.")


NAMED = {"additive": ("plain sum", ACCENT, "-o"), "mhc": ("mHC", SECOND, "-s"),
         "delta": ("delta", "black", "--^"), "hyper": ("hyper", "#777777", ":D")}


def residual_swaps(cost: dict[str, np.ndarray]) -> HTML:
    """The rise of the loss by a swap of neighbours, residual -> (seeds, 5 pairs)."""
    figure, axes = subplots(height=3.4)
    for name, rises in sorted(cost.items(), key=lambda item: item[0] in NAMED):
        said, color, style = NAMED.get(name, (None, "#bbbbbb", "-"))
        axes.plot(range(1, 6), rises.mean(0), style, color=color, label=said, markersize=5,
                  linewidth=2 if said else 1.2)
    axes.plot([], [], color="#bbbbbb", label=f"{len(cost) - len(NAMED)} others")
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set(xlim=(0.8, 5.2), ylim=(-0.08, 0.75), yticks=[0, 0.25, 0.5], xticks=range(1, 6),
             xticklabels=ch13.PAIRS, xlabel="the sublayers that change places",
             ylabel="rise of the loss, nats")
    axes.grid(axis="x", visible=False)
    axes.legend(loc="upper right", fontsize=9)
    return show(figure, "The rise of the loss over five pairs of neighbouring sublayers, for "
                        "eleven residuals. The first and the second pair cost up to half a nat, "
                        "each line in its own way. From the third pair on all lines lie near zero, "
                        "but for that of delta.",
                caption="Two neighbouring sublayers change places. One line per residual, the mean "
                        "of eight seeds. Post-LN and the model that reads the future are left out.")
