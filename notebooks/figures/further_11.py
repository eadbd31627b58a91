"""The figure of Going further that belongs to chapter 11: MGT over depth, seed by seed."""

import numpy as np
from IPython.display import HTML

from geolab.show.figures import QUIET, label_line, look, show, subplots
from notebooks.figures.ch11 import COUNTS, DEPTH, WIDE, loss_of

DEPTHS = (2, 4, 8, 16)


def ends(name: str, which: str = "best") -> list[np.ndarray]:
    """The last losses of a model, one array over its seeds for each depth.

    Where a variation changes nothing, the runs are those that report.
    """
    varied = DEPTH["runs"] if which == "best" else DEPTH["sensitivity"][which]
    found = []
    for blocks in DEPTHS:
        model = f"{name}, {blocks} blocks"
        there = [run for run in varied if run["model"] == model] or \
                [run for run in DEPTH["runs"] if run["model"] == model]
        found.append(np.array([loss_of(run)
                               for run in sorted(there, key=lambda run: run["seed"])]))
    return found


def depth() -> HTML:
    """The losses over depth at 100,000 weights."""
    figure, axes = subplots(height=3.4)
    for shift, (name, shown) in zip((0.96, 1.04), (("Standard", "additive"), (WIDE, "mgt")),
                                    strict=True):
        found, places = ends(name), np.array(DEPTHS) * shift
        axes.plot(places, [values.mean() for values in found], **look(shown))
        axes.plot(np.repeat(places, 16), np.concatenate(found), "_", color=look(shown)["color"],
                  alpha=0.7)
        label_line(axes, 17.5, float(found[-1].mean()), name.removesuffix(" (Full)"),
                   look(shown)["color"])
    for count, said, above in (("unigram", "byte counts", 0.014),
                               ("bigram", "pair counts", -0.055)):
        axes.axhline(COUNTS[count], color=QUIET, linewidth=1)
        axes.text(28, COUNTS[count] + above, said, ha="right", fontsize=10, color="#555555")
    axes.set(xscale="log", xlim=(1.8, 29), xlabel="blocks", ylim=(2.5, 3.35),
             ylabel="loss, nats per byte", title="100,000 weights, deeper or wider")
    axes.set_xticks(DEPTHS, DEPTHS)
    axes.minorticks_off()
    return show(
        figure, "Loss against depth at 100,000 weights. Up to 8 blocks both models lie together. "
        "At 16 blocks the seeds of the standard model spread from 2.8 to 3.2, and those of MGT "
        "stay near 2.8.",
        caption="Marks on the lines: means of sixteen seeds at each model's best setting. Dashes: "
                "the seeds.")
