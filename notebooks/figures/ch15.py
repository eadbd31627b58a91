"""The schematics and games of chapter 15, and what its untrained models read.

Seven models differ in what position t reads beside the states that attention gives it. `NAMES` has
our name and the lecture's name of each. What was trained is in `ch15_runs`.
"""

import math
from itertools import product

import numpy as np
import torch
from IPython.display import HTML
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from geolab.models.regimes import RegimeModel
from geolab.probes import influence
from geolab.show.figures import ACCENT, QUIET, SECOND, look, show, subplots
from geolab.show.schematic import BOXED, CENTRE, OPERATOR, arrow, canvas
from notebooks.figures.ch16 import table
from studies import claims
from studies.engine import results

NAMES = {"plain": "AR-Base", "glance": "AR+FutureHint", "left states": "GT-CausalGeom",
         "two-sided states": "GT-AugGeom", "older hints": "GT-CausalSelfHint",
         "published hint": "GT-PredictiveHint", "repaired hint": "GT-PredictiveHint, causal"}
READS = {"plain": (), "glance": (1,), "left states": (-2, -1, 0), "two-sided states": (-1, 0, 1),
         "older hints": (-3, -2, -1), "published hint": (-1, 0, 1), "repaired hint": (-2, -1, 0)}
PAST = results.stored("real_turns")["past"]
GREY = "#555555"


def small(name: str, blocks: int = 2, seed: int = 0, vocabulary: int = 11) -> RegimeModel:
    """An untrained model in float64, without dropout."""
    torch.manual_seed(seed)
    model = RegimeModel(NAMES[name], vocabulary, width=16, layers=blocks, max_length=8)
    return model.double().eval()


def some_tokens() -> Tensor:
    """Four sequences of eight tokens, of 11."""
    return torch.randint(11, (4, 8), generator=torch.Generator().manual_seed(0))


def reach(matrix: Tensor) -> int:
    """How many positions ahead an output reads, by an influence matrix."""
    t, s = matrix.nonzero().T
    return max(0, int((s - t).max()))


def row() -> HTML:
    """Five students, their cards and notes, and what student 2 reads."""
    card, note = BOXED | dict(fontsize=12), OPERATOR | dict(fontsize=11)
    figure, axes = canvas(2.4, xlim=(-0.9, 4.6), ylim=(-0.6, 3.1))
    for student, value in enumerate((3, 1, 4, 1, 5)):
        axes.text(student, 0, str(value), **card)
        axes.text(student, 1.25, str(2 * value), **note)
        late = dict(color=SECOND, linestyle=":", linewidth=2) if student == 2 else {}
        arrow(axes, (student, 0.32), (student, 0.95), **late)
        if student < 3:
            arrow(axes, (student, 1.58), (1 + 0.3 * (student - 1), 2.4), **late)
    axes.text(1, 2.65, "student 2 guesses", fontsize=11, **CENTRE)
    axes.text(-0.85, 0, "cards", va="center")
    axes.text(-0.85, 1.25, "notes", va="center")
    return show(
        figure, "Five cards in a row, and a note above each. Student 2 reads the notes of students "
        "1, 2 and 3. Two arrows are dotted: from card 3, which student 2 has to guess, to its "
        "note, and from this note to student 2.",
        caption="What student 2 reads. Dotted: the way from the card that is to be guessed, "
                "through its note, to student 2.")


def _table_of(axes: Axes, matrix: Tensor, title: str) -> None:
    """Draw an influence matrix: blue for the past, orange with a circle for the future."""
    matrix = matrix[:7, :7]
    strength = (matrix / matrix.max()).log10().clamp(-3.5, 0).where(matrix > 0, torch.nan).numpy()
    ahead = np.triu(np.ones((7, 7), bool), 1)
    for part, colors in ((np.where(ahead, np.nan, strength), "Blues"),
                         (np.where(ahead, strength, np.nan), "Oranges")):
        axes.pcolormesh(part, cmap=colors, vmin=-5, vmax=0, edgecolors="white", linewidth=0.8)
    for t, s in product(range(7), range(7)):
        if s > t and matrix[t, s]:
            axes.plot(s + 0.5, t + 0.5, "o", color="black", markersize=4, markerfacecolor="white")
    axes.step(range(8), range(8), where="post", color="black", linewidth=1.2)
    axes.set(xlim=(0, 7), ylim=(7, 0), aspect="equal", xticks=np.arange(7) + 0.5,
             xticklabels=range(7), yticks=np.arange(7) + 0.5, yticklabels=range(7), title=title)
    axes.grid(False)


