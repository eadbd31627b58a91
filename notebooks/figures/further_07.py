"""The figures of Going further: the delta operator in networks.

The length of a matrix under training, what first writes do, and the study of twelve delta models.
"""

from collections.abc import Sequence

import numpy as np
from IPython.display import HTML
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from geolab.show.figures import ACCENT, QUIET, SECOND, label_line, look, show, subplots
from geolab.show.schematic import BOXED, SUBLAYER, TINT, arrow, canvas
from notebooks.figures.ch07 import STUDY
from studies import ledger
from studies.claims import TABLES
from studies.engine.judge import loss

NAMES = {"additive": "additive", "delta": "delta", "delta, write-only": "write-only",
         "delta, v-Map": "v-Map", "delta-matrix": "4: TC", "delta-matrix-ec": "4: EC",
         "delta-matrix-cc": "4: CC", "delta-matrix-cc-ec": "4: CC-EC",
         "delta-matrix, v-Map": "4: v-Map", "delta-matrix, write-only": "4: write-only",
         "delta-matrix, overwrite": "4: overwrite",
         "delta-matrix, additive-matrix": "4: additive"}
REPORTED = TABLES["ddl-table-3-loss"].rows


def finals() -> dict[str, np.ndarray]:
    """Model -> its loss on text at its best setting, one per seed."""
    return {name: np.array([loss(run) for run in STUDY["runs"] if run["model"] == name])
            for name in NAMES}


def at_angle(angle: float) -> np.ndarray:
    """The unit vector at an angle in radians: (2,)."""
    return np.array([np.cos(angle), np.sin(angle)])


