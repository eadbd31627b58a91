"""Figures of Going further for chapter 8: how far from orthogonal an operator is in 32 bits."""

from collections.abc import Mapping, Sequence

from IPython.display import HTML

from geolab.show.figures import ACCENT, QUIET, SECOND, label_line, show, subplots

PURPLE, GREY = "#332288", "#555555"
STYLES = {"solve": dict(color=SECOND, linestyle="--", marker="s"),
          "Gram form": dict(color=PURPLE, linestyle="-.", marker="^"),
          "minors": dict(color=QUIET, linestyle=":", marker=""),
          "geolab": dict(color=ACCENT, linestyle="-", marker="o"),
          "geolab, bf16": dict(color=GREY, linestyle="-", marker="")}
SAID = ({"solve": ("solve", 1), "geolab, bf16": ("any, as bf16", 1), "Gram form": ("Gram form", 8),
         "geolab": ("minors, geolab", 1)},
        {"Gram form": ("Gram form", 3), "geolab, bf16": ("solve, any as bf16", 0.4),
         "geolab": ("minors, geolab", 1)})


def digits(magnitudes: Sequence[float], generic: Mapping, parallel: Mapping) -> HTML:
    """The defect of each way against ‖u‖ ‖v‖: way -> (magnitudes,), for two kinds of pairs."""
    figure, panels = subplots(2, 1, height=4.5, sharex=True)
    titles = ("u and v at any angle", "u and v at a hundredth of a radian")
    for axes, table, labels, title in zip(panels, (generic, parallel), SAID, titles, strict=True):
        for name, values in table.items():
            axes.plot(magnitudes, values, **STYLES[name], markersize=4, linewidth=1.6, markevery=2)
        for name, (said, times) in labels.items():
            label_line(axes, magnitudes[-1], times * table[name][-1], said,
                       color=STYLES[name]["color"])
        axes.set(xscale="log", yscale="log", ylim=(3e-8, 30), title=title, ylabel="‖QᵀQ − I‖",
                 xlim=(1e-2, 1e9), xticks=[1e-2, 1, 1e2, 1e4, 1e6],
                 yticks=[1e-7, 1e-5, 1e-3, 1e-1, 10])
        axes.minorticks_off()
    panels[1].set(xlabel="magnitude ‖u‖ ‖v‖ at β = 2")
    return show(figure, "Orthogonality defect in float32 against the magnitude. The defect of "
                        "solving grows in proportion to the magnitude; that of the Gram form grows "
                        "for nearly parallel vectors; minors and geolab stay near 1e-6; any of "
                        "them is near 1e-2 after a cast to bf16.",
                caption="How far from orthogonal Q is, in float32 (lower is better). Solving loses "
                        "digits for long vectors, the Gram form for nearly parallel ones.")
