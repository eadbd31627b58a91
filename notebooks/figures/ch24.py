"""The figures of chapter 24: what a step costs, and how many GPUs share it.

A bill has four parts: computing, the residual's bytes, the optimiser and the wires between GPUs.
The small run is that of `SMALL`, and with four streams that of `WIDE`.
"""

from dataclasses import replace

import numpy as np
from IPython.display import HTML
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from benchmarks import cost
from geolab.show.figures import ACCENT, QUIET, SECOND, show, subplots
from geolab.show.schematic import CENTRE, TINT, arrow, box, canvas
from studies.claims import CONFIGURATIONS
from studies.claims.configurations import DDL_TRAINING as RUN
from studies.engine import results

H200 = cost.H200
SMALL = cost.size(CONFIGURATIONS["ddl-small-additive"])
WIDE = replace(SMALL, residual="streams", n=4)
SUBLAYERS, STATE, READ = 24, 4, 2    # in a column of what is kept: the state, and u with its norm
AMBER, BLACK, WARM = "#e69f00", "#333333", "#f4c7a5"
COLORS = {"computing": ACCENT, "waiting": "white", "residual": SECOND, "optimiser": AMBER,
          "wires": BLACK}
CLOCKED = results.read(results.FOLDER / "steps_h100.json")


# ---------------------------------------------------------------- the bill

def parts(size: cost.Size, gpus: int, utilisation: float = 0.4) -> dict[str, float]:
    """GPU-hours of the whole run, by what they are spent on; nothing is hidden."""
    alone = cost.step(size, RUN["batch"], 1, utilisation).compute / gpus
    step = cost.step(size, RUN["batch"], gpus, utilisation)
    spent = {"computing": alone, "waiting": step.compute - alone, "residual": step.residual,
             "optimiser": step.optimizer, "wires": step.communication}
    return {name: seconds * gpus * RUN["steps"] / 3600 for name, seconds in spent.items()}


def stack(axes: Axes, y: float, bill: dict[str, float], height: float = 0.6,
          named: bool = False) -> float:
    """Draw the parts of a bill side by side at height y, and return their sum."""
    left = 0.0
    for name, hours in bill.items():
        axes.barh(y, hours, left=left, height=height, color=COLORS[name], linewidth=0.5,
                  hatch={"waiting": "////", "residual": "\\\\\\\\"}.get(name),  # apart in grey
                  edgecolor="#777777" if name == "waiting" else "white",
                  label=name if named else None)
        left += hours
    return left


def said(hours: float) -> str:
    """Hours as a reader says them."""
    if hours < 1:
        return f"{60 * hours:.0f} minutes"
    return f"{hours:.1f} hours" if hours < 10 else f"{hours:.0f} hours"


def bars(utilisation: float, many: tuple[int, ...], shares: bool) -> Figure:
    """The bills of the small run on so many GPUs; `shares` writes what the wires take."""
    figure, axes = subplots(height=1.15 + 0.4 * len(many))
    for y, gpus in enumerate(reversed(many)):
        bill = parts(SMALL, gpus, utilisation)
        bill.pop("residual")
        whole = stack(axes, y, bill, named=y == 0)
        words = f"wires {bill['wires'] / whole:.0%}" if shares else said(whole / gpus)
        axes.text(whole + 1.5, y, f"{whole:.0f}: {words}", va="center")
    axes.set(yticks=range(len(many)), yticklabels=[f"{g} GPU{'s' * (g > 1)}" for g in many[::-1]],
             xlabel="GPU-hours of the run", xlim=(0, 190 if shares else 150),
             ylim=(-0.5, len(many) + 0.45))
    axes.legend(loc="upper center", ncols=4, columnspacing=1, handlelength=1.2, fontsize=9)
    axes.grid(axis="y", visible=False)
    return figure


def costs() -> HTML:
    """The bill of the small run on 1, 8, 64 and 512 GPUs."""
    return show(
        bars(0.4, (1, 8, 64, 512), shares=False),
        "Four bars. The run costs 28 GPU-hours on one GPU and on 8, 38 on 64, and 102 on 512. "
        "Computing costs the same everywhere; the rest is mostly wires.",
        caption="What you pay for: the time of the run, multiplied by the number of GPUs. After "
                "the colon: when it is ready. If sharing cost nothing, all bars would be equal.")


