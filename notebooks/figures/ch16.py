"""The figures and tables of chapter 16, and the stored numbers that they show.

A street is a list of cards, one number or vector per house. `share` is μ, the part of all squared
lengths that the mean card has, and `order_ratio` the score in order, divided by that of all orders.
"""

import numpy as np
import torch
from IPython.display import HTML
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor

from geolab.probes import dirichlet_energy
from geolab.show.figures import ACCENT, QUIET, SECOND, look, show, subplots, table
from geolab.show.schematic import arrow
from studies.claims import TABLES
from studies.engine import results

STREETS = {"Hill Street": (1, 2, 3, 4), "Dice Street": (2, 4, 1, 3),
           "Hill, plus 10": (11, 12, 13, 14), "Dice, plus 10": (12, 14, 11, 13)}
LECTURE = {row: {column: mean for column, (mean, _) in cells.items()}
           for row, cells in TABLES["gt-wikitext-103"].rows.items()}
ROWS = list(LECTURE)
STORED = results.stored("gt_text")
LEAKS = [row for row in STORED["parameters"] if row.endswith("leak")]
LOOKS = {"GT-Full": "gt-full", "GT-MoE": "gt-moe", "GT-Lite": "gt-lite", "Transformer": "additive"}
HALF, TWICE = (STORED["sensitivity"][f"{name} the steps"] for name in ("half", "twice"))
SEEDS = {run["seed"] for run in HALF}     # the three seeds with half and twice the steps
UNTRAINED, STEPS_150, STEPS_300, STEPS_600 = range(4)   # the entries of `by_age`
AGES = ("untrained", "150 steps", "300 steps", "600 steps")


def short(row: str) -> str:
    """A row's name, as short as a table needs it."""
    return row.replace("Transformer", "TF").replace("-LN", "")


def ours(row: str, column: str, part: str = "measured") -> np.ndarray:
    """A measured number after 300 steps, for the sixteen seeds of a row: (seeds,)."""
    return np.array([run[part][column] for run in STORED["runs"] if run["model"] == row])


def by_age(row: str, column: str) -> np.ndarray:
    """A measured number at four ages, untrained and after 150, 300 and 600 steps: (4, 3 seeds)."""
    ages = ((STORED["runs"], "untrained"),
            *((runs, "measured") for runs in (HALF, STORED["runs"], TWICE)))
    return np.array([[run[part][column] for run in runs
                      if run["model"] == row and run["seed"] in SEEDS] for runs, part in ages])


def ratio(row: str, column: str = "Dirichlet") -> np.ndarray:
    """The order ratio at four ages, of means over three seeds: (4,)."""
    return by_age(row, column).mean(1) / by_age(row, f"{column}, shuffled").mean(1)


def share(states: Tensor) -> float:
    """μ of the rows of (T, D): T ‖mean‖² / ‖H‖²."""
    return (len(states) * states.mean(0).square().sum() / states.square().sum()).item()


def order_ratio(states: Tensor) -> float:
    """The score of (T, D) in order, divided by its mean over all orders, which is 2 (1 − μ)."""
    return dirichlet_energy(states).item() / (2 * (1 - share(states)))


def column(cards) -> Tensor:
    """Cards with one number each as the rows of a matrix: (T, 1)."""
    return torch.tensor(cards, dtype=torch.float64)[:, None]


