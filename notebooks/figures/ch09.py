"""The figures of chapter 9, the letter F under turns, mirrors and their blends, and the stored runs
on negation.

`turn(degree)` and `mirror(degree)` are matrices of the plane; a mirror's k is at that angle.
"""

import numpy as np
from IPython.display import HTML
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse

from geolab.operators import midpoint_penalty
from geolab.show.figures import ACCENT, SECOND, plane, show, subplots
from geolab.show.letter import draw_depth, draw_letter, moved
from geolab.show.schematic import BOXED, LINE, OPERATOR, arrow, canvas, plus
from studies.engine import results

STORED = results.stored("reflection")
LOW, HALF, HIGH = (f"hybrid, bias {bias}" for bias in ("-1.5", "0", "+1.5"))
STARTS = {LOW: "from 0.18", HALF: "from ½", HIGH: "from 0.82", f"{LOW}, no penalty":
          "from 0.18, no penalty", f"{HALF}, no penalty": "from ½, no penalty"}
FREE, FREE_HALF = list(STARTS)[3:]
GREEN = "#009e73"


def kept(model: str, key: str, train: int = 500) -> np.ndarray:
    """What the stored runs of a model have under a key, one entry per seed: (seeds, ...)."""
    return np.array([run[key] for run in STORED["runs"]
                     if (run["model"], run["train"]) == (model, train)])


