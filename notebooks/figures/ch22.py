"""The figures of chapter 22: two streams that may turn, and vectors that travel to memory.

A trip is (name, vectors, up): what a kernel fetches from memory goes up, what it writes goes down.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from IPython.display import HTML
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from geolab.show.figures import ACCENT, SECOND, show, subplots
from geolab.show.letter import F, draw_letter
from geolab.show.schematic import BOXED, CENTRE, OPERATOR, SUBLAYER, TINT, arrow, canvas
from notebooks.figures.ch09 import turn
from studies.engine import results

PALE, MIDDLE = "#bbbbbb", "#9cc5e0"
STORED = results.read(results.FOLDER / "steps_h100.json")
STEPS = {(row["residual"], row["mode"]): row for row in STORED["rows"]}
RATIO = {key: row["ratio"] for key, row in STEPS.items()}
TIMED = results.read(results.FOLDER / "kernels_h100.stream_mix_write.json")
SCHEDULES = {row["schedule"]: row["vectors"]
             for row in results.read(results.FOLDER / "schedule.json")["rows"] if row["n"] == 4}

Trip = tuple[str, int, bool]
Kernel = tuple[str, list[Trip]]
UP, DOWN = True, False
LATER, BEFORE = r"$L$", r"$H^T\bar Y$"
PYTORCH: list[Kernel] = [
    ("mix", [("X", 4, UP), ("HX", 4, DOWN)]), ("write", [("h", 1, UP), ("b h", 4, DOWN)]),
    ("add", [("HX", 4, UP), ("b h", 4, UP), ("Y", 4, DOWN)])]
IN_ONE: list[Kernel] = [
    ("one kernel", [("X", 4, UP), ("h", 1, UP), ("Y", 4, DOWN)]),
    ("one kernel, back", [("Y_bar", 4, UP), ("X", 4, UP), ("h", 1, UP), ("X_bar", 4, DOWN),
                          ("h_bar", 1, DOWN)])]
APART: list[Kernel] = [
    ("read", [("Y", 4, UP), ("u_bar", 1, UP), ("R", 4, DOWN)]),
    ("add", [(LATER, 4, UP), ("R", 4, UP), ("L + R", 4, DOWN)]),
    ("generator", [("Y", 4, UP), ("G", 4, DOWN)]),
    ("add", [("L + R", 4, UP), ("G", 4, UP), ("Y_bar", 4, DOWN)]),
    ("update", [("Y_bar", 4, UP), ("X", 4, UP), ("h", 1, UP), (BEFORE, 4, DOWN),
                ("h_bar", 1, DOWN)])]
TOGETHER: list[Kernel] = [
    ("backward 1", [("Y", 4, UP), ("u_bar", 1, UP)]),
    ("backward 2", [(LATER, 4, UP), ("u_bar", 1, UP), ("X", 4, UP), ("h", 1, UP),
                    (BEFORE, 4, DOWN), ("h_bar", 1, DOWN)])]
LABELS = {"Y_bar": r"$\bar Y$", "u_bar": r"$\bar u$", "h_bar": r"$\bar h$", "X_bar": r"$\bar X$",
          "L + R": "L+R", "b h": r"$b\,h^T$"}


# ---------------------------------------------------------------- what a step costs

def steps() -> HTML:
    """The time of a training step with one stream and with four, over that of one stream."""
    figure, axes = subplots(height=1.75)
    rows = ((("additive", "eager"), "one stream", PALE),
            (("mhc", "eager"), "four streams, PyTorch", SECOND),
            (("mhc", "kernels"), "four streams, kernels", ACCENT))
    for y, (key, _, color) in enumerate(rows):
        axes.barh(-y, RATIO[key], height=0.6, color=color)
        axes.text(RATIO[key] + 0.03, -y, f"{RATIO[key]:.2f}" if y else "1", va="center",
                  fontsize=10)
    axes.set(yticks=[0, -1, -2], yticklabels=[said for _, said, _ in rows], xlim=(0, 2.2),
             xticks=[0, 0.5, 1, 1.5, 2], xlabel="time of a training step")
    axes.grid(axis="y", visible=False)
    return show(
        figure,
        "Time of a training step. One stream: 1. Four streams with PyTorch's operations: 1.91. "
        "Four streams with kernels: 1.09.",
        caption="A training step over that of the plain residual, which has one stream: 8192 "
                "tokens, four blocks of width 2560, on an H100, without torch.compile. The "
                "medians of seven rounds, from the printed log of one run; their spread isn't "
                "known. The kernels include the next chapter's, which makes H.")


def timed(who: str, tokens: int) -> dict:
    """A contender's stored row, at the size with this number of tokens."""
    return next(row for row in TIMED["rows"] if (row["contender"], row["N"]) == (who, tokens))