def draw_bill(utilisation: float) -> Figure:
    """Five bars, for 1, 8, 64, 256 and 512 GPUs. A higher utilisation makes the computing shorter and leaves the wires as they are. So the wires' share grows: on 256 GPUs it is 32 % at a utilisation of 0.2, and 55 % at 0.6."""  # noqa: E501  (the docstring is the figure's alt text)
    return bars(utilisation, (1, 8, 64, 256, 512), shares=True)


def two_bills() -> HTML:
    """The bill of the small run with a plain residual and with four streams."""
    figure, axes = subplots(height=3)
    for k, gpus in enumerate((1, 8, 64)):
        for j, (row, size) in enumerate((("plain", SMALL), ("4 streams", WIDE))):
            y = -(3 * k + j)
            whole = stack(axes, y, parts(size, gpus), height=0.8, named=y == 0)
            axes.text(whole + 0.4, y, f"{row}: {whole:.1f}", va="center", fontsize=10.5)
    axes.set(yticks=[-0.5, -3.5, -6.5], yticklabels=["1 GPU", "8 GPUs", "64 GPUs"], xlim=(0, 60),
             ylim=(-7.7, 2.6), xlabel="GPU-hours of the run")
    axes.legend(loc="upper center", ncols=3, fontsize=9, columnspacing=1, handlelength=1.2)
    axes.grid(axis="y", visible=False)
    return show(
        figure,
        "Six bars. The plain model costs 27.6, 28.1 and 37.9 GPU-hours on 1, 8 and 64 GPUs. Four "
        "streams add about seven hours to each.",
        caption="The bill for two residuals, counted. A plain residual's bytes are inside the "
                "computing.")


# ---------------------------------------------------------------- who does what

def parallel() -> HTML:
    """Four GPUs that share a step."""
    figure, axes = canvas(3.4)
    for k, x in enumerate((1.3, 3.77, 6.23, 8.7), start=1):
        box(axes, x, 5.6, 2.47, 1.1, "120\nsequences", "#eeeeee", size=12)
        arrow(axes, (x, 5.05), (x, 4.5))
        box(axes, x, 3.9, 2.1, 1.2, f"GPU {k}:\nall weights", size=12)
        arrow(axes, (x, 3.3), (x, 2.95))
        box(axes, x, 2.6, 2.1, 0.7, f"gradient {k}", size=12)
        arrow(axes, (x, 2.25), (x, 1.4), arrowstyle="<|-|>")
    box(axes, 5, 0.75, 9.6, 1.3, "over the wires:\nthe mean of all gradients, for each GPU",
        TINT, ACCENT, size=12)
    axes.text(5, 6.45, "one step: 480 sequences", size=12, **CENTRE)
    return show(
        figure,
        "Four GPUs with all weights each. Each gets 120 of 480 sequences and computes a gradient. "
        "Over the wires all of them get the mean of the four gradients.",
        caption="Data parallel training on four GPUs. All of them need the mean of the gradients, "
                "because only then do they hold the same weights after the step.")


def chip() -> HTML:
    """An H200, and the three roads on which numbers come to it."""
    figure, axes = canvas(2.9)
    axes.add_patch(FancyBboxPatch((0.3, 0.75), 4.4, 4.4, boxstyle="round,pad=0.1",
                                  facecolor="#f7f7f7", edgecolor="black", linewidth=1.3))
    axes.text(0.45, 4.85, "one GPU", va="center", weight="bold")
    box(axes, 2.5, 3.75, 3.8, 1.2, "chip: 989 · 10¹²\noperations per second", TINT, ACCENT)
    box(axes, 2.5, 1.4, 3.8, 0.9, "memory: 141 GB")
    axes.plot([2.5, 2.5], [1.88, 3.12], color="black", linewidth=9, solid_capstyle="butt")
    axes.text(2.75, 2.5, "4800 GB/s", va="center")
    for y, wire, rate, text in ((4.1, 3.5, "450 GB/s", "the other seven\nGPUs of its node"),
                                (1.8, 1.3, "50 GB/s", "the GPUs of\nother nodes")):
        axes.plot([4.82, 6.9], [y, y], color="black", linewidth=wire, solid_capstyle="butt")
        axes.text(5.86, y + 0.3, rate, **CENTRE)
        box(axes, 8.35, y, 2.9, 1.3, text)
    return show(
        figure,
        "A GPU is a chip and a memory. The chip does 989 trillion operations per second. 4800 "
        "gigabytes per second go between chip and memory, 450 to GPUs of the same node and 50 to "
        "GPUs of other nodes.",
        caption="An H200. Numbers come to its chip on three roads, each about ten times as slow "
                "as the one before.")


