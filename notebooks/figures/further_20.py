"""The figure of Going further that belongs to chapter 20: a state that is written less often."""

import numpy as np
from IPython.display import HTML

from geolab.show.figures import ACCENT, SECOND, label_line, show, subplots


def average(n: int, k: float | np.ndarray) -> float | np.ndarray:
    """Vectors per sublayer, if the state of n streams is written after every k-th one."""
    return n + 1 + (k + 1) / 2 + n / k


def deferred() -> HTML:
    """The average for two, four and eight streams, with its least value."""
    figure, axes = subplots(height=3.2)
    k = np.arange(1, 13)
    for n in (2, 4, 8):
        costs = average(n, k)
        axes.plot(k, costs, "o-", color=ACCENT, markersize=4, linewidth=1.5)
        axes.plot(k[np.argmin(costs)], costs.min(), "o", color=SECOND, markersize=9)
        label_line(axes, 12, costs[-1], f"{n} streams")
    axes.set(xlabel="k: the state is written after every k-th sublayer", xticks=[1, 3, 6, 9, 12],
             ylabel="vectors per sublayer", xlim=(0.5, 15), ylim=(0, 19.5), yticks=[0, 5, 10, 15])
    return show(
        figure,
        "Vectors per sublayer against k. With two streams they fall from 6 to 5.5 at k = 2 and "
        "then rise to 9.7. With four they fall from 10 to 8.3 at k = 3 and rise to 11.8. With "
        "eight they fall from 18 to 13.5 at k = 4 and rise to 16.2.",
        caption="At k = 1 the state is written after each sublayer. Orange: the least.")
