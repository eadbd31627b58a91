"""The figures of chapter 2: the letter F under the delta operator, and a memory that erases.

`delta(beta, k)` is I − β k kᵀ in the plane. K and AT are the arrow of most pictures, and the place
where the F stands in them.
"""

import numpy as np
from IPython.display import HTML
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from geolab.show.figures import ACCENT, QUIET, SECOND, label_line, look, plane, show, subplots
from geolab.show.letter import draw_depth, draw_letter, moved
from geolab.show.schematic import BOXED, LINE, OPERATOR, arrow, canvas, path, plus
from studies.engine import results


def at_angle(degrees: float) -> np.ndarray:
    """The unit vector at an angle: (2,)."""
    return np.array([np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))])


K, AT = at_angle(20), np.array([0.55, 0.8])


def delta(beta: float, k: np.ndarray) -> np.ndarray:
    """I − β k kᵀ for a k of length one: (2,) -> (2, 2)."""
    return np.eye(2) - beta * np.outer(k, k)


def standing(by: np.ndarray, at: np.ndarray):
    """The map `by` of the plane, for a letter that stands at the point `at`."""
    return lambda points: moved(points + at, by) - at


def features(axes: Axes, limit: float = 1.6, **options) -> None:
    """A square plane whose two grid lines are the axes."""
    plane(axes, limit, unit_circle=False)
    axes.set(**dict(xlabel="feature 1", ylabel="feature 2", xticks=[0], yticks=[0]) | options)


def measured() -> HTML:
    """x = (5, 0) and k = (0.6, 0.8): the component along k, and the step that takes it away."""
    figure, axes = subplots(height=2.9)
    k, x = np.array([0.6, 0.8]), np.array([5, 0])
    shadow = (k @ x) * k
    axes.plot(*np.outer([-3.5, 6], [0.8, -0.6]).T, "--", color="black", linewidth=1)
    axes.plot(*np.transpose([x, shadow]), ":", color="#555555", linewidth=1.2)
    axes.plot(*np.transpose([0 * k, shadow]), color=SECOND, linewidth=3, solid_capstyle="butt")
    arrow(axes, (0, 0), k, linewidth=1.5)
    arrow(axes, x, x - shadow, color=ACCENT, linewidth=2)
    axes.plot(*x, "o", color="#aaaaaa")
    axes.plot(*(x - shadow), "o", color=ACCENT)
    for at, said, color in (((0.75, 0.45), "k", "black"), ((0.6, 1.8), "3", SECOND),
                            ((5.35, 0.3), "x", "black"), ((4.7, -1.3), "−3k", ACCENT),
                            ((4.6, -2.35), "(3.2, −2.4)", ACCENT),
                            ((0.3, -1.6), "component 0", "black")):
        axes.text(*at, said, color=color, fontsize=10, va="center", ha="center",
                  style="italic" if said in "kx" else None)
    axes.set(aspect="equal", xlim=(-1.6, 6.2), ylim=(-3.1, 2.8), xlabel="feature 1",
             ylabel="feature 2", xticks=[0, 5], yticks=[0])
    return show(figure, "The state x = (5, 0) and the arrow k = (0.6, 0.8). The foot of x on the "
                        "line along k is at the distance 3 from the origin. A step of −3k takes x "
                        "to (3.2, −2.4), on the dashed line at right angles to k.",
                caption="Measure (orange): the shadow of x on the line of k has the length 3. "
                        "Take away (blue): the step −3k.")


def draw_f(beta: float) -> Figure:
    """The F moves along the arrow k. At beta = 1 it lies flat on the dashed line at right angles to k. Past 1 it opens again behind the line, mirrored. At 2 it has its full size again."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, axes = subplots(height=4)
    features(axes, title="The F before and after the recipe")
    axes.plot(*np.outer([-3, 3], [-K[1], K[0]]).T, "--", color="black", linewidth=1, zorder=0)
    arrow(axes, (0, 0), K, linewidth=1.5)
    axes.text(*(1.16 * K), "k", style="italic", ha="center", va="center")
    axes.text(0.55, -1.3, "component 0", fontsize=10)
    draw_letter(axes, standing(delta(beta, K), AT), at=AT)
    return figure


def draw_stack(beta: float, turn: float) -> Figure:
    """For gates between 0 and 2 the F shrinks from layer to layer. At 2 it keeps its size: every layer mirrors it, and when the arrow turns, every second letter is a rotated F. A black arrow on each letter shows the k of its layer."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, axes = canvas(1.7, xlim=(-0.7, 7.45))
    draw_depth(axes, [delta(beta, at_angle(20 + turn * layer)) for layer in range(5)], step=1.35)
    axes.set(ylim=(-1.15, 0.9))
    for layer in range(6):
        at = np.array([1.35 * layer, 0])
        axes.text(at[0], -0.95, f"layer {layer}" if layer else "before", ha="center", fontsize=10)
        if layer:
            arrow(axes, at, at + 0.6 * at_angle(20 + turn * (layer - 1)), linewidth=1)
    return figure


