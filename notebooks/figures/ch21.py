"""The figures of chapter 21: a state that is measured and changed, and what travels for it.

A box filled in blue is fetched from memory, and one filled in orange is written to memory.
"""

from functools import cache
from typing import Any

import numpy as np
import torch
from IPython.display import HTML
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from geolab.show.figures import ACCENT, QUIET, SECOND, show, subplots
from geolab.show.schematic import BOXED, CENTRE, TINT, arrow, box, canvas
from studies.engine import results

WRITTEN, OTHER = "#f4c7a5", "#dddddd"
REGISTERS = 65536                                 # of a multiprocessor, 32 bits each
K = np.array([0.6, 0.8])                          # the direction of the opening


# ---------------------------------------------------------------- the update, and its vectors

def arrows(axes: Axes, *drawn: tuple[Any, Any, str, float]) -> None:
    """Draw arrows (start, end, colour, width) in a plane."""
    for start, end, color, width in drawn:
        arrow(axes, start, end, color, linewidth=width)


def opening() -> HTML:
    """The update in the plane, and what each number of the result waits for."""
    figure, (plane, fan) = subplots(1, 2, height=3.0, width_ratios=[1.35, 1])
    x = np.array([5.0, 0.0])
    y = x - 2 * K
    plane.plot(*np.outer([-0.6, 4.2], K).T, color=QUIET, linewidth=1, linestyle="--")
    arrows(plane, ((0, 0), x, "#777777", 1.5), ((0, 0), y, "#777777", 1.5),
           ((0, 0), K, "black", 3), (x, y, SECOND, 2.5))
    for point, foot in ((x, 3), (y, 1)):
        plane.plot(*np.stack([point, foot * K]).T, color=QUIET, linewidth=1, linestyle=":")
    for mark in range(4):                                                   # a ruler along k
        across = np.outer((-0.8, 0.6), (-0.12, 0.12))
        plane.plot(*(mark * K[:, None] + across), color="black", linewidth=1.2)
        plane.text(*(mark * K + (-0.36, 0.27)), f"{mark}",
                   weight="bold" if mark in (1, 3) else "normal", **CENTRE)
    for at, name in (((5.1, 0.3), "x"), ((4.1, -1.85), "result"), ((0.62, 0.18), "k")):
        plane.text(*at, name)
    plane.set(aspect="equal", xlim=(-0.8, 5.9), ylim=(-2.3, 3.4), xticks=[0, 2, 4],
              yticks=[-2, 0, 2], xlabel="first number", ylabel="second number")
    for row in range(6):
        for start, end in (((0.1, row), (0.85, 2.5)), ((1.35, 2.5), (2.1, row))):
            fan.plot(*zip(start, end, strict=True), color=QUIET, linewidth=1, zorder=0)
        fan.plot([0, 2.2], [row, row], "s", color="white", markeredgecolor="black", markersize=9)
    fan.text(1.1, 2.5, r"$k^\top x$", **BOXED | dict(fontsize=12))
    for at, name in ((0, "state"), (2.2, "result")):
        fan.text(at, 5.8, name, ha="center", fontsize=10)
    fan.set(xlim=(-0.5, 2.7), ylim=(-0.7, 6.4))
    fan.set_axis_off()
    return show(
        figure,
        "Left: the arrow x from the origin, the short arrow k, and a ruler along k. The component "
        "of x along k is 3. A change of twice k backwards leads to the result, whose component is "
        "1. Right: six numbers of a state, lines from all of them to a box with the measured "
        "number, and lines from it to six numbers of the result.",
        caption="Left, with a ruler along k: the component goes from 3 to 1. Right, for a state of "
                "six numbers: each number of the result waits for the one measured number, which "
                "waits for all numbers of the state.")