def streets() -> HTML:
    """Three streets of four houses, their cards as high as their numbers."""
    figure, panels = subplots(1, 3, height=2.9, sharey=True)
    for axes, name in zip(panels, ("Hill Street", "Dice Street", "Dice, plus 10"), strict=True):
        cards = STREETS[name]
        axes.vlines(range(4), 0, cards, color=QUIET, linewidth=1.2)
        axes.plot(range(4), cards, color=SECOND, linewidth=2.5, zorder=1)
        for house, card in enumerate(cards):
            axes.fill(house + np.array([-0.32, -0.32, 0, 0.32, 0.32]), (-2.6, -1.1, 0, -1.1, -2.6),
                      color="#b4c2d2", zorder=0)
            axes.text(house, card, card, ha="center", va="center", fontsize=9,
                      bbox=dict(boxstyle="round,pad=0.25", facecolor="white", edgecolor="black"))
        axes.set(xlim=(-0.6, 3.6), ylim=(-2.7, 16.5), xticks=[], yticks=(0, 5, 10, 15), title=name,
                 xlabel=f"score {dirichlet_energy(column(cards)):.2f}")
    panels[0].set_ylabel("degrees")
    return show(
        figure, "Three streets of four houses with cards above them. In Hill Street the cards rise "
        "evenly. In Dice Street they zigzag. With ten degrees more they zigzag in the same way, "
        "far above the houses.",
        caption="A card hangs as high as its number. The score compares the jumps (orange) with "
                "the heights (grey). Higher up, the same jumps look small.")


def _cloud() -> tuple[Tensor, Tensor]:
    """Twelve vectors of the plane with mean zero, as drawn and in their order around the mean."""
    drawn = torch.randn(12, 2, generator=torch.Generator().manual_seed(8)).double()
    drawn = drawn - drawn.mean(0)
    return drawn, drawn[torch.atan2(drawn[:, 1], drawn[:, 0]).argsort()]


CLOUD = _cloud()


def draw_cloud(common: float, order: int) -> Figure:
    """Twelve vectors of the plane, joined in order, and two bars: their score in order and shuffled. A common vector makes both bars shorter by the same factor. Another order changes the first bar only."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, (left, right) = subplots(1, 2, height=2.7, width_ratios=[1.25, 1])
    moved = common * torch.tensor([0.8, 0.4], dtype=torch.float64)
    states = CLOUD[order] + moved
    score = dirichlet_energy(states).item()
    shuffled = score / order_ratio(states)
    left.plot(*states.T, color=SECOND, linewidth=1.2)
    left.plot(*states.T, "o", color="black", markersize=4)
    left.plot(0, 0, "+", color="#555555", markersize=12)
    if common:
        arrow(left, (0, 0), moved.tolist(), color=ACCENT, linewidth=2.5)
    left.set(aspect="equal", xlim=(-2.1, 5.4), ylim=(-2.2, 3.8), xticks=[], yticks=[],
             title=f"share of the mean {share(states):.2f}")
    bars = ((1, score, "in order", SECOND), (0, shuffled, "shuffled", QUIET))
    for y, length, said, color in bars:
        right.plot([0, length], [y, y], color=color, linewidth=14, solid_capstyle="butt")
        right.text(length + 0.06, y, f"{length:.2f}", va="center", fontsize=9)
        right.text(0.03, y + 0.33, said, fontsize=9, va="center")
    right.set(xlim=(0, 3), ylim=(-0.7, 1.7), yticks=[], xlabel="score",
              title=f"order ratio {score / shuffled:.2f}")
    return figure


def mark(row: str) -> dict:
    """The kind's look, without a line, and hollow for Post-LN."""
    white = {} if "pre" in row else {"markerfacecolor": "white"}
    return look(LOOKS[row.split(",")[0]]) | {"linestyle": "", "markersize": 6} | white


def kind(row: str) -> str | None:
    """The label of a row's mark: each kind of block is named once."""
    return row.split(",")[0] if "pre" in row else None


def ranges(axes: Axes, x: np.ndarray, seeds: np.ndarray) -> None:
    """Draw grey bars at x, from the smallest to the largest of the seeds: (n,), (n, seeds)."""
    gap = np.full(len(x), np.nan)
    axes.plot(np.stack([x, x, gap], 1).ravel(),
              np.stack([seeds.min(1), seeds.max(1), gap], 1).ravel(),
              color=QUIET, linewidth=0.9, zorder=1)


