"""The figures of chapter 1: the letter F in stacks of layers, the norm, and tokens that grow alike.

`turn(z)` is the matrix that multiplies the plane by the complex number z. K is the direction that a
branch of most pictures takes away. LOOKS has the look of each of the three stacks.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from IPython.display import HTML
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import layer_norm

from geolab.show.figures import ACCENT, QUIET, SECOND, label_line, look, plane, show, subplots
from geolab.show.letter import F as LETTER
from geolab.show.letter import draw_depth, draw_letter
from geolab.show.schematic import BOXED, LINE, OPERATOR, SUBLAYER, arrow, canvas, path, plus
from studies.engine import results

K = np.array([0.8, 0.6])
LOOKS = {"Pre-LN": look("additive"), "Post-LN": look("post-LN"), "no residual": look("no residual")}
PLAIN, GREY = BOXED | dict(fontsize=12), SUBLAYER | dict(fontsize=12, weight="normal")


def turn(z: complex) -> np.ndarray:
    """The matrix of w ↦ z w on the plane: (2, 2)."""
    return np.array([[z.real, -z.imag], [z.imag, z.real]])


def dots(axes: Axes, points: np.ndarray, size: float = 5) -> None:
    """Points (n, 2) as one path of strokes without length, which takes less text than markers."""
    strokes = np.stack([points, points, np.full_like(points, np.nan)], 1).reshape(-1, 2)
    axes.plot(*strokes.T, color=ACCENT, linewidth=size, solid_capstyle="round")


def framed(axes: Axes, **limits) -> None:
    """A frame without ticks, with equal scales."""
    axes.set(xticks=[], yticks=[], aspect="equal", **limits)
    axes.spines[:].set_visible(True)


def log_ticks(axes: Axes, values: Sequence[float], on: str = "y") -> None:
    """A logarithmic axis with labels at these values only."""
    axis = axes.yaxis if on == "y" else axes.xaxis
    axes.set(**{f"{on}scale": "log"})
    axis.set_ticks(values, [f"{value:g}" for value in values])
    axis.set_ticks([], minor=True)


def objections() -> HTML:
    """An F and the flat F, an F and the F upside down, a cloud of tokens and a clump."""
    figure, panels = subplots(1, 3, height=1.6)
    draws = torch.randn(24, 2, generator=torch.Generator().manual_seed(5)).double()
    cloud = torch.linalg.qr(draws)[0].numpy()
    for axes, name in zip(panels, ("It can't erase", "It can't reverse", "Tokens grow alike"),
                          strict=True):
        framed(axes, title=name, xlim=(-1.3, 1.3), ylim=(-0.9, 1))
        arrow(axes, (-0.2, 0.05), (0.22, 0.05), arrowstyle="->")
    for axes, made in ((panels[0], np.eye(2) - np.outer(K, K)), (panels[1], -np.eye(2))):
        draw_letter(axes, at=(-0.65, 0.05), color="#aaaaaa")
        draw_letter(axes, made, at=(0.65, 0.05), ghost=False)
    dots(panels[2], cloud + (-0.7, 0.05), size=3)
    dots(panels[2], 0.15 * cloud + (0.65, 0.05), size=3)
    return show(figure, "Three panels, one for each objection. An F, and an F squeezed to a line. "
                        "An F, and the F upside down. A cloud of tokens, and a small clump.",
                caption="What an addition can't do, according to the objections (left, middle), "
                        "and what it lets happen (right).")


def plain_and_residual() -> HTML:
    """A stack that replaces the state in each layer, and one that adds to it."""
    figure, axes = canvas(2.6, layout="constrained")
    for y, name in ((4, "a plain stack"), (0.7, "a residual stack: the state runs through")):
        axes.text(0.1, y + (0.8 if y > 2 else 2.2), name, fontsize=11)
        path(axes, (0.7, y), (9.3, y))
        axes.text(0.3, y, "$x_0$", va="center", fontsize=12)
        axes.text(9.5, y, "$x_3$", va="center", fontsize=12)
    for k, x in enumerate((2, 4.8, 7.6), start=1):
        axes.text(x, 4, f"$F_{k}$", **GREY)
        axes.plot(*np.transpose([(x - 0.8, 0.7), (x - 0.8, 1.8), (x + 0.8, 1.8), (x + 0.8, 0.7)]),
                  zorder=1, **LINE)
        axes.plot(x - 0.8, 0.7, "ko", markersize=5)
        plus(axes, x + 0.8, 0.7, cross=8)
        axes.text(x, 1.8, f"$F_{k}$", **GREY)
    return show(figure, "Above, a plain stack: the state goes through three boxes F. Below, "
                        "a residual stack: the state runs straight through, each box F reads it, "
                        "and a plus adds what F returns.",
                caption="In a plain stack each layer replaces the state. In a residual stack each "
                        "layer reads the state (•) and adds to it (⊕).")


def through_stacks(stacks: Mapping[str, np.ndarray], layers: Sequence[int]) -> HTML:
    """The F after some numbers of layers; layer l of a stack multiplies the plane by factors[l]."""
    figure, rows = canvas(2.9, rows=2, xlim=(-1.7, 8.6))
    for axes, (name, factors) in zip(rows, stacks.items(), strict=True):
        for place, count in enumerate(layers):
            passed, at = factors[:count].prod(), (1.25 * place, 0)
            draw_letter(axes, turn(passed), at=at, color=ACCENT if count else QUIET, ghost=False)
            axes.text(at[0], -1.05, f"{abs(passed):.2g}", ha="center", fontsize=9)
            if axes is rows[0]:
                axes.text(at[0], 0.95, f"{count} layers" if place == 1 and count > 1 else count,
                          ha="center", fontsize=10)
        axes.text(-1.65, 0, name, va="center", fontsize=10)
        axes.text(-1.65, -1.05, "size", fontsize=9)
        axes.set(ylim=(-1.25, 1.25), aspect="equal")
    rows[0].text(-1.65, 0.95, "layers", fontsize=10)
    return show(figure, "The F after several numbers of layers. In the plain stack it shrinks to "
                        "a dot at once. In the residual stack it turns, and stays about "
                        "as large as it was.",
                caption="One F through two stacks with the same branches. Grey: the input. Below "
                        "each F: its size.")


def draw_branches(eps: float) -> Figure:
    """Along one direction the F is squeezed. At slope 1 it is flat, and at slope 2 it is mirrored. A branch of the same slope at a right angle to x turns the F and makes it larger, and never flattens it."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, axes = subplots(1, 2, height=2.7)
    for ax, (name, branch) in zip(axes, (("along one direction k", -np.outer(K, K)),
                                         ("at a right angle to x", turn(1j))), strict=True):
        draw_letter(ax, np.eye(2) + eps * branch)
        framed(ax, title=name, xlim=(-1.65, 1.25), ylim=(-1.45, 1.45))
    arrow(axes[0], 0.7 * K, 1.2 * K, arrowstyle="->")
    axes[0].text(*1.03 * K + (-0.12, 0.1), "k", fontsize=12, style="italic")
    return figure


