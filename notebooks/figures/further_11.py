"""Going further, chapter 11: who leads, and MGT over depth, seed by seed."""

from collections.abc import Iterable, Sequence

import numpy as np
from IPython.display import HTML

from geolab.show.figures import QUIET, label_line, look, show, subplots, table
from notebooks.figures.ch11 import COUNTS, DEEP, DEPTH, PARTS, WIDE, loss_of
from studies.engine import results

LANGUAGE = results.stored("released")["text"]
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


def lead(part: dict, base: str, ours: str, which: str) -> float:
    """By how many nats per byte `ours` is below `base`, in the mean over the seeds of a variation.

    A model that has no run of its own there is taken as reported.
    """
    own = part["sensitivity"].get(which, [])
    seeds = {run["seed"] for run in own} or set(part["seeds"])

    def mean(name: str) -> float:
        there = [run for run in own if run["model"] == name] or part["runs"]
        return float(np.mean([loss_of(run) for run in there
                              if run["model"] == name and run["seed"] in seeds]))
    return mean(base) - mean(ours)


STUDIED: Sequence[tuple[str, int, dict, str, str]] = (
    ("parts", 4, PARTS, "Standard", WIDE), ("rank", 24, DEEP, "Standard", WIDE),
    *(("depth", blocks, DEPTH, f"Standard, {blocks} blocks", f"{WIDE}, {blocks} blocks")
      for blocks in (2, 16)), ("language", 5, LANGUAGE, "additive", "mgt"))


def leads() -> HTML:
    """MGT's lead over the standard model in all studies."""
    def cells(part: dict, base: str, ours: str) -> Iterable[str]:
        for which in ("reported", "twice the steps", "equal time"):
            ran = which == "reported" or any(run["model"] == ours
                                             for run in part["sensitivity"].get(which, []))
            said = f"{lead(part, base, ours, which):+.2f}".replace("-", "−")
            yield said if ran else "not run" if part is LANGUAGE else "as at equal steps"
    return table(("study", "blocks", "equal steps", "twice the steps", "equal time"),
                 [(name, str(blocks), *cells(part, base, ours))
                  for name, blocks, part, base, ours in STUDIED])