def over_copy(who: str, tokens: int = 65536) -> tuple[float, float]:
    """Its times forward and backward, over those of a copy of what must move."""
    mine, copy = timed(who, tokens)["us"], timed("copy", tokens)["us"]
    return mine["forward"] / copy["forward"], mine["backward"] / copy["backward"]


def clock() -> HTML:
    """The times of three ways to compute the update, over that of a copy."""
    figure, axes = subplots(height=2.5)
    names = {"kernel": "geolab's kernels", "liger-kernel": "Liger's kernels", "eager": "PyTorch"}
    for y, who in enumerate(names):
        for low, side, color, times in zip((0.19, -0.19), ("forward", "backward"),
                                           (ACCENT, MIDDLE), over_copy(who), strict=True):
            axes.barh(low - y, times, height=0.36, color=color)
            digits = 2 if who == "kernel" else 1
            axes.text(max(times, 1) + 0.25, low - y, f"{times:.{digits}f} times, {side}",
                      va="center", fontsize=9)
    axes.axvline(1, color="black", linewidth=1)
    axes.set(yticks=[0, -1, -2], yticklabels=list(names.values()), xlim=(0, 20),
             xlabel="time over that of a copy")
    axes.grid(axis="y", visible=False)
    return show(
        figure,
        "Time over that of a copy. geolab's kernels take as long as a copy. Liger's take 4 and 11 "
        "times as long, PyTorch's operations 14 and 10 times.",
        caption="The update of 65,536 tokens with four streams of 768 features in bfloat16, on an "
                "H100. Liger is a public library of kernels (version 0.8.5). All three got the "
                "same inputs. PyTorch ran without torch.compile, which failed on them. Why Liger "
                "takes longer wasn't studied. The black line is the time of a copy.")


# ---------------------------------------------------------------- two streams, and the letter F

def points() -> HTML:
    """Three features as points, the way of a small turn, and the gradients."""
    figure, axes = subplots(height=2.8)
    features = (((1, 2), (1, 0), (-0.95, -0.25)), ((2, 0), (0, 1), (0.1, -0.25)),
                ((2, 1), (1, 0), (0.22, -0.33)))
    for number, (place, slope, words) in enumerate(features, 1):
        point, x, y = np.array(place), *place
        ahead = np.arctan2(y, x) + np.linspace(-0.3, 0.6, 15)
        axes.plot(*(np.hypot(x, y) * np.array([np.cos(ahead), np.sin(ahead)])), color="#cccccc",
                  linewidth=1)
        aside = (0.14, 0) if number == 2 else (0, 0)
        for by, color, wide, start in ((slope, SECOND, 4, point + aside),
                                       ((-y, x), ACCENT, 1.8, point)):
            arrow(axes, start, start + 0.4 * np.array(by), color, linewidth=wide,
                  arrowstyle="-|>,head_length=0.7,head_width=0.35",
                  mutation_scale=9 if wide > 2 else 7)
        axes.plot(*point, "ko", markersize=6, zorder=5)
        axes.text(*(point + words), f"feature {number}", fontsize=10)
    axes.plot(0, 0, "+", color="black", markersize=9)
    axes.set(aspect="equal", xlim=(-0.2, 3.3), ylim=(-0.45, 2.75), xticks=[0, 1, 2, 3],
             yticks=[0, 1, 2], xlabel="stream 1", ylabel="stream 2")
    return show(
        figure,
        "Three points in the plane of the two streams, at (1, 2), (2, 0) and (2, 1). A thin arrow "
        "at each is at right angles to the line from the origin, counterclockwise. Wide arrows "
        "point to the right at the first and third point, and up at the second.",
        caption="Each point is a feature of the token, with a piece of its circle. Thin blue "
                "arrow: where a small turn moves it. Wide orange arrow: its gradient. All arrows "
                "are drawn at 0.4 of their length.")


