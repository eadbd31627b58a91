"""The figures of chapter 12, and the stored numbers that they show.

Two steps in two orders, and side by side. Beyond the parallel end, the step that goes last adds its
response: a is that of A to the step of B, and b is that of B to the step of A.

    A last    A(B(x)) = x + Δ_A + Δ_B + a
    B last    B(A(x)) = x + Δ_A + Δ_B + b
"""

from collections.abc import Callable, Sequence

import numpy as np
from IPython.display import HTML
from matplotlib.figure import Figure

from geolab.show.figures import ACCENT, QUIET, SECOND, look, show, subplots
from geolab.show.letter import F as LETTER
from geolab.show.schematic import LINE, OPERATOR, arrow, canvas, path, plus
from studies.engine import results

RUNS = results.stored("order")["geometric"]["runs"]
REAL = results.stored("real")["order"]
RING = dict(color="black", marker="o", markerfacecolor="white", linestyle="", zorder=3)


def transformers(norm: str) -> list[dict]:
    """The stored runs of the small Transformers with this norm, "pre" or "post"."""
    return [run for run in RUNS if run["model"] == f"transformer, {norm}"]


def of_blocks(norm: str, what: str, when: str = "measured") -> np.ndarray:
    """The asymmetry or energy of attention and MLP, block by block: (16 seeds, 3 blocks)."""
    return np.array([[block["AF"] for block in run[when]["blocks"][what]]
                     for run in transformers(norm)])


def wirings() -> HTML:
    """The steps "add 1" and "double", in both orders and side by side."""
    figure, axes = canvas(3.55)
    for y, title, boxes, states in (
            (5.9, "One after the other, as in most Transformers", ("add 1", "double"), (3, 4, 8)),
            (3.85, "The other order", ("double", "add 1"), (3, 6, 7))):
        axes.text(0.2, y + 0.8, title, fontsize=11, va="center")
        path(axes, (0.5, y), (9.4, y))
        for x, box in zip((3.2, 6.6), boxes, strict=True):
            axes.text(x, y, box, **OPERATOR)
        for x, number in zip((0.25, 4.9, 9.7), states, strict=True):
            axes.text(x, y + 0.3 * (x == 4.9), number, fontsize=13, ha="center", va="center")
    axes.text(0.2, 2.6, "Side by side, as in PaLM", fontsize=11, va="center")
    path(axes, (0.5, 1.2), (9.4, 1.2))
    for y, box, change in ((2.0, "add 1", "+ 1"), (0.4, "double", "+ 3")):
        axes.plot([1.5, 1.5, 8, 8], [1.2, y, y, 1.2], zorder=1, **LINE)
        axes.text(4.9, y, box, **OPERATOR)
        axes.text(6.9, y + 0.28, change, fontsize=11, ha="center", va="center")
    axes.plot(1.5, 1.2, "ko", markersize=5)
    plus(axes, 8, 1.2)
    for x, number in ((0.25, 3), (9.7, 7)):
        axes.text(x, 1.2, number, fontsize=13, ha="center", va="center")
    return show(figure, "Three wirings of the steps add 1 and double. Adding first takes 3 to 4 "
                        "and to 8. Doubling first takes 3 to 6 and to 7. Side by side both read 3, "
                        "add 1 and 3, and give 7.",
                caption="The same two steps, wired in three ways. Numbers without a sign are the "
                        "state. Side by side each box gives only what it adds.")


