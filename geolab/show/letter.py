"""The letter F, which goes through every operator of the book.

It has no symmetry, so a picture of it shows whether a map turned, mirrored or squeezed it.
It is also the name of the sublayer.
"""

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes

from geolab.show.figures import ACCENT

# (12, 2): the corners in order around it, about one unit high and around the origin
F = np.array([(0, 0), (.2, 0), (.2, .45), (.5, .45), (.5, .62), (.2, .62), (.2, .83), (.62, .83),
              (.62, 1), (.31, 1), (.15, 1), (0, 1)]) - (.31, .5)

Map = np.ndarray | Callable[[np.ndarray], np.ndarray]


def moved(letter: np.ndarray, by: Map) -> np.ndarray:
    """The points of a letter, (n, 2), under a (2, 2) matrix or a function of (n, 2) points."""
    return by(letter) if callable(by) else letter @ np.asarray(by).T


def draw_letter(axes: Axes, by: Map | None = None, *, at=(0.0, 0.0), size: float = 1.0,
                color: str = ACCENT, ghost: bool = True) -> None:
    """Draw the F after a map, and in grey what it was before.

    Arguments:
        by: the map, a (2, 2) matrix or a function of points (n, 2) -> (n, 2); None draws the F.
        at: where the origin of the map lies, in the axes' coordinates.
        size: the height of the letter before the map.
        ghost: whether the letter before the map is drawn too.
    """
    before = size * F
    if ghost and by is not None:
        axes.fill(*(before + at).T, facecolor="#dddddd", edgecolor="#aaaaaa", linewidth=1)
    after = before if by is None else moved(before, by)
    axes.fill(*(after + at).T, facecolor=color, edgecolor=color, alpha=0.8, linewidth=2)


def draw_depth(axes: Axes, maps: list[Map], *, step: float = 1.5, size: float = 1.0,
               color: str = ACCENT) -> None:
    """Draw the F before the first layer and after each: maps[0] is the first layer's.

    The letters stand in a row, `step` apart, on axes with equal scales and without ticks.
    """
    letter = size * F
    for layer in range(len(maps) + 1):
        if layer:
            letter = moved(letter, maps[layer - 1])
        shade = "#aaaaaa" if layer == 0 else color
        axes.fill(*(letter + (layer * step, 0)).T, facecolor=shade, edgecolor=shade, alpha=0.8,
                  linewidth=1.5)
    axes.set(aspect="equal", xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
