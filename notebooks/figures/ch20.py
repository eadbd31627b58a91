"""The figures of chapter 20: a lift between memory and chip, and the vectors that travel in it.

The model is mHC with four streams. A vector is the D numbers of one token in one stream.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from IPython.display import HTML
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from geolab.show.figures import ACCENT, CLEAR, QUIET, SECOND, show, subplots
from geolab.show.schematic import CENTRE, OPERATOR, TINT, arrow, box, canvas
from studies.engine import results

H200 = {"memory": 4.8e12, "matrix units": 989e12, "plain units": 67e12}   # per second
ROAD, MATRIX, PLAIN = (rate / 1e12 for rate in H200.values())
PALE, DIM = "#dddddd", "#555555"
STREAMS = 4

Bars = Sequence[tuple[str, int]]                 # (steps of a kernel, the vectors that it moves)
THERE: dict[str, Bars] = {
    "as typed": [("mix", 8), ("write", 5), ("add", 12), ("generate", 4), ("read", 5)],
    "a kernel per operator": [("mix and write", 9), ("generate", 4), ("read", 5)],
    "two phases": [("mix to generate", 9), ("read", 5)],
    "one phase": [("mix to read", 10)]}
BACK: dict[str, Bars] = {
    "as typed": [("mix", 16), ("write", 26), ("add gradients", 24), ("\ngenerate", 8),
                 ("read", 10)],
    "a kernel per operator": [("mix and\nwrite", 14), ("add gradients", 24), ("\ngenerate", 8),
                              ("read", 9)],
    "two phases": [("for a", 5), ("all else", 15)],
    "plain residual": [("add", 3)]}


def vectors(name: str) -> tuple[int, int]:
    """The vectors of a schedule, there and back."""
    there, back = (sum(count for _, count in rows[name]) for rows in (THERE, BACK))
    return there, back


# ---------------------------------------------------------------- the kitchen

def lift() -> HTML:
    """Where the onion is, over 33 seconds."""
    figure, axes = canvas(2.0, xlim=(-5, 34), ylim=(-0.75, 1.75), layout="constrained")
    for low, high, color, name in ((0.82, 1.3, TINT, "kitchen"), (-0.3, 0.18, PALE, "cellar")):
        axes.axhspan(low, high, color=color)
        axes.text(-4.7, (low + high) / 2, name, va="center", fontsize=10)
    for k, step in enumerate(("peel", "cut", "salt")):
        at = 11 * k
        axes.plot([at, at + 5, np.nan, at + 6, at + 11], [0, 1, np.nan, 1, 0], color="black")
        axes.plot([at + 5, at + 6], [1, 1], color=SECOND, linewidth=5, solid_capstyle="butt")
        axes.text(at + 5.5, 1.52, step, fontsize=10, color=SECOND, **CENTRE)
    for at in (0, 11, 22, 33):
        axes.plot(at, 0, "o", color="black", markersize=5)
        axes.text(at, -0.58, f"{at} s", fontsize=10, **CENTRE)
    return show(
        figure,
        "The onion's way between cellar and kitchen, over 33 seconds. Three times it rises for five"
        " seconds, stays in the kitchen for one second, in which it is peeled, cut or salted, and "
        "sinks for five seconds.",
        caption="Where the onion is. Orange: the cook works. The rest of the time the onion is in "
                "the lift.")


def kernels_over_memory(axes: Axes, title: str, boxes: Sequence[tuple[float, str]],
                        trips: Sequence[tuple[float, str, bool]]) -> None:
    """Kernels on a chip over the memory. A trip is (x, name, whether it goes up)."""
    axes.axhspan(0, 0.8, color=PALE)
    axes.text(0.1, 0.4, "memory", va="center")
    axes.text(0.1, 2.2, "on chip", va="center")
    axes.text(0.1, 3.05, title, va="center", weight="bold")
    for x, words in boxes:
        axes.text(x, 2.2, words, **OPERATOR | dict(fontsize=11))
    for x, name, up in trips:
        ends = ((x, 0.85), (x, 1.7)) if up else ((x, 1.7), (x, 0.85))
        arrow(axes, *ends, linewidth=1.3, color="black" if up else SECOND)
        axes.text(x, 0.38, f"${name}$", fontsize=12, **CENTRE)


def trips() -> HTML:
    """The sum x + b h in two kernels and in one."""
    figure, panels = canvas(3.9, rows=2, ylim=(0, 3.3), layout="constrained")
    kernels_over_memory(
        panels[0], "one at a time: 5 vectors travel", [(3.9, "times b"), (7.7, "plus x")],
        [(3.4, "h", True), (4.4, "b h", False), (7, "b h", True), (7.7, "x", True),
         (8.4, "y", False)])
    kernels_over_memory(
        panels[1], "in one go: 3 vectors travel", [(5.8, "times b, plus x")],
        [(5, "h", True), (5.8, "x", True), (6.6, "y", False)])
    return show(
        figure,
        "Two panels. One operation at a time: h goes up, b h goes down, b h and x go up, y goes "
        "down, five arrows. In one go: h and x go up and y goes down, three arrows.",
        caption="The same sum, y = x + b h, in two ways. Each arrow is a list of numbers that goes "
                "up to the chip (black) or down to memory (orange).")


# ---------------------------------------------------------------- work and time

def shares(D: float, n: int = STREAMS) -> tuple[float, float]:
    """The residual's share, as typed, in a sublayer's operations and in its time on an H200."""
    work, sublayer = 2 * n * D * (n * n + 2 * n) + 2 * n * D * (n + 2), 12 * D * D
    time, matrices = (8 * n + 2) * 2 * D / H200["memory"], sublayer / H200["matrix units"]
    return work / (work + sublayer), time / (time + matrices)


def draw_shares(D: float) -> Figure:
    """The residual's share of the operations is small, and its share of the time is many times larger, because it waits for memory. Both fall with the width."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, axes = subplots(height=2.2)
    for y, share in zip((1, 0), shares(D), strict=True):
        axes.barh(y, 1, color="#bbbbbb", height=0.55)
        axes.barh(y, share, color=SECOND, height=0.55)
        axes.text(1.02, y, f"{100 * share:.2f} %", va="center")
    axes.set(yticks=[1, 0], yticklabels=["operations", "time"], xlim=(0, 1.22),
             xticks=[0, 0.5, 1], xticklabels=["0", "50 %", "100 %"],
             xlabel="residual (orange) and sublayer (grey)", title=f"Width {D:.0f}")
    axes.grid(visible=False)
    return figure


