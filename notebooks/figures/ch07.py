"""The figures of chapter 7: the letter F under a delta sublayer, and the stored runs on text.

Each point of the letter is the state of one token, and K is the direction of the layer's answer.
`STUDY` is the comparison on text, whose models are searched one by one.
"""

import numpy as np
import torch
from IPython.display import HTML
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from geolab.operators import delta_matrix, unit_direction
from geolab.show.figures import ACCENT, CLEAR, SECOND, look, show, subplots
from geolab.show.letter import F as LETTER
from geolab.show.letter import draw_letter
from geolab.show.schematic import BOXED, LINE, OPERATOR, SUBLAYER, TINT, arrow, canvas, path
from studies import ledger
from studies.engine import results
from studies.engine.judge import loss

K = np.array([np.cos(0.4), np.sin(0.4)])
SIDE = np.array([-K[1], K[0]])
STUDY = results.stored("delta")
RATES, WARMUPS = [0.01, 0.02, 0.05, 0.1], [0.1, 0.3, 0.6]
WARM_TINT = "#f6d5bd"   # a light SECOND


def ddl(points: np.ndarray, k: np.ndarray = K, beta: float = 0.7, v: float = 1.0) -> np.ndarray:
    """DDL's connection on points (n, 2): erase the share beta along k, and write v there."""
    return points + beta * np.outer(v - points @ k, k)


def pushes() -> HTML:
    """The letter under the plain connection and under DDL, for an answer h and for 3h."""
    figure, panels = subplots(1, 3, height=2.6, sharey=True)
    for axes, name in zip(panels, ("plain: h, or 3h", "DDL: h", "DDL: 3h"), strict=True):
        axes.set(aspect="equal", xlim=(-0.5, 1.9), ylim=(-0.75, 1.5), title=name,
                 xlabel="feature 1", xticks=[0, 1], yticks=[0, 1])
    for length in (0.5, 1.5):
        draw_letter(panels[0], lambda points, length=length: points + length * K,
                    ghost=length == 0.5)
        arrow(panels[0], (0, 0), length * K, linewidth=1.5)
    for axes, length in zip(panels[1:], (0.5, 1.5), strict=True):
        axes.plot(*np.transpose([K - 1.2 * SIDE, K + 1.2 * SIDE]), ":", color="black",
                  linewidth=1.3)
        axes.text(*(K - 0.75 * SIDE + (0.2, 0)), "v = 1", fontsize=9, va="center")
        draw_letter(axes, ddl)
        arrow(axes, (0, 0), length * K, linewidth=1.5)
    panels[0].set_ylabel("feature 2")
    return show(figure, "Three panels. Left: adding h shifts the letter F a little, adding 3h "
                        "shifts it three times as far. Middle and right: DDL moves each corner "
                        "seven tenths of the way to a dotted line across h, so the letter becomes "
                        "thin. For h and for 3h the thin letter is the same.",
                caption="The letter before (grey) and after (blue). Black arrows: the answer. The "
                        "plain connection shifts the letter. DDL (β = 0.7, v = 1) moves each point "
                        "seven tenths of its way to the dotted line.")


def sublayer() -> HTML:
    """A delta sublayer as a wiring diagram, with the numbers of the text."""
    figure, axes = canvas(2.9)
    path(axes, (0.2, 0.9), (9.8, 0.9))
    axes.plot([0.8, 0.8], [0.9, 4.9], zorder=1, **LINE)
    axes.plot(0.8, 0.9, "ko", markersize=5)
    path(axes, (0.8, 2.4), (1.35, 2.4))
    path(axes, (1.8, 2.4), (2.75, 2.4))
    path(axes, (3.05, 2.4), (3.8, 2.4))
    path(axes, (1.8, 2.4), (1.8, 3.65), (3.1, 3.65))
    path(axes, (0.8, 4.9), (3.1, 4.9))
    for x, y, said in ((7.5, 2.4, "k: (1, 0), where"), (8.2, 3.65, "β: 1, how much"),
                       (9.0, 4.9, "v: 2, what")):
        path(axes, (3.75 if y > 3 else 4.5, y), (x, y), (x, 1.4))
        axes.text(x - 0.1, y + 0.36, said, fontsize=9.5, ha="right", va="center", style="italic")
    for x, y, said in ((1.8, 2.4, "norm"), (4.5, 2.4, "length 1"), (3.75, 3.65, "head, σ"),
                       (3.75, 4.9, "head, σ")):
        axes.text(x, y, said, **BOXED)
    axes.text(3.05, 2.4, "F", **SUBLAYER)
    axes.text(8.2, 0.9, "erase along k,\nwrite v there", **OPERATOR)
    axes.text(0.2, 0.3, "state (3, 4)", fontsize=10, va="center")
    axes.text(9.8, 0.15, "(2, 4)", fontsize=10, ha="right", va="center")
    axes.text(2.4, 1.9, "(0.85, 1.13)", fontsize=8.5, ha="center", va="center")
    axes.text(3.65, 1.9, "(10, 0)", fontsize=8.5, ha="center", va="center")
    return show(figure, "The state passes from left to right through one box that erases along k "
                        "and writes v. A branch normalises the state and gives it to F, whose "
                        "answer is brought to length one: k. Two heads give beta and v.",
                caption="A delta sublayer. F (attention or MLP) says where, one head says how "
                        "much, another one says what.")