def weight() -> HTML:
    """What one weight does for one token, forward and backward."""
    figure, axes = canvas(2)
    for x, head, left, right, formula in (
            (1.75, "forward", "x", "y", "y += w x"),
            (5, "back: input", "dx", "g", "dx += w g"),
            (8.25, "back: weight", "x", "g", "dw += x g")):
        axes.text(x, 3.65, head, weight="bold", **CENTRE)
        box(axes, x, 2.35, 0.9, 0.9, "w", TINT, ACCENT, size=12)
        for place, name in ((x - 1.22, left), (x + 1.22, right)):
            axes.text(place, 2.35, name, fontsize=11, **CENTRE)
        for near, far, inward in ((x - 0.45, x - 1, left == "x"), (x + 0.45, x + 1, right == "g")):
            arrow(axes, *[(far, 2.35), (near, 2.35)][::1 if inward else -1])
        axes.text(x, 1.3, formula, fontsize=12, **CENTRE)
        axes.text(x, 0.6, "2 operations", **CENTRE)
    return show(
        figure,
        "One weight w between x and y. Forward it adds w x to y. Backward it adds w g to the "
        "gradient of x, and x g to its own gradient. Each takes two operations.",
        caption="What one weight does for one token; dx and dw are the gradients of x and of w. "
                "Each line is one product and one addition, so together they take six operations.")


# ---------------------------------------------------------------- wires

def pass_on(rounds: int) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """What four GPUs in a ring have after some rounds, and which (GPU, number) arrived last."""
    have = np.outer(10 ** np.arange(4), np.arange(1, 5))
    arrived: list[tuple[int, int]] = []
    for t in range(rounds):
        sent = [(gpu, (gpu - t) % 4) for gpu in range(4)]
        numbers = [have[place] for place in sent]
        arrived = [((gpu + 1) % 4, column) for gpu, column in sent]
        for place, number in zip(arrived, numbers, strict=True):
            have[place] = have[place] + number if t < 3 else number
    return have, arrived


def ring() -> HTML:
    """Four GPUs in a ring at the start and after 1, 3 and 6 rounds."""
    figure, axes = canvas(4)
    for rounds, left, top in ((0, 0.75, 7.1), (1, 5.75, 7.1), (3, 0.75, 3.1), (6, 5.75, 3.1)):
        have, arrived = pass_on(rounds)
        head = f"after {rounds} round{'s' * (rounds > 1)}" if rounds else "start"
        axes.text(left + 2.05, top + 0.45, head, weight="bold", **CENTRE)
        for gpu in range(4):
            y = top - 0.35 - 0.62 * gpu
            axes.text(left - 0.35, y, "ABCD"[gpu], **CENTRE)
            for column in range(4):
                full = have[gpu, column] == 1111 * (column + 1)
                box(axes, left + 0.51 + 1.02 * column, y, 1.02, 0.62, str(have[gpu, column]),
                    TINT if full else "white", size=10, linewidth=0.8)
        for gpu, column in arrived:
            box(axes, left + 0.51 + 1.02 * column, top - 0.35 - 0.62 * gpu, 0.94, 0.54, "", "none",
                SECOND, linewidth=2)
    return show(
        figure,
        "Four tables of four rows, the GPUs A to D, and four numbers. After one round each GPU has "
        "one sum of two numbers, after three rounds one full sum, after six rounds all four.",
        caption="In each round A sends one number to B, B to C, C to D and D to A. Orange: what "
                "has just arrived. Blue: a full sum.")


