"""The figures of chapter 11, and the stored runs that they show.

A sublayer of MGT adds the rate times what is left of its proposal after an erasure:

    x ← x + β (G V − α x)        of the old value the factor 1 − αβ is left
"""

import numpy as np
from IPython.display import HTML
from matplotlib.figure import Figure
from torch import Tensor

from geolab.show.diagrams import describe, diagram
from geolab.show.figures import ACCENT, SECOND, look, plane, show, subplots
from geolab.show.letter import draw_letter
from geolab.show.schematic import arrow
from geolab.tasks import Text
from studies.engine import results

PARTS = results.stored("mgt_ablation")["text"]
DEEP = results.stored("mgt_rank")["rank"]
DEPTH = results.stored("mgt_depth")["depth"]
DEEPEST = results.stored("mgt_beta")["beta, rate searched"]
REAL = results.stored("real")
COUNTS = Text(context=32).baselines()      # the losses of predictors that only count bytes
EVERYTHING = DEEP["runs"] + [run for varied in DEEP["sensitivity"].values() for run in varied]
BLOCKS = np.arange(1, 25)
STARTS = {"α from 0": (ACCENT, "--"), "α from ½": (SECOND, "-."), "α from 1": ("black", "-")}
WIDE, SIGNED = "MGT (Full)", "MGT, β in (−1, 1)"      # rates in (0, 2), and in (−1, 1)
SAID = {"Standard, post-LN": "Post-LN", "Standard": "Pre-LN", WIDE: "MGT"}
LOOKS = {"Standard, post-LN": look("post-LN"), "Standard": look("additive"), WIDE: look("mgt")}


def draw_moves(gate: float, beta: float) -> Figure:
    """Two tokens, one feature: lines lead from the values 2 and 7 to the new values. A ring stands at the gate times 5. At the rate 1 both arrive at the ring, at 0 both stay, and with a negative rate they move away from it."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, axes = subplots(height=2.7)
    said = []
    for y, x in ((1, 2), (0, 7)):
        new = x + beta * (gate * 5 - x)
        said.append(f"{x} becomes {new:.1f}".replace("-", "−"))
        axes.axhline(y, color="#d9d9d9", linewidth=1, zorder=0)
        axes.plot(gate * 5, y, "o", color="black", fillstyle="none", markersize=13,
                  markeredgewidth=1.4)
        axes.plot([x, new], [y, y], color=SECOND, linewidth=2.5)
        axes.plot(new, y, "s", color=SECOND, markersize=7)
        axes.plot(x, y, "o", color=ACCENT, markersize=7)
    axes.set(xlim=(-4.4, 11.4), ylim=(-0.6, 1.5), xticks=range(-4, 12, 2), yticks=[1, 0],
             yticklabels=["token 1", "token 2"], xlabel="value of the feature",
             title=", ".join(said))
    axes.grid(False)
    return figure


def sublayer() -> HTML:
    """The whole sublayer as a drawing."""
    figure = diagram("mgt")
    for x, y, letter in ((5.05, 0.55, "α"), (6.15, 0.55, "β"), (9.5, 0.55, "β, G")):
        figure.axes[0].text(x, y, letter, ha="left" if letter == "β" else "right", va="center",
                            fontsize=11)
    return show(figure, describe("mgt"),
                caption="The box on the state multiplies each feature by its own factor, and the "
                        "⊕ adds the proposal times the rate and the gate. Dashed arrows: where α, "
                        "β and G come from.")


def twins(rates: Tensor, twin_rates: Tensor) -> HTML:
    """The mean rates of two trained models, sublayer by sublayer."""
    figure, axes = subplots(height=2.6)
    for shift, values, color, said in ((-0.17, rates, ACCENT, "Anna"),
                                       (0.17, twin_rates, SECOND, "Bert")):
        axes.bar(np.arange(4) + shift, values, 0.3, color=color, alpha=0.85, label=said,
                 hatch="//" if said == "Bert" else None, edgecolor="white")
    axes.axhline(0, color="black", linewidth=1)
    reach = 1.6 * float(rates.abs().max())
    axes.set(xticks=range(4), xticklabels=["attention 1", "MLP 1", "attention 2", "MLP 2"],
             ylim=(-reach, reach), ylabel="mean β")
    axes.legend(loc="upper center", ncols=2)
    axes.grid(axis="x", visible=False)
    return show(figure, "The mean rate of each of four sublayers for two trained models. In each "
                        "sublayer the bars are equally long, one up and one down.",
                caption="The mean rate of each sublayer after 40 steps, over tokens and features.")


def runs(name: str) -> list[dict]:
    """The runs of a model over 24 blocks, one per seed."""
    return [run for run in DEEP["runs"] if run["model"] == name]


def loss_of(run: dict) -> float:
    """The last validation loss of a stored run."""
    found = run["validation_loss"]
    return found[-1] if isinstance(found, list) else found


def watched(model: str) -> np.ndarray:
    """At the end of the training the mean of β, its deviation, its fraction below 1 (or 0), and α.

    Returns (seeds, sublayers, 4).
    """
    return np.array([run["measured"]["beta mean, std, share below, alpha"][-1]
                     for run in runs(model)])


def by_block(values: np.ndarray) -> np.ndarray:
    """The mean of attention and MLP: (..., 48) -> (..., 24)."""
    return values.reshape(*values.shape[:-1], 24, 2).mean(-1)


def negative_rates() -> np.ndarray:
    """The fraction of negative rates, for rates in (−1, 1): (seeds, sublayers)."""
    return watched(SIGNED)[..., 2]


def negative_shares() -> np.ndarray:
    """The fraction of negative αβ in each block: (seeds, blocks). A negative α turns all signs."""
    found = watched(SIGNED)
    return by_block(np.where(found[..., 3] < 0, 1 - found[..., 2], found[..., 2]))


def berts(rises: bool) -> np.ndarray:
    """The negative rates of Anna's twin who turns those sublayers round that suit him: (48,)."""
    hers, deep = negative_rates()[0], np.arange(48) >= 24
    most, least = np.maximum(hers, 1 - hers), np.minimum(hers, 1 - hers)
    return np.where(deep == rises, most, least)