def erase_and_write(beta: float) -> HTML:
    """The delta update of the state (3, 4) with k = (1, 0) and v = 7, as a wiring diagram."""
    figure, axes = canvas(2.3)
    path(axes, (0.2, 0.95), (9.8, 0.95))
    axes.plot([1.4, 1.4, 8.4, 8.4], [0.95, 2.9, 2.9, 0.95], zorder=1, **LINE)
    path(axes, (4.9, 4.1), (4.9, 3.4))
    axes.plot(1.4, 0.95, "ko", markersize=5)
    plus(axes, 8.4, 0.95)
    for x, said, style in ((1.4, r"$k^{\!\top}x = 3$", BOXED),
                           (4.9, r"$v - k^{\!\top}x = 7 - 3 = 4$", BOXED),
                           (8.4, rf"$\beta \cdot 4 = {4 * beta:g}$", OPERATOR)):
        axes.text(x, 2.9, said, **style)
    for x, y, said, side in ((1.55, 2.2, "read", "left"), (4.9, 2.2, "compare", "center"),
                             (8.25, 2.2, "take a share", "right"), (8.25, 1.45, "write", "right")):
        axes.text(x, y, said, fontsize=10, va="center", ha=side)
    axes.text(4.9, 4.3, r"$v = 7$", ha="center", va="center", fontsize=11)
    axes.text(0.2, 0.4, "state (3, 4)", fontsize=11, va="center")
    axes.text(9.8, 0.4, f"state ({3 + 4 * beta:g}, 4)", fontsize=11, va="center", ha="right")
    return show(figure, "The state passes from left to right. A branch reads 3 along k, compares "
                        "it with the value 7, finds 4, takes the share beta of it, and adds this "
                        "along k.",
                caption=f"The delta update at β = {beta:g}. The second number never changes.")


def draw_bowl(beta: float) -> Figure:
    """A ball starts at 3 and jumps eight times in a bowl whose bottom is at 7. It creeps down one side for beta below 1, is at the bottom at once at 1, jumps across and settles between 1 and 2, swings between two equal heights for ever at 2, and leaves the bowl above 2."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, axes = subplots(height=3)
    z = np.linspace(0.8, 13.2, 65)
    axes.plot(z, (z - 7) ** 2 / 2, color=QUIET)
    way = 7 + (3 - 7) * (1 - beta) ** np.arange(9.0)
    heights = (way - 7) ** 2 / 2
    axes.plot(way, heights, "-", color=ACCENT, linewidth=1)
    for jump in range(1, 9):
        axes.plot(way[jump], heights[jump], look("delta")["marker"], color=ACCENT,
                  markersize=9 - 0.6 * jump)
        if abs(way[:jump] - way[jump]).min() > 0.4 and abs(way[jump] - 7) < 6.2:
            # outside of the bowl, since all ways lie inside
            axes.annotate(f"{jump}", (way[jump], heights[jump]), ha="center", va="top",
                          xytext=(4 * np.sign(way[jump] - 7), -6), textcoords="offset points",
                          color=ACCENT, fontsize=10)
    axes.plot(3, 8, "o", color="black", markersize=8)
    axes.annotate("start", (3, 8), xytext=(-9, -10), textcoords="offset points", ha="right")
    axes.set(xlabel="component along k (the right answer is 7)", xlim=(0.8, 13.2), ylim=(-2, 19),
             ylabel="E, half the squared error", xticks=range(1, 14, 2), yticks=[0, 5, 10, 15],
             title=f"eight jumps at β = {beta:g}")
    return figure


def draw_overlap(overlap: float) -> Figure:
    """The memory starts at (7, 0), which is 7 along Anna's key. It moves along Hanna's key until 1 stands there. At overlap 0 Anna still reads 7. The more the keys overlap, the more she loses, and at 1 she reads Hanna's 1."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, axes = subplots(height=2.7)
    anna, hanna = np.array([1.0, 0]), np.array([overlap, np.sqrt(1 - overlap**2)])
    before = 7 * anna
    after = before + (1 - hanna @ before) * hanna
    for key, name, beside in ((anna, "Anna", (0.2, -0.3)), (hanna, "Hanna", (0.25, -0.1))):
        axes.plot(*np.outer([-9, 9], key).T, color="#aaaaaa", linewidth=1)
        arrow(axes, (0, 0), key, linewidth=1.5)
        if overlap < 1:
            axes.text(*(key + beside), name, fontsize=10, va="center")
    if overlap == 1:
        axes.text(1.2, 0.3, "Anna = Hanna", fontsize=10)
    arrow(axes, before, after, color=ACCENT, linewidth=2, shrinkB=3)
    axes.plot([after[0]] * 2, [after[1], 0], ":", color=SECOND, linewidth=1.5)
    axes.plot(*before, "o", color="#aaaaaa")
    axes.plot(*after, "o", color=ACCENT)
    axes.plot(after[0], 0, "|", color=SECOND, markersize=12, markeredgewidth=2.5)
    axes.set(aspect="equal", xlim=(-0.7, 8), ylim=(-3.2, 1.7), xticks=range(1, 8, 2), yticks=[0],
             xlabel="feature 1", ylabel="feature 2",
             title=f"Hanna reads 1, Anna reads {after[0]:.2f}")
    return figure


