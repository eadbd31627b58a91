"""Pictures of a residual stream: a column for each token, a row for each sublayer, from below.

    length_map(tokens, lengths)          how long the state of each token is
    loss_map(tokens, sublayers, lost)    the loss added by leaving out one update of one token

Legend: L sublayers, T tokens.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from geolab.show.figures import subplots

DARK_IS_LITTLE = "cividis"   # its lightness rises evenly, so it reads in grey
KEPT = "map-kept"  # the id of a figure whose map the dark theme doesn't turn over


def length_map(tokens: Sequence[str], lengths: Sequence[Sequence[float]], title: str = "",
               limits: tuple[float, float] | None = None) -> Figure:
    """The length of each token's state behind each sublayer, light where it is long.

    Arguments:
        tokens: T words.
        lengths: (L + 1, T), the first row before any sublayer.
        limits: the lengths of the darkest and the lightest colour; by default the extremes.
    """
    values = np.asarray(lengths, float)
    low, high = limits or (values.min(), values.max())
    figure, axes = subplots(height=4.2)
    figure.set_gid(KEPT)
    drawn = axes.imshow(values, origin="lower", aspect="auto", cmap=DARK_IS_LITTLE,
                        norm=LogNorm(low, high), interpolation="nearest")
    bar = figure.colorbar(drawn, ax=axes, label="length of the state",
                          format=FuncFormatter(lambda value, _: f"{value:,.0f}"))
    bar.minorticks_off()
    _label(axes, tokens, len(values))
    axes.set(title=title, ylabel="sublayers passed")
    return figure


def loss_map(tokens: Sequence[str], sublayers: Sequence[str], lost: Sequence[Sequence[float]],
             title: str = "", names: int = 3) -> Figure:
    """The loss that is added when one update of one token is left out, light where it is large.

    Arguments:
        sublayers: L names.
        lost: (L, T), in nats.
        names: the number of the largest losses at which the sublayer's name is written.
    """
    values = np.asarray(lost, float)
    figure, axes = subplots(height=4.2)
    figure.set_gid(KEPT)
    drawn = axes.imshow(values.clip(0), origin="lower", aspect="auto", cmap=DARK_IS_LITTLE,
                        norm=Normalize(0, values.max()), interpolation="nearest",
                        extent=(-0.5, len(tokens) - 0.5, 0.5, len(values) + 0.5))
    figure.colorbar(drawn, ax=axes, label="nats lost")
    for place in np.argsort(values, axis=None)[::-1][:names]:
        row, column = np.unravel_index(place, values.shape)
        left = column > len(tokens) / 2
        axes.annotate(sublayers[row], (column + (-0.55 if left else 0.55), row + 1),
                      color="white", ha="right" if left else "left", va="center", fontsize=10)
    _label(axes, tokens, len(values))
    axes.set(title=title, ylabel="sublayer", ylim=(0.5, len(values) + 0.5))
    return figure


def _label(axes: Axes, tokens: Sequence[str], rows: int) -> None:
    axes.set_xticks(range(len(tokens)), [token.strip() or "␣" for token in tokens], rotation=55,
                    ha="right", rotation_mode="anchor")
    axes.set_yticks(range(0, rows + 1, 10))
    axes.grid(False)