def shares() -> HTML:
    """Left the negative rates of Anna and of two of her twins, right their negative shares."""
    figure, (left, right) = subplots(1, 2, height=3.1, sharey=True)
    for values, color, style, said in ((berts(True), SECOND, "--", "a rise"),
                                       (negative_rates()[0], ACCENT, "-", "Anna"),
                                       (berts(False), "black", ":", "a fall")):
        left.plot(BLOCKS, by_block(values), color=color, linestyle=style, linewidth=1.6, label=said)
    left.legend(loc="lower center", ncols=3, fontsize=9, columnspacing=0.8, handlelength=1.4)
    found = negative_shares()
    right.fill_between(BLOCKS, found.min(0), found.max(0), color="#555555", alpha=0.18, linewidth=0)
    right.plot(BLOCKS, found.mean(0), ":", color="#555555", linewidth=1.4)
    right.plot(BLOCKS, found[0], color="black", linewidth=1)
    for axes, title in ((left, "negative rates β"), (right, "negative shares αβ")):
        axes.axhline(0.5, color="black", linewidth=0.8)
        axes.set(xlabel="block", title=title, ylim=(0.28, 0.72), xticks=(1, 8, 16, 24),
                 yticks=(0.3, 0.4, 0.5, 0.6, 0.7))
    left.set_ylabel("part of the features")
    return show(
        figure, "Two panels over 24 blocks. Left: the negative rates of Anna, of a twin whose "
        "rates tell of a rise over depth, and of a twin whose rates tell of a fall. Right: the "
        "negative shares of all three are one curve. The mean of sixteen seeds lies near one half "
        "in every block.",
        caption="Rates in (−1, 1), mean of attention and MLP. Left: Anna, and two twins of hers "
                "who turn chosen sublayers round. Right, solid: all three. Dotted: mean of sixteen "
                "seeds. Band: all seeds.")


def over_hundred(start: str, what: str) -> np.ndarray:
    """What a hundred blocks learned from a start of α, mean of attention and MLP: (seeds, 100)."""
    return np.array([run["measured"]["by block"][what][-1] for run in DEEPEST["runs"]
                     if run["model"] == start])


def hundred() -> HTML:
    """The negative rates over a hundred blocks, from three starts of α."""
    figure, axes = subplots(height=3.1)
    axes.axhline(0.5, color="black", linewidth=0.8)
    places = np.arange(1, 101)
    for start, (color, style) in STARTS.items():
        found = over_hundred(start, "below 0")
        axes.fill_between(places, found.min(0), found.max(0), color=color, alpha=0.13, linewidth=0)
        axes.plot(places, found.mean(0), style, color=color, linewidth=1.5, label=start)
    axes.legend(loc="upper center", ncols=3, fontsize=10)
    axes.set(xlabel="block", ylabel="part of the features", title="negative rates β",
             xlim=(0, 101), ylim=(0, 0.85), xticks=(1, 25, 50, 75, 100))
    return show(
        figure, "The part of negative rates over 100 blocks, for three starts of α. From 0 it lies "
        "about one half. From ½ and from 1 it lies below one half in every block: from 1 near a "
        "quarter in early blocks and 0.4 at the end.",
        caption="Rates in (−1, 1). Lines: means of eight seeds. Bands: all seeds. Where α starts "
                "at 0 it stays near 0, and the sign of a rate is a convention.")


