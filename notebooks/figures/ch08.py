"""The figures of chapter 8: the letter F and the eigenvalues of rotations, and the stored runs.

`iterate(s, steps)` is what fixed-point steps make of an eigenvalue is. `ended(angle)` has the turns
that stored runs learned.
"""

import numpy as np
from IPython.display import HTML
from matplotlib.figure import Figure

from geolab.show.figures import ACCENT, QUIET, SECOND, look, plane, show, subplots
from geolab.show.letter import F, draw_depth, draw_letter, moved
from geolab.show.schematic import arrow, canvas
from notebooks.figures.ch09 import turn
from studies.engine import results
from studies.engine.live import stored_runs

TARGETS = (2.0, 2.6, 3.0, 3.1)                             # of the stored runs, in radians
COLORS = {"one plane": look("emhc-cayley")["color"], "full Cayley": ACCENT,
          "iterated": look("jpmhc")["color"], "four mirrors": SECOND, "free matrix": "#555555"}


def angle_of(s: float) -> float:
    """The turn 2 arctan s, in degrees."""
    return 2 * np.rad2deg(np.arctan(s))


def iterate(s: float | np.ndarray, steps: int = 2) -> complex | np.ndarray:
    """The eigenvalue 1 + 2k + … + 2k^(steps + 1) of the iterate, with k = is."""
    return 1 + 2 * sum((1j * s) ** power for power in range(1, steps + 2))


def as_map(value: complex) -> np.ndarray:
    """The map of the plane that multiplies by a complex number: (2, 2)."""
    return np.array([[value.real, -value.imag], [value.imag, value.real]])


def ended(angle: float) -> tuple[np.ndarray, np.ndarray]:
    """The turns at the end of the stored runs in degrees, from 0 to 360, and who learned it."""
    ratio = stored_runs("08/s")[f"{angle} radians"]        # of s to tan(angle / 2)
    learned, turned = abs(ratio - 1) < 0.05, angle_of(ratio * np.tan(angle / 2))
    return np.where(learned, turned, 360 - turned), learned


def sixty(*entries: float) -> HTML:
    """The F through eight layers with this entry in both places of the diagonal, a row each."""
    figure, rows = canvas(3.1, rows=len(entries))
    for axes, entry in zip(rows, entries, strict=True):
        draw_depth(axes, 8 * [np.array([[entry, -0.6], [0.6, entry]])], step=2.3)
        axes.set(xlim=(-2.8, 21), ylim=(-1.6, 1.6))
        axes.text(-2.6, 0, f"{entry}", fontsize=12, va="center")
    return show(figure, "Three rows of letters F. With 0.8 the letter turns from layer to layer "
                        "and keeps its size. With 0.9 it becomes larger and larger, with 0.7 "
                        "smaller and smaller.",
                caption="The F before the first layer (grey) and after each of eight layers. The "
                        "number at the left stands in both places of the 0.8.")


def draw_turn(beta: float) -> Figure:
    """The letter F turns by less than a right angle at beta 1, by a right angle at beta 2, and by less than twice as much at beta 4. It keeps its size."""  # noqa: E501  (the docstring is the figure's alt text)
    u, v = np.array([1.0, 0.0]), np.array([0.5, 1.0])      # base 1 and height 1
    figure, (left, right) = subplots(1, 2, height=2.9)
    left.fill(*np.array([0 * u, u, u + v, v]).T, color=SECOND, alpha=0.2)
    for name, vector, beside in (("u", u, (0, -0.16)), ("v", v, (-0.14, 0.04))):
        arrow(left, (0, 0), vector, linewidth=1.5)
        left.text(*(vector + beside), name, ha="center", va="center", style="italic")
    left.text(0.75, 0.45, "area 1", ha="center", color=SECOND, fontsize=10)
    left.set(xlim=(-0.35, 1.75), ylim=(-0.55, 1.55), aspect="equal", title="two arrows",
             xlabel="stream 1", ylabel="stream 2", xticks=[0, 1], yticks=[0, 1])
    draw_letter(right, turn(angle_of(beta / 2)), size=1.3)
    right.set(xlim=(-1.05, 1.05), ylim=(-1.15, 0.95), aspect="equal", title="the F",
              xlabel="stream 1", xticks=[0], yticks=[0])
    right.text(0, -1.08, f"turned by {angle_of(beta / 2):.0f}°", ha="center", fontsize=10)
    return figure