def draw_nudge(length: float) -> Figure:
    """The same nudge turns a short answer far and a long one little. At length 4 the angle is about a quarter of that at length 1, and so is the distance by which the letter moves."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, (left, right) = subplots(1, 2, height=2.6, width_ratios=(1.5, 1))
    start, end = length * K, length * K + 0.5 * SIDE
    arrow(left, (0, 0), start, linewidth=1.7)
    arrow(left, start, end, color=SECOND, linewidth=1.7)
    left.plot([0, end[0]], [0, end[1]], "--", color=ACCENT, linewidth=1.5)
    angle = np.rad2deg(np.arctan(0.5 / length))
    left.text(0, 2.55, f"turned by {angle:.1f}°", fontsize=10)
    left.set(aspect="equal", xlim=(-0.2, 4), ylim=(-0.3, 2.9), xlabel="feature 1",
             ylabel="feature 2", xticks=range(5), yticks=range(3), title="the answer h")
    after = ddl(LETTER, k=end / np.linalg.norm(end))
    draw_letter(right, ddl, ghost=False, color="#aaaaaa")
    draw_letter(right, lambda points: ddl(points, k=end / np.linalg.norm(end)), ghost=False)
    by = np.linalg.norm(after - ddl(LETTER), axis=1).mean()
    right.text(0.05, -0.5, f"moved by {by:.2f}", fontsize=10)
    right.set(aspect="equal", xlim=(0, 1.4), ylim=(-0.6, 1.15), xticks=[0, 1], yticks=[0, 1],
              xlabel="feature 1", title="the letter that leaves")
    return figure


def fading() -> HTML:
    """The letter after 0 to 24 sublayers that erase along random directions, in 2 and 64 features.

    With 64 features only the first two are drawn.
    """
    shown = (0, 1, 2, 4, 8, 16, 24)
    figure, panels = canvas(2.7, rows=2, xlim=(-0.7, 9.2), ylim=(-1, 1.05))
    for axes, d in zip(panels, (2, 64), strict=True):
        torch.manual_seed(1)
        axes.set(aspect="equal")
        axes.text(-0.65, 0.82, f"{d} features", fontsize=11, weight="bold")
        by = torch.eye(d).double()
        for depth in range(25):
            if depth in shown:
                place = 1.4 * shown.index(depth)
                draw_letter(axes, by[:2, :2].numpy(), at=(place, 0.1), ghost=False,
                            color=ACCENT if depth else "#aaaaaa")
                axes.text(place, -0.75, f"{depth}", ha="center", fontsize=10)
            by = delta_matrix(unit_direction(torch.randn(d).double()), 1.0) @ by
    return show(figure, "Two rows of letters, after 0 to 24 sublayers. With two features the "
                        "letter is a line after the first sublayer and then a dot. With 64 "
                        "features it is a little smaller at the end.",
                caption="The letter after 0 to 24 sublayers that erase fully along random "
                        "directions. With 64 features the last letter is a little smaller.")


def signed(number: float) -> str:
    """A number with its sign and two decimals."""
    return f"{number:+.2f}".replace("-", "−")


def stair(axes: Axes, place: int, level: float, interval: tuple[float, float, float], said: str,
          warm: bool = False) -> float:
    """Draw a bar on the one before it, hatched where its interval holds zero; return its top."""
    mean, low, high = interval
    sure = low > 0 or high < 0
    axes.bar(place, mean, 0.6, bottom=level, facecolor=(WARM_TINT if warm else TINT) if sure
             else "white", edgecolor=SECOND if warm else ACCENT, hatch=None if sure else "///",
             linewidth=1.3)
    axes.plot([place, place], [level + low, level + high], color="black", linewidth=1.5)
    axes.text(place, level + high + 0.01, said, ha="center", fontsize=10)
    return level + mean


def short_stairs(models: dict[str, np.ndarray]) -> HTML:
    """From additive to delta in five steps: what each saves, over stored runs of a short race.

    `models` has the losses of the six models, (runs,) each, in the order of the steps.
    """
    figure, axes = subplots(height=3.3)
    axes.axhline(0, color="black", linewidth=0.8)
    level, rows = 0.0, list(models.values())
    for x, (before, after) in enumerate(zip(rows, rows[1:], strict=False)):
        mean, half = results.interval(before - after)
        level = stair(axes, x, level, (mean, mean - half, mean + half), signed(mean), warm=x == 4)
        axes.plot([x + 0.3, min(x + 0.7, 4.3)], [level] * 2, ":", color="black", linewidth=1)
    axes.set(xticks=range(5), xticklabels=["louder", "points", "gate", "value", "erases"],
             xlim=(-0.6, 4.6), ylim=(-0.02, 0.4), title="From additive to delta, in the short race",
             ylabel="gain in the short race,\nnats per byte")
    axes.grid(axis="x", visible=False)
    return show(figure, "A staircase of five steps. A louder start gains 0.03 nats per byte, a "
                        "layer that only points 0.07 more, a gate 0.08 more, a learned value "
                        "nothing that can be told from zero, and erasing 0.11.",
                caption="Each bar stands on the one before it. Blue: the four parts of the write. "
                        "Thin lines: intervals (95 %). Hatched: the step may be zero.")


def leads() -> np.ndarray:
    """Delta's lead over write-only, one seed per setting: (warm-ups, rates)."""
    seed = STUDY["protocol"]["search_seeds"][0]
    tried = {(run["model"], run["lr"], run["warmup"]): loss(run)
             for run in STUDY["search"]["runs"] if run["seed"] == seed}
    return np.array([[tried["delta, write-only", lr, warmup] - tried["delta", lr, warmup]
                      for lr in RATES] for warmup in WARMUPS])


