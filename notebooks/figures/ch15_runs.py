"""The figures of chapter 15 that show stored runs, and the numbers that they show.

The study `regimes` trains the seven models of `ch15.NAMES` on random tokens and on words, and the
published hint with four changes of its hint.
"""

import math

import numpy as np
from IPython.display import HTML

from geolab.models.regimes import REGIMES
from geolab.show.figures import QUIET, SECOND, label_line, look, show, subplots
from geolab.tasks import RandomTokens, Words
from notebooks.figures.ch15 import GREY, NAMES
from notebooks.figures.ch16 import table
from studies.engine import results
from studies.engine.live import Live

LEAKS = [name for name in NAMES if REGIMES[NAMES[name]].reads_future]
STYLE = {"plain": look("additive"), "glance": look("additive, leak"),
         "left states": look("gt-lite"), "two-sided states": look("gt-lite, leak"),
         "older hints": look("gt-self-hint"), "published hint": look("gt-hint, leak"),
         "repaired hint": look("gt-hint")}
STORED = results.stored("regimes")
TASK = RandomTokens()               # 64 tokens, 24 positions


def runs(part: str, model: str) -> list[dict]:
    """The stored runs of a model, one per seed."""
    return [run for run in STORED[part]["runs"] if run["model"] == NAMES.get(model, model)]


AT = runs("random", "published hint")[0]["evaluated_at"]


def curves(part: str, model: str) -> np.ndarray:
    """The validation losses: (seeds, evaluations)."""
    return np.array([run["validation_loss"] for run in runs(part, model)])


def seen(part: str, model: str, what: str) -> np.ndarray:
    """What was measured during training, from the start on: (seeds, 1 + evaluations)."""
    return np.array([run["measured"][what] for run in runs(part, model)])


def seeds(part: str) -> str:
    """The number of seeds of a part, as a word."""
    return {3: "three", 8: "eight", 16: "sixteen"}[len(STORED[part]["seeds"])]


def drop(part: str, model: str) -> np.ndarray:
    """The step at which the loss passes half of ln 64, between two evaluations: (seeds,)."""
    half, steps = math.log(64) / 2, []
    for run in runs(part, model):
        loss, at = [2 * half, *run["validation_loss"]], [0, *run["evaluated_at"]]
        k = int(np.argmax(np.array(loss) < half))
        share = (loss[k - 1] - half) / (loss[k - 1] - loss[k])
        steps.append(at[k - 1] + share * (at[k] - at[k - 1]))
    return np.array(steps)


ARMS = {"the state in its place": drop("random", "two-sided states"),
        "hint × 4": drop("louder", "4"), "as published": drop("random", "published hint"),
        "frozen at step 0": drop("frozen", "frozen"), "hint × ½": drop("fainter", "0.5")}
SAVED = curves("random", "repaired hint") - curves("random", "published hint")


def random_losses() -> HTML:
    """The losses of the seven models on random tokens."""
    figure, axes = subplots(height=3.9)
    for name in NAMES:
        axes.plot(AT, curves("random", name).mean(0),
                  **STYLE[name] | dict(linewidth=1.5, markersize=4))
    floor, least = TASK.bayes_floor(), TASK.peek().loss
    for y, at, said in ((floor, floor + 0.3, "floor ln 64, and on it the four causal models"),
                        (least, least - 0.3, "ln 64 / 24, if the next token is read")):
        axes.axhline(y, color=QUIET, linewidth=2.5, zorder=0)
        axes.text(600, at, said, ha="right", va="center", fontsize=10)
    for x, y, name in ((600, 3.54, "glance"), (105, 1.0, "two-sided states"),
                       (372, 2.4, "published hint")):
        axes.text(x, y, name + ", leak", ha="right" if x == 600 else "left", fontsize=10,
                  color=STYLE[name]["color"])
    axes.set(xlabel="training steps", ylabel="validation loss, nats per token", ylim=(-0.5, 4.7),
             title="Random tokens")
    return show(
        figure, "Validation loss on random tokens. The four causal models stay at ln 64. The "
        "two-sided states fall at once to the limit of a model that has seen the next token, the "
        "glance falls a little, and the published hint stays level for some hundred steps and "
        "then falls.",
        caption=f"Means of {seeds('random')} seeds. Two blocks of width 64, AdamW at rate 0.001, "
                "32 sequences per step, no dropout. Grey lines: the least that a causal model "
                "pays, and the least that a model pays which reads the next token.")


def random_table() -> HTML:
    """Where the seven models end on random tokens."""
    rows = []
    for name in NAMES:
        end, right = curves("random", name)[:, -1], seen("random", name, "output right")[:, -1]
        rows.append((name + (", leak" if name in LEAKS else ""), f"{end.mean():.2f}",
                     f"{end.min():.2f} to {end.max():.2f}", f"{right.mean():.2f}"))
    rows += [("least of a causal model", f"{TASK.bayes_floor():.2f}", "", f"{1 / 64:.2f}"),
             ("least with the next token", f"{TASK.peek().loss:.2f}", "", "1.00")]
    return table(("", "mean loss", "over the seeds", "right, of the first 23 positions"), rows)