def velocities() -> HTML:
    """The velocities M x of a skew matrix, and those of a matrix that isn't skew."""
    figure, panels = subplots(1, 2, height=3.0, sharey=True)
    rounds = np.linspace(0, 2 * np.pi, 9)[:-1]
    circle = np.stack([np.cos(rounds), np.sin(rounds)], 1)
    places = np.concatenate([0.75 * circle, 1.2 * circle])
    matrices = {"M": [[0, -1], [1, 0]], "with 0.7 and 0.2": [[0.7, -1], [1, 0.2]]}
    for axes, (name, M) in zip(panels, matrices.items(), strict=True):
        draw_letter(axes, size=0.9)
        axes.quiver(*places.T, *(places @ np.transpose(M)).T, angles="xy", scale_units="xy",
                    scale=2.6, width=0.011)
        axes.set(xlim=(-1.75, 1.75), ylim=(-1.75, 1.75), aspect="equal", title=name,
                 xlabel="stream 1", xticks=[0], yticks=[0])
    panels[0].set_ylabel("stream 2")
    return show(figure, "Left, every arrow is at right angles to the line from the origin to its "
                        "place, so all places go round. Right, the arrows also point outwards.",
                caption="The arrow at a place shows its velocity. Left: all places go round. "
                        "Right: with 0.7 and 0.2 on the diagonal they also go outwards, and the F "
                        "would grow.")


def steps() -> HTML:
    """The straight step and the midpoint step at s = 1, for one arrow and for the F."""
    figure, (left, right) = subplots(1, 2, height=2.9)
    x, straight, fair = np.array([1.0, 0]), np.array([[1, -2], [2, 1]]), turn(90)
    y, middle = fair @ x, (x + fair @ x) / 2
    plane(left, unit_circle=True).set(xlim=(-1.15, 2.15), ylim=(-0.75, 2.55), title="one arrow",
                                      xlabel="stream 1", ylabel="stream 2", xticks=[0, 1],
                                      yticks=[0, 1, 2])
    left.plot([0, middle[0]], [0, middle[1]], "--", color="black", linewidth=1)
    left.plot(*middle, "o", color="black", markersize=4)
    arrow(left, x, straight @ x, SECOND, linewidth=1.5)
    arrow(left, x, y, ACCENT, linewidth=1.5)
    left.text(1.14, -0.18, "x", style="italic", ha="center", va="center")
    left.text(-0.14, 1.14, "y", style="italic", ha="center", va="center", color=ACCENT)
    left.text(1.08, 1.9, "straight", va="center", fontsize=10, color=SECOND)
    draw_letter(right, fair, size=1.2)
    right.fill(*moved(1.2 * F, straight).T, fill=False, linestyle="--", edgecolor=SECOND,
               linewidth=1.5)
    right.set(xlim=(-1.65, 1.45), ylim=(-1.55, 1.55), aspect="equal", title="the F",
              xlabel="stream 1", xticks=[0], yticks=[0])
    return show(figure, "Left, the straight step leaves the unit circle along its tangent. The "
                        "midpoint step ends on the circle, at right angles to the line from the "
                        "origin to its middle. Right, the F grows under the straight step and only "
                        "turns under the other.",
                caption="Orange: the straight step. Blue: the midpoint step; the black dot is "
                        "half-way, and the dashed line leads there from the origin.")