def settings() -> HTML:
    """`leads` as a table."""
    figure, axes = subplots(height=2.5)
    for (row, column), lead in np.ndenumerate(leads()):
        face = TINT if lead > 0 else "white"
        axes.bar(column, 0.92, 0.92, bottom=row - 0.46, linewidth=1, facecolor=face,
                 edgecolor=ACCENT if lead > 0 else "#555555", hatch=None if lead > 0 else "///")
        axes.text(column, row, signed(lead), ha="center", va="center", fontsize=11,
                  bbox=dict(facecolor=face, edgecolor="none", pad=2))
    axes.set(xticks=range(4), xticklabels=RATES, yticks=range(3), yticklabels=WARMUPS,
             xlim=(-0.5, 3.5), ylim=(2.5, -0.5), xlabel="learning rate at its peak",
             ylabel="warm-up", title="By how much delta is ahead of write-only")
    axes.grid(False)
    axes.spines[:].set_visible(False)
    return show(figure, "A table of twelve settings. Delta is ahead at most settings with a low "
                        "learning rate, and write-only at most settings with a high one: six "
                        "settings each.",
                caption="One run of each model at each of twelve settings, in nats per byte. Blue: "
                        "delta is ahead. Hatched: write-only is. This is one seed, and no verdict "
                        "is read from it.")


def stairs() -> HTML:
    """What writing and then erasing add at each model's best setting, as the ledger has it."""
    figure, axes = subplots(height=3.5)
    axes.axhline(0, color="black", linewidth=0.8)
    level = 0.0
    for x, label in enumerate(("ddl-write", "ddl-erasing-one")):
        step = ledger.finding(label).effect
        level = stair(axes, x, level, (step.mean, step.low, step.high),
                      f"{signed(step.mean)}: {ledger.verdict(label)}")
        axes.plot([x + 0.3, min(x + 0.7, 1.3)], [level] * 2, ":", color="black", linewidth=1)
    axes.set(xticks=range(2), xticklabels=["write", "erase\nas well"], xlim=(-0.6, 1.6),
             ylim=(-0.03, 0.25), ylabel="gain over plain additions,\nnats per byte",
             title="From additive to delta")
    axes.grid(axis="x", visible=False)
    return show(figure, "A staircase of two steps. The write gains a tenth of a nat, and erasing "
                        "adds little, with an interval that includes zero.",
                caption="What each part adds, over sixteen seeds at the best settings (three "
                        "blocks, 200 steps). The second bar stands on the first one. Each thin "
                        "line is the interval (95 %) of its own step. Hatched: the step may be "
                        "zero.")


