"""The figures and tables of chapter 13, and the stored numbers that they show.

Two steps respond to each other: a is what the first adds more after the second, and b the reverse.

    energy     ‖a − b‖² / ‖x‖² = size · asymmetry
    size       (‖a‖² + ‖b‖²) / ‖x‖²
    asymmetry  ‖a − b‖² / (‖a‖² + ‖b‖²)
"""

import html
from collections.abc import Callable

import numpy as np
from IPython.display import HTML
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from geolab.show.figures import ACCENT, QUIET, SECOND, look, plane, show, subplots, table
from geolab.show.letter import F as LETTER
from geolab.show.letter import draw_letter, moved
from geolab.show.schematic import CENTRE, arrow
from studies.engine import results

STORED, REAL, TEXTS = (results.stored(name) for name in ("order", "real", "real_order"))
KINDS = ("transformer", "lite", "full", "moe")
LINES = {"pre": look("additive"), "post": look("post-LN")}
PAIRS = ("1, 2", "2, 3", "3, 4", "4, 5", "5, 6")
WAYS = {"add to each other": (lambda x, y: (x + y, y), lambda x, y: (x, y + x)),
        "the same, halved": (lambda x, y: (x + y / 2, y), lambda x, y: (x, y + x / 2)),
        "each doubles its own": (lambda x, y: (2 * x, y), lambda x, y: (x, 2 * y)),
        "both double the second": (lambda x, y: (x, 2 * y),) * 2}


def by_pair(model: str, read: Callable[[dict], list], when: str = "measured") -> np.ndarray:
    """What `read` finds in each stored run of a model, pair by pair: (seeds, pairs)."""
    return np.array([read(run[when]) for run in STORED["geometric"]["runs"]
                     if run["model"] == model])


def swapped(model: str) -> np.ndarray:
    """The rise of the loss when two neighbouring sublayers change places: (seeds, pairs)."""
    return by_pair(model, lambda found: found["reordered"]["swapped"])


def factor(model: str, name: str, when: str = "measured") -> np.ndarray:
    """The energy, size, asymmetry or push of neighbouring sublayers: (seeds, pairs).

    The push is what both steps add beside the state, (‖Δ_A‖² + ‖Δ_B‖²) / ‖x‖².
    """
    if name == "size":
        return np.prod([by_pair(model, lambda found, part=part: found["neighbours"][part], when)
                        for part in ("step", "interaction")], axis=0)
    part = {"push": "step"}.get(name, name)
    return by_pair(model, lambda found: found["neighbours"][part], when)


def middle(values: np.ndarray) -> np.ndarray:
    """The geometric mean over seeds: (seeds, pairs) -> (pairs,)."""
    return np.exp(np.log(values).mean(0))


def ways() -> HTML:
    """Both orders of two steps from (2, 1), in four games."""
    figure, panels = subplots(2, 2, height=4.4, sharex=True, sharey=True)
    for axes, (title, (A, B)) in zip(panels.flat, WAYS.items(), strict=True):
        for first, last, color, style in ((A, B, ACCENT, "-"), (B, A, SECOND, "--")):
            stops = [(2, 1), first(2, 1), last(*first(2, 1))]
            for start, end in zip(stops, stops[1:], strict=False):
                arrow(axes, start, end, color, linestyle=style, linewidth=1.6, shrinkA=3, shrinkB=3)
            dot = color == ACCENT  # in the last game A is B, so the step doesn't tell
            axes.plot(*stops[-1], "o", color=color, markersize=5 if dot else 10,
                      markerfacecolor=color if dot else "none", markeredgewidth=1.6)
        axes.plot(2, 1, "o", color="black", markersize=6)
        axes.text(1.9, 0.75, "(2, 1)", ha="center", va="top", fontsize=10)
        axes.set(xlim=(1, 5.6), ylim=(0, 4.6), aspect="equal", xticks=range(1, 6),
                 yticks=range(5), title=title)
    for axes in panels[1]:
        axes.set_xlabel("first number")
    for axes in panels[:, 0]:
        axes.set_ylabel("second number")
    return show(figure, "From (2, 1) two steps lead to an end, in both orders. With full steps the "
                        "two ends lie far apart. With halved steps they lie close together. In the "
                        "other two games they are the same point.",
                caption="Both ways from (2, 1). Blue: A first, to the dot. Orange, dashed: B "
                        "first, to the ring.")