def places() -> HTML:
    """Where the next token can be read while the published hint trains."""
    where = {"in the hint at t + 1": ("read in hint", look("gt-hint")["color"], "-"),
             "in the last state at t": ("read in last state", SECOND, "--"),
             "in the output at t": ("output right", "black", ":")}
    figure, (top, bottom) = subplots(2, height=4.6, sharex=True, height_ratios=[1, 1.3])
    for losses in curves("random", "published hint"):
        top.plot(AT, losses, color="black", linewidth=0.9)
    top.set(ylim=(0, 4.7), ylabel="loss", title="The published hint in training")
    for what, color, line in where.values():
        share = seen("random", "published hint", what)
        bottom.fill_between([0, *AT], share.min(0), share.max(0), color=color, alpha=0.15,
                            linewidth=0)
        bottom.plot([0, *AT], share.mean(0), color=color, linestyle=line)
    for x, y, said in ((8, 0.9, "in the hint at t + 1"), (40, 0.3, "in the last state at t"),
                       (395, 0.42, "in the output at t")):
        bottom.text(x, y, said, color=where[said][1], fontsize=10)
    bottom.axhline(1 / 64, color=QUIET, linewidth=1)
    bottom.set(xlim=(-8, 608), ylim=(0, 1.05), xlabel="training steps",
               ylabel="next tokens read")
    return show(
        figure, "Two panels over the training steps. Above, the loss of the published hint stays "
        "level for some 250 steps and then falls. Below, the next token can be read in the "
        "neighbour's hint from step 0 on, and less at the end. A tenth of it can be read in the "
        "last state while the loss is level. In the output it appears only at the drop.",
        caption=f"Above: one line for each of {seeds('random')} seeds. Below: the share of the "
                "next tokens that can be read in which place, the mean of the seeds and their "
                "range. Grey line: chance, one in 64.")


def saved() -> HTML:
    """What the leak saves in the first 350 steps."""
    figure, axes = subplots(height=2.7)
    for values in SAVED:
        axes.semilogy(AT[:7], values[:7], color="black", linewidth=0.9, marker="o", markersize=3)
    axes.set(xlim=(-5, 355), ylim=(1e-3, 5), xlabel="training steps", ylabel="saved, nats",
             title="What the leak saves, magnified")
    axes.set_yticks([1e-3, 0.01, 0.1, 1], ["0.001", "0.01", "0.1", "1"])
    axes.minorticks_off()
    return show(
        figure, "What the leak saves over the first 350 steps on a logarithmic scale, one line per "
        "seed: about 0.003 nats after 50 steps, 0.01 after 200 and one nat after 300.",
        caption=f"One line for each of {seeds('random')} seeds: the loss of the repaired hint "
                "minus that of the published hint, in nats per token.")


def interventions() -> HTML:
    """When the loss drops, for the published hint and four changes of it."""
    figure, axes = subplots(height=3.1)
    names = list(reversed(ARMS))
    for y, name in enumerate(names):
        color, marker = (SECOND, "s") if "frozen" in name else (look("gt-hint")["color"], "o")
        axes.plot(ARMS[name], [y] * len(ARMS[name]), marker, color=color, markersize=6,
                  markerfacecolor="white", markeredgewidth=1.4)
        axes.plot([0, ARMS[name].mean()], [y, y], ":", color=color, linewidth=1.2)
    axes.set(xlim=(0, 720), ylim=(-0.6, len(ARMS) - 0.4), yticks=range(len(ARMS)),
             yticklabels=names, xlabel="step of the drop")
    return show(
        figure, "The step of the drop for each intervention, one mark per seed. With a hint frozen "
        "at its random start the loss drops when that of the published hint does. With a hint of "
        "four times the size it drops earlier, with one of half the size later.",
        caption=f"When the loss falls below half of ln 64. Marks: {seeds('random')} seeds, each "
                "step interpolated between looks every 50 steps. The dotted lines end at their "
                "means. Orange squares: the hint comes from weights that never learn. (The runs "
                "of hint × ½ have 900 steps.)")


def word_losses() -> HTML:
    """The losses of the seven models on 500 words."""
    baselines = Words(types=500, context=32).baselines()
    steps = runs("words", "published hint")[0]["evaluated_at"]
    figure, axes = subplots(height=3.9)
    for name in NAMES:
        axes.plot(steps, curves("words", name).mean(0),
                  **STYLE[name] | dict(linewidth=1.4, markersize=4))
    ends = {name: curves("words", name)[:, -1].mean() for name in NAMES}
    for x, end, y, said, name in (
            (412, baselines["unigram"], 4.05, "unigram counts", ""),
            (412, baselines["bigram"], 3.77, "bigram counts", ""),
            (404, ends["plain"], 3.47, "four causal models", ""),
            (404, ends["glance"], 3.17, "glance, leak", "glance"),
            (404, ends["published hint"], 0.42, "published hint, leak", "published hint"),
            (404, ends["two-sided states"], 0.05, "two-sided states, leak", "two-sided states")):
        if said.endswith("counts"):
            axes.plot([30, 412], [end] * 2, color=QUIET, linewidth=1)
        axes.plot([x, 435], [end, y], color="#888888", linewidth=0.7)
        label_line(axes, 435, y, said, STYLE[name]["color"] if name else GREY)
    axes.set(xlabel="training steps", ylabel="validation loss, nats per word", xlim=(30, 690),
             xticks=(100, 200, 300, 400), ylim=(-0.1, 4.4), title="500 words")
    return show(
        figure, "Validation loss on words against steps. The four causal models end together at "
        "the level of bigram counts. The glance ends a little lower. The published hint keeps with "
        "the causal models for a hundred steps, then falls and ends near the two-sided states, "
        "which are near zero.",
        caption=f"Means of {seeds('words')} seeds. Grey lines: what counting words, or pairs of "
                "words, achieves.")


def renamed(shown: Live) -> HTML:
    """What `live` shows, under this chapter's names. The stored runs have the names of looks."""
    page = shown._repr_html_()
    for arm, name in (("gt-hint, leak", "published hint"), ("gt-hint", "repaired hint"),
                      ("fixed table, leak", "fixed hint")):
        page = page.replace(arm, name)
    return HTML(page)
