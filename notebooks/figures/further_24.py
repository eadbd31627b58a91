"""The figures of Going further that belong to chapter 24: a large model, pipelines and rates.

The large model is that of mHC's paper, with 27 billion parameters. That a token meets 4 billion of
them is a guess.
"""

from dataclasses import replace

import numpy as np
from IPython.display import HTML

from benchmarks import cost
from geolab.show.figures import ACCENT, SECOND, show, subplots
from geolab.show.schematic import TINT
from notebooks.figures.ch24 import BLACK, H200, SMALL
from studies.claims import CONFIGURATIONS, TABLES

ADDITIVE = cost.Size(27e9, layers=30, width=2560, length=4096, active=4e9)
STREAMS = replace(ADDITIVE, residual="streams", n=4)
CHANNELS = {"d_v = 1": "delta", "d_v = 4": "delta-matrix"}


# ---------------------------------------------------------------- 27 billion parameters

def sharded_step(size: cost.Size, every: int | None = None) -> tuple[int, cost.StepCost]:
    """Micro-batches and times of a step of 1280 sequences on 64 GPUs that share the model."""
    fits = cost.sequences_that_fit(size, H200, 64, True, every)
    step = cost.step(size, 1280, 64, 0.4, sharded=True, sequences=fits,
                     recompute=every is not None)
    return -(-20 // fits), step


def micro_batches() -> HTML:
    """One step of the large model on 64 GPUs, with nothing hidden and with all wires hidden."""
    figure, both = subplots(2, height=4.3, height_ratios=[1.15, 1])
    for y, size in enumerate((STREAMS, ADDITIVE)):
        rounds, step = sharded_step(size)
        fits = cost.sequences_that_fit(size, H200, 64, True)
        mine = [min(fits, 20 - done) for done in range(0, 20, fits)]
        for axes, wires, whole in zip(both, (step.communication, 0), (step.open, step.hidden),
                                      strict=True):
            left = 0.0
            for k, many in enumerate(mine):
                for seconds, part, color in ((wires / rounds, "wires", BLACK),
                                             (many * step.compute / 20, "computing", ACCENT),
                                             (many * step.residual / 20, "residual", SECOND)):
                    axes.barh(y, seconds, left=left, color=color, height=0.6, edgecolor="white",
                              linewidth=0.5, label=part if wires and y == 0 == k else None)
                    left += seconds
                    if part == "computing":
                        axes.text(left - seconds / 2, y, str(many), ha="center", va="center",
                                  color="white")
            axes.text(left + 0.1, y, f"{whole:.1f} s", va="center")
        both[1].barh(y - 0.4, step.communication, height=0.1, color=BLACK)
    for axes, title in zip(both, ("Nothing hidden", "All wires hidden"), strict=True):
        axes.set(yticks=[0, 1], yticklabels=["4 streams", "additive"], xlim=(0, 10.6),
                 ylim=(-0.6, 1.5), title=title)
        axes.grid(axis="y", visible=False)
    both[0].set(ylim=(-0.5, 2.2))
    both[0].legend(loc="upper center", ncols=3)
    both[1].set(xlabel="seconds per step on 64 GPUs")
    return show(
        figure,
        "Two pairs of bars in pieces. With nothing hidden an additive residual takes 8.0 seconds "
        "in three micro-batches, and four streams take 9.3 in four. At best they take 5.4 and 5.7 "
        "seconds, and thin lines below these bars show wires of 2.7 and 3.6 seconds.",
        caption="The numbers in the bars are sequences. Each micro-batch begins with the wires, "
                "which gather all weights twice and scatter all gradients. Below, the wires (thin "
                "lines) work meanwhile.")


# ---------------------------------------------------------------- pipelines

def pipeline(stages: int, pieces: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Starts of forward and backward of each piece on each stage, and the end. Forward takes one
    unit, backward two, and a stage does all forwards first."""
    forward, backward = np.zeros((stages, pieces)), np.zeros((stages, pieces))
    for m in range(pieces):
        for p in range(stages):
            free = forward[p, m - 1] + 1 if m else 0
            forward[p, m] = max(free, forward[p - 1, m] + 1 if p else 0)
    for m in range(pieces):
        for p in reversed(range(stages)):
            free = backward[p, m - 1] + 2 if m else forward[p, -1] + 1
            backward[p, m] = max(free, backward[p + 1, m] + 2 if p + 1 < stages else 0)
    return forward, backward, backward[0, -1] + 2


def stages() -> HTML:
    """Four stages, with the batch in one piece and in four."""
    figure, both = subplots(2, height=4.2, sharex=True)
    for axes, pieces in zip(both, (1, 4), strict=True):
        forward, backward, end = pipeline(4, pieces)
        for p in range(4):
            for starts, long, color, edge in ((forward[p], 1, TINT, ACCENT),
                                              (backward[p], 2, ACCENT, "white")):
                axes.barh(-p, long / pieces, left=starts / pieces, height=0.8, color=color,
                          edgecolor=edge, linewidth=0.5)
        axes.set(yticks=[0, -1, -2, -3], yticklabels=[f"stage {p}" for p in (1, 2, 3, 4)],
                 title=f"{pieces} piece{'s' * (pieces > 1)}: a stage waits "
                       f"{1 - 3 * pieces / end:.0%} of the time")
        axes.grid(False)
    both[1].set(xlabel="time (1: one stage, forward, the whole batch)")
    return show(
        figure,
        "Two schedules of four stages. With the batch in one piece a stage waits 75 percent of the "
        "time. In four pieces it waits 43 percent.",
        caption="Pale: forward. Blue: backward, which takes twice as long. Empty: the stage waits.")


# ---------------------------------------------------------------- printed rates

def rate(row: str) -> float:
    """Tokens per second of a row of the small table in DDL's revision, in training."""
    return 1e3 * TABLES["ddl-efficiency-small"].rows[row]["training"][0]


def counted(row: str) -> float:
    """The time of a step with a delta residual on four GPUs, by our count, over the plain one's."""
    delta = cost.size(CONFIGURATIONS[f"ddl-small-{CHANNELS[row]}"])
    return cost.step(delta, 480, 4, 0.4).open / cost.step(SMALL, 480, 4, 0.4).open


def printed_rates() -> HTML:
    """The times of two runs by the paper's rates, and what their bytes explain."""
    figure, axes = subplots(height=2.1)
    for y, row in enumerate(CHANNELS):
        told = rate("additive") / rate(row)
        for left, right, color, name in ((0, 1, ACCENT, "additive"),
                                         (1, counted(row), SECOND, "our count"),
                                         (counted(row), told, "white", "not in our count")):
            rest = color == "white"
            axes.barh(y, right - left, left=left, color=color, height=0.55, linewidth=0.5,
                      hatch="////" if rest else None, edgecolor="#777777" if rest else "white",
                      label=None if y else name)
        axes.text(told + 0.04, y, f"{told:.2f}", va="center")
    axes.set(yticks=[0, 1], yticklabels=list(CHANNELS), xlim=(0, 2.6), ylim=(1.5, -1.2),
             xlabel="time of the run by the paper's rates, additive = 1")
    axes.legend(loc="upper center", ncols=3, columnspacing=1, handlelength=1.2)
    axes.grid(axis="y", visible=False)
    return show(
        figure,
        "Two bars. With one channel the run takes 1.13 times the time of the additive model, and "
        "our count explains 0.02 of the 0.13. With four channels it takes 2.24 times the time, and "
        "our count explains 0.16 of the 1.24.",
        caption="The paper's times of two runs. Orange: what the residual's bytes explain. "
                "Hatched: what they don't.")