def nodes() -> HTML:
    """Two nodes of four GPUs that gather eight parts."""
    figure, axes = canvas(3.1)
    for node, y in enumerate((4.35, 1.55)):
        axes.add_patch(FancyBboxPatch((0.35, y - 0.95), 9.3, 1.9, boxstyle="round,pad=0.05",
                                      facecolor="#f7f7f7", edgecolor="black", linewidth=1.3))
        side = -1 if node else 1
        axes.plot([1.5, 8.5], [y + 0.62 * side] * 2, color=ACCENT, linewidth=6,
                  solid_capstyle="round")
        for k, x in enumerate((1.5, 3.83, 6.17, 8.5)):
            axes.plot([x, x], [y + 0.18 * side, y + 0.62 * side], color=ACCENT, linewidth=4)
            box(axes, x, y - 0.2 * side, 1.5, 0.75, f"part {4 * node + k + 1}")
            if node == 0:
                arrow(axes, (x, 3.78), (x, 2.12), SECOND, arrowstyle="<|-|>")
    axes.text(0.45, 5.65, "node 1", va="center", weight="bold")
    axes.text(0.45, 0.25, "node 2", va="center", weight="bold")
    axes.text(9.6, 5.65, "second: 450 GB/s", color=ACCENT, ha="right", va="center")
    axes.text(5, 2.95, "first: 50 GB/s", color=SECOND, **CENTRE)
    return show(
        figure,
        "Two nodes of four GPUs, with eight parts. Thin wires join GPUs with the same place in "
        "their nodes, and a thick wire joins the GPUs of a node.",
        caption="Two nodes of four GPUs gather eight parts. First, GPUs in the same place exchange "
                "one part each over the thin wires. Then the GPUs of a node exchange pairs.")


# ---------------------------------------------------------------- what streams move and keep

X, U, F, DX, DU, DF = ("X", 4), ("u", 1), ("F", 1), ("dX", 4), ("du", 1), ("dF", 1)
TABLE = (("coefficients", (X,), ()), ("read u", (X,), (U,)), ("mix and write", (X, F), (X,)),
         ("back: write", (X, F, DX), (DX, DF)), ("back: read u", (X, DU), (DX,)),
         ("back: coeff.", (X,), (DX,)), ("back: add", (DX, DX), (DX,)),
         ("back: add", (DX, DX), (DX,)), ("plain", (("x", 1), F), (("x", 1),)),
         ("back: add", (("dx", 1), ("dx", 1)), (("dx", 1),)))
MOVED = [sum(many for _, many in (*reads, *writes)) for _, reads, writes in TABLE]


def squares() -> HTML:
    """The vectors that each operator fetches and stores, as squares."""
    figure, axes = canvas(5.6)
    for k, ((name, reads, writes), total) in enumerate(zip(TABLE, MOVED, strict=True)):
        y = 9.6 - 0.95 * k - 0.45 * (k > 7)
        axes.text(0.15, y, name, va="center")
        axes.text(9.6, y, str(total), ha="right", va="center", weight="bold")
        for x, groups, color in ((3.1, reads, TINT), (6.75, writes, WARM)):
            for vector, many in groups:
                axes.plot(x + 0.33 * np.arange(many), [y] * many, "s", markersize=10, color=color,
                          markeredgecolor="black")
                axes.text(x + 0.165 * (many - 1), y + 0.42, vector, fontsize=11, **CENTRE)
                x += 0.33 * many + 0.2
    for place, head in ((2.95, "fetched"), (6.6, "stored"), (8.45, "vectors")):
        axes.text(place, 10.7, head, va="center", weight="bold")
    axes.plot([0.1, 9.7], [2.33, 2.33], color="black", linewidth=1)
    return show(
        figure,
        "Eight rows of squares for four streams: 4, 5, 9, 14, 9, 8, 12 and 12 vectors move, 73 "
        "together. Below a line two rows of a plain residual, with 3 and 3.",
        caption="A square is a vector of a token, fetched from memory (blue) or stored there "
                "(orange). Above the line: four streams X, and d for gradients. Below: a plain "
                "residual x. Three operators read X, so three dX come back: two additions.")