def _stretch(degrees: float) -> np.ndarray:
    """The branch that adds 0.5 along one axis and −0.2 along the other, its axes turned."""
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    axes = np.array([[c, -s], [s, c]])
    return axes @ np.diag([0.5, -0.2]) @ axes.T


def draw_orders(angle: float) -> Figure:
    """The letter F after two stretches, in both orders. The letters coincide where the axes of the stretches are parallel or perpendicular, and there the gap and the asymmetry are zero."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, (left, *right) = subplots(1, 3, height=3.1, width_ratios=[3.2, 1, 1])
    A, B = _stretch(0), _stretch(angle)
    plane(left, 1.5, unit_circle=False)
    first, last = (np.eye(2) + B) @ (np.eye(2) + A), (np.eye(2) + A) @ (np.eye(2) + B)
    draw_letter(left, first, size=1.2)
    ends = np.stack([1.2 * moved(LETTER, first), 1.2 * moved(LETTER, last)], 1)
    for pair in ends:
        left.plot(*pair.T, color="black", linewidth=1.4, zorder=4)
    left.fill(*ends[:, 1].T, fill=False, edgecolor=SECOND, linestyle="--", linewidth=1.8, zorder=3)
    for degrees, color, name, at in ((0, ACCENT, "A", -1.36), (angle, SECOND, "B", 1.36)):
        long = np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))])
        for axis, width in ((long, 2.6), (long[::-1] * (-1, 1), 1)):   # at the rim alone
            for rim in ((-1.22, -0.95), (0.95, 1.22)):
                left.plot(*np.outer(axis, rim), color=color, linewidth=width)
        left.text(*(at * long), name, color=color, **CENTRE)
    left.set(title="the F in both orders", xticks=[0], yticks=[0])
    a, b = LETTER @ (A @ B).T, LETTER @ (B @ A).T              # the responses at each corner
    gap, responses = np.square(a - b).sum(), np.square(a).sum() + np.square(b).sum()
    bars = (("gap", np.sqrt(gap / np.square(LETTER).sum()), 0.35, "black"),
            ("asymmetry", gap / responses, 2, ACCENT))
    for axes, (name, height, limit, color) in zip(right, bars, strict=True):
        axes.bar(0, height, 0.6, color=color)
        axes.text(0, height + limit / 50, f"{height:.2f}", ha="center")
        axes.set(xlim=(-0.7, 0.7), ylim=(0, limit), xticks=[], yticks=[], xlabel=name)
    return figure


def pairs(axes: Axes, where: str, values: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
    """Draw a line over the five pairs of neighbours, and the band of its seeds."""
    axes.plot(range(1, 6), values, **LINES[where], label=f"{where.capitalize()}-LN")
    axes.fill_between(range(1, 6), low, high, color=LINES[where]["color"], alpha=0.15, linewidth=0)
    axes.set(xlim=(0.8, 5.2), xticks=range(1, 6), xticklabels=PAIRS)
    axes.grid(axis="x", visible=False)


def swaps() -> HTML:
    """What it costs to swap neighbouring sublayers of the stored Transformers."""
    figure, axes = subplots(height=3.0)
    for where in LINES:
        cost = swapped(f"transformer, {where}")
        drawn = np.maximum(cost, 1e-3)
        pairs(axes, where, np.maximum(cost.mean(0), 1e-3), drawn.min(0), drawn.max(0))
    axes.set(yscale="log", ylim=(1e-3, 2), xlabel="the sublayers that change places",
             ylabel="rise of the loss, nats")
    axes.set_yticks([1e-3, 0.01, 0.1, 1], ["0.001", "0.01", "0.1", "1"])
    axes.minorticks_off()
    axes.legend(loc="upper right", fontsize=10.5)
    return show(
        figure, "The rise of the loss when two neighbouring sublayers change places, on a "
        "logarithmic axis. In Pre-LN the first pair costs far more than all later pairs. In "
        "Post-LN the first and the last pair cost more than the others.",
        caption="Two neighbouring sublayers of a Transformer change places. Lines: means of "
                "sixteen seeds. Bands: all seeds. Lower values are drawn at 0.001.")


def lost(what: str) -> np.ndarray:
    """The nats per token that SmolLM2 loses by a change of each block: (blocks,)."""
    return np.array(REAL["order"]["lost"][what]["mean"])


CHANGES = (("attention and MLP side by side", "side by side", dict(color=ACCENT, marker="o")),
           ("MLP before attention", "swapped",
            dict(color=SECOND, marker="s", markerfacecolor="white")),
           ("exchanged with the next block", "swapped with the next block",
            dict(color="black", marker="^")))


def real_losses() -> HTML:
    """What SmolLM2 loses by three changes of one block."""
    figure, axes = subplots(height=3.3)
    for said, what, style in CHANGES:
        nats = lost(what).clip(0.01)
        axes.plot(range(len(nats)), nats, linestyle="", markersize=5, label=said, **style)
    axes.set(yscale="log", ylim=(0.009, 12), xlabel="block", ylabel="nats lost per token",
             xticks=range(0, 30, 5))
    axes.set_yticks([0.01, 0.1, 1, 10], ["0.01", "0.1", "1", "10"])
    axes.minorticks_off()
    figure.legend(loc="outside lower center", fontsize=10)
    return show(
        figure, "The loss of a language model when one of its thirty blocks is changed, on a "
        "logarithmic axis. The first two blocks lose most by all three changes. The blocks between "
        "lose little. At the end the last two can't change places, and the last one can't start "
        "with its MLP.",
        caption="SmolLM2-135M, 24 windows of 128 tokens. Lower values are drawn at 0.01.")


def real_texts(*first: int) -> HTML:
    """What SmolLM2 writes as it is, and when block k changes places with block k + 1."""
    def said(text):
        return html.escape(" ".join(text.split()))
    return table(("blocks swapped", f"{TEXTS['sentence']} …"),
                 [("none", said(TEXTS["usual"])),
                  *((f"{k} and {k + 1}", said(TEXTS["swapped"][k])) for k in first)])


def causes() -> HTML:
    """Size and asymmetry of the responses of neighbours, before and after training."""
    figure, panels = subplots(2, height=4.3, sharex=True)
    for where in LINES:
        for axes, name in zip(panels, ("size", "asymmetry"), strict=True):
            found = factor(f"transformer, {where}", name)
            pairs(axes, where, middle(found), found.min(0), found.max(0))
            axes.plot(range(1, 6), middle(factor(f"transformer, {where}", name, "untrained")),
                      color=LINES[where]["color"], linewidth=1)
    panels[0].set(yscale="log", ylabel="size", yticks=[1e-3, 1, 1e3])
    panels[0].minorticks_off()
    panels[0].legend(loc="upper right", fontsize=10.5)
    panels[1].set(ylim=(0, 1.35), yticks=[0, 0.5, 1], ylabel="asymmetry", xlabel="the sublayers")
    panels[1].axhline(1, color="black", linewidth=0.8, linestyle=":")
    return show(
        figure, "Size and asymmetry of the responses of five pairs of neighbouring sublayers, "
        "trained (thick) and untrained (thin). Pre-LN: the size falls along the depth and by "
        "training, and the asymmetry stays near 1. Post-LN: after the first pair the size is "
        "larger than before training, and the asymmetry is smaller.",
        caption="The two factors of the energy, in the small Transformers whose sublayers changed "
                "places. Thick: geometric means of sixteen seeds. Bands: all seeds. Thin: before "
                "training. Dotted: responses that have nothing to do with each other.")


def draw_correlation(rho: float) -> Figure:
    """Left: twelve entries of two matrices on a line of slope rho, more scattered the closer rho is to 0. Right: an arch of the expected squared commutator. It is highest at 0 and falls to zero at both ends."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, (left, right) = subplots(1, 2, height=2.9, width_ratios=[1, 1.25])
    A, C = np.random.default_rng(2).normal(size=(2, 12)) / 8 ** 0.5
    left.plot(A, rho * A + (1 - rho**2) ** 0.5 * C, "o", color=ACCENT, markersize=4)
    left.plot([-1.1, 1.1], [-1.1 * rho, 1.1 * rho], color=QUIET, linewidth=1)
    left.set(xlim=(-1.1, 1.1), ylim=(-1.1, 1.1), xticks=[-1, 0, 1], yticks=[-1, 0, 1],
             aspect="equal", xlabel="entry of A", ylabel="entry of B", title="twelve entries")
    arch = np.linspace(-1, 1, 41)
    right.plot(arch, 2 * (1 - arch**2) * (1 - 1 / 8**2), color="#cccccc", linewidth=3)
    right.plot(rho, 2 * (1 - rho**2) * (1 - 1 / 8**2), "o", color="black")
    right.set(xlim=(-1.05, 1.05), ylim=(-0.1, 2.3), xticks=[-1, 0, 1], yticks=[0, 1, 2],
              xlabel="correlation ρ", title="‖[A, B]‖², per row")
    return figure