def draw_roof(intensity: float) -> Figure:
    """Above, a slope that ends in two flat roofs, at 14 operations per byte for the plain units and at 206 for the matrix units, and a dot that moves along it. Below, the time of the bytes stays, and the time of the operations grows with the dot."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, (roof, bars) = subplots(2, height=4.4, height_ratios=[2.1, 1])
    at = np.array([0.05, PLAIN / ROAD, MATRIX / ROAD, 5000])
    roof.plot(at, np.minimum(MATRIX, at * ROAD), color="black")
    roof.plot(at, np.minimum(PLAIN, at * ROAD), color="black", linestyle="--", linewidth=1.5)
    for rate, name in ((MATRIX, "matrix units"), (PLAIN, "plain units")):
        roof.text(4700, rate * 1.3, name, ha="right", va="bottom", fontsize=10, bbox=CLEAR)
    for x, y, name in ((1 / 3, ROAD / 3, "x + b h"), (20 / 9, ROAD * 20 / 9, "mix and write"),
                       (1640, MATRIX, "F")):
        roof.plot(x, y, "o", color=ACCENT, markersize=6)
        below = name == "F"
        roof.text(x if below else x * 1.5, y / 2.2 if below else y / 1.8, name, color=ACCENT,
                  ha="center" if below else "left", va="center", fontsize=10, bbox=CLEAR)
    roof.plot([intensity] * 2, [0.1, 5000], color=SECOND, linewidth=1.2)
    for most, marker in ((MATRIX, "o"), (PLAIN, "s")):
        roof.plot(intensity, min(most, intensity * ROAD), marker, color=SECOND, markersize=7)
    roof.set(xscale="log", yscale="log", xlim=(0.05, 5000), ylim=(0.1, 8000),
             xlabel="operations per byte", ylabel="10¹² op./s",
             title=f"{intensity:.3g} operations per byte")
    roof.minorticks_off()
    for y, long, color in ((2, 1.0, "black"), (1, intensity * ROAD / PLAIN, ACCENT),
                           (0, intensity * ROAD / MATRIX, ACCENT)):
        bars.barh(y, long, height=0.55, color=color)
    bars.axvline(1, color="black", linewidth=1)
    bars.set(yticks=[2, 1, 0], yticklabels=["bytes", "plain units", "matrix units"], xlim=(0, 4),
             xticks=range(5), xlabel="time (that of the bytes is 1)")
    bars.grid(visible=False)
    return figure


# ---------------------------------------------------------------- floors

def floors() -> HTML:
    """What goes into read, mix, and mix and write, and what comes out."""
    figure, axes = canvas(2.9, ylim=(0.2, 6.0), layout="constrained")
    rows = (("read", "X", 4, 0, "u", 1), ("mix", "X", 4, 0, "H X", 4),
            ("mix and write", "X", 4, 1, "Y", 4))
    for y, (name, state, streams, update, out, outgoing) in zip((5.1, 3.1, 1.1), rows, strict=True):
        box(axes, 5, y, 2.6, 1.5, name, TINT, ACCENT)
        for count, left, right in ((streams + update, 2.2, 3.65), (outgoing, 6.35, 7.8)):
            for k in range(count):
                level = y + 0.3 * ((count - 1) / 2 - k)
                arrow(axes, (left, level), (right, level),
                      color=SECOND if left == 2.2 and k == streams else "black")
        axes.text(2, y + 0.15 * update, state, ha="right", va="center", style="italic")
        axes.text(2, y - 0.6, "h" * update, ha="right", va="center", style="italic", color=SECOND)
        axes.text(8, y, out, va="center", style="italic")
    return show(
        figure,
        "Three operators with four streams. Read: four arrows in, one out. Mix: four in, four out."
        " Mix and write: five in, one of them the sublayer's output h, and four out.",
        caption="What goes in and what comes out, with four streams. Each arrow is one vector. "
                "Orange is h, the sublayer's answer.")


def programs() -> HTML:
    """Three programs share 10,000 numbers."""
    figure, axes = canvas(1.9, xlim=(-300, 13200), ylim=(-0.2, 3.1), layout="constrained")
    axes.fill([0, 10000, 10000, 0], [0.6, 0.6, 1.2, 1.2], facecolor=PALE, edgecolor="black",
              linewidth=1.3)
    axes.fill([10000, 12288, 12288, 10000], [0.6, 0.6, 1.2, 1.2], facecolor="white",
              edgecolor=QUIET, hatch="///", linewidth=1)
    for k in range(3):
        axes.text(4096 * k + 2048, 2.6, f"program {k}", **OPERATOR | dict(fontsize=11))
        arrow(axes, (4096 * k + 2048, 1.3), (4096 * k + 2048, 2.1), arrowstyle="<|-|>")
        axes.plot([4096 * (k + 1)] * 2, [0.5, 1.3], color="black", linewidth=1.3)
    for at, words in ((0, "0"), (4096, "4096"), (8192, "8192"), (10100, "10,000"),
                      (12388, "12,288")):
        axes.text(at, 0.15, words, fontsize=9, **CENTRE)
    return show(
        figure,
        "A bar of 10,000 numbers is cut at 4096 and 8192. Three programs stand above the blocks. "
        "The third block reaches to 12,288, past the end of the data; this part is hatched.",
        caption="Three programs share 10,000 numbers. The hatched part doesn't exist: a mask keeps "
                "the last program away from it.")


# ---------------------------------------------------------------- fusing

def gap(rows: Mapping[str, Bars], height: float, pitch: float) -> Figure:
    """Rows of bars to scale. A row named "one phase" is dashed, because nobody has built it."""
    longest = max(sum(count for _, count in bars) for bars in rows.values())
    figure, axes = canvas(height, xlim=(-0.2, 10.2), ylim=(-pitch * len(rows) - 0.55, 0.85 - pitch),
                          layout="constrained")
    for k, (name, bars) in enumerate(rows.items()):
        x, y, built = 0.0, -pitch * (k + 1), name != "one phase"
        axes.text(0, y + 0.5, name if built else f"{name} (not built)", va="center", fontsize=10,
                  weight="bold")
        for steps, count in bars:
            wide = 9.0 * count / longest
            axes.fill([x, x + wide, x + wide, x], y + np.array([-0.25, -0.25, 0.25, 0.25]),
                      edgecolor=ACCENT, linewidth=1.3, facecolor=TINT if built else "white",
                      linestyle="-" if built else "--")
            axes.text(x + wide / 2, y, str(count), fontsize=10, **CENTRE)
            first = x == 0 and wide < 1               # its name must not stick out on the left
            axes.text(x if first else x + wide / 2, y - 0.32, steps, va="top", fontsize=9.5,
                      ha="left" if first else "center", color=DIM)
            x += wide
        if len(bars) > 1:
            total = sum(count for _, count in bars)
            axes.text(x + 0.15, y, str(total), va="center", weight="bold", fontsize=12)
    return figure


def there() -> HTML:
    """The vectors of four schedules on the way there."""
    return show(
        gap(THERE, 3.5, 1.45),
        "Bars as long as what they move. As typed, five kernels, mix, write, add, generate and "
        "read, with 8, 5, 12, 4 and 5 vectors, 34 in all. A kernel per operator: 9, 4 and 5, in all"
        " 18. Two phases: 9 from mix to generate and 5 for the read, 14. One phase 10, dashed.",
        caption="Between two calls of F, four streams. Each bar is a kernel, as long as the vectors"
                " that it moves. Below it are its steps, and the bold number is the sum.")


def back() -> HTML:
    """The vectors of three schedules on the way back, and of a plain residual."""
    return show(
        gap(BACK, 4.1, 1.7),
        "Bars as long as what they move on the way back. As typed: mix 16, write 26, add gradients "
        "24, generate 8, read 10, in all 84. A kernel per operator: 14, 24, 8 and 9, in all 55. Two"
        " phases: 5 and 15, in all 20. A plain residual: 3.",
        caption="The way back, four streams. Each bar is one step's kernels, as long as the vectors"
                " that they move. “For a” makes the gradient of the read's weights. The last "
                "row is a plain residual.")


# ---------------------------------------------------------------- a training step

def overhead(c: float, D: float, peak: float) -> float:
    """What c vectors more than the plain residual's add to a sublayer's time on an H200."""
    return c * 2 * peak * MATRIX / ROAD / (36 * D)


def draw_overhead(peak: float) -> Figure:
    """A residual's share of the step falls with the width as one over D. As typed it costs several times more than in two phases. A faster sublayer raises all lines."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, axes = subplots(height=3.8)
    D = np.array([512, 16384])
    looks = ((DIM, ":", 1.6), ("#9a6b00", "-.", 1), (ACCENT, "-", 0.8))
    for name, (color, style, beside) in zip(list(THERE)[:3], looks, strict=True):
        c = sum(vectors(name)) - 6
        axes.plot(D, [overhead(c, width, peak) for width in D], color=color, linestyle=style)
        at = overhead(c, 2560, peak)
        axes.plot(2560, at, "o", color=color, markersize=6)
        axes.text(18500, overhead(c, 16384, peak) * beside, f"{name}:\n{100 * at:.1f} %",
                  fontsize=9, va="center", color=color, clip_on=False)
    axes.axhline(0.067, color="black", linewidth=1, zorder=0)
    axes.set(xscale="log", yscale="log", xlim=(512, 16384), ylim=(0.003, 4), xlabel="width D",
             ylabel="added to the sublayers' time", title=f"F at {100 * peak:.0f} % of its peak")
    axes.set_xticks([512, 2560, 8192], ["512", "2560", "8192"])
    axes.set_yticks([0.01, 0.067, 1], ["1 %", "6.7 %", "100 %"])
    axes.minorticks_off()
    return figure