def reading() -> HTML:
    """What the published and the repaired hint read, by the number of blocks."""
    figure, panels = subplots(2, 2, height=5.0, sharex=True, sharey=True)
    for axes, (name, blocks) in zip(panels.flat, (("published hint", 1), ("published hint", 2),
                                                  ("published hint", 3), ("repaired hint", 3)),
                                    strict=True):
        title = f"{name.split()[0]}, {blocks} block{'s' * (blocks > 1)}"
        _table_of(axes, influence(small(name, blocks), some_tokens()), title)
    for axes in panels[1]:
        axes.set_xlabel("token s")
    for axes in panels[:, 0]:
        axes.set_ylabel("output t")
    return show(
        figure, "Four tables show which tokens each output depends on. The published hint reads "
        "one, two and three positions ahead with one, two and three blocks. The repaired hint "
        "reads nothing to the right of the staircase.",
        caption="Coloured: output t depends on token s, most where it is dark. Orange with a "
                "circle: the token comes after the output. White: replacing the token changes "
                "nothing at all.")


def wirings() -> HTML:
    """What position t of each of the seven models reads."""
    figure, axes = canvas(5.0, xlim=(-3.5, 8.3), ylim=(7.05, -1.1))
    for k in range(-3, 2):
        axes.text(k, -0.75, "t" if not k else f"t − {-k}" if k < 0 else "t + 1", fontsize=10,
                  color=GREY, **CENTRE)
    axes.text(1.75, -0.75, "our name", va="center", fontsize=10, color=GREY)
    axes.text(5.1, -0.75, "in the lecture", va="center", fontsize=10, color=GREY)
    for y, (name, reads) in enumerate(READS.items()):
        axes.axhline(y - 0.42, color="#e6e6e6", linewidth=1)
        axes.plot([-0.75, 0.35], [y - 0.2] * 2, color="black", linewidth=2.5)
        axes.plot([-3.1, 0], [y + 0.36] * 2, color="#e0e0e0", linewidth=11,
                  solid_capstyle="round")
        axes.plot(range(-3, 2), [y + 0.36] * 5, ".", color="#aaaaaa", markersize=4)
        marker, face, edge = ("s", "#cfe3f1", ACCENT) if "hint" in name else ("o", GREY, GREY)
        for k in reads:
            axes.plot(k, y + 0.36, marker, color=face, markeredgecolor=edge, markersize=8)
            arrow(axes, (k, y + 0.36), (0.22 * k, y - 0.15), linewidth=0.9, mutation_scale=8,
                  shrinkA=4, linestyle=":" if name == "glance" else "-")
        axes.text(1.75, y + 0.15, name, va="center", fontsize=11)
        theirs = {"glance": "AR+FutureHint", "repaired hint": "(ours)"}.get(name, NAMES[name])
        axes.text(5.1, y + 0.15, theirs, va="center", fontsize=10, color=GREY)
    return show(
        figure, "Seven rows, one for each model. In each a grey band shows that attention reads "
        "position t and those before. Arrows show what else reaches position t. Plain has none. "
        "Glance reads the state at t + 1. Left states reads states at t - 2, t - 1 and t, "
        "two-sided states those at t - 1, t and t + 1. Older hints reads hints at t - 3, t - 2 and "
        "t - 1, the published hint those at t - 1, t and t + 1, the repaired hint those at t - 2, "
        "t - 1 and t.",
        caption="What position t (black bar) reads. Grey band: by attention. Arrows: in other "
                "ways. Circles: states. Squares: hints. Solid: in every block. Dotted: once, a "
                "fifth of the state after the last block. (AR means autoregressive, GT Geometric "
                "Transformer.)")


def cone() -> HTML:
    """What reaches an output through three blocks that read up to t, and up to t + 1."""
    blocks = 3
    figure, panels = subplots(1, 2, height=2.7, sharey=True)
    for axes, ahead, name in zip(panels, (0, 1), ("blocks read up to t", "blocks read up to t + 1"),
                                 strict=True):
        for layer, p in product(range(blocks + 1), range(8)):
            inside = p <= 3 + ahead * (blocks - layer) and (layer < blocks or p == 3)
            axes.plot(p, layer, "os"[p > 3 and inside], markersize=8,
                      color=(SECOND if p > 3 else ACCENT) if inside else "white",
                      markeredgecolor="none" if inside else QUIET)
        for layer in range(blocks * ahead):      # a note walks from the last orange token
            arrow(axes, (6 - layer, layer), (5 - layer, layer + 1), shrinkA=6, shrinkB=8,
                  mutation_scale=9)
        axes.axvline(3.5, color="black", linestyle="--", linewidth=1)
        axes.plot(3, blocks, "o", markersize=13, color="black", fillstyle="none")
        axes.set(xlim=(-0.6, 7.6), ylim=(-0.5, 3.6), yticks=range(4), xticks=range(8),
                 xlabel="position")
        axes.set_title(name, fontsize=10)
        axes.grid(False)
    panels[0].set_ylabel("blocks passed")
    return show(
        figure, "Rows of dots, one row per layer. On the left, what reaches the output at position "
        "3 lies at position 3 or before in all layers. On the right, where each block also reads "
        "its right neighbour, the region grows by one position per block, and arrows lead from "
        "token 6 to the output.",
        caption="Filled: what the circled output, at t = 3, can depend on. The lowest row holds "
                "the tokens. Orange squares: the future. Arrows: a note moves one position to the "
                "left per block.")


