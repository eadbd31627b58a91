"""The figure of Going further that belongs to chapter 21: a state with four channels in memory."""

import numpy as np
from IPython.display import HTML

from geolab.show.figures import SECOND, show
from geolab.show.schematic import CENTRE, arrow, box, canvas


def layout() -> HTML:
    """Four features of four channels, as a table and as they lie in memory."""
    figure, axes = canvas(2.2, xlim=(-0.4, 16.6), ylim=(-1.0, 4.9), layout="constrained")
    shades = ("#cfe3f1", "#9cc5e0", "#5b9dc9", "#0072b2")
    for feature, channel in np.ndindex(4, 4):
        color = shades[channel]
        box(axes, 6.5 + channel, 4.38 - 0.55 * feature, 1, 0.55, color=color, linewidth=1)
        box(axes, 4 * feature + channel + 0.5, 0.85, 1, 0.7, color=color, linewidth=1)
    for feature in range(4):
        axes.text(5.8, 4.38 - 0.55 * feature, f"feature {feature}", ha="right", va="center",
                  fontsize=10)
    axes.text(10.3, 3.55, "4 channels", va="center", fontsize=10)
    arrow(axes, (8, 2.35), (8, 1.4))
    axes.text(8.3, 1.85, "in memory, one long row", va="center", fontsize=10)
    for thread in range(2):
        start = 8 * thread
        axes.plot(start + np.array([0.1, 0.1, 7.9, 7.9]), [0.3, 0.1, 0.1, 0.3], color=SECOND,
                  linewidth=1.5)
        axes.text(start + 4, -0.45, f"thread {thread}: 16 bytes", color=SECOND, fontsize=10,
                  **CENTRE)
    return show(
        figure,
        "A table of four features by four channels, in four shades, and below it the same sixteen "
        "numbers in one row. Brackets show that each thread fetches eight neighbours, two features "
        "with all their channels.",
        caption="The state as a table, and as it lies in memory. A thread fetches eight neighbours "
                "of two bytes at a time.")