def lifted() -> HTML:
    """An F on a sheet of paper, turned about an axis in the sheet by 45° at a time."""
    def seen(a, b, up):
        """A point (a, b) of the sheet and its height, as the eye sees it from above, at a slant."""
        return a + 0.42 * b, 0.8 * b + 0.8 * up

    figure, axes = subplots(height=1.3)
    across, along = LETTER.T
    for k in range(5):
        at, angle = 1.7 * k, k * np.pi / 4
        x, y = seen(np.array([-0.5, 0.5, 0.5, -0.5]), np.array([-0.65, -0.65, 0.65, 0.65]), 0)
        axes.fill(at + x, y, facecolor="#e8e8e8", edgecolor="#999999", linewidth=0.8)
        x, y = seen(0, np.array([-0.65, 0.65]), 0)
        axes.plot(at + x, y, ":", color="black", linewidth=1)
        x, y = seen(across * np.cos(angle), along, across * np.sin(angle))
        axes.fill(at + x, y, alpha=0.85, linewidth=1, color=ACCENT if k else "#888888")
        axes.text(at - 0.15, -0.85, f"{45 * k}°", ha="center", fontsize=10)
    axes.set(xlim=(-0.85, 7.65), ylim=(-0.95, 0.65), aspect="equal")
    axes.set_axis_off()
    return show(figure, "An F lies in a grey plane, seen at a slant. It turns in four steps of 45 "
                        "degrees about a dotted line in this plane. At 90 degrees it stands "
                        "upright, and at 180 degrees it lies in the plane as its mirror image.",
                caption="The grey sheet is the plane. In each layer the F turns by 45° about the "
                        "dotted line. At 180° it lies in the plane again, mirrored.")