def real_past() -> HTML:
    """How much a last state of SmolLM2 depends on the words before it."""
    share, half = (100 * np.array(PAST["by distance"][name]) for name in ("mean", "half width"))
    figure, axes = subplots(height=2.8)
    axes.errorbar(range(len(share)), share, half, color=ACCENT, marker="o", markersize=4,
                  linestyle="", elinewidth=1.2)
    axes.plot([-3, -2, -1], [0, 0, 0], "s", color=SECOND, markerfacecolor="white", markersize=5)
    axes.text(-2, 1.1, "future", ha="center", fontsize=10, color=SECOND)
    axes.set(xlabel="words back", ylabel="% of the\ninfluence", ylim=(-0.7, 15))
    return show(
        figure, "The share of a state's influence by distance. The future has exactly none. The "
        "word itself has an eighth, the one before it a tenth, and the share falls slowly to two "
        "per cent at 23 words back.",
        caption="Norms of the derivatives of the last state, relative to the sum over all words. "
                "Means over six windows of 48 words, with 95 % intervals. Orange: exactly 0.")


def draw_die(share: float) -> Figure:
    """Six bars are the probabilities of a forecast, and below them a mark shows what it costs on average. The cost is never below ln 6, and it is ln 6 only for six equal bars."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, (top, bottom) = subplots(2, height=3.6, height_ratios=[2, 1])
    q = np.array([(1 - share) / 5] * 5 + [share])
    top.bar(range(1, 7), q, color=[ACCENT] * 5 + [SECOND])
    top.set(ylim=(0, 1), xticks=range(1, 7), xlabel="face", ylabel="forecast")
    top.grid(axis="x", visible=False)
    cost = -np.log(q).mean()
    bottom.axvline(math.log(6), **look("floor") | dict(marker=None))
    bottom.plot(cost, 0, "o", color="black", markersize=9)
    bottom.text(cost + 0.06, 0, f"{cost:.2f}", va="center")
    bottom.text(math.log(6) - 0.03, 0.55, "ln 6", ha="right", va="center", fontsize=10)
    bottom.set(xlim=(1.2, 4.4), ylim=(-1, 1), yticks=[], xlabel="mean cost of a fair die, nats")
    return figure


def learn(signal: float, steps: int = 600, rate: float = 0.2) -> tuple[np.ndarray, np.ndarray]:
    """Gradient descent on ln(1 + 63 exp(−a b s)) from a = b = 0.05: the losses and products."""
    a = b = 0.05
    losses, products = [], []
    for _ in range(steps + 1):
        others = 63 * math.exp(-a * b * signal)
        losses.append(math.log(1 + others))
        products.append(a * b)
        push = others / (1 + others) * signal * rate
        a, b = a + push * b, b + push * a
    return np.array(losses), np.array(products)


def draw_faint(signal: float) -> Figure:
    """Above, the loss stays level and then falls suddenly. Below, the product of the two weights grows by the same factor in every step while the loss is level. A fainter signal makes both slower."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, (top, bottom) = subplots(2, height=4, sharex=True)
    losses, products = learn(signal)
    at = np.arange(0, 601, 10)
    top.plot(at, losses[::10], color=SECOND)
    top.axhline(math.log(64), **look("floor") | dict(marker=None, linewidth=1))
    top.set(ylim=(0, 4.7), ylabel="loss", title="A model of two numbers")
    bottom.semilogy(at, products[::10], color=ACCENT)
    bottom.set(ylim=(1e-3, 1e3), xlim=(0, 600), xlabel="training steps",
               ylabel="a b, the weight of s")
    return figure


def verdicts() -> HTML:
    """The lecture's statements of mathematics, each with its verdict."""
    found: dict[tuple[str, str], list[str]] = {}
    for theorem in claims.THEOREMS:
        if theorem.chapter == "15_causal_regimes":
            key = (theorem.label, theorem.verdict)
            found.setdefault(key, []).append(f"{theorem.source} {theorem.number}")
    return table(("here", "in the lecture", "verdict"),
                 [(f"<a href='#{label}'>{label.replace('-', ' ')}</a>", "<br>".join(where), verdict)
                  for (label, verdict), where in found.items()])
