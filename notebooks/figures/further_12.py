"""The figures of Going further that belong to chapter 12: the cube, and four kinds of block."""

from collections.abc import Mapping, Sequence

import numpy as np
from IPython.display import HTML

from geolab.show.figures import ACCENT, QUIET, SECOND, look, show, subplots
from studies.engine.results import interval

KINDS = {"transformer": ("Transformer", "additive"), "lite": ("GT-Lite", "gt-lite"),
         "full": ("GT-Full", "gt-full"), "moe": ("GT-MoE", "gt-moe")}
NORMS = ("Pre-LN", "Post-LN")


def slopes(strengths: Sequence[float], found: Mapping[str, np.ndarray]) -> HTML:
    """The length of the gap and the error of the linear formula, activation -> (strengths, 2)."""
    figure, panels = subplots(1, 2, height=3.0, sharey=True)
    for axes, (name, lengths) in zip(panels, found.items(), strict=True):
        gap, error = np.maximum(lengths, 2e-8).T
        axes.plot(strengths, gap, color=ACCENT, label="gap")
        axes.plot(strengths, error, "--", color=SECOND, label="error of the formula")
        axes.axhspan(4e-9, 4e-8, color="#eeeeee")
        axes.set(xscale="log", yscale="log", ylim=(4e-9, 5), xlabel="strength ε", title=name)
        axes.set_xticks([0.01, 0.1, 1], ["0.01", "0.1", "1"])
        axes.minorticks_off()
    panels[0].set(ylabel="length", yticks=[1e-8, 1e-6, 1e-4, 1e-2, 1])
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return show(figure, "The gap has the slope 2 for both activations. The error of the formula "
                        "has the slope 3 for tanh. For relu it is zero up to the strength 0.05, "
                        "and then it jumps up.",
                caption="Two random networks as branches, on logarithmic scales. A slope of 2 "
                        "means ε². In the grey band is nothing but rounding.")


def kinds(energies: Mapping[tuple[str, str], np.ndarray],
          asymmetries: Mapping[tuple[str, str], np.ndarray]) -> HTML:
    """Mean energy and asymmetry of a block's pairs, (kind, norm) -> (seeds,)."""
    figure, axes = subplots(height=3.3)
    axes.axhline(1, color=QUIET, linewidth=1)
    axes.text(9.8, 1.004, "unrelated", fontsize=9, color="#555555", ha="right", va="bottom")
    for kind, (said, name) in KINDS.items():
        color, marker = look(name)["color"], look(name)["marker"]
        for norm in NORMS:
            (x, wide), (y, high) = (interval(1000 * energies[kind, norm]),
                                    interval(asymmetries[kind, norm]))
            axes.plot([x - wide, x + wide, np.nan, x, x], [y, y, np.nan, y - high, y + high],
                      color=color, linewidth=1.2)
            axes.plot(x, y, linestyle="", marker=marker, color=color, markersize=9,
                      markerfacecolor="white" if norm == "Post-LN" else color,
                      label=said if norm == "Pre-LN" else None)
    axes.set(xscale="log", xlim=(1.7, 10), ylim=(0.92, 1.05), yticks=[0.92, 0.96, 1, 1.04],
             xlabel="1000 · energy", ylabel="asymmetry")
    axes.set_xticks([2, 3, 4, 5, 6, 8], ["2", "3", "4", "5", "6", "8"])
    axes.minorticks_off()
    axes.legend(fontsize=9, loc="lower left")
    return show(figure, "Energy and asymmetry of four kinds of block. The energies lie between 2 "
                        "and 8 thousandths. The asymmetries lie at about 1 for Pre-LN and at about "
                        "0.97 for Post-LN.",
                caption="Six untrained blocks of each kind: means of eight draws of the weights, "
                        "with 95 % intervals. Filled: Pre-LN. White: Post-LN.")