def half_turn_and_mirror() -> HTML:
    """Four equal layers on the way to half a turn, and four on the way to a mirror image."""
    figure, rows = canvas(3.4, rows=2, xlim=(-0.8, 9.2))
    for axes, name, layer, wish in ((rows[0], "half a turn", turn(np.exp(1j * np.pi / 4)),
                                     -np.eye(2)),
                                    (rows[1], "a mirror", np.diag([0.4, 1]), np.diag([-1, 1]))):
        draw_depth(axes, [layer] * 4)
        axes.fill(*(LETTER @ wish + (8, 0)).T, fill=False, linestyle="--", linewidth=1.3)
        dets = [(1.5 * k, np.linalg.det(layer) ** k) for k in range(5)]
        for at, value in (*dets, (8, np.linalg.det(wish))):
            said = f"det {round(value, 2):g}".replace("-", "−")
            axes.text(at, -0.95, said, ha="center", fontsize=10)
        axes.text(8, 0.8, f"wish: {name}", ha="center", fontsize=10)
        axes.set(ylim=(-1.15, 1.05))
    return show(figure, "Above, each layer turns the F by 45 degrees, and after four it stands on "
                        "its head, as wished. Its determinant stays 1. Below, each layer squeezes "
                        "the F, which becomes thinner and thinner. Its determinant stays positive, "
                        "and that of its mirror image is −1.",
                caption="The F before (grey) and after each layer, and the wish (dashed). Above, a "
                        "layer turns by 45°. Below, it squeezes the width to 0.4.")


def draw_norm(distance: float) -> Figure:
    """Layer normalisation sends the plane to a circle. The image of an F of fixed size is an arc, which shrinks as one over the distance of the F."""  # noqa: E501  (the docstring is the figure's alt text)
    e1, e2 = np.array([1, -1, 0]) / np.sqrt(2), np.array([1, 1, -2]) / np.sqrt(6)
    figure, axes = subplots(height=4)
    plane(axes, limit=3.6, unit_circle=False)
    x = distance * np.exp(0.5j) + 0.8 * LETTER @ [1, 1j]
    points = x.real[:, None] * e1 + x.imag[:, None] * e2
    normed = layer_norm(torch.tensor(points), (3,), eps=0).numpy()
    angle = np.unwrap(np.arctan2(normed @ e2, normed @ e1))
    arc = np.sqrt(3) * np.exp(1j * np.linspace(angle.min(), angle.max(), 9))
    around = np.sqrt(3) * np.exp(1j * np.linspace(0, 2 * np.pi, 49))
    axes.plot(around.real, around.imag, color=QUIET, linewidth=1)
    for edge in np.exp(1j * np.array([angle.min(), angle.max()])):
        axes.plot([0, 4 * edge.real], [0, 4 * edge.imag], color="#bbbbbb", linewidth=0.8)
    axes.fill(x.real, x.imag, color=ACCENT)
    axes.plot(arc.real, arc.imag, color=SECOND, linewidth=4)
    axes.plot(0, 0, "+", color="black")
    axes.text(-3.4, 2.35, f"arc {np.sqrt(3) * np.ptp(angle):.2f}", color=SECOND)
    axes.set(xlabel="first axis orthogonal to (1, 1, 1)", ylabel="second axis",
             title=f"An F at distance {distance:.2g}, and its image")
    return figure