# ---------------------------------------------------------------- what a clock says

TIMED = {"read": "stream_read", "mix": "stream_mix", "mix and write": "stream_mix_write",
         "rotate or reflect": "gated_mix", "generate": "rms_linear"}


def clocked(name: str, tokens: int = 65536) -> dict[str, dict[str, Any]]:
    """The stored rows of an operator on an H100, by contender."""
    rows = results.read(results.FOLDER / f"kernels_h100.{name}.json")["rows"]
    return {row["contender"]: row for row in rows if row["N"] == tokens}


def clock() -> HTML:
    """The speed of five operators over that of a copy: kernels, and PyTorch's operations."""
    figure, panels = subplots(1, 2, height=3.2)
    for axes, side, title in zip(panels, ("forward", "backward"), ("there", "back"), strict=True):
        for y, name in enumerate(TIMED.values()):
            for low, who, color in ((0.19, "kernel", ACCENT), (-0.19, "eager", QUIET)):
                share = clocked(name)[who]["copy_share"][side]
                axes.barh(low - y, share, height=0.36, color=color)
                inside, named = who == "kernel", (side, y) == ("backward", 0)
                said = f"{share:.0%}".replace("%", "\u00a0%")
                if named:
                    said = f"our kernel, {said}" if inside else f"{said}, PyTorch"
                axes.text(min(share, 1) - 0.05 if inside else share + 0.03, low - y, said,
                          va="center", fontsize=9.5, ha="right" if inside else "left",
                          color="white" if inside else "black")
        axes.axvline(1, color="black", linewidth=1)
        axes.set(yticks=[-y for y in range(5)], yticklabels=list(TIMED) if title == "there" else [],
                 xlim=(0, 1.22), xticks=[0, 0.5, 1], xticklabels=["0", "half", "a copy"],
                 title=title)
        axes.grid(visible=False)
    return show(
        figure,
        "Two panels of bars, there and back, for five operators. Four of our kernels reach 99 to "
        "102 percent of a copy's speed, and the generator's 85 and 70. PyTorch's operations reach "
        "between 7 and 35 percent.",
        caption="Speed over that of a copy, on an H100: kernels (blue) and PyTorch's operations "
                "(grey), for 65,536 tokens with four streams of 768 numbers in bfloat16. Beyond "
                "the black line little is left to gain; copies differ by a few per cent.")