def letters() -> HTML:
    """The letter F under an average, a rotation, and a blend of a rotation with a mirror."""
    figure, panels = subplots(1, 3, height=2.8, sharey=True)
    flip = np.diag([-1.0, 1.0])
    matrices = {"mHC: averages": np.array([[0.7, 0.3], [0.3, 0.7]]), "JPmHC: rotates": turn(50),
                "E-MHC-Geo: blends": 0.7 * turn(50) + 0.3 * flip}
    for axes, (name, by) in zip(panels, matrices.items(), strict=True):
        draw_letter(axes, by)
        axes.set(aspect="equal", xlim=(-0.62, 0.62), ylim=(-0.62, 0.62), xticks=[0], yticks=[0],
                 xlabel="stream 1")
        axes.set_title(name, fontsize=10)
        for (i, j), value in np.ndenumerate(by):
            axes.annotate(f"{value:.2f}".replace("-", "−"), (0.5, 0), (-4 + 40 * j, -48 - 15 * i),
                          xycoords="axes fraction", textcoords="offset points", ha="right",
                          va="center")
    for by, style in ((turn(50), "-"), (flip, ":")):     # what is blended
        panels[2].fill(*(F @ by.T).T, fill=False, edgecolor=SECOND, linestyle=style,
                       linewidth=1.2)
    panels[0].set_ylabel("stream 2")
    return show(
        figure,
        "The letter F before and after three matrices. Averaging squeezes it along one diagonal, "
        "a rotation turns it, and a blend of a rotation with a mirror shrinks and slants it. "
        "Orange outlines show the turned and the mirrored F.",
        caption="The F before H (grey) and after (blue), and below it the four numbers of H. A "
                "point's two coordinates are what stream 1 and stream 2 hold of this feature. "
                "Orange, on the right: the turned F, and the mirrored one (dotted). The blend "
                "lies 0.3 of the way from the first to the second.")


def coloured(axes: Axes, x: float, matrix: np.ndarray, name: str, top: float) -> None:
    """Draw a matrix of two rows as coloured squares, with its name above."""
    for (i, j), value in np.ndenumerate(matrix):
        axes.fill([x + j, x + j + 1, x + j + 1, x + j], [-i, -i, 1 - i, 1 - i], edgecolor="black",
                  facecolor=ACCENT if value > 0 else SECOND, alpha=min(1, abs(value) / top))
        axes.text(x + j + 0.5, 0.5 - i, f"{round(value, 2) + 0:.2f}".replace("-", "−"),
                  fontsize=9.5, **CENTRE)
    axes.text(x + 1, 1.35, name, fontsize=11, **CENTRE)