def triangle(responses: Sequence[tuple]) -> HTML:
    """The ends of three wirings, to scale; the first pair (a, b) of responses is drawn thick.

    Lengths are in percent of the way from x to the usual end. The MLP goes last there, so b leads
    from the parallel end to it, and b lies along the first axis.
    """
    figure, axes = subplots(height=3.5)
    for k, (a, b) in enumerate(responses):
        foot, along = float(b.norm()), float((a * b).sum() / b.norm())
        tip = along, float((a.square().sum() - along**2).sqrt())
        if k:
            axes.plot([0, foot, tip[0], 0], [0, 0, tip[1], 0], color="#777777", linewidth=1,
                      zorder=1)
            continue
        gap = np.hypot(foot - tip[0], tip[1])
        sides = ((0, 0), (foot, 0), ACCENT, "-"), ((0, 0), tip, SECOND, "--")
        for start, end, color, style in (*sides, ((foot, 0), tip, "black", ":")):
            axes.plot(*np.transpose([start, end]), style, color=color, linewidth=3)
        for at, up, said, color, side in (
                (foot / 2, -2, f"response of the MLP: {foot:.0f}", ACCENT, "center"),
                (-1.5, tip[1] / 2, f"response of\nattention: {np.hypot(*tip):.0f}", SECOND,
                 "right"),
                ((foot + tip[0]) / 2 + 2, tip[1] / 2, f"gap: {gap:.0f}", "black", "left"),
                (-1.5, 0, "side by side", "black", "right"),
                (foot + 1.5, 0, "attention first,\nas usual", ACCENT, "left"),
                (tip[0] - 2, tip[1], "MLP first:\nswapped", SECOND, "right")):
            axes.text(at, up, said, color=color, ha=side, va="top" if up < 0 else "center",
                      bbox=dict(facecolor="white", edgecolor="none", pad=1))
        axes.plot(*tip, "o", color=SECOND, markersize=8)
        axes.plot(foot, 0, "o", color=ACCENT, markersize=8)
        axes.plot(0, 0, markersize=10, **RING)
    axes.set(xlim=(-17, 33), ylim=(-6, 31), aspect="equal", xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    return show(figure, "The triangle of three ends: side by side, attention first, MLP first. The "
                        "angle at side by side is nearly right. Its short side, to the usual end, "
                        "is 15, and the longest side, between the two orders, is 30. Four other "
                        "draws of the weights give nearly the same triangle.",
                caption="The ends of three wirings of an untrained block. The way from x to the "
                        "usual end has the length 100. Thin: four other draws of the weights.")


def draw_responses(angle: float) -> Figure:
    """Two responses of length 1 that start at the parallel end, and the gap between their ends. The asymmetry is 0 where they point in the same direction, a half at 60 degrees, 1 at a right angle, and 2 where they are opposite."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, (left, right) = subplots(1, 2, height=2.7, width_ratios=[2.6, 1])
    turn = np.radians(angle)
    a, b = np.array([np.cos(turn), np.sin(turn)]), np.array([1.0, 0.0])
    for tip, color, style in ((a, SECOND, "--"), (b, ACCENT, "-")):
        arrow(left, (0, 0), tip, color, linewidth=2.4, linestyle=style)
    left.plot(*np.transpose([a, b]), ":", color="black", linewidth=2)
    left.plot(0, 0, markersize=8, **RING)
    near = max(0, 1 - angle / 30)  # then the letters stand one above the other
    for tip, said, color, up in ((a, "a", SECOND, 0.13), (b, "b", ACCENT, -0.16)):
        left.text(*(1.14 * tip + (0, up * near)), said, color=color, ha="center", va="center",
                  fontsize=13)
    left.text(0, -0.16, "side by side", ha="center", va="top", fontsize=10)
    left.set(xlim=(-1.4, 1.4), ylim=(-0.45, 1.3), aspect="equal", xticks=[], yticks=[])
    left.spines[:].set_visible(False)
    value = np.square(a - b).sum() / 2
    right.bar(0, value, 0.6, color=ACCENT)
    right.text(0, value + 0.04, f"{value:.2f}", ha="center")
    for height in (0.5, 1):
        right.axhline(height, color="black", linewidth=1, linestyle=":")
    right.set(xlim=(-0.7, 0.7), ylim=(0, 2.3), xticks=[], yticks=[0, 0.5, 1, 2],
              yticklabels=["0", "½", "1", "2"], xlabel="asymmetry")
    right.grid(visible=False)
    return figure


def trained() -> HTML:
    """The asymmetry of attention and MLP in the small Transformers, before and after training."""
    figure, axes = subplots(height=2.1)
    for y, norm in ((1, "pre"), (0, "post")):
        for up, when, color in ((0.18, "untrained", "#777777"), (-0.18, "measured", ACCENT)):
            each = of_blocks(norm, "asymmetry", when)[:, 1:].mean(1)
            ends = np.tile(y + up + np.array([-0.13, 0.13, np.nan]), len(each))
            axes.plot(np.repeat(each, 3), ends, color=color, linewidth=1.5)
    for at, said in ((1, "chance"), (0.5, "½: a tie")):
        axes.axvline(at, color="black", linewidth=1, linestyle=":")
        axes.text(at, 1.5, said, ha="center", va="bottom", fontsize=10)
    axes.set(yticks=[1, 0], yticklabels=["Pre-LN", "Post-LN"], ylim=(-0.5, 1.5), xlim=(0.4, 1.2),
             xticks=[0.4, 0.6, 0.8, 1], xlabel="asymmetry of attention and MLP")
    axes.grid(axis="y", visible=False)
    return show(figure, "Untrained, the asymmetries lie around 1 with both norms. Trained, they "
                        "stay around 1 with Pre-LN and lie between 0.45 and 0.85 with Post-LN.",
                caption="A stroke is one of sixteen networks: the mean over its blocks 2 and 3. "
                        "Grey, above: untrained. Blue, below: trained.")


def real_asymmetry() -> HTML:
    """The asymmetry of attention and MLP in the thirty blocks of SmolLM2."""
    figure, axes = subplots(height=2.8)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.axhline(0.5, color="black", linewidth=0.8, linestyle=":")
    axes.errorbar(range(30), REAL["asymmetry"]["mean"], REAL["asymmetry"]["half width"],
                  color=ACCENT, marker="o", markersize=4, linestyle="", elinewidth=1.2)
    axes.text(0, 1.08, "chance", fontsize=10)
    axes.text(0, 0.53, "½: a tie", fontsize=10)
    axes.set(xlabel="block", ylabel="asymmetry", ylim=(0, 1.3))
    return show(figure, "The asymmetry of attention and MLP in thirty blocks. All lie between 0.75 "
                        "and 1.05, most near 1.",
                caption="SmolLM2-135M, 24 windows of 128 tokens without the first one. Bars: 95 % "
                        "intervals over windows.")


def _outline() -> np.ndarray:
    """Points along the outline of the letter F: with points between corners, edges can bend."""
    sides = zip(LETTER, np.roll(LETTER, -1, axis=0), strict=True)
    return 2 * np.concatenate([
        np.linspace(p, q, 1 + round(np.hypot(*(q - p)) / 0.25), endpoint=False) for p, q in sides])


OUTLINE = _outline()


def wave(points: np.ndarray, degrees: float, eps: float) -> np.ndarray:
    """Push points along a direction, by eps times a sine of their position across it: (n, 2)."""
    angle = np.deg2rad(degrees)
    along = np.array([np.cos(angle), np.sin(angle)])
    across = np.array([-np.sin(angle), np.cos(angle)])
    return points + eps * np.outer(np.sin(1.3 * points @ across), along)


def apart(eps: float) -> float:
    """The distance of the letters after two waves in both orders, root mean square over points."""
    ends = [wave(wave(OUTLINE, one, eps), other, eps) for one, other in ((0, 60), (60, 0))]
    return float(np.sqrt(np.square(ends[0] - ends[1]).sum(1).mean()))


def draw_waves(strength: float) -> Figure:
    """The letter F after two waves, in both orders. The two letters differ, and their distance shrinks with the square of the strength."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, axes = subplots(height=3.9)
    axes.fill(*OUTLINE.T, facecolor="#eeeeee", edgecolor="#cccccc", linewidth=1)
    first = wave(wave(OUTLINE, 0, strength), 60, strength)
    last = wave(wave(OUTLINE, 60, strength), 0, strength)
    axes.fill(*first.T, facecolor=ACCENT + "99", edgecolor=ACCENT, label="sideways first")
    axes.fill(*last.T, fill=False, edgecolor=SECOND, linestyle="--", linewidth=2.5,
              label="sideways last")
    corners = [wave(wave(2 * LETTER, one, strength), other, strength)
               for one, other in ((0, 60), (60, 0))]
    between = np.stack([*corners, np.nan * corners[0]], 1).reshape(-1, 2)
    axes.plot(*between.T, ":", color="black", linewidth=2)
    axes.text(1.85, -1.45, f"apart: {apart(strength):.3f}", ha="right")
    axes.set(xlim=(-1.9, 1.9), ylim=(-1.6, 1.6), aspect="equal", xticks=[-1, 0, 1],
             yticks=[-1, 0, 1])
    axes.legend(loc="upper left")
    return figure


WEIGHTS = np.array([[[3.0, 1.2], [-0.9, 2.5]], [[-0.1, -1.0], [-2.9, 0.3]]])


def push(k: int, x: np.ndarray) -> np.ndarray:
    """A made-up branch in the plane that sees the direction of x only, as behind a norm."""
    return 0.6 * np.tanh(WEIGHTS[k] @ (x / np.hypot(*x)))


def larger(sizes: Sequence[float], energies: Sequence[float]) -> Callable[..., Figure]:
    """What draws two steps beside a state of size c, and the block's energy at c times its input.

    The energies belong to the sizes, which are the values of c.
    """
    def draw_larger(c: float) -> Figure:
        """Beside a larger state the same pushes are smaller, and the triangle of the two responses closes faster than the pushes shrink. The energy falls nearly with the fourth power of the size."""  # noqa: E501  (the docstring is the figure's alt text)
        figure, (left, right) = subplots(1, 2, height=2.9, width_ratios=(1, 1.05))
        x = np.array([0.0, c])
        corner, ends = (x + push(0, x) + push(1, x)) / c, []
        arrow(left, (0, 0), x / c)
        for first, color, style in ((0, ACCENT, "-"), (1, SECOND, "--")):
            stop = x + push(first, x)
            ends.append((stop + push(1 - first, stop)) / c)
            left.plot(*np.transpose([x / c, stop / c, ends[-1]]), color=QUIET, linewidth=1)
            left.plot(*np.transpose([corner, ends[-1]]), color=color, linestyle=style)
            left.plot(*ends[-1], "o", color=color, markersize=5)
        left.plot(*np.transpose(ends), ":", color="black")
        left.plot(*corner, markersize=7, **RING)
        left.text(0.07, 0.45, "state", fontsize=10)
        left.set(xlim=(-1.1, 1.1), ylim=(-0.1, 2.1), aspect="equal", xticks=[0], yticks=[0, 1],
                 title="a made-up pair")
        right.plot(sizes, energies, color=look("additive")["color"], alpha=0.5)
        energy = np.exp(np.interp(np.log(c), np.log(sizes), np.log(energies)))
        right.plot(c, energy, "ko", fillstyle="none", markersize=9)
        right.set(xscale="log", yscale="log", xlabel="size c of the input", ylim=(1e-9, 0.1),
                  title="energy of our block", yticks=[1e-8, 1e-6, 1e-4, 1e-2], xlim=(0.8, 40))
        right.set_xticks([1, 2, 4, 8, 16, 32], ["1", "2", "4", "8", "16", "32"])
        right.minorticks_off()
        return figure

    return draw_larger