def norm_places() -> HTML:
    """One layer of Pre-LN, of Post-LN and of a stack without a residual."""
    figure, axes = canvas(3.8, layout="constrained")
    for y, name in ((5.3, "Pre-LN"), (2.7, "Post-LN"), (0.5, "no residual")):
        axes.text(0.1, y + (0.75 if y < 1 else 1.75), name)
        path(axes, (0.3, y), (9.7, y))
    for y, boxes in ((5.3, ((2.9, "LN"), (5.1, "F"))), (2.7, ((4, "F"),))):
        axes.plot(*np.transpose([(1.6, y), (1.6, y + 1.2), (6.5, y + 1.2), (6.5, y)]), zorder=1,
                  **LINE)
        axes.plot(1.6, y, "ko", markersize=5)
        plus(axes, 6.5, y, cross=8)
        for x, text in boxes:
            axes.text(x, y + 1.2, text, **(GREY if text == "F" else PLAIN))
    axes.text(8.2, 2.7, "LN", **OPERATOR | dict(fontsize=12))
    axes.text(2.9, 0.5, "LN", **PLAIN)
    axes.text(5.1, 0.5, "F", **GREY)
    return show(figure, "One layer of each stack. In Pre-LN the state runs through, and the branch "
                        "normalises a copy of it. In Post-LN the norm stands on the state itself, "
                        "after the plus. Without a residual the state goes through the norm and F.",
                caption="One layer of each of three stacks. In Post-LN the norm (blue) acts on the "
                        "state itself, in every layer.")


def flat(states: Sequence[Tensor], blocks: Sequence[int], count: int = 20) -> list[np.ndarray]:
    """The first tokens on the two main directions of the state, after these blocks: (count, 2)."""
    kept, before = [], 1.0
    for block in blocks:
        X = states[block] / states[block].norm(dim=-1).mean()
        points = (X @ torch.linalg.svd(X, full_matrices=False).Vh[:2].T).numpy()
        # no mirror images between pictures, and the mean on the right
        points = points * np.where((points * before).sum(0) < 0, -1, 1)
        kept.append(points[:count] * np.sign(points[:, 0].sum()) ** np.array([1, 0]))
        before = points
    return kept


def clouds(journeys: Mapping[str, Sequence[Tensor]], spreads: Mapping[str, Sequence[float]],
           blocks: Sequence[int]) -> HTML:
    """Tokens of each stack after these blocks, and their spreads.

    Arguments:
        journeys: stack -> the state (T, D) before the first block and after each.
        spreads: stack -> the spread of each of these states.
    """
    figure, rows = subplots(len(journeys), len(blocks), height=4.3)
    for row, (wiring, states) in zip(rows, journeys.items(), strict=True):
        for axes, block, points in zip(row, blocks, flat(states, blocks), strict=True):
            dots(axes, points, size=3)
            axes.plot(0, 0, "k+", markersize=7)
            framed(axes, xlim=(-1.3, 1.3), ylim=(-1.3, 1.3))
            axes.set_xlabel(f"{spreads[wiring][block]:.2f}", fontsize=10)
            if row is rows[0]:
                axes.set_title(f"{block} blocks" if block else "input", fontsize=10)
        row[0].set_ylabel(wiring, fontsize=10)
    return show(figure, "Tokens of three stacks after several blocks. With Pre-LN they stay a "
                        "cloud through all blocks. With Post-LN they gather at one point. Without "
                        "a residual they do so sooner.",
                caption="20 of the 64 tokens, on the two main directions of the state, seen from "
                        "the origin (+). Each picture is scaled. Below each: the spread of all 64, "
                        "in all directions.")


def real_slopes() -> HTML:
    """The stored slopes of SmolLM2's sixty sublayers at an ordinary word."""
    slope = {name: np.array(values) for name, values in
             results.stored("real")["slopes"]["slope"].items() if name in ("mean", "least", "most")}
    figure, axes = subplots(height=3.2)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.vlines(range(60), slope["least"], slope["most"], color=QUIET, linewidth=1.5)
    for start, said, style in ((0, "attention", dict(color=SECOND, marker="s", mfc="white")),
                               (1, "MLP", dict(color=ACCENT, marker="o"))):
        axes.plot(range(start, 60, 2), slope["mean"][start::2], linestyle="", markersize=4.5,
                  label=said, **style)
    log_ticks(axes, [1, 10, 100])
    axes.set(xlabel="sublayer", ylabel="slope at one word", ylim=(0.2, 1000))
    axes.legend(loc="upper right", ncols=2)
    return show(figure, "The slopes of sixty sublayers of a trained language model, on a "
                        "logarithmic axis. Nearly all marks lie above 1.",
                caption="The slope of each sublayer at one word with the 28 before it. Marks: "
                        "means over 24 windows of text. Lines: from the least to the most.")