def draw_ruler(ruler: float) -> Figure:
    """A line through -1 carries the point i s of the imaginary axis to the unit circle. The steeper it is, the farther out is i s and the nearer its image comes to -1. Right, the letter makes this turn, and never quite half a turn."""  # noqa: E501  (the docstring is the figure's alt text)
    limit, s = 2.2, np.tan(np.deg2rad(ruler))
    figure, (axes, right) = subplots(1, 2, height=3.2, width_ratios=(1.7, 1))
    plane(axes, limit=limit).set(xlim=(-1.7, 2.2), title="eigenvalues")
    axes.plot([0, 0], [-limit, limit], color=QUIET, linewidth=1)
    axes.plot(-1, 0, "o", color="black", fillstyle="none", markersize=9)
    axes.annotate("−1", (-1, 0), xytext=(-5, -5), textcoords="offset points", ha="right", va="top")
    way = turn(ruler) @ (4, 0)                             # far beyond the picture
    axes.plot([-1, way[0] - 1], [0, way[1]], "--", color="#777777", linewidth=1)
    out = min(s, np.tan(np.deg2rad(69)))                   # a stop, just outside of the picture
    on = turn(2 * ruler) @ (1, 0)
    axes.plot(0, out, "s", color="black")
    for centre, radius, angle in ((-1, 0.5, ruler), (0, 0.35, 2 * ruler)):
        arc = np.deg2rad(np.linspace(0, angle, 13))
        axes.plot(centre + radius * np.cos(arc), radius * np.sin(arc), color=SECOND, linewidth=2)
    axes.plot([0, on[0]], [0, on[1]], color=SECOND, linewidth=1)
    axes.plot(*on, "o", color=ACCENT)
    axes.text(0.08, -1.6, "on the axis: M", fontsize=9, va="center")
    axes.text(0.8, -0.9, "on the circle: Q", color=ACCENT, fontsize=9, va="center")
    axes.set(xlabel="real part", ylabel="imaginary part", xticks=[-1, 0, 1, 2],
             yticks=[-2, -1, 0, 1, 2])
    draw_letter(right, turn(2 * ruler), size=1.3)
    right.set(xlim=(-1.05, 1.05), ylim=(-1.3, 1.3), aspect="equal", title="the F",
              xlabel="stream 1", xticks=[0], yticks=[0])
    right.text(0, -1.2, f"turned by {2 * ruler:.0f}°", ha="center", fontsize=10)
    return figure


