"""Figures of Going further for chapter 4: the gain by learning rate, and what OLMo-1B reports."""

import numpy as np
from IPython.display import HTML

from geolab.show.figures import QUIET, label_line, look, show, subplots
from notebooks.figures import ch04
from studies.claims import TABLES

OLMO = {row: values["loss"][0] for row, values in TABLES["hc-olmo-1b"].rows.items()}


def by_rate() -> HTML:
    """The gain of 16 layers over the steps of training, at three learning rates."""
    figure, axes = subplots(height=3.2)
    steps = ch04.STORED["0.008"]["runs"][0]["evaluated_at"]
    for lr, style, shift in (("0.032", ":", 0), ("0.008", "-", 0.15), ("0.002", "--", -0.1)):
        curves = ch04.measured(lr, "hyper, 8 blocks")
        curves = np.log10(np.column_stack([np.ones(len(curves)), curves]))
        axes.plot([0, *steps], curves.T, style, color=look("hyper")["color"], linewidth=1.2)
        label_line(axes, steps[-1], curves[:, -1].mean() + shift, lr)
    axes.set(xlim=(0, 228), ylim=(-0.1, 4.4), xlabel="training steps", ylabel="gain of 16 layers",
             yticks=range(5), yticklabels=ch04.POWERS["yticklabels"][:5], title="By learning rate")
    return show(figure, "The gain over training steps, for three learning rates and eight seeds "
                        "each: it is larger at larger learning rates, and after its peak it falls "
                        "again.",
                caption="One line per seed. The numbers are learning rates.")


def olmo() -> HTML:
    """The reported loss of OLMo-1B against the number of streams."""
    figure, axes = subplots(height=3.3)
    for pattern, counts, style, marker, name in (
            ("DHC × {}", (1, 2, 4, 8), "-", "o", "dynamic"),
            ("DHC × {}, no tanh", (1, 2, 4, 8), "--", "s", "dynamic, no tanh"),
            ("SHC × {}", (2, 4), ":", "^", "static")):
        change = [OLMO[pattern.format(n)] - OLMO["additive"] for n in counts]
        axes.plot(counts, change, style, marker=marker, label=name,
                  color=look("hyper")["color"] if "D" in pattern else "black")
    axes.axhline(0, color=QUIET, linewidth=1)
    axes.annotate("plain residual", (8, 0), xytext=(0, 4), textcoords="offset points", ha="right",
                  fontsize=10, color=ch04.WORDS)
    axes.set(xscale="log", xlabel="streams n", ylabel="change of loss (nats per token)",
             title="Reported for OLMo-1B")
    axes.set_xticks([1, 2, 4, 8], ["1", "2", "4", "8"])
    axes.minorticks_off()
    axes.legend(loc="lower left")
    return show(figure, "The reported validation loss minus that of the plain residual. With one "
                        "stream it is about 0.01 above, and it falls to about 0.03 below with "
                        "four and eight streams. The static form with four streams gains 0.02.",
                caption="The reported validation loss minus that of the plain residual. One stream "
                        "is worse, several are better.")