def sweeps() -> HTML:
    """What two kernels move, and what one moves, for a state of eight numbers."""
    figure, panels = canvas(3.7, rows=2, xlim=(-8.6, 8.9), ylim=(-0.2, 4.3), layout="constrained")
    forms = {"two kernels: 5 vectors": (TINT, "fetch again, and change"),
             "one kernel: 3 vectors": ("white", "change what waits here")}
    for axes, (name, (again, second)) in zip(panels, forms.items(), strict=True):
        axes.text(-8.5, 3.9, name, va="center", weight="bold")
        for x, said in ((2, "state"), (6.8, "h")):
            axes.text(x, 3.3, said, fontsize=10, **CENTRE)
        rows = ((2.3, TINT, "fetch, and measure"), (1.3, again, second), (0.3, WRITTEN, "write"))
        for y, color, words in rows:
            axes.text(-8.5, y + 0.35, words, va="center", fontsize=10)
            for left in (0.22, 5.02)[:1 if color == WRITTEN else 2]:
                for k in range(8):
                    box(axes, left + 0.5 * k, y + 0.35, 0.44, 0.7, color=color, linewidth=1)
    return show(
        figure,
        "Eight numbers of a state and eight of h, in three rows. Two kernels: both are fetched and "
        "measured, both are fetched again, and the state is written, five coloured rows. One "
        "kernel: both are fetched once, changed where they wait, and the state is written, three "
        "coloured rows.",
        caption="The update in two kernels, one after the other, and in one. The state and h, "
                "which gives the direction, have eight numbers each. Blue: fetched from memory. "
                "Orange: written to memory. Empty: still in registers, which costs nothing. Eight "
                "coloured cells in a row are a vector.")


STEPS = (("length", "square", "h", "squares"), ("", "sum", "squares", ""),
         ("k", "product", "h", "k"), ("readout", "product", "k x", ""),
         ("change", "product", "k", "change"), ("last line", "times β", "change", "β·change"),
         ("", "sum", "x β·change", "result"))


def typed() -> HTML:
    """The vectors of the code as typed, operation by operation, and those of one kernel."""
    figure, axes = canvas(4.2, xlim=(-0.2, 18.9), ylim=(-0.4, 9.6), layout="constrained")
    for row, (line, does, fetched, written) in enumerate([*STEPS, ("", "", "h x", "result")]):
        last = row == len(STEPS)
        y = 8.35 - row - 0.6 * last
        axes.text(0, y, "one kernel" if last else line, va="center", fontsize=10,
                  **(dict(weight="bold") if last else dict(family="monospace")))
        axes.text(3.5, y, does, va="center", fontsize=10)
        for place, name in enumerate(reversed(fetched.split())):
            box(axes, 9.65 - 2.5 * place, y, 2.44, 0.7, name, TINT, size=9, linewidth=1)
        arrow(axes, (11.0, y), (11.9, y))
        if written:
            box(axes, 13.25, y, 2.44, 0.7, written, WRITTEN, size=9, linewidth=1)
        else:
            axes.text(12.15, y, "one number", va="center", fontsize=9)
    for at, name in ((8.4, "fetched"), (13.25, "written")):
        axes.text(at, 9.2, name, fontsize=10, **CENTRE)
    for y, moved in ((5.35, 14), (0.75, 3)):
        axes.text(15.9, y, f"{moved} vectors", va="center", fontsize=10)
    axes.plot([15.3, 15.6, 15.6, 15.3], [8.7, 8.7, 2.0, 2.0], color="black", linewidth=1)
    axes.plot([0, 18.7], [1.7, 1.7], color=QUIET, linewidth=1)
    return show(
        figure,
        "Seven rows, one for each operation of the code, with nine blue boxes for vectors that are "
        "fetched and five orange boxes for vectors that are written. Below them one row for one "
        "kernel, with h and x fetched and the result written.",
        caption="What travels between memory and processor. Above: the seven operations of the "
                "code. Below: one kernel. Blue: a vector is fetched. Orange: it is written.")


# ---------------------------------------------------------------- kernels

