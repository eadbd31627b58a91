"""The figures of Going further that belong to chapter 10: the start of mHC, and where gates end."""

import numpy as np
from IPython.display import HTML

from geolab.show.figures import ACCENT, QUIET, SECOND, look, show, subplots
from notebooks.figures.ch10 import BLOCK, GREY, Row, draw_rows, of_arm, over_guess
from studies.engine import results

GATES = results.stored("emhc_gates")["near_pi_multi"]
LARGE = results.stored("emhc_gates", "paper")["near_pi_multi"]
FOUR_NETS = results.stored("emhc_gates_published", "paper")["near_pi_multi"]
START = {"bias -1.5": 0.18, "bias 0": 0.5, "bias +1.5": 0.82, "bias +3": 0.95}


def second(c: float) -> float:
    """The share of a difference between slices that a matrix with the logits c I leaves."""
    return (np.exp(c) - 1) / (np.exp(c) + 3)


def slices(*logits: float) -> HTML:
    """One number of each slice, carried through eighteen matrices, for each logit on c I."""
    figure, panels = subplots(1, len(logits), height=2.3, sharey=True)
    depth, begin = np.arange(19), np.array([1.0, 0.4, -0.35, -0.85])
    for axes, c in zip(panels, logits, strict=True):
        for value, style, color in zip(begin, ("-", "--", "-.", ":"),
                                       (ACCENT, SECOND, GREY, "black"), strict=True):
            axes.plot(depth, begin.mean() + (value - begin.mean()) * second(c) ** depth, style,
                      color=color)
        axes.set(xlim=(0, 18), ylim=(-1.1, 1.2), xlabel="sublayer", xticks=[0, 9, 18], yticks=[],
                 title=f"c = {c}: {second(c)**18:.2g} is left")
        axes.grid(visible=False)
    return show(
        figure, "Two panels with four lines each, one per slice. From a bias of 2 they run "
        "together to their mean within about eight sublayers. From 8 they stay apart to the end.",
        caption="One number from each of the four slices, as the matrix at its start carries it "
                "through eighteen sublayers. Above: what is left of a difference.")


def starts_of_mhc() -> HTML:
    """mHC from two starts, and GPT, near π in all planes."""
    rows: list[Row] = [(said, look(like), lambda task, arm=arm, runs=runs:
                        over_guess(task, arm, runs)) for said, like, arm, runs in (
        ("mHC from 2 I", "mhc", "mhc", "runs"),
        ("the same,\n600 steps", "mhc", "mhc", "twice the steps"),
        ("mHC from 8 I", "mhc", "mhc, near", "runs"),
        ("GPT,\n5 layers", "additive", "additive", "runs"))]
    figure, axes = subplots(height=2.9)
    draw_rows([(axes, "near π, all planes")], rows, (0.4, 2e6), [1, 100, 10000, 1000000])
    return show(
        figure, "Losses near pi in all planes, over that of the fixed guess. Most seeds of mHC "
        "from 2 I lie at a hundred thousand times the guess or more, and four of them lower. With "
        "600 steps three seeds lie at about 40 times the guess. mHC from 8 I lies at about 40 "
        "times the guess, left of GPT with five layers, at about 160 times.",
        caption="Small networks near π, all planes, after 300 steps: sixteen seeds (small), their "
                "geometric mean (large), and three seeds with 600 steps. The upper two rows: mHC "
                "as in the benchmark. Black line: the guess of one line. Grey line: predicting "
                "zero.")


def ends(arm: str) -> np.ndarray:
    """The mean gates of an arm after training: (seeds, sublayers)."""
    return np.array([run["measured"]["gate"] for run in of_arm(GATES, arm)])


def gates_end() -> HTML:
    """Where the gates end for each start."""
    figure, axes = subplots(height=2.7)
    for k, arm in enumerate(START):
        axes.plot([k - 0.35, k + 0.35], [START[arm], START[arm]], color=QUIET)
        at, count = np.unique((ends(arm).ravel() * 20).round() / 20, return_counts=True)
        for value, many in zip(at, count, strict=True):
            axes.plot(k, value, "o", color=BLOCK["color"], markersize=1.3 * many**0.5 + 1,
                      alpha=0.7)
    axes.set(xlabel="the gate starts at", xlim=(-0.6, len(START) - 0.4), ylim=(-0.08, 1.1),
             ylabel="it ends at")
    axes.set_xticks(range(len(START)), [{0.5: "½"}.get(START[arm], START[arm]) for arm in START])
    axes.grid(axis="x", visible=False)
    return show(
        figure, "Where 96 gates end for each of four starts. From 0.18 all end at 0, from 0.95 all "
        "end at 1, from 0.82 most end at 1, and from one half they part.",
        caption="Red: the ends of 96 gates per start, six sublayers and sixteen seeds; a larger "
                "mark stands for more gates. Grey: the start.")