def names_below(figure: Figure, axes: Axes) -> None:
    """Name the kinds of block and the places of the norm, in two lines below a figure."""
    handles, labels = axes.get_legend_handles_labels()
    square = dict(color="#777777", marker="s", linestyle="", markersize=6)
    handles += [Line2D([], [], **square, markerfacecolor=fill) for fill in ("#777777", "white")]
    figure.legend(handles, [*labels, "filled: Pre-LN", "hollow: Post-LN"], ncols=3,
                  loc="outside lower center", columnspacing=1.2, handletextpad=0.5,
                  handlelength=1.6)


def street_map(*ages: int) -> HTML:
    """The four streets and our networks at these ages: μ across, the order ratio upwards."""
    figure, axes = subplots(height=4.7)
    axes.axhline(1, color=QUIET, linewidth=1)
    at = list(ages)
    for row in ROWS:
        mu = by_age(row, "share of the mean").mean(1)[at]
        axes.plot(mu, ratio(row)[at], **mark(row) | {"markersize": 5.5}, label=kind(row))
        seeds = by_age(row, "Dirichlet") / by_age(row, "Dirichlet, shuffled")
        ranges(axes, mu, seeds[at])
    for name, cards in STREETS.items():
        mu, height = share(column(cards)), order_ratio(column(cards))
        axes.plot(mu, height, "k*", markersize=9, clip_on=False)
        side = 1 if "plus" in name else -1
        axes.text(mu + 0.025 * side, height - (0.1 if height < 1 and side < 0 else 0), name,
                  ha="right" if side < 0 else "left", va="center", fontsize=9)
    places = {STEPS_300: [(0.49, 1.14, "300 steps")]}
    if len(ages) > 1:
        places |= {UNTRAINED: [(0.2, 1.04, "untrained,\nPost-LN"),
                               (0.67, 0.4, "untrained,\nPre-LN")],
                   STEPS_150: [(0.84, 1.24, "150 steps")],
                   STEPS_600: [(0.32, 0.62, "600\nsteps")]}
        axes.annotate("the winner", (1.003, 0.79), (1.06, 0.79), fontsize=9, va="center",
                      arrowprops=dict(arrowstyle="->"))
    for x, y, said in (place for age in ages for place in places[age]):
        axes.text(x, y, said, ha="center", va="center" if y < 1 else "bottom", fontsize=10,
                  fontweight="bold", linespacing=1.1)
    axes.text(1.29, 1.01, "chance", fontsize=9, color="#555555", ha="right", va="bottom")
    axes.set(xlim=(0, 1.3), ylim=(0, 1.85), xticks=(0, 0.2, 0.4, 0.6, 0.8, 1),
             xlabel="how much is common: μ", ylabel="does the order count: order ratio")
    names_below(figure, axes)
    said = ("All eight networks stand near the middle, close to the height 1, where the order "
            "doesn't count.")
    if len(ages) > 1:
        said = ("From left to right stand the untrained Post-LN networks, those after 600, 300 and "
                "150 steps, all near the height 1, and the winner at the right end, somewhat "
                "lower. Only the untrained Pre-LN networks stand far below, beside Hill Street.")
    return show(figure, "A map of networks and of four streets. Across: the share of the mean. Up: "
                        f"the order ratio. {said} Dice Street stands far above.",
                caption="The score is 2 (1 − μ) times the height. Marks: means of the same three "
                        "seeds. Bars: their range in height. Stars: the streets of the table.")