def launch() -> HTML:
    """Three programs on 11 tokens of 6 features, and the tile of the last one."""
    figure, axes = canvas(3.5, xlim=(-2.6, 19.4), ylim=(-1.0, 12.8), layout="constrained")
    shades = (OTHER, "#9cc5e0", TINT)
    axes.text(3, 12.2, "memory: the state", ha="center", weight="bold")
    axes.text(14.8, 12.2, "registers of program 2", ha="center", weight="bold")
    for token, feature in np.ndindex(11, 6):
        box(axes, feature + 0.5, 11.1 - token, 1, 1, color=shades[token // 4], linewidth=0.8)
    for program, middle in enumerate((9.6, 5.6, 2.1)):
        axes.text(-1.5, middle, f"program {program}", rotation=90, fontsize=10, **CENTRE)
    for token in range(11):
        axes.text(-0.3, 11.1 - token, f"{token}", ha="right", va="center", fontsize=9)
    for row, feature in np.ndindex(4, 8):
        there = row < 3 and feature < 6
        box(axes, 11.3 + feature, 8.2 - row, 1, 1, color=TINT if there else "white",
            hatch=None if there else "///", edge="black" if there else QUIET, linewidth=0.8)
    for row, said in enumerate(("8", "9", "10", "none")):
        axes.text(10.5, 8.2 - row, said, ha="right", va="center", fontsize=9)
    for x, y in ((2.5, 2.1), (13.3, 7.2)):                    # feature 2 of token 9
        axes.text(x, y, "56", weight="bold", fontsize=9, **CENTRE)
    arrow(axes, (6.2, 2.8), (9.1, 7.2))
    arrow(axes, (9.4, 6.2), (6.4, 1.8), SECOND)
    axes.text(14.8, 2.6, "arrow up: load", ha="center", fontsize=10)
    axes.text(14.8, 1.3, "arrow down: store", ha="center", fontsize=10, color=SECOND)
    return show(
        figure,
        "A state of eleven rows and six columns. Program 0 takes the first four rows, program 1 "
        "the next four, and program 2 the last three. Its tile has four rows and eight columns: "
        "one row and two columns are empty.",
        caption="Three programs on 11 tokens of 6 features. All run at the same time. What is "
                "hatched doesn't exist, and the mask keeps a program from reading and writing "
                "there. Feature 2 of token 9 stands at the place 9 · 6 + 2 = 56.")


# What PyTorch's operations of the library move is counted in the chapter.
VECTORS = {"PyTorch, timed": 19, "as typed": 14, "two kernels": 5, "one kernel": 3}
VECTOR = 65536 * 768 * 2                          # bytes


@cache
def clocked(what: str = "us") -> dict[str, dict[str, float]]:
    """What a clock measured of the delta update on an H100: contender -> way -> a number."""
    rows = results.read(results.FOLDER / "kernels_h100.delta_update.json")["rows"]
    return {row["contender"]: row[what] for row in rows if row["N"] == 65536 and what in row}


def least() -> dict[str, float]:
    """Milliseconds that the vectors of each form take at the rate of a copy, forward."""
    rate = clocked("bytes_a_second")["copy"]["forward"]
    return {name: 1e3 * count * VECTOR / rate for name, count in VECTORS.items()}


def clock() -> HTML:
    """The least time of four forms, and the clock's time of two."""
    ran = {"PyTorch, timed": clocked()["eager"]["forward"] / 1e3,
           "one kernel": clocked()["kernel"]["forward"] / 1e3}
    figure, axes = subplots(height=2.9)
    for y, (name, needed) in enumerate(least().items()):
        axes.barh(-y, needed, height=0.6, color=(QUIET, QUIET, SECOND, ACCENT)[y])
        said = f"{needed:.2f} ms"
        if name in ran:
            axes.plot(ran[name], -y, "D", color="black", markersize=7)
            said += f", clock {ran[name]:.2f}"
        axes.text(0.93, -y, said, va="center", fontsize=10)
    axes.set(yticks=[0, -1, -2, -3], xlim=(0, 0.9), xlabel="milliseconds",
             yticklabels=[f"{name}\n{count} vectors" for name, count in VECTORS.items()])
    axes.grid(axis="y", visible=False)
    return show(
        figure,
        "The 19 vectors of the timed PyTorch operations take at least 0.64 milliseconds, and took "
        "0.80. The 14 vectors as typed take at least 0.47, and five vectors at least 0.17. The "
        "three of one kernel take at least 0.10, and took 0.10.",
        caption="One forward pass on an H100, in bfloat16. Bars: vectors at the rate of a copy. "
                "Diamonds: what a clock measured, the median of 31 rounds. The five lines as typed "
                "and the two kernels haven't been timed.")


# ---------------------------------------------------------------- the way back

def projection() -> HTML:
    """The gradient of k, and what is left of it for h."""
    figure, axes = subplots(height=3.0)
    whole = np.array([-5.0, 0.0])
    along = (K @ whole) * K
    axes.plot(*np.outer([-4.1, 2.6], K).T, color=QUIET, linewidth=1, linestyle="--", zorder=0)
    arrows(axes, ((0, 0), whole, "#777777", 2), (whole, whole - along, SECOND, 2.5),
           ((0, 0), whole - along, ACCENT, 2.5), ((0, 0), K, "black", 3))
    axes.plot(*np.stack([whole, along]).T, color=QUIET, linewidth=1, linestyle=":")
    corner = [along + 0.35 * np.array(a) for a in ((-0.8, 0.6), (-0.2, 1.4), K)]
    axes.plot(*np.stack(corner).T, color=QUIET, linewidth=1)
    for at, name, color in (((-4.3, 0.4), "the gradient of k", "#555555"),
                            ((-4.35, 1.75), "take away\nits part along k", SECOND),
                            ((-1.35, 1.75), "left: across k", ACCENT),
                            ((0.75, 0.55), "k", "black")):
        axes.text(*at, name, color=color, fontsize=10, va="center",
                  ha="right" if at[0] == -4.35 else "left")
    axes.set(aspect="equal", xlim=(-7.6, 3.6), ylim=(-2.7, 2.8), xticks=[-5, 0],
             yticks=[-2, 0, 2], xlabel="first number", ylabel="second number")
    return show(
        figure,
        "The arrow (-5, 0) from the origin is the gradient of k. Its part along the direction of k "
        "points down to the left. When it is taken away, an arrow at a right angle to k is left.",
        caption="The numbers of the opening. What is left of the gradient of k stands at a right "
                "angle to k. Times s, it is the gradient of h.")


def flow() -> HTML:
    """What the gradients of one feature need."""
    figure, axes = canvas(2.9, ylim=(0, 5.4), layout="constrained")
    for y, name in ((4.1, r"$\bar y$"), (2.6, "$x$"), (1.1, "$h$")):
        for k in range(3):
            box(axes, 1.15 + 0.5 * k, y, 0.5, 0.6, color=TINT if k == 1 else OTHER, linewidth=1)
        axes.text(0.45, y, name, fontsize=12, **CENTRE)
        arrow(axes, (2.5, y), (4.15, 2.9 + 0.25 * np.sign(y - 2.6)))
    axes.text(5, 2.9, "p, r, s", **BOXED | dict(fontsize=13))
    axes.text(5, 3.75, "sums over all features", fontsize=10, **CENTRE)
    for y, name in ((3.4, r"$\bar x$"), (1.5, r"$\bar h$")):
        arrow(axes, (5.75, 2.85 + 0.05 * np.sign(y - 2)), (7.3, y + 0.1))
        for k in range(3):
            box(axes, 7.7 + 0.5 * k, y, 0.5, 0.6, color=WRITTEN if k == 1 else OTHER, linewidth=1)
        axes.text(9.4, y, name, fontsize=12, **CENTRE)
    for x, said in ((1.65, "one feature"), (8.2, "the same feature")):
        box(axes, x, 2.42, 0.66, 4.45, color="none", edge="#777777", linestyle=":", zorder=0)
        axes.text(x, 4.95, said, fontsize=10, **CENTRE)
    arrow(axes, (2.05, 0.45), (7.8, 0.45), "#777777", linewidth=2)
    return show(
        figure,
        "The gradients of one feature come from two sources: from the same feature of y bar, x and "
        "h, and from three sums p, r and s over all features of the token.",
        caption="What the gradients of one feature need: the same feature of the inputs (long "
                "arrow at the bottom), and three sums over the whole token (box in the middle). "
                "Grey: other features.")


# ---------------------------------------------------------------- sums, and a game

def grid() -> HTML:
    """The whole numbers around 256 that bfloat16 can store."""
    figure, axes = canvas(1.7, xlim=(248.3, 267), ylim=(-1.1, 1.9), layout="constrained")
    axes.plot([248.6, 266.6], [0, 0], color="black", linewidth=1)
    stored = torch.arange(249, 267).bfloat16().float().unique().numpy()
    axes.plot(stored, 0 * stored, "o", color=ACCENT, markersize=7)
    for at in (250, 252, 254, 256, 258, 262, 266):
        axes.text(at, -0.6, f"{at}", fontsize=10, **CENTRE)
    axes.plot(257, 0, "x", color=SECOND, markersize=8, markeredgewidth=2)
    arrow(axes, (256, 0.2), (257, 0.2), connectionstyle="arc3,rad=-0.7")
    arrow(axes, (257, 0.35), (256.05, 0.35), SECOND, connectionstyle="arc3,rad=0.9")
    axes.text(256.5, 1.35, "plus one, and rounded back", fontsize=10, **CENTRE)
    return show(
        figure,
        "A line of numbers. Up to 256 every whole number is a dot, after it every second one. 256 "
        "plus 1 would be 257, which is no dot, and an arrow leads back to 256.",
        caption="The dots are the whole numbers that bfloat16 can store. The cross is 257, which "
                "it can't.")


KERNELS = ("32-bit addresses", "sums in bfloat16", "no projection", "atomic additions", "split")
TESTS = {"random": "random numbers, against float64",
         "blind": "the same, with a cotangent across k", "two runs": "two runs on the same input",
         "bytes": "the bytes that it moves", "huge": "beyond 2³¹ numbers, against float64"}
V, BETA = torch.tensor(0.7), torch.tensor(1.3)


def made(x: Tensor, h: Tensor, length: Tensor, product: Tensor) -> Tensor:
    """The state of a token after an update with these two sums, ‖h‖² and hᵀx."""
    s = torch.rsqrt(length)
    return x + BETA * s * (V - s * product) * h


def in_tree(terms: Tensor) -> Tensor:
    """The sum in bfloat16, neighbours first: (n,) -> ()."""
    size = 2 ** int(np.ceil(np.log2(len(terms))))
    terms = torch.nn.functional.pad(terms, (0, size - len(terms))).bfloat16()
    while len(terms) > 1:
        terms = terms[0::2] + terms[1::2]
    return terms[0].float()


def rounded(x: Tensor, h: Tensor) -> Tensor:
    """The update with sums in bfloat16."""
    return made(x, h, in_tree(h * h), in_tree(h * x))


@cache
def token(draw: int | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """x, h and a cotangent: one of a hundred draws, or the one that shows two errors best."""
    def shows(x: Tensor, h: Tensor, cotangent: Tensor) -> float:
        tree = (rounded(x, h) - made(x, h, h.square().sum(), h @ x)).abs().max()
        k = h / h.norm()
        along = (k @ cotangent) * (V - 2 * k @ x) / (V - k @ x) / cotangent.norm()
        return (tree * along.abs()).item()

    draws = torch.randn(100, 3, 768, generator=torch.Generator().manual_seed(0))
    x, h, cotangent = max(draws, key=lambda d: shows(*d)) if draw is None else draws[draw]
    return x, h, cotangent


def of_h(across: bool, projected: bool, draw: int | None = None) -> Tensor:
    """The gradient of h in float64, for a random cotangent or for one across k."""
    x, h, cotangent = (t.double() for t in token(draw))
    k = h / h.norm()
    grad = cotangent - (k @ cotangent) * k if across else cotangent
    of_k = BETA * ((V - k @ x) * grad - (k @ grad) * x)
    return (of_k - (k @ of_k) * k if projected else of_k) / h.norm()


def some_order(seed: int) -> Tensor:
    """The products of four pairs of vectors, each added up from sixteen parts in some order."""
    pairs = torch.randn(2, 4, 768, generator=torch.Generator().manual_seed(1))
    parts = pairs.prod(0).reshape(4, 16, 48).sum(-1).numpy()
    order = np.random.default_rng(seed).permutation(16)
    return torch.tensor(np.add.accumulate(parts[:, order], axis=1)[:, -1])


@cache
def compared(kernel: str, test: str, draw: int | None = None) -> tuple[Tensor, Tensor]:
    """What a test compares for a kernel: two tensors."""
    if test == "bytes":
        floor = 5.0 if kernel == "no projection" else 3.0
        moved = 5.0 if kernel in ("split", "atomic additions") else floor
        return torch.tensor([floor]), torch.tensor([moved])
    x, h, _ = token(draw)
    wide = x.double(), h.double()
    got = made(x, h, h.square().sum(), h @ x)
    right = made(*wide, wide[1].square().sum(), wide[0] @ wide[1])
    if kernel == "sums in bfloat16":
        got = rounded(x, h)
    if kernel == "no projection":
        right, got = (of_h(test == "blind", projected, draw) for projected in (True, False))
    if kernel == "atomic additions":
        right, got = some_order(0).double(), some_order(0)
    if kernel == "32-bit addresses" and test == "huge":
        got = torch.full_like(x, float("nan"))
    if test == "two runs":
        right = got
        if kernel == "atomic additions":
            others = (some_order(seed) for seed in range(1, 100))
            got = next(other for other in others if not torch.equal(other, right))
    return right, got


def notices(kernel: str, test: str, draw: int | None = None) -> bool:
    """Whether a test notices a kernel. Runs and bytes must agree exactly, numbers to 1e-5."""
    right, got = compared(kernel, test, draw)
    if test in ("two runs", "bytes"):
        return not torch.equal(right, got)
    return not torch.allclose(right, got.double(), rtol=1e-5, atol=1e-5)


def draw_game(test: str) -> Figure:
    """Five kernels and what one test compares for each: a number as it should be, the number of the kernel, and whether the test notices a difference."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, axes = canvas(2.9, xlim=(0, 14), ylim=(-0.4, 7.2))
    axes.text(7, 6.6, TESTS[test], **CENTRE)
    heads = {"two runs": ("first run", "second run"), "bytes": ("the floor", "this kernel")}
    for x, head in zip((6.6, 9.4), heads.get(test, ("right", "this kernel")), strict=True):
        axes.text(x, 5.4, head, weight="bold", fontsize=10, **CENTRE)
    for row, kernel in enumerate(KERNELS):
        y, caught = 4.3 - row, notices(kernel, test)
        right, got = compared(kernel, test)
        most = int((right - got).abs().argmax())            # the entry that differs most
        said = [f"{t[most]:.0f} vectors" if test == "bytes" else f"{t[most]:.6f}"
                for t in (right, got)]
        axes.text(0.15, y, kernel, va="center", fontsize=10)
        for x, number, wrong in zip((6.6, 9.4), said, (False, caught), strict=True):
            axes.text(x, y, number, color=SECOND if wrong else "black", fontsize=10,
                      weight="bold" if wrong else "normal", **CENTRE)
        box(axes, 12.45, y, 2.6, 0.8, "noticed" if caught else "passes",
            WRITTEN if caught else "white", size=10)
    return figure
