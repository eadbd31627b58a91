"""The figure of Going further that belongs to chapter 6: which note each stream still has."""

import numpy as np
from matplotlib.figure import Figure

from geolab.show.figures import subplots
from notebooks.figures.ch06 import stays


def draw_notes_of_24(diagonal: float) -> Figure:
    """A map of four streams and 24 notes. Recent notes stand out in their own stream, and older ones are alike in all four. With a larger diagonal more notes stand out, and at 8 all of them do."""  # noqa: E501  (the docstring is the figure's alt text)
    left = stays(diagonal) ** np.arange(23, -1, -1.0)                      # of note 1, ..., note 24
    shares = (1 - left) / 4 + left * (np.arange(24) % 4 == np.arange(4)[:, None])
    figure, axes = subplots(height=2.3)
    drawn = axes.pcolormesh(np.arange(25) + 0.5, np.arange(5) + 0.5, shares, cmap="Blues", vmin=0,
                            vmax=1.15, edgecolors="face", linewidth=0.4)
    axes.set(xlabel="note of sublayer", yticks=range(1, 5), ylim=(4.5, 0.5),
             yticklabels=[f"stream {i}" for i in range(1, 5)], xticks=[1, 4, 8, 12, 16, 20, 24],
             title=f"memory in sublayers, 1 / (1 − σ): {1 / (1 - stays(diagonal)):.3g}")
    axes.grid(False)
    key = figure.colorbar(drawn, ax=axes, ticks=[0, 0.25, 1], aspect=8, label="share",
                          boundaries=np.linspace(0, 1, 21))
    key.set_ticklabels(["0", "¼", "1"])
    return figure