def held(group: int) -> list[int]:
    """Vectors held at each moment of a step: the state before each group's first sublayer is kept
    on the way forward, and the rest is computed again on the way back."""
    now, moments = [0] * SUBLAYERS, [0]
    for i in range(SUBLAYERS):
        now[i] = STATE if i % group == 0 else 0
        moments.append(sum(now))
    for first in reversed(range(0, SUBLAYERS, group)):
        members = range(first, min(first + group, SUBLAYERS))
        for i in members:
            now[i] = STATE + READ
            moments.append(sum(now))
        for i in reversed(members):
            now[i] = 0
            moments.append(sum(now))
    return moments


def draw_kept(group: int) -> Figure:
    """Vectors held during a step: they grow on the way forward, and jump up and down on the way back while one group after the other is computed again. Groups of one hold 98 at most, groups of four 44, and one group of all 24 holds 144."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, axes = subplots(height=2.7)
    moments = held(group)
    axes.fill_between(range(len(moments)), moments, step="mid", color=ACCENT, linewidth=0)
    axes.axhline(6 * SUBLAYERS, color=BLACK, linestyle="--", linewidth=1.3)
    axes.text(0.5, 6 * SUBLAYERS + 4, "keep all: 144", fontsize=10)
    axes.axvline(SUBLAYERS, color=QUIET, linewidth=1)
    axes.text(SUBLAYERS / 2, 166, "forward", ha="center")
    axes.text(2 * SUBLAYERS, 166, "backward", ha="center")
    axes.set(xticks=[], xlabel="the moments of a step", xlim=(0, 3 * SUBLAYERS), ylim=(0, 182),
             ylabel="vectors held", title=f"groups of {group}: at most {max(moments)}")
    return figure


# ---------------------------------------------------------------- the clock

def clocked(residual: str, mode: str) -> dict:
    """A stored row of the steps on an H100."""
    (row,) = [row for row in CLOCKED["rows"]
              if (row["residual"], row["mode"]) == (residual, mode)]
    return row


def timed(residual: str = "additive") -> cost.Size:
    """The model of the timed steps."""
    shape = CLOCKED["size"]
    return cost.Size(clocked("additive", "eager")["parameters"], shape["layers"], shape["width"],
                     shape["length"], residual=residual, n=4 if residual == "streams" else 1)


def copy_rate() -> float:
    """Bytes per second of a copy on the H100, the mean of both ways of the kernels' benchmark."""
    rows = results.read(results.FOLDER / "kernels_h100.stream_mix_write.json")["rows"]
    (copy,) = [row["bytes_a_second"] for row in rows
               if row["contender"] == "copy" and row["d"] == 4096]
    return (copy["forward"] + copy["backward"]) / 2


def added() -> dict[str, float]:
    """Milliseconds that four streams add to the timed step, counted and measured."""
    tokens = CLOCKED["size"]["batch"] * CLOCKED["size"]["length"]
    counted = 1e3 * tokens * cost.residual_bytes(timed("streams")) / copy_rate()
    plain = clocked("additive", "eager")["ms"]
    return {"counted:\n67 vectors": counted, "counted:\n28 vectors": 28 / 67 * counted,
            "our kernels": clocked("mhc", "kernels")["ms"] - plain,
            "PyTorch's\noperations": clocked("mhc", "eager")["ms"] - plain}


def clock() -> HTML:
    """What four streams add to a step of 76 ms, counted and measured."""
    figure, axes = subplots(height=2.8)
    plain = clocked("additive", "eager")["ms"]
    measured = [clocked("mhc", mode)["ratio"] - 1 for mode in ("kernels", "eager")]
    shares = [more / plain for more in list(added().values())[:2]] + measured
    for y, (more, part) in enumerate(zip(added().values(), shares, strict=True)):
        axes.barh(-y, plain, height=0.6, color="#cccccc", label=None if y else "plain step")
        axes.barh(-y, more, left=plain, height=0.6, color=ACCENT if y > 1 else SECOND,
                  hatch=None if y > 1 else "////", edgecolor="white", linewidth=0,
                  label={0: "counted", 2: "measured"}.get(y))
        axes.text(plain + more + 2, -y, f"+ {100 * part:.0f} %", va="center")
    axes.set(yticks=range(0, -4, -1), yticklabels=list(added()), xlim=(0, 172), ylim=(-3.5, 1.3),
             xlabel="milliseconds per step")
    axes.legend(loc="upper center", ncols=3, columnspacing=1, handlelength=1.2)
    axes.grid(axis="y", visible=False)
    return show(
        figure,
        "What four streams add to a plain step of 76 milliseconds. By our count 10 percent, or 4 "
        "if operators are joined; measured with our kernels 9, and with PyTorch's operations 91.",
        caption="One NVIDIA H100 80GB. Measured: the median of seven repeats.")