def toy_slopes(slopes: Mapping[str, Tensor], sizes: Mapping[str, Tensor]) -> HTML:
    """Of an untrained and a trained stack of eight layers: slopes, and sizes of entering states.

    Arguments:
        slopes: "untrained" and "trained" -> (8,), the largest over the inputs.
        sizes: likewise, the size of the state that the layer receives.
    """
    figure, (above, below) = subplots(2, height=4.6, sharex=True, height_ratios=(1.5, 1))
    for name, style in (("untrained", dict(color="#666666", mfc="white")),
                        ("trained", dict(color="black"))):
        for axes, values in ((above, slopes[name]), (below, sizes[name])):
            for first, marker in ((0, "o"), (1, "s")):
                axes.plot(range(1 + first, 9, 2), values[first::2], marker, markersize=6, **style)
        label_line(below, 8.1, sizes[name][-1], name, style["color"])
    for price, text in ((1, "erasing: 1"), (2, "reversing: 2")):
        above.axhline(price, xmax=0.76, color=SECOND, linewidth=1, linestyle=":")
        above.text(8.4, price, text, color=SECOND, fontsize=10, va="center",
                   bbox=dict(facecolor="white", edgecolor="none", pad=1))
    log_ticks(above, [0.1, 0.3, 1, 3, 10, 30])
    log_ticks(below, [0.01, 0.1, 1])
    above.set(ylabel="slope of the branch", xlim=(0.5, 10.7))
    below.set(ylabel="size entering", xlabel="layer", xticks=range(1, 9), ylim=(0.01, 3))
    return show(figure, "Above: the slope of each layer's branch. In the trained stack the first "
                        "has a slope far above 2, and all others are below 1. In the untrained "
                        "stack nearly all lie above 1. Below: the size of the state that enters "
                        "each layer. It is tiny at the first.",
                caption="Above: the largest slope over eight inputs. Below: the size of the state "
                        "that the layer receives. Hollow: untrained. Circles: attention. Squares: "
                        "MLP. The axes are logarithmic.")


def over_depth(depths: Sequence[int], sizes: Mapping[str, np.ndarray],
               gradients: Mapping[str, np.ndarray]) -> HTML:
    """σ before the last norm, and the gradient of the last MLP, for each stack: (depths,) each."""
    figure, panels = subplots(1, 2, height=3.2)
    guide = np.array([2, 32])
    for axes, values, power, start, place, name in (
            (panels[0], sizes, 1 / 2, 0.9, (18, 1.75), "√L"),
            (panels[1], gradients, -1 / 2, 1.5, (3.3, 0.7), "1/√L")):
        for wiring, curve in values.items():
            axes.plot(depths, curve, **LOOKS[wiring] | dict(linewidth=1.6, marker=None))
        axes.plot(guide, start * (guide / 2) ** power,
                  **look("floor") | dict(linewidth=1.2, marker=None))
        axes.text(*place, name, fontsize=10)
        log_ticks(axes, [2, 4, 8, 16, 32], "x")
        log_ticks(axes, [0.5, 1, 2, 4, 8])
        axes.set(xlabel="blocks L", ylim=(0.3, 9))
    panels[0].set_title("σ before the last norm")
    panels[1].set_title("gradient, last MLP")
    for wiring, places in {"Pre-LN": ((3.2, 3.2), (6.2, 2.4)),
                           "Post-LN": ((2.6, 0.62), (3.5, 6.3))}.items():
        for axes, place in zip(panels, places, strict=True):
            axes.text(*place, wiring, color=LOOKS[wiring]["color"], fontsize=10)
    return show(figure, "Two panels over depth. Left: the size of the state before the last norm "
                        "grows like the square root of the depth in Pre-LN, and stays level in "
                        "Post-LN. Right: the gradient norm of the last MLP falls like one over the "
                        "square root in Pre-LN, and stays level in Post-LN.",
                caption="Untrained stacks of 2 to 32 blocks. Dotted: √L (left) and 1/√L (right).")
