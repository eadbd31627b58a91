"""The figure of Going further that belongs to chapter 17: a letter sent through three arrows."""

import numpy as np
import torch
from IPython.display import HTML
from torch import Tensor

from geolab.show.figures import ACCENT, show, subplots
from geolab.show.letter import F as LETTER
from geolab.show.schematic import TINT
from notebooks.figures.ch17 import TASK


def outline() -> Tensor:
    """The edge of a large F, with points between its corners, so that edges can bend: (N, 2)."""
    edges = zip(LETTER, np.roll(LETTER, -1, axis=0), strict=True)
    return torch.tensor(2 * np.concatenate([
        np.linspace(p, q, 1 + round(np.hypot(*(q - p)) / 0.05), endpoint=False)
        for p, q in edges]))


def inside() -> Tensor:
    """Points inside the large F: (N, 2)."""
    return torch.tensor([(x, y) for y in np.linspace(-0.95, 0.95, 11)
                         for x in np.linspace(-0.57, 0.57, 8)
                         if x < -0.22 or y > 0.66 or (-0.1 < y < 0.24 and x < 0.38)])


def arrows(t: float = 0.6) -> HTML:
    """The F as noisy points at time t, and where three arrows take them."""
    edge = outline()
    ends = {"seen": edge, "best guess": TASK.posterior_mean(edge, t), "flow": TASK.flow(edge, t, 0),
            "sampler": TASK.sampler(inside(), t, 0, torch.Generator().manual_seed(0))}
    figure, panels = subplots(2, 2, height=4.4, sharex=True, sharey=True)
    angle = np.linspace(0, 2 * np.pi, 41)
    for axes, (name, points) in zip(panels.flat, ends.items(), strict=True):
        for centre in (-1, 1):
            axes.fill(centre + 0.5 * np.cos(angle), 0.5 * np.sin(angle), color=TINT)
        axes.fill(*edge.T, facecolor="#dddddd88", edgecolor="#777777", linewidth=1.3)
        if name == "sampler":
            axes.plot(*points.T, "o", color=ACCENT, markersize=2.5)
        elif name != "seen":
            axes.fill(*points.T, facecolor=ACCENT + "99", edgecolor=ACCENT)
        axes.set(aspect="equal", xlim=(-2.1, 2.1), ylim=(-1.9, 1.9), title=name, xticks=[-1, 1],
                 yticks=[0])
    return show(figure, "The best guess shrinks the letter F to a dash between the bumps. The flow "
                        "pulls its left and right parts into the two bumps. The sampler throws its "
                        "points into both bumps at random.",
                caption="Grey: the F, seen at time 0.6. Blue: where three arrows take its points "
                        "at time 0. The light circles hold most of the data.")