def winner() -> HTML:
    """Dirichlet against the loss, for eight kinds after 150, 300 and 600 steps."""
    figure, axes = subplots(height=3.9)
    for name, said, y in (("unigram", "counting\nwords", 1.42), ("bigram", "counting\npairs", 0.3)):
        place = STORED["baselines"][name]
        axes.axvline(place, color=QUIET, linewidth=1)
        axes.text(place - 0.006, y, said, ha="right", va="top", fontsize=9, color="#555555")
    for row in ROWS:
        loss = by_age(row, "cross-entropy").mean(1)[1:]
        energy = by_age(row, "Dirichlet")[1:]
        axes.plot(loss, energy.mean(1), color=mark(row)["color"], zorder=1,
                  linewidth=2.2 if row == "GT-Full, post-LN" else 0.7)
        axes.plot(loss, energy.mean(1), **mark(row) | {"markersize": 7}, label=kind(row))
        ranges(axes, loss, energy)
    axes.annotate("the winner", (4.451, -0.03), (4.3, -0.13), fontsize=10, va="center",
                  ha="center", arrowprops=dict(arrowstyle="->"))
    places = ((4.29, 0.2, "150 steps"), (4.32, 1.12, "300 steps"), (4.055, 0.98, "600 steps"))
    for x, y, said in places:
        axes.text(x, y, said, ha="center", fontsize=10, fontweight="bold")
    axes.set(ylim=(-0.22, 1.45), yticks=np.arange(0, 1.5, 0.2), xlabel="loss, nats per word",
             ylabel="Dirichlet")
    names_below(figure, axes)
    return show(
        figure, "Dirichlet energy against loss for eight kinds of network after 150, 300 and 600 "
        "steps. Eight lines rise from the lower right to the upper left. The two lowest marks, "
        "near zero, are GT-Full and GT-MoE with Post-LN after 150 steps. They stand to the right "
        "of the line of counting words, and an arrow shows the winner, GT-Full.",
        caption="Each line is one kind, trained for 150, 300 and 600 steps: means of the same "
                "three seeds, and their range. Thick: the kind of the winner. Vertical lines: the "
                "loss of a count of single words, and of pairs.")


def lecture_table() -> HTML:
    """The lecture's eight rows, as it prints them."""
    return table(("", "loss", "ppl", "%", "Čech", "Dir", "H₁", "bars"),
                 [(short(row), f"{cell['cross-entropy']:.2f}", f"{cell['perplexity']:.0f}",
                   f"{100 * cell['accuracy']:.1f}", f"{cell['Čech']:.3f}",
                   f"{cell['Dirichlet']:.2f}", f"{cell['H₁']:.3f}", f"{cell['bars']:.1f}")
                  for row, cell in LECTURE.items()])


def leak_table() -> HTML:
    """The loss and the share of right words, with a mask and without."""
    def both(at, row):
        return [cell for name in (row, f"{row}, leak")
                for loss in [at(name, "cross-entropy")]
                for cell in (f"{loss.mean():.2f} ±\u00a0{loss.std(ddof=1):.2f}",
                             f"{100 * at(name, 'accuracy').mean():.0f}")]
    last = "Transformer, pre-LN"
    words = [f"{STORED['baselines']['unigram']:.2f}",
             f"{100 * STORED['most frequent word']['accuracy']:.0f}"]
    return table(("mean ± sd", "loss, mask", "right, %", "no mask", "right, %"),
                 [*((short(row), *both(ours, row)) for row in
                    ("GT-Lite, pre-LN", "GT-Lite, post-LN", last)),
                  ("TF, pre, 600 steps",
                   *both(lambda row, name: by_age(row, name)[STEPS_600], last)),
                  ("counting words", *words, *words)])


def score_table() -> HTML:
    """Dirichlet, μ and the order ratio at four ages: the range over eight kinds."""
    def span(values):
        return f"{min(values):.2f} to {max(values):.2f}"
    return table(("", "Dirichlet", "μ", "order ratio"),
                 [*((said, span([by_age(row, "Dirichlet")[age].mean() for row in ROWS]),
                     span([by_age(row, "share of the mean")[age].mean() for row in ROWS]),
                     span([ratio(row)[age] for row in ROWS])) for age, said in enumerate(AGES)),
                  ("noise", "2", "0", "1")])