def gates(model: str) -> np.ndarray:
    """The mean β of each sublayer after training, one row per seed: (seeds, sublayers)."""
    return np.array([run["measured"]["beta mean"] for run in STUDY["runs"]
                     if run["model"] == model])


def gates_end() -> HTML:
    """`gates` of delta with one channel and with four."""
    figure, panels = subplots(2, 1, height=4, sharex=True)
    for axes, (name, title) in zip(panels, (("delta", "one number per feature"),
                                            ("delta-matrix", "four numbers per feature")),
                                   strict=True):
        style = look(name)
        for place, values in enumerate(gates(name).T):
            axes.plot([place] * 2, [values.min(), values.max()], color=style["color"], linewidth=2)
            axes.plot(place, values.mean(), marker=style["marker"], color=style["color"],
                      markersize=9, markerfacecolor="white" if place % 2 else style["color"])
        axes.axhline(1, color="black", linewidth=0.8, linestyle="--")
        axes.set(ylim=(0, 2), yticks=[0, 1, 2], ylabel="mean β", title=title)
    panels[1].set(xticks=range(6), xticklabels=[f"{kind}\n{block}" for block in (1, 2, 3)
                                                for kind in ("attention", "MLP")])
    panels[1].tick_params(axis="x", labelsize=9)
    return show(figure, "Mean gate of each of six sublayers after training, sixteen seeds. Most "
                        "lie below 1. With one number per feature the first MLP lies around 1, "
                        "with four the gates of attention in the third block are near 0.",
                caption="Each line goes from the lowest to the highest of sixteen seeds, each mark "
                        "is their mean. Full: attention, open: MLP. Dashed: where gates start.")


def real_writes() -> HTML:
    """The mean cosine of every two writes of SmolLM2, stored."""
    cosines = np.array(results.stored("real")["stream"]["cosine of writes"])
    figure, axes = subplots(height=4.2)
    drawn = axes.imshow(np.where(np.tri(61, k=-1) > 0, cosines, np.nan), origin="lower",
                        cmap="cividis", vmin=-0.3, vmax=0.3, interpolation="nearest")
    figure.colorbar(drawn, ax=axes, label="cosine")
    axes.grid(False)
    axes.set(xlabel="the earlier write", ylabel="the later write", xticks=range(0, 61, 20),
             yticks=range(0, 61, 20))
    return show(figure, "A triangle of 61 by 61 cosines. Most are near zero. Near the diagonal, in "
                        "the middle of the network, cells of MLPs after attention are clearly "
                        "negative, and cells of attention after attention positive.",
                caption="Mean cosines over the words of 24 windows. Write 0 is the embedding, and "
                        "then attention (odd) and MLPs (even) take turns. Light is positive, dark "
                        "negative.")


def sizes() -> HTML:
    """The gain over plain additions by size and network, as intervals."""
    rows = (("ddl-write", "write-only,\n50 thousand weights"),
            ("ddl-one", "delta,\n50 thousand weights"),
            ("ddl-million-write", "write-only,\na million weights"),
            ("ddl-million-own-one", "delta,\na million weights"),
            ("ddl-headline", "delta, a million,\nanother network"))
    style = look("delta")
    figure, axes = subplots(height=3.4)
    axes.axvline(0, color="black", linewidth=0.8)
    for y, (label, said) in enumerate(rows):
        lead = ledger.finding(label).effect
        axes.plot([lead.low, lead.high], [y, y], color=style["color"], linewidth=2)
        axes.plot(lead.mean, y, style["marker"], color=style["color"], markersize=8,
                  markerfacecolor="white" if said.startswith("write") else style["color"])
        axes.text(lead.mean, y - 0.2, signed(lead.mean), ha="center", fontsize=10,
                  bbox=CLEAR)
    axes.set(yticks=range(len(rows)), yticklabels=[said for _, said in rows], xlim=(-0.25, 0.25),
             ylim=(len(rows) - 0.6, -0.6), xticks=[-0.2, -0.1, 0, 0.1, 0.2],
             xlabel="gain over plain additions, nats per byte")
    return show(figure, "Five intervals. Write-only and delta with 50 thousand weights lie right "
                        "of zero, at 0.10 and 0.13. With a million weights both hold zero. In "
                        "another network of that size delta lies left of zero, at minus 0.10.",
                caption="Means and intervals. Sixteen seeds and 200 steps, "
                        f"{ledger.at_setting('ddl-one')}; with a million weights eight seeds and "
                        f"800 steps of 256 bytes, {ledger.at_setting('ddl-million-own-one')}, "
                        "but the last, which chose its setting by all of it. Right of zero the "
                        "model is ahead.")