def draw_slope(angle: float) -> Figure:
    """The letter F turns towards a dashed target. Beside it stand the four numbers of S, their four weights, and the slope of the loss, which is negative before the target, zero at the target and opposite to it, and positive beyond."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, (left, right) = subplots(1, 2, height=2.7, width_ratios=[1, 1.6])
    goal, H, dH = F @ turn(45).T, turn(angle), turn(angle + 90)
    left.fill(*goal.T, fill=False, linestyle="--", edgecolor="black")
    draw_letter(left, H, ghost=False)
    left.set(aspect="equal", xlim=(-0.75, 0.75), ylim=(-0.75, 0.75), xticks=[0], yticks=[0],
             xlabel="stream 1", ylabel="stream 2", title="Y, and the target")
    S = (F @ H.T - goal).T @ F
    coloured(right, 0, S, "S", 6)
    coloured(right, 2.7, dH, "∂H/∂θ", 1.6)
    slope = (S * dH).sum()
    said = f"{slope:+.2f}" if abs(slope) > 0.005 else "0"
    right.text(2.35, -1.6, "sum of the four products: " + said.replace("-", "−"), fontsize=11,
               **CENTRE)
    right.set(aspect="equal", xlim=(-0.1, 4.8), ylim=(-2, 1.7))
    right.set_axis_off()
    return figure


def own(geometries: Mapping[str, tuple[np.ndarray, float]]) -> HTML:
    """The letter F under each geometry at t = 0.5: name -> its matrix, and its slope at t = 0."""
    figure, panels = subplots(1, len(geometries), height=2.2, sharey=True)
    for axes, (name, (matrix, slope)) in zip(panels, geometries.items(), strict=True):
        draw_letter(axes, matrix)
        axes.set(aspect="equal", xlim=(-0.9, 0.9), ylim=(-0.9, 0.9), xticks=[], yticks=[],
                 xlabel="stream 1", title=f"{name}: slope {slope:+.0f}")
    panels[0].set_ylabel("stream 2")
    return show(
        figure,
        "The letter F, slanted by a shear whose slope is plus 3, and stretched upwards with slope "
        "0.",
        caption="The F before (grey) and after (blue), at t = 0.5.")


# ---------------------------------------------------------------- kernels and memory

def vectors(kernels: Sequence[Kernel], left_out: Collection[str] = ()) -> int:
    """The vectors of all trips, without those of some names."""
    return sum(count for _, trips in kernels for name, count, _ in trips if name not in left_out)


def draw_kernels(axes: Axes, kernels: Sequence[Kernel], halfway: Collection[str] = (),
                 left: float = 1.65, gap: float = 0.2) -> None:
    """Draw kernels on a chip over the memory, and an arrow for each vector, dotted if halfway."""
    axes.set(xlim=(0, 10), ylim=(0, 2.75))
    axes.set_axis_off()
    axes.axhspan(0, 0.8, color="#eeeeee")
    for y, said in ((0.4, "memory"), (2.15, "on chip")):
        axes.text(0.05, y, said, va="center", fontsize=10)
    x = left
    for words, trips in kernels:
        start, said = x, f"{words}: {vectors([(words, trips)])}"
        for name, count, up in trips:
            style = dict(color=SECOND, linestyle=":") if name in halfway else dict(color="black")
            for at in x + gap * np.arange(count):
                low, high = (at, 0.85), (at, 1.72)
                arrow(axes, low if up else high, high if up else low, linewidth=1.1,
                      mutation_scale=7, **style)
            axes.text(x + gap * (count - 1) / 2, 0.4, LABELS.get(name, name), fontsize=10,
                      style="italic", **CENTRE)
            x += gap * (count - 1) + 0.42
        middle = (start + x - 0.42) / 2
        half = max((x - 0.42 - start) / 2 + 0.15, 0.8, 0.078 * (len(words) + 4))
        axes.fill(middle + half * np.array([-1, 1, 1, -1]), [1.78, 1.78, 2.55, 2.55],
                  facecolor=TINT, edgecolor=ACCENT, linewidth=1.3)
        axes.text(middle, 2.16, said, fontsize=9.5, **CENTRE)
        x = max(x + 0.3, middle + half + 0.45)


def one_kernel() -> HTML:
    """The vectors of PyTorch's three operations, and those of one kernel."""
    figure, panels = subplots(2, height=3.7)
    draw_kernels(panels[0], PYTORCH, ("HX", "b h"))
    draw_kernels(panels[1], IN_ONE)
    return show(
        figure,
        "Kernels on the chip, over the memory, with an arrow for each vector. First row: mix, X "
        "up and HX down, 8. Write: h up, its product with b down, 5. Add: both up, Y down, 12. "
        "The arrows of HX and of the product are dotted. Second row: one kernel, X and h up, Y "
        "down, 9. One kernel on the way back: three gradients and inputs up, two gradients down, "
        "14. No arrow is dotted.",
        caption="Four streams; each arrow is a vector. Above: PyTorch's operations. Dotted arrows "
                "belong to what goes down only to come up again. Below: one kernel for each "
                "direction.")


def together() -> HTML:
    """The way back in two kernels."""
    figure, axes = subplots(height=1.85)
    draw_kernels(axes, TOGETHER, left=1.95, gap=0.26)
    return show(
        figure,
        "Two kernels on the chip. Backward 1: Y and the gradient of u up, 5. Backward 2: L, the "
        "gradient of u, X and h up, the gradients of X and h down, 15. No arrow is dotted.",
        caption="The way back in two kernels, 20 vectors, drawn as before.")


def tiles() -> HTML:
    """The tiles of a program, forward and backward."""
    figure, panels = subplots(1, 2, height=2.1)
    for axes, name in zip(panels, ("forward", "backward"), strict=True):
        for row, column in np.ndindex(3, 5):
            taken = (row, column) == (1, 2) if name == "forward" else row == 1
            axes.fill([column, column + 1, column + 1, column], [-row, -row, 1 - row, 1 - row],
                      facecolor=TINT if taken else "white", edgecolor="black")
        if name == "backward":
            arrow(axes, (0.3, -0.5), (4.8, -0.5), ACCENT, linewidth=2)
            axes.text(5.2, -0.5, "sums", va="center")
        else:
            axes.text(2.5, -0.5, "a tile", fontsize=9, **CENTRE)
        axes.set(xlim=(-0.1, 6.4), ylim=(-2.75, 2.0))
        axes.text(2.5, 1.5, name, fontsize=12, **CENTRE)
        axes.text(2.5, -2.2, "features →", ha="center", va="top")
        axes.set_axis_off()
    panels[0].text(-0.3, -0.5, "tokens", rotation=90, **CENTRE)
    return show(
        figure,
        "Two grids of tiles, tokens by features. Forward, a program takes one tile. Backward, it "
        "takes a row of tiles, from left to right, and carries its sums along.",
        caption="Filled: the tiles of one program. Each tile stands for the same features in all "
                "streams of a token.")