def step_out() -> HTML:
    """Four steps of gradient descent, each at a right angle to the matrix W, seen as an arrow."""
    figure, axes = subplots(height=2.9)
    W, turn = 0.6 * at_angle(0.3), np.linspace(0, 2 * np.pi, 73)
    for step in range(4):
        length = np.linalg.norm(W)
        after = W + 0.36 / length * np.array([-W[1], W[0]]) / length
        axes.plot(length * np.cos(turn), length * np.sin(turn), color="#cccccc", linewidth=1)
        arrow(axes, (0, 0), W, linewidth=0.7 if step else 1.6)
        arrow(axes, W, after, color=SECOND, linewidth=1.6)
        W = after
    axes.text(0.3, -0.06, "W", fontsize=11)
    axes.text(0.66, 0.42, "step", fontsize=11, color=SECOND)
    axes.set(aspect="equal", xlim=(-1.6, 1.6), ylim=(-0.65, 1.25), xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    return show(figure, "An arrow W from the origin, and four steps. Each step is at a right angle "
                        "to W and ends outside the circle through its beginning. The steps become "
                        "shorter as W becomes longer.",
                caption="Gradient descent on W, two of its entries. Each step (orange) is at a "
                        "right angle to W, so W gets longer, and the steps get shorter.")


def draw_steps(angle: float) -> Figure:
    """A step of gradient descent always ends outside of the circle. The sign step ends inside when the arrow W is flatter than 45 degrees, and outside when it is steeper."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, axes = subplots(height=3.6)
    W = at_angle(np.deg2rad(angle))
    G = np.array([W[1], -W[0]])                    # at a right angle to W
    for ray in np.deg2rad(np.arange(0, 91, 15)):
        axes.plot([0, 1.5 * np.cos(ray)], [0, 1.5 * np.sin(ray)], color="#dddddd", linewidth=1)
    turn = np.linspace(0, np.pi / 2, 40)
    axes.plot(np.cos(turn), np.sin(turn), "k--", linewidth=1)
    arrow(axes, (0, 0), W, linewidth=2)
    axes.text(*(0.55 * W - 0.1 * G - (0.06, 0.04)), " W", fontsize=10)
    for end, color, name, y in ((W - 0.4 * G, ACCENT, "gradient step", 1.6),
                                (W - 0.4 * np.sign(G), SECOND, "sign step", 1.45)):
        arrow(axes, W, end, color=color, linewidth=2)
        axes.text(0.62, y, f"{name}: length {np.linalg.norm(end):.2f}", color=color, fontsize=10)
    axes.set(aspect="equal", xlim=(-0.45, 1.75), ylim=(-0.05, 1.75), xlabel="first entry of W",
             ylabel="second entry of W", xticks=[0, 1], yticks=[0, 1],
             title="Two kinds of step from W")
    return figure


def lengths(eta: float, decay: float) -> HTML:
    """The length of W under AdamW from three starts, relative to its limit."""
    steps = np.arange(0, 20_001, 1000)
    figure, axes = subplots(height=2.6)
    for start, style in ((3.0, "-"), (1.0, ":"), (0.2, "--")):
        n = 1 + (start**2 - 1) * (1 - eta * decay) ** (2 * steps)
        axes.plot(steps / 1000, np.sqrt(n), style, color="black")
        axes.annotate(f"starts at {start:g}", (0.8, start), xytext=(6, 4 if start > 0.5 else -3),
                      textcoords="offset points", fontsize=10)
    axes.set(xlabel="thousand steps of AdamW", ylabel="length of W,\nrelative to the limit",
             ylim=(0, 3.4), xlim=(0, 20), xticks=[0, 5, 10, 15, 20], title="Three starts")
    return show(figure, "The length of W from three starts: three times the limit, the limit, and "
                        "a fifth of it. After twenty thousand steps all are close to the limit.",
                caption="Part 4 of the proposition, at the paper's peak learning rate 0.001 and "
                        "its decay 0.1. How long W was at the start is soon forgotten.")


def loud(starts: Sequence[float], state: Sequence[float], left: Sequence[float],
         plain: float) -> HTML:
    """The state at the end, and what erasing leaves of the embedding, by the gates' start."""
    figure, axes = subplots(height=3)
    axes.plot(starts, state, color="black", marker="o", markersize=4)
    axes.plot(starts, left, "--", color=ACCENT, marker="s", markersize=4)
    axes.axhline(plain, linestyle=":", color="#555555")
    axes.text(2, 0.9 * plain, "plain network", ha="right", va="top", color="#555555", fontsize=10)
    axes.text(0.97, 1.25 * state[len(state) // 2], "state", ha="right", fontsize=10)
    axes.text(1, 0.7 * left[len(left) // 2], "embedding, not erased", ha="center", va="top",
              color=ACCENT, fontsize=10)
    axes.set(yscale="log", ylim=(0.2, 200), xlim=(0, 2.02), xticks=[0, 0.5, 1, 1.5, 2],
             xlabel="where the gates β start", ylabel="length / embedding's length",
             title="After 24 untrained sublayers, 64 features")
    axes.set_yticks([1, 10, 100], ["1", "10", "100"])
    axes.yaxis.set_minor_locator(NullLocator())
    return show(figure, "Two curves over the start of the gates. The state becomes up to about a "
                        "hundred times as long as the embedding, also for small gates. What "
                        "erasing leaves of the embedding stays near one. A plain network's state "
                        "ends in between.",
                caption="Black: the length of the state. Blue: what erasing alone would leave of "
                        "the embedding. Dotted: the state of a plain network, which has no gate.")


def forest() -> HTML:
    """What each part saves: its interval, and the means of its variations."""
    parts = {"ddl-erasing": "erasing,\n4 channels", "ddl-erasing-one": "erasing,\n1 channel",
             "ddl-write-four": "the write,\n4 channels"}
    figure, axes = subplots(height=2.9)
    axes.axvline(0, color="black", linewidth=0.8)
    named = sorted(ledger.finding("ddl-erasing").varied)
    for y, label in enumerate(parts):
        found = ledger.finding(label)
        for name, mark in zip(named, "sod^", strict=True):
            axes.plot(found.varied[name].mean, y - 0.22, mark, color=QUIET, markersize=6,
                      markerfacecolor="white", label=None if y else name)
        axes.plot([found.effect.low, found.effect.high], [y + 0.12] * 2, color=ACCENT, linewidth=3)
        axes.plot(found.effect.mean, y + 0.12, "o", color=ACCENT, markersize=7)
        axes.text(0.56, y, ledger.verdict(label), fontsize=10, ha="left", va="center")
    axes.legend(loc="upper center", bbox_to_anchor=(0.45, -0.26), ncol=2, fontsize=9)
    axes.set(yticks=range(3), yticklabels=parts.values(), xlim=(-0.6, 0.9), ylim=(-0.6, 2.6),
             xticks=[-0.4, -0.2, 0, 0.2, 0.4], xlabel="what the part saves, nats per byte",
             title="One part at a time")
    return show(figure, "What each part saves, with its interval and its variations. The write "
                        "saves with four channels. The interval of erasing with one channel holds "
                        "zero, and erasing with four channels turns at the next-best settings.",
                caption="Blue: sixteen seeds at the best settings, with an interval. Grey: means "
                        "of the variations. A claim holds when the interval and all but “equal "
                        "time” lie on one side.")


def steps_and_time() -> HTML:
    """The gains of three delta models at half the steps, twice the steps, and in equal time."""
    figure, axes = subplots(height=3.2)
    axes.axhline(0, color="black", linewidth=0.8)
    for shift, (label, name, said) in enumerate((("ddl-one", "delta", "delta"),
                                                 ("ddl-four", "delta-matrix", "TC"),
                                                 ("ddl-cc-ec", "delta-matrix", "CC-EC"))):
        found, style = ledger.finding(label), look(name)
        for place, at in enumerate(("half the steps", None, "twice the steps", "equal time")):
            here, x = found.varied[at] if at else found.effect, place + 0.16 * (shift - 1)
            axes.plot([x, x], [here.low, here.high], color=style["color"], linewidth=2)
            axes.plot(x, here.mean, style["marker"], color=style["color"], markersize=8,
                      label=None if place else said,
                      markerfacecolor="white" if said == "CC-EC" else style["color"])
    axes.set(xticks=range(4), xticklabels=["100 steps", "200 steps", "400 steps",
                                           "same time\nas additive"], ylim=(-0.3, 0.8),
             ylabel="gain over additive,\nnats per byte",
             title="At each model's best setting for 200 steps")
    axes.legend(loc="upper right", fontsize=9)
    return show(figure, "The gain of delta, of TC and of CC-EC over additive at 100, 200 and 400 "
                        "steps and in equal time. The gains shrink from 100 to 200 steps. In equal "
                        "time their intervals include zero.",
                caption="Intervals over sixteen seeds (200 steps) and over three seeds (all "
                        "others). In the same time as 200 additive steps, a model with four "
                        "channels makes fewer than half as many.")


def wide() -> HTML:
    """One sublayer on a state of two features with four channels each."""
    figure, axes = subplots(height=2.1)
    tables = {0: [[3, 3, 3, 3], [4, 4, 4, 4]], 7: [[2, 4, 0, 1], [4, 4, 4, 4]]}
    for left, table in tables.items():
        for (row, column), value in np.ndenumerate(np.array(table)):
            x, y = left + column, 1 - row
            axes.fill([x, x + 1, x + 1, x], [y, y, y + 1, y + 1], edgecolor="black",
                      facecolor=TINT if row == 0 and left else "white", linewidth=0.8)
            axes.text(x + 0.5, y + 0.5, value, ha="center", va="center", fontsize=11)
    arrow(axes, (4.3, 1), (6.7, 1))
    for x, y, said in ((5.5, 1.25, "one k = (1, 0),"), (5.5, 0.55, "four values"),
                       (2, 2.3, "four equal channels"), (9, 2.3, "v = 2, 4, 0, 1")):
        axes.text(x, y, said, ha="center", fontsize=10)
    axes.set(xlim=(-0.1, 11.1), ylim=(-0.1, 2.7), aspect="equal")
    axes.set_axis_off()
    return show(figure, "A table of two features and four equal columns, 3 over 4. After one "
                        "sublayer its first row holds 2, 4, 0 and 1, and its second row is as it "
                        "was.",
                caption="One sublayer with four channels and β = 1. Rows are features, columns are "
                        "channels.")


def four_models() -> HTML:
    """What a sublayer of TC, EC, CC and CC-EC sees at the last of four tokens."""
    figure, axes = canvas(2.55)
    kinds = (("TC", [3], range(4)), ("EC", range(4), range(4)), ("CC", [3], [3]),
             ("CC-EC", range(4), [3]))
    for place, (name, starts_from, reads_from) in enumerate(kinds):
        xs = 1.95 + 2.1 * place + 0.45 * np.arange(4)
        axes.text(xs.mean(), 4.8, name, ha="center", va="center", fontsize=11, weight="bold")
        for sources, y, to in ((starts_from, 0.9, (xs[3], 2.2)), (reads_from, 2.2, (xs[3], 3.7))):
            for j in sources:
                axes.plot([xs[j], to[0]], [y, to[1]], color=ACCENT if j == 3 else SECOND,
                          linestyle="-" if j == 3 else "--", linewidth=1.5, zorder=0)
        axes.plot(xs, [0.9] * 4, "ko", markersize=5)
        axes.plot(xs, [2.2] * 4, "s", color="black", markerfacecolor="white", markersize=9)
        axes.text(xs[3], 3.85, "F", **BOXED | dict(bbox=SUBLAYER["bbox"]))
        axes.text(xs[3], 0.4, "this", ha="center", va="center", fontsize=9)
    for y, said in ((3.85, "sublayer"), (2.2, "columns"), (0.9, "embeddings")):
        axes.text(0.05, y, said, fontsize=9, va="center")
    return show(figure, "Four small networks over four tokens. TC reads the columns of four tokens "
                        "and starts from this token. EC does both with four tokens, CC neither, "
                        "CC-EC starts from four tokens and reads one.",
                caption="What a sublayer sees at the last of four tokens. Dashed, orange: a look "
                        "at one of the three tokens before, without attention.")


def saved_and_speed() -> tuple[dict[str, float], dict[str, float]]:
    """What the small models save and how fast they train, relative to additive, as reported."""
    rows = REPORTED | TABLES["ddl-table-3-revised"].rows
    speed = TABLES["ddl-efficiency-small"].rows
    saved = {name: rows["additive"]["small"][0] - row["small"][0] for name, row in rows.items()}
    return saved, {name: row["training"][0] / speed["additive"]["training"][0]
                   for name, row in speed.items()}


def speed() -> HTML:
    """`saved_and_speed`, drawn."""
    saved, throughput = saved_and_speed()
    figure, axes = subplots(height=3.1)
    for name, gain in saved.items():
        style = look({"additive": "additive", "d_v = 1": "delta"}.get(name, "delta-matrix"))
        at, right = (throughput[name], 1000 * gain), name != "additive"
        axes.plot(*at, marker=style["marker"], color=style["color"], markersize=9, linestyle="")
        axes.annotate({"d_v = 1": "delta", "d_v = 4": "TC"}.get(name, name), at,
                      xytext=(8 if right else -8, -3),
                      textcoords="offset points", ha="left" if right else "right",
                      color=style["color"])
    axes.set(xlabel="training throughput, relative to additive", xlim=(0.35, 1.1), ylim=(-2, 28),
             ylabel="loss saved against additive\n(thousandths of a nat)",
             title="Reported by the paper and its revision")
    return show(figure, "Reported gain in validation loss against reported training throughput of "
                        "the small models. The gains of 0.02 nats come at 0.45 to 0.77 of the "
                        "baseline's throughput.",
                caption="Loss saved (paper, table 3) against speed of training (revision, table "
                        "4), small models. Up is better, right is faster.")


def reported() -> HTML:
    """The paper's validation losses at two sizes, less that of its baseline."""
    figure, axes = subplots(height=3)
    names = ["additive", "d_v = 1", "d_v = 4", "CC", "EC"]
    for size, style, color in (("small", "-", "black"), ("medium", "--", SECOND)):
        values = np.array([REPORTED[name][size][0] for name in names])
        less = 1000 * (values - values[0])
        axes.plot(range(5), less, style, marker="o" if size == "small" else "s", color=color)
        label_line(axes, 4, less[-1], " " + size, color=color)
    axes.axhline(0, color=QUIET, linewidth=1)
    axes.set(xticks=range(5), xticklabels=["additive", "delta", "TC", "CC", "EC"],
             xlim=(-0.3, 5.2), ylabel="loss minus additive\n(thousandths of a nat)",
             title="Reported validation losses (table 3)")
    return show(figure, "Reported validation losses relative to the additive baseline, small and "
                        "medium. All delta models are below the baseline; those with four channels "
                        "are further below than the one with one channel.",
                caption="Losses less that of the additive model. At both sizes every delta model "
                        "is below it.")


def twelve() -> HTML:
    """The losses of all models of the study, one tick per seed."""
    figure, axes = subplots(height=4.2)
    for y, (name, values) in enumerate(reversed(finals().items())):
        style = look(name if name == "additive" else "delta-matrix" if "matrix" in name
                     else "delta")
        axes.plot(np.repeat(values, 3), np.tile([y - 0.25, y + 0.25, np.nan], len(values)),
                  color=style["color"], linewidth=1)
        axes.plot(values.mean(), y, style["marker"], color=style["color"], markersize=8,
                  markerfacecolor="white" if "," in name else style["color"])
    bigram = STUDY["baselines"]["bigram"]
    axes.axvline(bigram, color=QUIET, linewidth=1)
    axes.annotate("counting pairs", (bigram, 4.5), xytext=(3, 0), textcoords="offset points",
                  fontsize=9, color="#555555", va="center")
    axes.set(yticks=range(12), yticklabels=list(NAMES.values())[::-1], ylim=(-0.6, 11.6),
             xlabel="validation loss, nats per byte",
             title="Sixteen seeds, each model at its best setting")
    return show(figure, "Validation losses of twelve models with sixteen seeds each. With one "
                        "channel delta and write-only overlap, and both are below additive. CC-EC "
                        "and overwrite are lowest. The four-channel additive model is highest.",
                caption="Each tick is a seed, each mark a mean. Above: one channel. Names with a "
                        "4: four channels. Open marks: controls and the v-Map.")
