"""The figures of chapter 23: a square whose columns and rows are divided, and a thread's registers.

The square has the rows (1, 3) and (1, 1), or another number in place of the 3: its corner.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from IPython.display import HTML
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from geolab.show.figures import ACCENT, QUIET, SECOND, label_line, show, subplots
from geolab.show.schematic import CENTRE, TINT, arrow, box, canvas
from studies.engine import results

REGISTERS = 255
OWN = 32                                         # the square of 4 × 4 and its gradient
KEPT = {"both squares": 32, "one square": 16, "every f": 4}    # numbers per round
# geolab's kernel holds at most 5 of the 19 vectors before its later rounds, and 4 between two
HELD = 4 * (5 + 4)
DARK, PALE, FREE = "#333333", "#9cc5e0", "#e6e6e6"
ASSEMBLY = {row["kernel"]: row for row in results.read(results.FOLDER / "assembly.json")["rows"]
            if row["operator"] == "sinkhorn" and row["N"] == 8192}
BUILT = ASSEMBLY["_scale_backward"]


# ---------------------------------------------------------------- a thread's registers

def strip(axes: Axes, y: float, parts: Sequence[tuple[float, str]], most: float = 700) -> None:
    """Draw numbers side by side as a strip at height y, with an outline around 255 registers."""
    axes.fill([0, REGISTERS, REGISTERS, 0], [y, y, y + 1, y + 1], facecolor=FREE)
    left = 0.0
    for count, color in parts:
        for begin, end, hatch in ((left, min(left + count, REGISTERS), None),
                                  (max(left, REGISTERS), min(left + count, most), "///")):
            if end > begin:
                axes.fill([begin, end, end, begin], [y, y, y + 1, y + 1], hatch=hatch,
                          facecolor=SECOND if hatch else color, edgecolor="white", linewidth=0)
        left += count
    axes.plot(np.array([0, 1, 1, 0, 0]) * REGISTERS, [y, y, y + 1, y + 1, y], color="black",
              linewidth=1.8)


def textbook() -> HTML:
    """The 640 numbers of the textbook's history, beside 255 registers."""
    figure, axes = canvas(1.35, xlim=(-14, 714), ylim=(-1.1, 2.1))
    strip(axes, 0, [(OWN, DARK), (640, ACCENT)])
    axes.text(0, 1.3, "a thread: 255 registers", fontsize=11)
    axes.text(463, 0.5, "417 too many", fontsize=11, weight="bold",
              bbox=dict(facecolor="white", edgecolor="none", pad=2.5), **CENTRE)
    axes.text(0, -0.7, "32 + 640 numbers to hold", fontsize=11)
    return show(
        figure,
        "A strip of 672 numbers is longer than the 255 registers of a thread: 417 lie outside.",
        caption="Dark: the square and its gradient, 32 numbers. Blue: the part of the history "
                "that fits beside them. Orange, hatched: the part that doesn't, 32 + 640 − 255 = "
                "417.")


def draw_room(rounds: int) -> Figure:
    """Three histories beside 255 registers. Two squares per round overflow from 7 rounds on, one square per round from 14 rounds on, and one vector f per round from 56 rounds on."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, axes = canvas(2.9, xlim=(-14, 714), ylim=(-0.3, 6.2))
    for y, (name, each) in zip((4, 2, 0), KEPT.items(), strict=True):
        count = each * rounds
        strip(axes, y, [(OWN, DARK), (count, ACCENT)])
        over = OWN + count - REGISTERS
        said = f"{over} too many" if over > 0 else f"{-over} free"
        axes.text(0, y + 1.22, f"{name}: {count} numbers", fontsize=11)
        axes.text(700, y + 1.22, said, ha="right", fontsize=11,
                  color=SECOND if over > 0 else "black", weight="bold" if over > 0 else "normal")
    return figure


def fits() -> HTML:
    """The registers of geolab's backward kernel, by what they hold."""
    figure, axes = canvas(1.5, xlim=(-6, 262), ylim=(-1.6, 2.0))
    parts = ((OWN, DARK, "square,\ngradient"), (HELD, ACCENT, "vectors"),
             (BUILT["registers"] - OWN - HELD, PALE, "all else"),
             (REGISTERS - BUILT["registers"], FREE, "free"))
    strip(axes, 0, [(count, color) for count, color, _ in parts])
    left = 0
    for count, color, name in parts:
        axes.text(left + count / 2, 0.5, str(count), fontsize=11,
                  color="white" if color in (DARK, ACCENT) else "black", **CENTRE)
        axes.text(left + count / 2, -0.25, name, fontsize=10, ha="center", va="top")
        left += count
    axes.text(0, 1.3, f"{BUILT['registers']} of 255 registers, {BUILT['stack']} bytes spilled",
              fontsize=11)
    return show(
        figure,
        "Of 255 registers the square and its gradient take 32, the vectors of the history at most "
        "36, all else 45. 142 are free.",
        caption="geolab's backward kernel for twenty rounds of 4 × 4, compiled for an H100. The "
                "compiler tells the sum, 113, and we count the parts: at most five vectors are "
                "kept, and four more are there while a part of the rounds is walked back. All "
                "else: f̄, ḡ, r, c, addresses, and so on.")