def paths(model: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Training steps (times,), and the cosine and the mean gate at them, (seeds, times) each."""
    cosine, gate = kept(model, "alignment_and_coefficient").transpose(2, 0, 1)
    return STORED["evaluated_every"] * np.arange(gate.shape[1]), cosine, gate


def turn(degree: float) -> np.ndarray:
    """The rotation of the plane by this angle: (2, 2)."""
    c, s = np.cos(np.deg2rad(degree)), np.sin(np.deg2rad(degree))
    return np.array([[c, -s], [s, c]])


def mirror(degree: float) -> np.ndarray:
    """The reflection that reverses the direction at this angle: (2, 2)."""
    return turn(2 * degree) @ np.diag([-1, 1])


def standing(by: np.ndarray, at: tuple[float, float]):
    """The map `by` of the plane, for a letter that stands at the point `at`."""
    return lambda points: moved(points + at, by) - at


def numbers(axes: Axes, limit: float, **options) -> None:
    """A square plane of a first and a second number, with the unit circle."""
    plane(axes, limit)
    axes.set(**dict(xlabel="first number", ylabel="second number", xticks=[-1, 0, 1],
                    yticks=[-1, 0, 1]) | options)


def halves() -> HTML:
    """The F as it is, mirrored, and half of each, with the arrow (3, 4)."""
    figure, panels = subplots(1, 3, height=2.1, sharey=True)
    maps = {"as it is": np.eye(2), "mirrored": mirror(0),
            "half of each": (np.eye(2) + mirror(0)) / 2}
    for axes, (name, by) in zip(panels, maps.items(), strict=True):
        draw_letter(axes, standing(by, (1.76, 2)), at=(1.76, 2), size=4)   # its corner: (3, 4)
        tip = by @ np.array([3, 4])
        arrow(axes, (0, 0), tip, linewidth=0.8)
        axes.text(0.7 * tip[0], 4.25, f"({tip[0] + 0:.0f}, {tip[1]:.0f})".replace("-", "−"),
                  ha="center", va="bottom", fontsize=10)
        axes.set(aspect="equal", xlim=(-4.4, 4.4), ylim=(-0.6, 5.8), title=name,
                 xlabel="first number", xticks=[-3, 0, 3], yticks=[0, 4])
    panels[0].set_ylabel("second number")
    return show(figure, "Three panels with the letter F and an arrow to its corner. In the first "
                        "the arrow is (3, 4). In the second the F is mirrored and the arrow is "
                        "(−3, 4). In the third the F lies flat on the vertical axis, and the arrow "
                        "is (0, 4).",
                caption="The F before (grey) and after (blue), and the arrow of the opening. Half "
                        "of the F and half of its mirror image make a line.")


def wiring() -> HTML:
    """The blend of a rotation Q and a mirror H, with a small network that computes them."""
    figure, axes = canvas(2.2)
    axes.plot([0.6, 1.6], [2.7, 2.7], **LINE)
    for x in (3.7, 6.3):                              # to both maps, and to both shares
        axes.plot([x, x], [0.75, 3.3], "--", color="black", linewidth=1, zorder=0)
    for y, name, share in ((3.6, "Q  turns", "× γ"), (1.8, "H  mirrors", "× (1 − γ)")):
        axes.plot([1.6, 1.6, 7.9, 7.9], [2.7, y, y, 2.7], zorder=1, **LINE)
        axes.text(3.7, y, name, **OPERATOR | dict(fontsize=12))
        axes.text(6.3, y, share, **BOXED)
    arrow(axes, (8.0, 2.7), (9.3, 2.7), shrinkA=2, shrinkB=2)
    plus(axes, 7.9, 2.7)
    axes.plot(1.6, 2.7, "ko", markersize=5)
    for x, said in ((0.3, "x"), (9.6, "G x")):
        axes.text(x, 2.7, said, style="italic", ha="center", va="center", fontsize=13)
    axes.text(5, 0.45, "a small network computes Q, H and γ", ha="center", va="center", fontsize=10)
    return show(figure, "The state goes through a rotation Q and a mirror H side by side. The "
                        "results are multiplied by gamma and by one minus gamma, and added. A "
                        "small network computes Q, H and gamma.",
                caption="The layer. Both maps act on the same x, and the gate weighs their "
                        "results.")


def circles() -> HTML:
    """The F under eight rotations, and under eight reflections."""
    figure, panels = subplots(1, 2, height=2.9)
    for axes, kind, scale, color, said in ((panels[0], turn, 1, ACCENT, "turned"),
                                           (panels[1], mirror, .5, SECOND, "mirrored")):
        plane(axes, limit=1.45).axis("off")
        for degree in range(0, 360, 45):
            place = turn(degree) @ np.array([1.0, 0.0])
            draw_letter(axes, kind(scale * degree), at=place, size=0.5, color=color, ghost=False)
        axes.text(0, 0, said, ha="center", va="center", color=color, fontsize=12)
    return show(figure, "Two circles of letters. Around the first the letter F is turned step by "
                        "step. Around the second it is mirrored and turned. No letter of one "
                        "circle is a letter of the other.",
                caption="Left: the F under eight rotations. Right: the F under eight reflections.")


def draw_blend(gate: float, angle: float) -> Figure:
    """The circle becomes an ellipse with half axes 1 and |2 gate - 1|. At gate 0.5 it is a line, whatever the angle of the rotation: only the direction of the line turns. One end of the slider shows a turned letter, and the other a mirrored one."""  # noqa: E501  (the docstring is the figure's alt text)
    g = gate * turn(angle) + (1 - gate) * mirror(20)
    x = turn(20 - angle / 2) @ np.array([1.0, 0.0])            # H x = −Q x
    figure, axes = subplots(height=3.9)
    numbers(axes, 1.3, title="The F and the circle, before and after")
    axes.add_patch(Ellipse((0, 0), 2, 2 * abs(2 * gate - 1), fill=False, edgecolor=ACCENT,
                           angle=110 + angle / 2, linewidth=2))      # where Q x = H x
    draw_letter(axes, g, size=1.15)
    across = 1.25 * np.array([-np.sin(np.deg2rad(20)), np.cos(np.deg2rad(20))])
    axes.plot(*np.transpose([-across, across]), color="#bbbbbb", linewidth=1.2, zorder=0)
    axes.text(*(0.06 - across[0], 0.01 - across[1]), "mirror", color="#777777", fontsize=9,
              va="center")
    axes.plot([0, x[0]], [0, x[1]], "--", color="black", linewidth=1.2)
    axes.text(*(1.13 * x), "x", style="italic", ha="center", va="center")
    axes.plot(*zip((0, 0), g @ x, strict=True), color=SECOND, marker="s", markevery=[1])
    return figure


def draw_arms(degree: float) -> Figure:
    """A long arm goes forwards and carries a short arm that goes backwards. The end of the short arm draws an ellipse. It is farthest from the centre where the arms point the same way, and nearest where they are opposite."""  # noqa: E501  (the docstring is the figure's alt text)
    def ends(t):                              # γ is 0.7, Q turns by 40°, and k is at 20°
        long = 0.7 * np.exp(1j * np.deg2rad(t + 40))
        return long, long + 0.3 * np.exp(1j * np.deg2rad(220 - t))

    figure, axes = subplots(height=3.9)
    elbow, end = ends(degree)
    numbers(axes, 1.15, title=f"Gx is {abs(end):.2f} from the centre")
    way = ends(np.linspace(0, degree, 37))[1]
    axes.plot(way.real, way.imag, ":", color=ACCENT, linewidth=1.6)
    axes.plot([0, elbow.real], [0, elbow.imag], color="#777777", linewidth=4)
    axes.plot([elbow.real, end.real], [elbow.imag, end.imag], color=ACCENT, linewidth=4)
    axes.plot(end.real, end.imag, "o", color=ACCENT, markersize=9)
    axes.plot(0, 0, "k+", markersize=9)
    hand = np.exp(1j * np.deg2rad(degree))
    axes.plot([0, hand.real], [0, hand.imag], "--", color="black", linewidth=1.2)
    axes.text(1.09 * hand.real, 1.09 * hand.imag, "x", style="italic", ha="center", va="center")
    for y, said, color in ((0.9, "long arm,\nalong Qx", "#666666"),
                           (0.45, "short arm,\nalong Hx", ACCENT)):
        axes.text(1.2, y, said, color=color, va="center", fontsize=10)
    axes.set(xlim=(-1.15, 2.05))
    return figure


def depth(*gates: float) -> HTML:
    """The F through eight layers with turns and mirrors of their own, one row per gate."""
    rng = np.random.default_rng(3)
    turns, mirrors = rng.uniform(-70, 70, 8), rng.uniform(0, 180, 8)
    figure, rows = canvas(1.1 * len(gates), rows=len(gates), xlim=(-2.2, 10.4), ylim=(-1.25, 0.85))
    for axes, gate in zip(rows, gates, strict=True):
        draw_depth(axes, [gate * turn(a) + (1 - gate) * mirror(b)
                          for a, b in zip(turns, mirrors, strict=True)], step=1.2)
        axes.text(-2.15, 0, f"γ = {gate:g}", va="center", fontsize=11)
        for layer in range(9):
            axes.text(1.2 * layer, -0.98, layer or "start", ha="center", va="center", fontsize=10)
        axes.set(xlim=(-2.2, 10.4), ylim=(-1.25, 0.85))
    return show(figure, "One row per gate, with the letter F before and after each of eight "
                        "layers. The farther the gate is from one half, the slower it shrinks. At "
                        "one half it is a line after the first layer.",
                caption="The F before the first layer (grey) and after each of eight layers. Each "
                        "layer has a turn and a mirror of its own.")


def hill(*starts: float) -> HTML:
    """The penalty 4γ(1 − γ) as a hill, with a ball for each start."""
    figure, axes = subplots(height=2.5)
    line = np.linspace(0, 1, 25)
    axes.plot(line, midpoint_penalty(line), color="black")
    for at in starts:
        side = np.sign(at - 0.5)
        color = {-1: SECOND, 0: "#777777", 1: ACCENT}[int(side)]
        y = midpoint_penalty(at) + 0.08
        axes.plot(at, y, "o", color=color, markersize=12)
        axes.text(at, y + 0.1, f"{at:g}", color=color, ha="center", va="bottom", fontsize=11)
        if side:
            arrow(axes, (at + 0.07 * side, y - 0.02), (at + 0.19 * side, y - 0.4), color=color)
    axes.set(xlabel="gate γ", ylabel="penalty", ylim=(-0.05, 1.4), xticks=[0, 0.5, 1],
             yticks=[0, 1])
    return show(figure, "The penalty against the gate is a hill, 0 at both ends and 1 in the "
                        "middle, with balls on it. Arrows lead the outer balls down to their own "
                        "ends. A ball on the top has no arrow.",
                caption="The penalty as a hill. A ball beside the top rolls down on its own side.")


def starts() -> HTML:
    """The mean gates of the stored runs against training steps."""
    drawn = {HIGH: (0.96, ACCENT, "-"), HALF: (0.62, "#777777", "--"), FREE: (0.36, GREEN, "-."),
             LOW: (0.04, SECOND, "-")}
    figure, axes = subplots(height=3.2)
    for model, (height, color, style) in drawn.items():
        when, _, gates = paths(model)
        shown = np.r_[0:10:3, 10:len(when):6, len(when) - 1]
        axes.plot(when[shown], gates[:, shown].T, style, color=color, linewidth=1.4)
        axes.text(when[-1] + 50, height, STARTS[model].replace(", ", ",\n"), color=color,
                  va="center", fontsize=10)
    axes.set(ylabel="mean gate γ", ylim=(0, 1.08), xlim=(-40, when[-1] + 30),
             xlabel="training steps", title="Three starts, and one without the penalty")
    return show(figure, "The mean gate against training steps, one line per seed. The gates from "
                        "0.18 fall, those from 0.82 rise, the mean from one half stays in between, "
                        "and without the penalty the gates from 0.18 rise.",
                caption="The mean gate of a network, one line per seed.")


def ends() -> HTML:
    """Where the gates of the runs in `starts` end, and how well they point to −x: means."""
    lines = "".join("<tr><td>{}</td><td>{}</td><td>{:.2f}</td><td>{:.2f}</td></tr>".format(
        STARTS[model].split(",")[0].removeprefix("from "), "no" if model == FREE else "yes",
        *(kept(model, key).mean() for key in ("gate", "alignment")))
        for model in (LOW, HALF, HIGH, FREE))
    return HTML('<div class="reported"><table class="table"><tr><th>start</th><th>penalty</th>'
                f"<th>gate at the end</th><th>cosine with −x</th></tr>{lines}</table></div>")


def draw_detour(gate: float) -> Figure:
    """Left, the F is multiplied by 2 gate - 1: it shrinks to a point at one half and opens again upside down. Right, it turns by half a turn and keeps its size. Both begin and end alike."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, panels = subplots(1, 2, height=3.1, sharey=True)
    angles, x = np.linspace(0, 180 * (1 - gate), 25), np.array([0.35, 0.3])
    straight, around = (2 * gate - 1) * np.eye(2), turn(angles[-1])
    for axes, name, by, way in (
            (panels[0], "the blend: straight", straight, [x, straight @ x]),
            (panels[1], "the detour: around", around, [turn(degree) @ x for degree in angles])):
        draw_letter(axes, by, size=1.35)
        axes.plot(*np.transpose(way), color=SECOND, linewidth=1.5)
        axes.plot(*(by @ x), "s", color=SECOND, markersize=6)
        axes.set(xlim=(-1.05, 1.05), ylim=(-1.05, 1.05), aspect="equal", xticks=[0], yticks=[0],
                 xlabel="first number, a")
        axes.set_title(name, fontsize=10)
    panels[0].set_ylabel("second number, b")
    return figure


def sides(sign: np.ndarray) -> HTML:
    """The mean signs of det(I + J) over words, of sublayers in turn attention and MLP: (rows,)."""
    figure, axes = subplots(height=3)
    for start, said, style in (
            (0, "attention", dict(color=SECOND, marker="s", markerfacecolor="white")),
            (1, "MLP", dict(color=ACCENT, marker="o"))):
        axes.plot(range(start, len(sign), 2), 50 * (1 - sign[start::2]), linestyle="",
                  markersize=4.5, label=said, **style)
    axes.set(xlabel="sublayer", ylabel="% of words on the\nmirrors' side", ylim=(-6, 106),
             yticks=[0, 50, 100])
    axes.legend(loc="upper right")
    return show(figure, "The share of words at which the determinant of I + J is negative, for "
                        "each sublayer. It is near 0 for the attentions, and anywhere between 0 "
                        "and 100 per cent for the MLPs.",
                caption="The sign of det(I + J) at one word of each of six windows of text.")