def factors() -> np.ndarray:
    """The mean factor 1 − αβ on the old value, for rates in (0, 2): (seeds, blocks)."""
    found = watched(WIDE)
    return by_block(1 - found[..., 3] * found[..., 0])


def learned() -> HTML:
    """The mean factor on the old value, block by block."""
    found = factors()
    figure, axes = subplots(height=2.9)
    axes.axhspan(0.85, 1, color="#ececec", zorder=0)
    axes.axhline(1, color="black", linewidth=0.8)
    style = LOOKS[WIDE]
    axes.fill_between(BLOCKS, found.min(0), found.max(0), color=style["color"], alpha=0.18,
                      linewidth=0)
    axes.plot(BLOCKS, found.mean(0), **style | dict(linestyle="-", linewidth=1.4, markersize=5))
    axes.text(24, 1.13, "above 1: amplifies", ha="right", fontsize=10)
    axes.text(1, 0.868, "below 1: erases, as the name says", fontsize=10)
    axes.set(xlabel="block", ylabel="mean of 1 − αβ", ylim=(0.85, 1.33), xlim=(0, 25),
             xticks=(1, 8, 16, 24))
    return show(
        figure, "The mean factor on the old value over 24 blocks. It falls from about 1.2 in the "
        "first block to just below 1 in the last. A grey strip below 1 is where a part that erases "
        "would lie, and the line reaches it only in the second half.",
        caption="Rates in (0, 2). Each block: the mean factor of its two sublayers. Line: mean of "
                "sixteen seeds. Band: all seeds. Before training the factor is 1 everywhere.")


def draw_erasure(alpha: float) -> Figure:
    """The letter F, which MGT stretches by 1 − 0.5 α in width and by 1 − 1.25 α in height. For a negative α it grows. For a positive one it shrinks, is flat at 0.8, and then stands on its head. Below are the two factors."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, (left, right) = subplots(1, 2, height=3, width_ratios=[1, 1.2])
    by = 1 - alpha * np.array([0.5, 1.25])
    plane(left, 1.3, unit_circle=False)
    draw_letter(left, np.diag(by), size=1.3)
    left.set(xticks=[0], yticks=[0], xlabel="feature 1", ylabel="feature 2", title="the old values")
    right.axhspan(-1, 1, color="#ececec", zorder=0)
    right.axhline(0, color="black", linewidth=0.8)
    right.bar((0, 1), by, 0.5, color=(ACCENT, SECOND))
    for x, value in enumerate(by):
        right.text(x, max(value, 0) + 0.06, f"{value:.2f}".replace("-", "−"), ha="center")
    right.set(xticks=(0, 1), xticklabels=("β = 0.5", "β = 1.25"), xlim=(-0.6, 1.6),
              ylim=(-1.1, 1.9), yticks=(-1, 0, 1), title="factors 1 − αβ")
    right.grid(axis="x", visible=False)
    return figure


def synergy(loss: dict) -> float | np.ndarray:
    """What both parts save beyond the sum of what each saves alone."""
    base, gate, erase, both = (loss[name] for name in ("Standard", "+mHC Only", "+DDL Only", WIDE))
    return (base - both) - (base - gate) - (base - erase)


def stored_losses() -> dict[str, np.ndarray]:
    """Model -> the last losses of the stored runs with four blocks, one per seed."""
    return {name: np.array([loss_of(run) for run in PARTS["runs"] if run["model"] == name])
            for name in PARTS["parameters"]}


def marks(name: str) -> np.ndarray:
    """(loss, rank after 24 blocks) of every run of a model, the varied ones too: (runs, 2)."""
    return np.array([(loss_of(run), run["measured"]["decay"]["last"]) for run in EVERYTHING
                     if run["model"] == name])


def mean_mark(name: str) -> np.ndarray:
    """The same, as the mean of the sixteen runs that report."""
    return np.mean([(loss_of(run), run["measured"]["decay"]["last"]) for run in runs(name)], axis=0)


def road(name: str) -> np.poly1d:
    """The straight line of ln(rank) over the loss, through the runs of a model."""
    losses, ranks = marks(name).T
    return np.poly1d(np.polyfit(losses, np.log(ranks), 1))


def walk(name: str = WIDE) -> list[tuple[float, float]]:
    """From the mean of Pre-LN along its line to another model's loss, and up to that model."""
    start, (there, rank) = mean_mark("Standard"), mean_mark(name)
    return [tuple(start), (there, float(np.exp(road("Standard")(there)))), (there, rank)]