def layers() -> HTML:
    """The way back through two layers: three gradients meet in that of Y."""
    figure, axes = canvas(3.25)
    for left, right, name in ((0.95, 3.05, "this layer"), (4.55, 9.4, "the next layer")):
        axes.fill([left, right, right, left], [0.15, 0.15, 5.85, 5.85], color="#f0f0f0", zorder=0)
        axes.text((left + right) / 2, 6.15, name, fontsize=11, weight="bold", **CENTRE)
    grey = BOXED | dict(bbox=SUBLAYER["bbox"])
    for x, y, name, style in ((2.0, 1.5, "update", OPERATOR), (8.2, 1.5, "update", OPERATOR),
                              (5.6, 3.2, "generator", OPERATOR), (7.75, 3.2, "geometry", BOXED),
                              (5.4, 5.0, "read", OPERATOR), (2.0, 5.0, "sublayer", grey),
                              (8.45, 5.0, "sublayer", grey)):
        axes.text(x, y, name, **style)
    axes.text(3.8, 1.5, r"$\bar Y$", fontsize=15, **CENTRE)
    for start, end, color, wide in (
            ((7.3, 1.5), (4.15, 1.5), SECOND, 3.5), ((4.95, 4.6), (3.95, 1.95), SECOND, 3.5),
            ((5.05, 2.8), (4.15, 1.75), SECOND, 3.5), ((3.45, 1.5), (2.9, 1.5), "black", 3.5),
            ((1.1, 1.5), (0.1, 1.5), "black", 3.5), ((9.9, 1.5), (9.1, 1.5), "black", 3.5),
            ((2.0, 1.95), (2.0, 4.6), "black", 1.5), ((8.9, 1.95), (8.9, 4.6), "black", 1.5),
            ((7.6, 5.0), (5.95, 5.0), "black", 1.5), ((8.1, 1.95), (7.9, 2.8), "black", 0.8),
            ((6.95, 3.2), (6.5, 3.2), "black", 0.8), ((7.55, 1.95), (6.2, 2.8), "black", 0.8),
            ((5.45, 4.6), (5.55, 3.6), "black", 0.8)):
        arrow(axes, start, end, color, linewidth=wide)
    for x, y, name, color in (
            (6.1, 1.1, "L", SECOND), (4.25, 3.5, "R", SECOND), (4.9, 2.0, "G", SECOND),
            (8.3, 2.35, "S", "black"), (6.55, 2.2, r"$\bar b$", "black"),
            (5.85, 4.2, r"$\bar a$", "black"), (6.8, 5.35, r"$\bar u$", "black"),
            (9.18, 3.3, r"$\bar h$", "black"), (2.4, 3.3, r"$\bar h$", "black"),
            (0.5, 2.05, r"$H^T\bar Y$", "black")):
        axes.text(x, y, name, fontsize=12, color=color, style="italic", **CENTRE)
    axes.text(6.95, 0.6, r"L is the next layer's $H^T\bar Y$", fontsize=10, **CENTRE)
    return show(
        figure,
        "The way back through two layers, from right to left. In the next layer the update sends "
        "h's gradient to the sublayer, S to the geometry and through it to the generator, the "
        "gradient of b to the generator, and L to the left. The sublayer sends the gradient of u "
        "to the read, and the read that of a to the generator. Three orange arrows meet in the "
        "gradient of Y: L from the update, R from the read, G from the generator. From there "
        "this layer's update goes on, to its sublayer and to the layer before.",
        caption="The way back, from right to left. This layer has a read, a generator and a "
                "geometry, too, which aren't drawn. What this layer's update sends on is the L of "
                "the layer before. Thick arrows: four vectors. Thinner: one. Thinnest: a few "
                "numbers.")