def rewritten(rounds, added: np.ndarray, erased: np.ndarray) -> HTML:
    """Errors on the last values, of a scaled sum and a delta memory: (rounds,) each."""
    figure, axes = subplots(height=3.2)
    axes.plot(rounds, added, **look("additive"))
    axes.plot(rounds, erased, **look("delta"))
    label_line(axes, rounds[-1] + 0.15, added[-1], "additive,\nbest factor")
    label_line(axes, rounds[-1] + 0.15, erased[-1], "delta", color=look("delta")["color"])
    for level, said, style in ((1, "empty memory", dict(color=QUIET, linewidth=1)),
                               (0, "floor: the best matrix for the last round",
                                look("floor") | {"marker": None})):
        axes.plot([rounds[0], rounds[-1]], [level] * 2, **style)
        axes.annotate(said, (1, level), xytext=(0, 5), textcoords="offset points", fontsize=9,
                      color="#555555")
    axes.set(xlabel="rounds written under the same eight keys", ylabel="relative squared error",
             xlim=(0.8, 10), ylim=(-0.05, 1.2), xticks=[1, 2, 4, 6, 8],
             title="The same keys, with new values in each round")
    return show(figure, "Error on the last round against the number of rounds. The additive memory "
                        "approaches the error of an empty memory. The delta memory levels off well "
                        "below it.",
                caption="The squared error on the values of the last round, relative to their "
                        "size: means over random keys and values.")


def real_share() -> dict[str, np.ndarray]:
    """The share of number 507 of the first token that SmolLM2's sublayers take away: (60,) each."""
    stored = results.stored("real")["stream"]["beta of first"]
    return {name: np.array(stored[name]) for name in ("mean", "least", "most")}


def real_beta(named: dict[int, float]) -> HTML:
    """`real_share`, drawn; `named` says which sublayers are named, and how far above their dots."""
    share = real_share()
    names = [f"{'AF'[row % 2]}{row // 2}" for row in named]
    figure, axes = subplots(height=3)
    axes.vlines(range(60), share["least"].clip(-2), share["most"].clip(-2, 2), color=QUIET,
                linewidth=2)
    axes.plot(range(60), share["mean"].clip(-2), "o", color=ACCENT, markersize=4)
    for row, name in zip(named, names, strict=True):
        axes.text(row - 1, share["mean"][row] + named[row], name, ha="right", va="center",
                  fontsize=10)
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set(ylim=(-2.1, 1.5), xlabel="sublayer", ylabel="share taken away",
             yticks=[-2, -1, 0, 1])
    return show(figure, "The share of one number of the first word that each of sixty sublayers "
                        f"takes away. Nearly all lie near zero. {', '.join(names)} lie between one "
                        "half and one. A few lie far below zero: they write.",
                caption="Dots: means over windows of text. Lines: from the least to the most. "
                        "Values below −2 are drawn at −2.")


def two_mirrors(first: float, second: float) -> HTML:
    """The F after a mirror whose k is at the angle `first`, and after another one at `second`."""
    figure, axes = subplots(height=3.6)
    apart = second - first
    features(axes, title=f"Mirrors {apart:g}° apart turn the F by {2 * apart:g}°")
    at = np.array([0.9, 0.3])
    once = delta(2, at_angle(first))
    draw_letter(axes, standing(once, at), at=at, color=QUIET)
    draw_letter(axes, standing(delta(2, at_angle(second)) @ once, at), at=at, ghost=False)
    return show(figure, "The letter F, its mirror image, and the mirror image of that, which is "
                        "the first letter turned by twice the angle between the mirrors.",
                caption="Light grey: before. Grey: after one mirror. Blue: after both.")