# ---------------------------------------------------------------- the rounds of the small square

def start(corner: float = 3.0) -> np.ndarray:
    """The square before the first step."""
    return np.array([[1.0, corner], [1, 1]])


def after(steps: int, corner: float = 3.0) -> tuple[np.ndarray, list[float]]:
    """The square after so many steps, columns first, and what each step spoiled: the largest
    distance of a sum from one."""
    P, spoiled = start(corner), []
    for step in range(steps):
        P = P / P.sum(step % 2, keepdims=True)
        spoiled.append(abs(P.sum(1 - step % 2) - 1).max())
    return P, spoiled


def square(axes: Axes, P: np.ndarray) -> None:
    """Draw a matrix, darker where it is larger, and its sums: blue if they are one, else orange."""
    n = len(P)
    for (i, j), value in np.ndenumerate(P):
        axes.fill([j, j + 1, j + 1, j], [-i, -i, -i - 1, -i - 1], facecolor=ACCENT,
                  alpha=min(0.6, 0.05 + 0.55 * value), edgecolor="black")
        axes.text(j + 0.5, -i - 0.5, f"{value:.3g}", fontsize=9, **CENTRE)
    for k in range(n):
        for x, y, value in ((n + 0.55, -k - 0.5, P[k].sum()), (k + 0.5, -n - 0.35, P[:, k].sum())):
            exact = abs(value - 1) < 1e-9
            said = "1" if exact else f"{value:.3f}" if value < 9 else f"{value:.3g}"
            axes.text(x, y, said, color=ACCENT if exact else SECOND, fontsize=9,
                      weight="bold" if exact else "normal", **CENTRE)
    axes.set(xlim=(-0.1, 3.1), ylim=(-2.7, 0.1), aspect="equal")
    axes.set_axis_off()


