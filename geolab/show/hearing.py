"""Pictures of who hears whom: a row for each sublayer that hears, a column for each output.

    triangles({"additive": A, "mhc": B})    A_ts as a square in row t and column s

A square's area is |A_ts|. It is filled where A_ts is positive, and open where it is negative, so
the picture needs no colours.

Legend: S sublayers; row 1 is the first sublayer, the last row the exit; column 0 is the embedding.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from geolab.show.figures import ACCENT, SECOND, subplots


def triangles(weights: Mapping[str, Sequence[Sequence[float]]],
              largest: float | None = None) -> Figure:
    """One triangle of weights for each network, side by side, at one scale.

    Arguments:
        weights: title -> A, (S + 1, S + 1), such as
            `geolab.probes.depth_weights(model, x).weights.mean((2, 3, 4))`. Entries above the
            diagonal aren't drawn.
        largest: the |A_ts| of a square that fills its place; by default the largest of all, and
            1 at least. A larger weight is drawn at this size.
    Raises: ValueError for no triangle, or for one that isn't square.
    """
    found = {title: np.asarray(A, float) for title, A in weights.items()}
    shapes = [A.shape for A in found.values()]
    if not shapes or any(len(shape) != 2 or shape[0] != shape[1] for shape in shapes):
        raise ValueError("weights must have at least one square matrix (S + 1, S + 1), got the "
                         f"shapes {shapes}")
    full = max(1.0, max(np.abs(np.tril(A)).max() for A in found.values())
               if largest is None else largest)
    figure, row = subplots(1, len(found), squeeze=False, height=5 / len(found) + 0.55)
    for axes, (title, A) in zip(row[0], found.items(), strict=True):
        for t, s in zip(*np.tril_indices(len(A)), strict=True):
            _square(axes, s, t + 1, A[t, s] / full)
        _label(axes, len(A) - 1, title)
    _key(row[0, 0], 1 / full)
    row[0, 0].set_ylabel("who hears")
    figure.supxlabel("whose output (0: the embedding)", fontsize=11)
    return figure


def _square(axes: Axes, x: float, y: float, weight: float) -> None:
    side, positive = 0.94 * min(abs(weight), 1) ** 0.5, weight >= 0
    axes.add_patch(Rectangle((x - side / 2, y - side / 2), side, side, linewidth=0.8,
                             facecolor=ACCENT if positive else "white",
                             edgecolor=ACCENT if positive else SECOND))


def _label(axes: Axes, sublayers: int, title: str) -> None:
    ticks = [1, (sublayers + 1) // 2] if sublayers > 3 else [1]
    axes.set(title=title, aspect="equal", xlim=(-0.7, sublayers + 0.7),
             ylim=(sublayers + 1.7, 0.3), xticks=[0, *ticks[1:], sublayers],
             yticks=[*ticks, sublayers + 1], yticklabels=[*ticks, "exit"])
    axes.grid(False)


def _key(axes: Axes, one: float) -> None:
    """The size of the weight 1, in the empty corner."""
    x, y = max(axes.get_xlim()) * 0.6, max(axes.get_ylim()) * 0.2
    _square(axes, x, y, one)
    axes.text(x + 0.8, y, "= 1", va="center", fontsize=10)