def draw_cut(start: float) -> Figure:
    """Left, a circle, cut open at -1. From the solid arc a model comes to its target. From the dashed arc, which begins opposite the target, the shorter way leads into the cut. Right, the loss is a hill opposite the target. From its left side the model rolls to the edge and stays there."""  # noqa: E501  (the docstring is the figure's alt text)
    target, far = 115, 115 - 180
    end, color = (target, ACCENT) if start > far else (-180, SECOND)
    figure, (axes, right) = subplots(1, 2, height=2.9)

    def at(degrees, r=1.0):
        return r * np.array([np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))])

    def loss(degrees):
        return 2 - 2 * np.cos(np.deg2rad(degrees - target))

    for low, high, paint, style in ((-176, far, SECOND, "--"), (far, 176, ACCENT, "-")):
        arc = np.linspace(low, high, 31)
        axes.plot(*at(arc), style, color=paint, linewidth=4)
        right.plot(arc, loss(arc), style, color=paint, linewidth=2)
    way = np.linspace(start, end - 8 * np.sign(end), 21)
    axes.plot(*at(way, 0.8), color=color, linewidth=1.5)
    arrow(axes, at(way[-2], 0.8), at(way[-1], 0.8), color, linewidth=1.5)
    axes.plot(*at(start, 0.8), "o", color=color, markersize=8)
    axes.plot([-1.16, -0.66], [0, 0], color="black", linewidth=3)
    axes.text(-1.2, 0, "cut", ha="right", va="center")
    axes.text(*(at(target, 1.13) + (0, 0.05)), f"target {target}°", ha="center", va="bottom",
              color=ACCENT)
    axes.text(*at(far, 1.1), "farthest", va="top")
    for panel, point in ((axes, at), (right, lambda degrees: (degrees, loss(degrees)))):
        panel.plot(*point(target), "*", color=ACCENT, markersize=13, markeredgecolor="white")
        panel.plot(*point(far), "s", color="black", markersize=6)
    right.plot(start, loss(start) + 0.2, "o", color=color, fillstyle="none", markersize=8)
    right.plot(end, loss(end) + 0.2, "o", color=color, markersize=8)
    for edge in (-180, 180):
        right.axvline(edge, color="black", linewidth=3)
    goal = "115°" if end > 0 else "the cut"
    right.set(xlim=(-195, 195), ylim=(-0.3, 4.6), xticks=[-180, far, 0, target], yticks=[0, 4],
              xlabel="turn (degrees)", title=f"loss: from {start}° to {goal}".replace("-", "−"))
    axes.set(xlim=(-1.7, 1.35), ylim=(-1.35, 1.5), aspect="equal", xlabel="turns, on a circle",
             xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    return figure


def ends() -> HTML:
    """Which turns twelve stored runs of one learned plane make, for each of four targets."""
    figure, axes = subplots(height=3.3)
    axes.axhline(180, color="black", linewidth=2)
    for place, angle in enumerate(TARGETS):
        (turned, learned), target = ended(angle), np.rad2deg(angle)
        axes.plot([place - 0.4, place + 0.4], [target] * 2, color=QUIET, linewidth=1.5)
        for y, color, mark in ((turned[learned], ACCENT, "o"), (turned[~learned], SECOND, "x")):
            axes.plot(place + 0.07 * (np.arange(len(y)) - (len(y) - 1) / 2), y, mark, color=color,
                      markersize=5, markeredgewidth=1.6)
        missed = (turned[~learned] - target).mean()
        for y, said, color, size in ((target - 9, f"{learned.sum()}", ACCENT, 12),
                                     (190, f"{(~learned).sum()}", SECOND, 12),
                                     (203, f"off by {missed:.0f}°", SECOND, 9)):
            axes.text(place, y, said, color=color, ha="center", va="center", fontsize=size)
    axes.text(-0.48, 178, "cut", ha="left", va="top", fontsize=10)
    axes.set(xticks=range(4), xticklabels=[f"{np.rad2deg(angle):.0f}°" for angle in TARGETS],
             xlim=(-0.5, 3.5), ylim=(98, 211), yticks=[120, 150, 180, 210],
             yticklabels=["120°", "150°", "±180°", "−150°"], xlabel="target",
             ylabel="turn at the end", title="Dots: learned the turn. Crosses: at the cut")
    return show(figure, "The turn of the learned plane for four targets. Nine runs of twelve learn "
                        "the turn by 115 and that by 149 degrees, eight that by 172, seven that by "
                        "178. The other three, three, four and five stand beside the cut at 180 "
                        "degrees, on its other side, off by 66, 31, 9 and 4 degrees on average.",
                caption="Grey lines: the targets, with twelve stored runs each. Large numbers "
                        "count the runs, \"off by\" is the mean miss of the crosses, which end a "
                        "little before the cut.")


def draw_curve(s: float) -> Figure:
    """The eigenvalue of two steps as s grows, against the unit circle. The curve bends inside the circle and meets it again at -1, at s = 1. The filled F shrinks on the way and turns farther than the outlined F of the exact transform."""  # noqa: E501  (the docstring is the figure's alt text)
    path, here, exact = iterate(np.linspace(0, s, 13)), iterate(s), np.exp(2j * np.arctan(s))
    figure, (axes, right) = subplots(1, 2, height=2.9)
    plane(axes, limit=1.5)
    axes.plot(path.real, path.imag,
              **look("jpmhc") | {"marker": "", "linestyle": "-", "linewidth": 1.4})
    axes.plot(exact.real, exact.imag, "o", color="black", fillstyle="none", markersize=8)
    axes.plot(here.real, here.imag, "X", color=SECOND, markersize=8)
    axes.set(xlabel="real part", ylabel="imaginary part", xticks=[-1, 0, 1], yticks=[-1, 0, 1],
             title="the eigenvalue")
    draw_letter(right, as_map(here), size=1.05, ghost=False, color=SECOND)
    right.fill(*moved(1.05 * F, as_map(exact)).T, fill=False, edgecolor="black", linewidth=1)
    right.set(xlim=(-1.25, 1.25), ylim=(-1.5, 1.0), aspect="equal", xticks=[], yticks=[],
              title="the F")
    degrees = [round(np.rad2deg(np.angle(value))) % 360 for value in (here, exact)]
    right.text(0, -1.45, f"length × {abs(here):.2f}, turn {degrees[0]}°\n"
                         f"exact: × 1.00, turn {degrees[1]}°", ha="center", fontsize=9)
    return figure


def worn(**spreads: float) -> HTML:
    """The F before and after 10, 20, … 60 mixers of two steps that turn the same plane."""
    figure, rows = canvas(2.8, rows=len(spreads))
    for axes, (said, s) in zip(rows, spreads.items(), strict=True):
        draw_depth(axes, 6 * [as_map(iterate(s) ** 10)], step=1.35)
        axes.set(xlim=(-2.6, 10.8), ylim=(-1.25, 1.25))
        axes.text(-2.6, 0, f"s = {said}", fontsize=11, va="center")
        axes.text(10.8, 0, f"{abs(iterate(s)) ** 60:.1%}", fontsize=11, ha="right", va="center")
    for layer in range(7):
        rows[-1].text(1.35 * layer, -1.15, f"{10 * layer}", ha="center", fontsize=10)
    return show(figure, "Three rows of letters, after 0, 10 and so on to 60 mixers. At s = 1/8 the "
                        "F keeps nearly its size. At s = 1/4 it shrinks to two thirds. At s = 1/2 "
                        "it is gone after about thirty.",
                caption="The F before (grey) and after 10, 20, … 60 mixers of two steps that turn "
                        "the same plane. Right: what is left of a length. An exact rotation would "
                        "leave 100 %.")


def turns() -> HTML:
    """By which angles the sublayers of SmolLM2 turn the states of words."""
    real = results.stored("real_turns")["turns"]
    middle = real["median"]["mean"]
    figure, axes = subplots(height=3.2)
    axes.plot(real["most"]["most"], ".", color=QUIET, label="widest")
    for start, said, style in (
            (0, "attention", dict(color=SECOND, marker="s", markerfacecolor="white")),
            (1, "MLP", dict(color=ACCENT, marker="o"))):
        axes.plot(range(start, len(middle), 2), middle[start::2], linestyle="", markersize=4.5,
                  label=said, **style)
    axes.axhline(180, color="black", linestyle=":", linewidth=1.3)
    axes.set(xlabel="sublayer", ylabel="angle, in degrees", ylim=(0, 190),
             yticks=[0, 45, 90, 135, 180])
    figure.legend(loc="outside lower center", ncols=3)
    return show(figure, "The angles by which sixty sublayers turn the states of words. The medians "
                        "lie between 5 and 20 degrees except for the first three sublayers and the "
                        "last ones. The widest turns stay below 150 degrees.",
                caption="Angle between the state before and behind each sublayer. Attention and "
                        "MLP: medians over the words of a window but the first, and their means "
                        "over 24 windows. Widest: of all words. Dotted: half a turn.")


def strokes() -> HTML:
    """The losses of the stored runs of five ways to learn a turn of one plane, and of two."""
    figure, panels = subplots(2, 1, height=4, sharex=True)
    for axes, planes in zip(panels, ("one plane", "two planes"), strict=True):
        found = stored_runs(f"08/{planes}")
        for row, (name, color) in enumerate(COLORS.items()):
            xs = [x for end in found[name] for x in (end, end, np.nan)]   # one path for all strokes
            axes.plot(xs, len(found[name]) * [row - 0.32, row + 0.32, np.nan], color=color,
                      linewidth=1.6)
        axes.axvline(0.25, color="black", linestyle=":", linewidth=1.2)
        axes.set(xscale="log", yticks=range(5), yticklabels=COLORS, ylim=(4.5, -0.5),
                 title=f"the target turns {planes}")
        axes.minorticks_off()
        axes.grid(axis="y", visible=False)
    panels[1].set(xlabel="loss after 500 steps", xlim=(1e-11, 3),
                  xticks=[1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 1])
    return show(figure, "The losses of twelve stored runs of five models, for a target of one "
                        "plane and for one of two planes. For one plane the rank-2 operator ends "
                        "below 1e-8 in seven runs and near 1e-3 in five. For two planes it ends at "
                        "0.5 in all runs, above a predictor of zero.",
                caption="Each stroke is one of twelve stored runs. Dotted: a predictor that always "
                        "answers zero.")