def draw_steps(corner: float) -> Figure:
    """Above: the square with its sums at the start, after one step, where those of the columns are one, and after two, where those of the rows are one. Below: bars of how far the spoiled sums are from one. They get shorter with every step, quickly for a small corner and slowly for 81."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, panels = subplots(2, 3, height=4.1, height_ratios=[1, 1.15])
    for steps, said in enumerate(("start", "step 1: columns", "step 2: rows")):
        square(panels[0, steps], after(steps, corner)[0])
        panels[0, steps].set_title(said, fontsize=11)
    spoiled = after(16, corner)[1]
    below = figure.add_subplot(panels[0, 0].get_gridspec()[1, :])
    for axes in panels[1]:
        axes.remove()
    for first, hatch in ((0, ""), (1, "//")):
        below.bar(range(1 + first, 17, 2), spoiled[first::2], color=SECOND, hatch=hatch,
                  edgecolor="white", width=0.8)
    below.text(16.4, 0.5, "plain: rows spoiled", ha="right", fontsize=10)
    below.text(16.4, 0.42, "hatched: columns spoiled", ha="right", fontsize=10)
    below.set(xlim=(0.4, 16.6), ylim=(0, 0.6), xticks=range(1, 17), xlabel="step",
              ylabel="distance from 1")
    below.grid(axis="x", visible=False)
    return figure


def factors() -> HTML:
    """The square after one round, as K with a factor beside each row and above each column."""
    figure, axes = canvas(2.1)
    K, f, g = start(), np.array([0.8, 4 / 3]), np.array([0.5, 0.25])
    for left, numbers in ((0.6, f[:, None] * K * g), (6.4, K)):
        for (i, j), value in np.ndenumerate(numbers):
            box(axes, left + 0.75 + 1.5 * j, 2.4 - 1.1 * i, 1.5, 1.1, f"{value:.3g}",
                TINT if left < 1 else "white")
    for k in range(2):
        axes.text(6.15, 2.4 - 1.1 * k, ("4/5", "4/3")[k], ha="right", va="center", color=SECOND,
                  weight="bold")
        axes.text(7.15 + 1.5 * k, 3.3, ("1/2", "1/4")[k], color=SECOND, weight="bold", **CENTRE)
    for x, y, said in ((2.1, 3.85, "after one round"), (7.9, 3.85, "K, as at the start"),
                       (2.1, 0.35, "4 numbers written in a step"),
                       (7.9, 0.35, "2 numbers written in a step")):
        axes.text(x, y, said, fontsize=10, **CENTRE)
    for x, y, said in ((4.6, 1.85, "="), (5.7, 3.3, "f \\ g")):
        axes.text(x, y, said, fontsize=13 if said == "=" else 10, **CENTRE)
    return show(
        figure,
        "Left the square after one round, 0.4 and 0.6 above 0.667 and 0.333. Right the square K "
        "that it began with, with the factors 4/5 and 4/3 beside its rows, and 1/2 and 1/4 above "
        "its columns.",
        caption="An entry of the left square is the entry of K, times the factor of its row (f), "
                "times the factor of its column (g).")


def tiles() -> HTML:
    """The tensors k, f and g of a program with three squares."""
    figure, axes = canvas(2.35, ylim=(0, 4.7))
    cell, shades = 0.4, ("#cfe3f1", PALE, "#5b9dc9", ACCENT)
    for left, rows, columns, name in ((0.3, 4, 4, "k: 4 × 4 × 3"), (4.3, 1, 4, "g: 1 × 4 × 3"),
                                      (7.9, 4, 1, "f: 4 × 1 × 3")):
        for depth in (2, 1, 0):
            x, y, front = left + 0.45 * depth, 2.9 + 0.45 * depth, 3 * (2 - depth)
            for i, j in np.ndindex(rows, columns):
                box(axes, x + cell * (j + 0.5), y - cell * (i + 0.5), cell, cell, "",
                    shades[i] if rows > 1 else TINT, zorder=front)
            axes.plot(x + cell * columns * np.array([0, 1, 1, 0, 0]),
                      y - cell * rows * np.array([0, 0, 1, 1, 0]),
                      linewidth=2.6 if depth == 1 else 1,
                      color=SECOND if depth == 1 else "black", zorder=front + 1)
        axes.text(left + 0.9, 0.85, name, ha="center", va="center", fontsize=11)
    axes.text(5, 0.2, "orange: what one thread holds", fontsize=10, color=SECOND, **CENTRE)
    return show(
        figure,
        "Three squares of four rows lie behind one another. Beside them three rows of four "
        "numbers, g, and three columns of four numbers, f. An orange frame marks the middle one "
        "of each.",
        caption="The tensors of a program with three squares. The last axis counts the squares. "
                "So the compiler can give each thread a whole square, its g and its f, and no sum "
                "needs another thread.")


# ---------------------------------------------------------------- the way back

def undone(corner: float, rounds: int = 20) -> np.ndarray:
    """The factors f in float32, when the rounds forward have been undone one by one."""
    (a, b), (c, d) = np.float32(start(corner))
    one, det = np.float32(1), a * d - b * c
    f = [one, one]
    for _ in range(rounds):
        g = [one / (a * f[0] + c * f[1]), one / (b * f[0] + d * f[1])]
        f = [one / (a * g[0] + b * g[1]), one / (c * g[0] + d * g[1])]
    found = [f]
    for _ in range(rounds):
        y = [one / f[0], one / f[1]]                                       # K g = y
        z = [det / (d * y[0] - b * y[1]), det / (a * y[1] - c * y[0])]     # Kᵀ f = z
        f = [(d * z[0] - c * z[1]) / det, (a * z[1] - b * z[0]) / det]
        found.append(f)
    return np.array(found, float)


def true_factors(corner: float, rounds: int = 20) -> np.ndarray:
    """The factors f of all rounds in float64, the last one first."""
    K, f = start(corner), [np.ones(2)]
    for _ in range(rounds):
        f.append(1 / (K @ (1 / (K.T @ f[-1]))))
    return np.array(f[::-1])


UNDONE = {corner: undone(corner) for corner in (3, 81)}
TRUE = {corner: true_factors(corner) for corner in UNDONE}


def rounds_undone() -> HTML:
    """The error of f against the rounds undone, with 3 and with 81 in the corner."""
    figure, axes = subplots(height=3.1)
    axes.axhspan(1, 1e4, facecolor=FREE)
    axes.text(20.3, 2e3, "no digit is right", ha="right", va="center", fontsize=10)
    for corner, color, style in ((3, SECOND, "o-"), (81, ACCENT, "s--")):
        error = np.abs(UNDONE[corner] / TRUE[corner] - 1).max(1)
        axes.plot(error, style, color=color, markersize=4.5)
        at = 3 if corner == 3 else 14
        axes.text(at + 0.6, error[at] / 4, f"{corner} in the corner", color=color, va="top",
                  fontsize=10)
    (a, b), (c, d) = UNDONE[3][7], TRUE[3][7]
    error = np.abs(UNDONE[3][7] / TRUE[3][7] - 1).max()
    axes.annotate(f"comes back as ({a:.3g}, {b:.3g}),\nand it was ({c:.3g}, {d:.3g})".replace(
        "-", "−"), (7, error), xytext=(8.5, 1e-2), va="center", fontsize=10,
        arrowprops=dict(arrowstyle="-", color="black", linewidth=0.8))
    axes.set(yscale="log", xlim=(-0.5, 20.5), ylim=(1e-8, 1e4), xticks=range(0, 21, 5),
             yticks=[1e-7, 1e-5, 1e-3, 1e-1, 1e1, 1e3], xlabel="rounds undone",
             ylabel="relative error of f")
    return show(figure, "The error of f against the number of rounds undone, on a logarithmic "
                        "scale. With 3 in the corner it grows by more than a digit per round, and "
                        "after seven rounds one factor is negative. With 81 it grows slowly, and "
                        "three digits are left after twenty rounds.",
                caption="Twenty rounds forward, and then undone one by one, in float32. In the "
                        "grey part the error is as large as f itself.")


def walk(rounds: int = 2) -> tuple[list[np.ndarray], list[float], list[np.ndarray]]:
    """The chain f₀, g₁, f₁, … of the small square; the gradient of K₁₁ at the start and after each
    step back, where the loss is the top left number; and r or c of each step."""
    K, chain, W = start(), [np.ones(2)], np.diag([1.0, 0])
    for _ in range(rounds):
        chain.append(1 / (K.T @ chain[-1]))
        chain.append(1 / (K @ chain[-1]))
    grad_f, grad_g = (W * K) @ chain[-2], (W * K).T @ chain[-1]
    so_far, sums = [chain[-1][0] * chain[-2][0]], []
    for before, g, f in zip(chain[-3::-2], chain[-2::-2], chain[::-2], strict=False):
        r = -grad_f * f**2
        c = -(grad_g + K.T @ r) * g**2
        so_far += [so_far[-1] + r[0] * g[0]]
        so_far += [so_far[-1] + before[0] * c[0]]
        sums += [r, c]
        grad_f, grad_g = K @ c, 0 * c
    return chain, so_far, sums


def chain() -> HTML:
    """The chain of two rounds, forward and back."""
    figure, axes = canvas(2.5, ylim=(0, 5))
    numbers, so_far, _ = walk()
    for k, (name, (a, b)) in enumerate(zip(("f₀", "g₁", "f₁", "g₂", "f₂"), numbers, strict=True)):
        x, kept = 1 + 2 * k, k % 2 == 0
        axes.fill(x + 0.62 * np.array([-1, 1, 1, -1]), [2.3, 2.3, 4.1, 4.1], linewidth=1.3,
                  facecolor=TINT if kept else "white", edgecolor="black",
                  linestyle="-" if kept else "--")
        axes.text(x, 3.2, f"{name}\n{a:.3g}\n{b:.3g}", fontsize=10, linespacing=1.4, **CENTRE)
        if k < 4:
            arrow(axes, (x + 0.66, 3.2), (x + 1.34, 3.2))
            arrow(axes, (x + 1.85, 1.75), (x + 0.15, 1.75), SECOND, linewidth=2)
            axes.text(x + 1, 1.35, f"back {4 - k}", fontsize=10, color=SECOND, **CENTRE)
            axes.text(x + 1, 0.85, f"{so_far[4 - k]:.3f}", fontsize=11, weight="bold", **CENTRE)
    axes.text(5, 4.6, "forward: each vector from the one before it", fontsize=10, **CENTRE)
    axes.text(9.35, 0.85, f"{so_far[0]:.3f}", fontsize=11, weight="bold", ha="center", va="center")
    axes.text(9.35, 1.35, "start", fontsize=10, color=SECOND, ha="center", va="center")
    axes.text(5, 0.25, "the gradient of the number K₁₁ so far", fontsize=10, **CENTRE)
    return show(
        figure,
        "The chain f₀, g₁, f₁, g₂, f₂. Four arrows lead back from f₂ to f₀. Under them the "
        "gradient of K₁₁ shrinks from 0.368 at the start to 0.233, 0.145, 0.120 and 0.112.",
        caption="Two rounds of the small square. Blue: kept. Dashed: made again from the f before"
                " it. The walk back goes from right to left.")


# ---------------------------------------------------------------- what the clock and the logits say

def clocked(name: str, who: str, squares: int = 65536) -> dict[str, Any]:
    """A stored row of the benchmark on an H100."""
    rows = results.read(results.FOLDER / f"kernels_h100.{name}.json")["rows"]
    return next(row for row in rows if row["N"] == squares and row["contender"] == who)


def times() -> dict[str, float]:
    """Microseconds forward and back, for 65,536 squares; those of the 640 numbers are counted."""
    rate = clocked("stream_mix", "copy")["bytes_a_second"]["forward"]       # of a large copy
    rows = {"copying what must move": clocked("sinkhorn", "copy"),
            "geolab's kernels": clocked("sinkhorn", "kernel"),
            "Liger's kernels": clocked("sinkhorn-rows-first", "liger-kernel"),
            "PyTorch, dual form": clocked("sinkhorn", "eager")}
    found = {name: float(sum(row["us"].values())) for name, row in rows.items()}
    return found | {"640 numbers out and in": 1e6 * 65536 * 640 * 2 * 4 / rate}


def clock() -> HTML:
    """The times of five ways, in microseconds."""
    figure, axes = subplots(height=2.6)
    bars = dict(sorted(times().items(), key=lambda item: item[1]))
    for y, (name, us) in enumerate(bars.items()):
        counted = name[0] == "6"
        axes.plot(us, -y, "o", color=SECOND if counted else ACCENT if name[0] == "g" else "#777777",
                  markersize=10, markerfacecolor="white" if counted else None, markeredgewidth=1.8)
        axes.text(1.4 * us, -y, f"{us:.0f} µs" + ", counted" * counted, va="center", fontsize=10)
    axes.set(xscale="log", yticks=[-y for y in range(5)], yticklabels=list(bars), xlim=(3, 20000),
             ylim=(-4.5, 0.5), xlabel="microseconds, in steps of ten times")
    return show(
        figure,
        "Forward and back together: copying the bytes that must move takes 11 microseconds, "
        "geolab's kernels 24, Liger's 140, and PyTorch 1083. Moving 640 numbers per square out "
        "and in would take 114.",
        caption="65,536 squares of 4 × 4, twenty rounds, forward and back, on an H100. Ring: the "
                "bytes of the textbook's history, at the speed of a large copy. geolab's kernel "
                "for the way back kept every vector then. Liger (version 0.8.5) starts with the "
                "rows, the others with the columns. PyTorch is 2.11.")


def shortcuts(errors: Mapping[float, Sequence[Sequence[float]]]) -> HTML:
    """The errors of two shortcuts after twenty rounds: deviation -> (median, worst) of each."""
    figure, axes = subplots(height=3)
    spreads = list(errors)
    for which, color, marker in ((0, SECOND, "s"), (1, ACCENT, "o")):
        for part, style in ((1, "-"), (0, "--")):
            axes.plot(spreads, [errors[spread][which][part] for spread in spreads], style,
                      color=color, marker=marker, markersize=7 - 3 * which)
    axes.axhline(0.1, color=QUIET, linewidth=1)
    axes.text(1, 0.16, "a tenth", fontsize=10)
    for part, said in ((1, "worst"), (0, "typical")):
        label_line(axes, spreads[-1], errors[spreads[-1]][0][part], said)
    axes.set(yscale="log", ylim=(1e-12, 10), xlabel="standard deviation of the logits",
             ylabel="relative error of the gradient")
    return show(
        figure,
        "The errors of both shortcuts grow with the deviation of the logits, and nearly coincide."
        " The worst of 200 crosses a tenth between deviations 2 and 3; the typical one stays "
        "below.",
        caption="Errors after twenty rounds, over 200 squares: the worst (solid) and the median "
                "(dashed). Orange squares: one matrix for all rounds. Blue dots: the derivative "
                "of the limit.")
