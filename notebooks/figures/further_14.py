"""The figures of Going further that belong to chapter 14: other weights, and two moons."""

import numpy as np
import torch
from IPython.display import HTML

from geolab.show.figures import ACCENT, QUIET, SECOND, look, show, subplots
from geolab.tasks import Moons, Sudoku
from notebooks.figures import ch14

PUBLISHED = Sudoku()
MOONS = Moons(train=64, validation=500)
PENALISED = ("Transformer, positions", "GT-Full, units")
WEIGHTS = {"0": "", "0.005": ", λ = 0.005", "0.05": ", λ = 0.05", "0.5": ", λ = 0.5"}
DIAGRAMS = ("", ", steps commute", ", moons swap")
KINDS = {"Pointwise": {"color": "black", "marker": "."}, "Transformer": look("post-LN"),
         "GT-Lite": look("gt-lite"), "GT-Full": look("gt-full"), "GT-MoE": look("gt-moe")}


def weights() -> HTML:
    """The share of blanks right at four weights of the triangle penalty, for two models."""
    x, y = PUBLISHED.sample("validation")
    known = PUBLISHED.accuracy(ch14.TASK.bayes_predictor(x), y, x).item()     # all 288 grids
    figure, panels = subplots(1, 2, height=3.0, sharey=True)
    for axes, name, shown in zip(panels, PENALISED, ("post-LN", "gt-full"), strict=True):
        for k, weight in enumerate(WEIGHTS.values()):
            found = ch14.measured("published", name + weight)
            axes.plot(k + np.linspace(-0.22, 0.22, len(found)), found,
                      **look(shown) | {"linestyle": "none", "markersize": 5})
        axes.axhline(known, color=QUIET, linewidth=1.2)
        axes.set(xticks=range(4), xticklabels=WEIGHTS, xlabel="λ", ylim=(0, 1))
        axes.set_title(name, fontsize=10.5)
        axes.grid(axis="x", visible=False)
    panels[0].set_ylabel("share of blanks right")
    return show(figure, "Share of blanks right at four weights of the penalty, eight seeds each. "
                        "Transformer with positions: from 61 to 89 percent without it, seven of "
                        "eight above 90 at 0.005, from 63 to 95 at 0.05, and from 78 to 90 at 0.5. "
                        "GT-Full on the units: 92 to 94 percent at all four.",
                caption="The triangle penalty at three weights and without it, on the notebook's "
                        "puzzles. Each mark is one of eight seeds. Grey: a solver that knows the "
                        "rules and all 288 grids. These puzzles have 96 grids only, and who "
                        "remembers those can do better.")


def moon_points() -> HTML:
    """Points of two moons, and the best boundary between them."""
    x, y = (part.flatten(0, 1) for part in Moons(train=7).sample("train", 3))
    figure, axes = subplots(height=3.0)
    for label, color, marker in ((0, ACCENT, "o"), (1, SECOND, "^")):
        axes.plot(*x[y == label].T, marker, color=color, markersize=4)
    grid = torch.cartesian_prod(torch.linspace(-1.5, 2.5, 41), torch.linspace(-1, 1.5, 31))
    score = MOONS.bayes_predictor(grid).diff(dim=-1).reshape(41, 31)
    axes.contour(grid[::31, 0], grid[:31, 1], score.T, levels=[0], colors="black", linewidths=1.2)
    axes.plot(0.5, 0.25, "+", color="black", markersize=14, markeredgewidth=2.5)
    axes.set(aspect="equal", xlabel="first coordinate", ylabel="second coordinate")
    return show(figure, "Two interleaving half circles of points and the best boundary between "
                        "them. A half turn about the point (one half, one quarter) takes one moon "
                        "to the other.",
                caption="Circles and triangles: points of the two moons. Black: the best boundary. "
                        "A half turn about the cross swaps the moons.")


def moon_losses(best: float) -> HTML:
    """The loss of each model over that of the true posterior on the same points."""
    rows = [(name, diagram) for name in KINDS for diagram in DIAGRAMS
            if len(ch14.loss("moons", name + diagram))]
    figure, axes = subplots(height=4.2)
    for k, (name, diagram) in enumerate(rows):
        found = ch14.loss("moons", name + diagram) / best
        axes.plot(found, [-k] * len(found), **KINDS[name] | {"linestyle": "none"})
    axes.axvline(1, **look("floor"))
    axes.text(1.005, 0.6, "best possible", fontsize=10)
    axes.set(yticks=[-k for k in range(len(rows))], ylim=(-len(rows) + 0.5, 1.3),
             yticklabels=[diagram.replace(", ", "+ ") or name for name, diagram in rows],
             xlabel="loss / loss of the true posterior", title="Loss on two moons")
    return show(figure, "Validation loss over the loss of the true posterior on two moons, eight "
                        "seeds per model. The pointwise model lies closest to the best possible "
                        "loss, the Transformer behind it, and GT-Lite and GT-Full farthest away.",
                caption="Each mark is one of eight seeds. A row with a plus has the penalty of a "
                        "diagram. On independent points, reading neighbours costs.")