def of_width(width: int) -> cost.Size:
    """The small run's model with another width: 12 blocks, and an output layer."""
    vocabulary = SMALL.vocabulary
    return cost.Size(12 * SMALL.layers * width**2 + vocabulary * width, SMALL.layers, width,
                     SMALL.length, vocabulary)


def share(width: int) -> float:
    """What four streams add to a step of the small run with another width, on one GPU."""
    size = of_width(width)
    wide = cost.step(replace(size, residual="streams", n=4), RUN["batch"], 1, 0.4)
    return wide.residual / cost.step(size, RUN["batch"], 1, 0.4).open


def draw_width(width: int) -> Figure:
    """Two bars, of a plain step and what four streams add, with a kernel per operator and with joined operators. The wider the model, the larger the part of the blocks' matrices, and the smaller the share of the streams: 44 percent at width 256, 25 at 768 and 10 at 2560."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, axes = subplots(height=2.5)
    size = of_width(width)
    blocks = 6 * 12 * size.layers * width**2 / cost.operations(size)
    for y, (vectors, hatch) in enumerate(((28, "////"), (67, None))):
        more = vectors / 67 * share(width)
        for left, long, color, name in ((0, blocks, ACCENT, "matrices of the blocks"),
                                        (blocks, 1 - blocks, TINT, "all else"),
                                        (1, more, SECOND, "four streams")):
            axes.barh(y, 100 * long, left=100 * left, height=0.6, color=color, edgecolor="white",
                      linewidth=0, label=name if y else None,
                      hatch=hatch if name == "four streams" else None)
        axes.text(100 * (1 + more) + 2, y, f"+ {100 * more:.0f} %", va="center")
    axes.set(yticks=[0, 1], yticklabels=["joined", "a kernel\nper operator"], xlim=(0, 170),
             ylim=(-0.5, 2.2), xticks=[0, 50, 100, 150],
             xlabel="time of a step, in % of the plain one", title=f"width {width:.0f}")
    axes.legend(loc="upper center", ncols=3, fontsize=9, columnspacing=1, handlelength=1.2)
    axes.grid(axis="y", visible=False)
    return figure


def grafts() -> dict[str, dict]:
    """The stored times of five residuals in SmolLM2."""
    return results.stored("real_graft")["grafts"]


def grafted() -> HTML:
    """The times of five residuals in SmolLM2, over the plain network's."""
    found = grafts()
    figure, axes = subplots(height=3)
    for shift, what, name, color, marker, face in (
            (0.15, "step", "a training step", ACCENT, "o", ACCENT),
            (-0.15, "new token", "a new token", SECOND, "s", "white")):
        ratio = np.array([row[f"{what}, ratio"] for row in found.values()])
        least, most = np.array([row[f"{what}, least and most"] for row in found.values()]).T
        axes.errorbar(ratio, np.arange(len(found)) + shift, xerr=(ratio - least, most - ratio),
                      color=color, marker=marker, linestyle="", markerfacecolor=face, label=name)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_yticks(range(len(found)), list(found))
    axes.set(xlabel="time, over the plain network's", xlim=(0.9, 1.9))
    figure.legend(loc="outside upper center", ncols=2)
    return show(
        figure,
        "For five residuals in a real network, the time of a training step and of a new token "
        "beside the plain network. Steps take 1.04 to 1.19 times as long, new tokens 1.18 to 1.7 "
        "times.",
        caption="SmolLM2-135M on one core of a CPU, side by side in one run. Marks: medians of "
                "seven rounds. Bars: the least and the most; the machine was busy.")
