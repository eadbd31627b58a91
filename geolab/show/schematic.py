"""Parts of schematics: a canvas without axes, and the boxes, lines and arrows that stand on it.

A canvas is as wide as every figure, 5 inches. Unless a chapter chooses other limits it is 10 units
wide and a unit is half an inch in both directions. Places (x, y) are in units of the canvas; line
widths, font sizes and the gaps at the ends of arrows are in points, as everywhere in matplotlib.

`BOXED`, `OPERATOR` and `SUBLAYER` are arguments of `Axes.text` for a text in a rounded box that is
as large as the text needs: `axes.text(x, y, "norm", **BOXED)`. `LINE` has those of `Axes.plot`.
"""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from geolab.show.figures import ACCENT, subplots

TINT = "#cfe3f1"  # a light ACCENT, on which black text reads well
LINE = dict(color="black", linewidth=1.3, solid_capstyle="round")
BOX = dict(boxstyle="round,pad=0.35", facecolor="white", edgecolor="black", linewidth=1)
CENTRE = dict(ha="center", va="center")
BOXED = dict(fontsize=10, bbox=BOX, **CENTRE)
OPERATOR = BOXED | dict(bbox=BOX | dict(facecolor=TINT, edgecolor=ACCENT))
SUBLAYER = BOXED | dict(fontsize=13, weight="bold", bbox=BOX | dict(facecolor="#d9d9d9"))


def canvas(height: float, *, rows: int = 1, xlim: tuple[float, float] = (0, 10),
           ylim: tuple[float, float] | None = None, layout: str = "none"):
    """A figure without ticks and frame, and its axes, or the (rows,) axes of several rows.

    Arguments:
        height: of the figure, in inches.
        rows: how many axes stand one below the other, each of the same height.
        xlim, ylim: the limits of each of them. Without `ylim` they start at 0 and end where a unit
            is as long upwards as it is sideways.
        layout: as in `Figure.set_layout_engine`. With "none" the axes fill the figure up to its
            edges. With "constrained" they keep a margin, and room for texts beyond the limits.
    Raises: ValueError for a height or a number of rows that isn't positive.
    """
    if not height > 0:
        raise ValueError(f"height must be a positive number of inches, got {height}")
    if rows < 1:
        raise ValueError(f"rows must be at least 1, got {rows}")
    figure, panels = subplots(rows, height=height)
    figure.set_layout_engine(layout)
    if ylim is None:
        ylim = (0, height / rows * abs(xlim[1] - xlim[0]) / figure.get_figwidth())
    for row, axes in enumerate(np.atleast_1d(panels), start=1):
        axes.set(xlim=xlim, ylim=ylim)
        axes.set_axis_off()
        if layout == "none":
            axes.set_position((0, 1 - row / rows, 1, 1 / rows))
    return figure, panels


def arrow(axes: Axes, start, end, color: str = "black", **style) -> None:
    """Draw an arrow from the point `start` to the point `end`, exactly.

    `style` changes its arrowprops, as `Axes.annotate` takes them: `linewidth=2`, `shrinkA=16` for
    a gap of 16 points at its start, `arrowstyle="<|-|>"` for a head at both ends.
    """
    axes.annotate("", end, start, arrowprops=dict(
        arrowstyle="-|>", color=color, linewidth=1.3, shrinkA=0, shrinkB=0) | style)


def path(axes: Axes, *points) -> None:
    """Draw a line through points, with an arrowhead at the last one. It lies under boxes.

    Raises: ValueError for fewer than two points.
    """
    if len(points) < 2:
        raise ValueError(f"points must be at least two, got {len(points)}")
    axes.plot(*np.transpose(points), zorder=1, **LINE)
    arrow(axes, *points[-2:])


def box(axes: Axes, x: float, y: float, width: float, height: float, text: str = "",
        color: str = "white", edge: str = "black", size: float = 11, **options) -> None:
    """Draw a box of this width and height around the point (x, y), with a text in its middle.

    `color` fills it and `edge` draws its edge. `size` is the font size of the text. `options` go to
    `matplotlib.patches.Rectangle`.
    """
    axes.add_patch(Rectangle((x - width / 2, y - height / 2), width, height,
                             **dict(facecolor=color, edgecolor=edge, linewidth=1.3) | options))
    axes.text(x, y, text, fontsize=size, **CENTRE)


def plus(axes: Axes, x: float, y: float, size: float = 11, cross: float | None = None) -> None:
    """Draw ⊕ at (x, y): a circle of `size` points, and a cross as large as it or of `cross`."""
    axes.plot(x, y, "ko", markerfacecolor="white", markersize=size)
    axes.plot(x, y, "k+", markersize=size if cross is None else cross)