def step_split(program: float) -> dict[str, tuple[float, float, float]]:
    """What mHC adds to a step in milliseconds, of which its vectors at a copy's speed, and small
    products. `program` is how many vectors PyTorch's operations move per token and sublayer."""
    stored = results.read(results.FOLDER / "steps_h100.json")
    ms = {(row["residual"], row["mode"]): row["ms"] for row in stored["rows"]}
    tokens = 2 * stored["size"]["layers"] * stored["size"]["batch"] * stored["size"]["length"]
    copied = clocked("stream_mix_write")["copy"]["bytes_a_second"]["forward"]
    a_vector = 1e3 * tokens * 2 * stored["size"]["width"] / copied
    timed = sum(us for name in ("stream_read", "stream_mix_write")
                for us in clocked(name)["eager"]["us"].values())
    products = timed / 1e3 * 2560 / 768 - (5 + 10 + 17 + 26) * a_vector    # without their vectors
    plain = ms["additive", "eager"]
    return {"PyTorch": (ms["mhc", "eager"] - plain, (program - 6) * a_vector, products),
            "our kernels": (ms["mhc", "kernels"] - plain, 28 * a_vector, 0)}


def split(program: float) -> HTML:
    """What mHC adds to a training step, as two bars."""
    figure, axes = subplots(height=2.3)
    parts = step_split(program)
    for y, (whole, lifted, small) in enumerate(parts.values()):
        left = 0.0
        for ms, color, ink in ((lifted, ACCENT, "white"), (small, SECOND, "white"),
                               (whole - lifted - small, "#cccccc", "black")):
            axes.barh(-y, ms, left=left, color=color, height=0.55, edgecolor="white")
            if ms > 5:
                axes.text(left + ms / 2, -y, f"{ms:.0f}", color=ink, **CENTRE)
            left += ms
        said = f"{whole:.0f} ms" if y == 0 else f"{whole:.1f} ms, {lifted:.1f} of them the lift"
        axes.text(whole + 1, -y, said, va="center")
    for x, words, color in ((1, "the lift", ACCENT), (parts["PyTorch"][1], "small products "
                            "(estimate)", SECOND), (58, "the rest", DIM)):
        axes.text(x, 0.5, words, color=color, fontsize=10, va="center")
    axes.set(yticks=[0, -1], yticklabels=list(parts), xlim=(0, 80), ylim=(-1.5, 0.75),
             xlabel="milliseconds that mHC adds to a step of 76")
    axes.grid(axis="y", visible=False)
    return show(
        figure,
        "What mHC adds to a step, as two bars. PyTorch: 68 milliseconds, 19 of them for the lift, "
        "about 38 for the products of small matrices and 11 for the rest. Our kernels: 6.7 "
        "milliseconds, 3.2 of them for the lift.",
        caption="Blue: the vectors that the program moves, at a copy's speed. Orange: what the "
                "products of small matrices take beyond their own vectors, carried over from the "
                "operators that were timed at width 768.")