def at_equal_loss(draws: int = 2000) -> np.ndarray:
    """95 % of MGT's rank over that on the line, where all runs are drawn again with repetition."""
    rng, lined = np.random.default_rng(0), marks("Standard")
    ends = np.array([(loss_of(run), run["measured"]["decay"]["last"]) for run in runs(WIDE)])
    found = []
    for _ in range(draws):
        losses, ranks = rng.choice(lined, len(lined)).T
        loss, rank = rng.choice(ends, len(ends)).mean(0)
        line = np.poly1d(np.polyfit(losses, np.log(ranks), 1))
        found.append(rank / np.exp(line(loss)))
    return np.quantile(found, (0.025, 0.975))


def roads() -> HTML:
    """Rank against loss, one mark per run, and the walk from Pre-LN to MGT."""
    figure, axes = subplots(height=3.8)
    for name, said in SAID.items():
        filled = "markerfacecolor" if name == "Standard" else "markeredgecolor"
        axes.plot(*marks(name).T, **LOOKS[name] | {"linestyle": "", "markersize": 5.5,
                                                   filled: "none"}, alpha=0.5, label=said)
    losses = marks("Standard")[:, 0]
    axes.plot(np.sort(losses), np.exp(road("Standard")(np.sort(losses))), linewidth=2,
              color=LOOKS["Standard"]["color"])
    places = walk()
    axes.plot(*zip(places[0], places[-1], strict=True), "ko", markersize=8)
    for start, end in zip(places, places[1:], strict=False):
        arrow(axes, start, end, linewidth=2.4, zorder=5)
        axes.text((start[0] + end[0]) / 2 - 0.02, 0.8 * np.sqrt(start[1] * end[1]),
                  f"× {end[1] / start[1]:.2f}", va="center")
    for count, said in (("unigram", "byte\ncounts"), ("bigram", "pair\ncounts")):
        axes.axvline(COUNTS[count], color="black", linewidth=1, linestyle="--")
        axes.text(COUNTS[count] - 0.008, 0.68, said, va="center", fontsize=10)
    axes.legend(loc="lower right", bbox_to_anchor=(0.84, 0.01))
    axes.set(yscale="log", ylim=(0.026, 0.9), xlim=(3.31, 2.6),
             xlabel="loss, nats per byte (lower to the right)", ylabel="rank after 24 blocks")
    axes.set_yticks([1 / 32, 0.1, 0.3, 0.5], ["1/32", "0.1", "0.3", "0.5"])
    axes.minorticks_off()
    return show(
        figure, "Rank after 24 blocks against loss, low losses on the right. The runs of Pre-LN "
        "and MGT rise side by side as the loss falls, and Post-LN stays in the corner. From the "
        "mean of Pre-LN an arrow leads along its line to the loss of MGT, where the rank is 1.96 "
        "times as large, and another one up to the mean of MGT, 1.25 times.",
        caption="One mark per run, also of runs with other settings and lengths. Black: the means "
                "of Pre-LN and of MGT, and the way from one to the other. Line: least squares over "
                "the runs of Pre-LN. The rank has a logarithmic scale.")


CURVES = (("a whole window", "stream", "rank", dict(color=SECOND, linestyle="-")),
          ("with one number set to 0", "stream", "rank without the coordinate",
           dict(color="black", linestyle=":")),
          ("without the first token", "stream", "rank of the others",
           dict(color=ACCENT, linestyle="--")),
          ("the same, before training", "untrained", "rank of the others",
           dict(color="#777777", linestyle="-.")))


def real_rank() -> HTML:
    """The effective rank over the thirty blocks of SmolLM2, seen in four ways."""
    figure, axes = subplots(height=3.3)
    for told, source, what, drawn in CURVES:
        height, wide = (np.array(REAL[source][what][which]) for which in ("mean", "half width"))
        axes.fill_between(range(31), height - wide, height + wide, color=drawn["color"],
                          alpha=0.15, linewidth=0)
        axes.plot(range(31), height, label=told, **drawn)
    axes.set(xlabel="blocks passed", ylabel="effective rank", ylim=(0, 0.75))
    figure.legend(loc="outside lower center", ncols=2, fontsize=10)
    return show(
        figure, "The effective rank over thirty blocks. That of whole windows falls from 0.55 to "
        "below 0.1 at block 12 and recovers slowly. With one number of the first token set to zero "
        "it only falls to 0.44. Without the first token it rises to nearly 0.6. In the untrained "
        "network it falls steadily to below 0.2.",
        caption="SmolLM2-135M, 24 windows of 256 tokens. Bands: 95 % intervals over windows.")
