"""The figures of the page Going further.

Čech against μ, loops against those of noise, heat, the order of sublayers, memories, and the F
under additions.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from IPython.display import HTML
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from torch import Tensor

from geolab.probes import effective_rank
from geolab.show.figures import ACCENT, QUIET, SECOND, label_line, look, show, subplots
from geolab.show.letter import F as LETTER
from geolab.show.letter import draw_letter
from notebooks.figures import ch13
from notebooks.figures.ch16 import ROWS, kind, mark, names_below, ours
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


KINDS = {"transformer": "additive", "lite": "gt-lite", "full": "gt-full", "moe": "gt-moe"}


def energy_on_the_way() -> HTML:
    """The energy of attention and MLP while the blocks of chapter 13 train."""
    figure, panels = subplots(1, 2, height=3.3, sharey=True)
    at = [0, *runs_of("geometric", "transformer, pre")[0]["evaluated_at"]]
    for axes, where in zip(panels, ("pre", "post"), strict=True):
        for name, shown in KINDS.items():
            way = [np.log([step[1:] for step in run["measured"]["energy on the way"]]).mean(1)
                   for run in runs_of("geometric", f"{name}, {where}")]
            axes.plot(at, np.exp(np.mean(way, axis=0)), **look(shown) | {"linewidth": 1.6},
                      label=name, markersize=4)
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
        caption="The energy of attention and MLP (in moe, its experts) while the networks train, "
                "after the first block. Geometric means of sixteen seeds.")


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
    figure, panels = subplots(1, 2, height=2.9, sharey=True)
    for axes, where in zip(panels, ("pre", "post"), strict=True):
        for k, name in enumerate(("transformer", "lite", "full")):
            for when, shift, color in (("untrained", -0.19, "#cccccc"), ("measured", 0.19, ACCENT)):
                bars(axes, k + shift, scores(f"{name}, {where}", when), 0.34, color)
        axes.axhline(1, color="black", linewidth=1, linestyle=":")
        axes.set(title=f"{where.capitalize()}-LN", ylim=(0, 1.65), yticks=[0, 0.5, 1],
                 xticks=range(3), xticklabels=("transformer", "lite", "full"))
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


def additions(x: complex | np.ndarray, layers: int) -> np.ndarray:
    """Half a turn by Euler steps: the points after 0, ..., layers additions of π/layers · i x."""
    path = [x]
    for _ in range(layers):
        path.append(path[-1] + np.pi / layers * 1j * path[-1])
    return np.array(path)


def draw_additions(layers: int) -> Figure:
    """Each addition leaves the circle along its tangent, so the F lands too far out and too large. More layers land it closer."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, axes = subplots(height=3.8)
    letter, around = 0.8 * LETTER @ [1, 1j] + 1, np.exp(1j * np.linspace(0, 2 * np.pi, 49))
    field = np.array([a + 1j * b for a in range(-3, 2) for b in range(-1, 3) if a or b])
    axes.plot(around.real, around.imag, "--", color="#777777", linewidth=0.8)
    axes.quiver(field.real, field.imag, -field.imag, field.real, color="#cccccc", angles="xy",
                scale_units="xy", scale=5, width=0.006)
    way = additions(letter, layers)
    for k in np.linspace(0, layers, 6).astype(int)[1:-1]:
        axes.fill(way[k].real, way[k].imag, fill=False, edgecolor=ACCENT, linewidth=0.7)
    axes.fill(letter.real, letter.imag, color=QUIET)
    axes.fill(way[-1].real, way[-1].imag, color=ACCENT)
    axes.fill(-letter.real, -letter.imag, fill=False, linestyle="--", linewidth=1.3)
    axes.text(1.9, 2.3, f"its centre is off by {abs(additions(1 + 0j, layers)[-1] + 1):.2f}",
              ha="right")
    axes.set(xlim=(-3.6, 2), ylim=(-1.5, 2.7), aspect="equal", title=f"{layers} additions")
    return figure


def undone() -> HTML:
    """An F, the F bent by a layer of slope 0.8, and guesses of it after calls of the branch."""
    swirl = np.array([[0.3, -1], [1, 0.3]]) / np.hypot(1, 0.3)
    guess, guesses = np.zeros_like(LETTER), []
    bent = LETTER + 0.8 / 4 * np.tanh(4 * LETTER) @ swirl.T
    for _ in range(9):
        guess = bent - 0.8 / 4 * np.tanh(4 * guess) @ swirl.T
        guesses.append(guess)
    figure, axes = subplots(height=1.6)
    for place, (name, points) in enumerate((("x", LETTER), ("T(x)", bent), *(
            (f"{calls} calls", guesses[calls - 1]) for calls in (2, 4, 9)))):
        axes.fill(*(points + (1.4 * place, 0)).T, facecolor=ACCENT if place else QUIET,
                  alpha=1 if place < 2 else 0.7)
        axes.text(1.4 * place, -0.95, name, ha="center")
    axes.set(aspect="equal", xlim=(-0.7, 6.3), ylim=(-1.1, 0.9))
    axes.set_axis_off()
    return show(figure, "A letter F, the F bent by a layer, and guesses of the F from the bent "
                        "one. The last guess looks like the first F.",
                caption="Grey: the input. Then the output of the layer, and the guesses of the "
                        "input after some calls of the branch, whose slope is 0.8.")


@cache
def moved_cloud() -> tuple[np.ndarray, np.ndarray]:
    """64 random tokens that move away by 0, 0.5, ..., 10 lengths of a token.

    Returns these distances and the effective ranks, as in the paper and centred: (21,), (2, 21).
    """
    generator, moved = torch.Generator().manual_seed(3), np.linspace(0, 10, 21)
    tokens, step = (torch.randn(*size, generator=generator).double() for size in ((64, 64), (64,)))
    return moved, np.array([[effective_rank(tokens + far * step, center=center).item()
                             for far in moved] for center in (False, True)])


def draw_cloud(far: float) -> Figure:
    """A cloud of tokens moves away from the origin. Its effective rank falls although its shape stays the same. The centred rank doesn't change."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, (above, axes) = subplots(2, height=4.4, sharex=True, height_ratios=(1, 1.6))
    draws = torch.randn(12, 2, generator=torch.Generator().manual_seed(5)).double()
    above.plot([0, far], [0, 0], color="#aaaaaa", linewidth=1.3)
    above.plot(*(3 * torch.linalg.qr(draws)[0].numpy() + (far, 0)).T, ".", color=ACCENT)
    above.plot(0, 0, "k+", markersize=9)
    above.set(ylim=(-2, 2), yticks=[], title="the tokens, seen from the origin (+)")
    moved, (raw, centred) = moved_cloud()
    k = int(abs(moved - far).argmin())
    for scores, color, style, name, shift in ((centred, SECOND, "--", "centred", 0.03),
                                              (raw, ACCENT, "-", "as in the paper", -0.09)):
        axes.plot(moved[:k + 1], scores[:k + 1], color=color, linestyle=style)
        axes.plot(far, scores[k], "o", color=color)
        axes.text(far + 0.3, scores[k] + shift, f"{scores[k]:.2f} {name}", color=color)
    axes.set(xlim=(-1.6, 16.5), ylim=(0, 1), ylabel="effective rank", xticks=range(0, 11, 2),
             xlabel="how far the cloud is, in lengths of a token")
    return figure
