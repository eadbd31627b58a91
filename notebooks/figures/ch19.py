"""The figures of chapter 19: one table of losses on echo, and six questions put to it.

    echo       x_t = v + noise; predict x_{t+1}. The floor is the noise of x_{t+1}.
    influence  row t, column s: how much output t moves when input s is moved a little
    average    Σ_s w_s x_s, with weights that sum to one
"""

from collections.abc import Callable, Mapping
from statistics import NormalDist

import numpy as np
import torch
from IPython.display import HTML
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from geolab.probes import norm_drift
from geolab.show.figures import ACCENT, LOOKS, SECOND, show, subplots
from geolab.show.letter import draw_letter, moved
from geolab.show.schematic import BOXED, LINE, OPERATOR
from geolab.tasks import Echo
from studies.claims import TABLES
from studies.engine import results
from studies.engine.live import stored_runs

ECHO = Echo()
TABLE = TABLES["emhc-table-6-stability"].rows["stability"]       # model -> (mean, ±), three seeds
REPORTED = {name: mean for name, (mean, _) in TABLE.items()}
SCORES, FLOOR = ECHO.baselines(), ECHO.bayes_floor()
INPUTS, TARGETS = ECHO.sample("validation")
DEVIATION = {name: mean for name, (mean, _) in TABLES["emhc-table-18"].rows["deviation"].items()}
REWRITTEN = TABLES["emhc-table-18-figure"].rows["26 February 2026"]["JPmHC"][0]  # that of table 6
TIMED = {"DDL": "delta", "HC": "hyper", "mHC": "mhc", "DDL, d_v = 4": "delta-matrix"}
START = {"gate near one end": ("emhc-hybrid", "-", "hybrid, ours"),
         "gate at one half": ("emhc-hybrid", "--", "hybrid, published"), "mHC": ("mhc", "-", "")}


def five_losses() -> HTML:
    """The five reported losses on echo, and two lines that the table doesn't print."""
    figure, axes = subplots(height=2.9)
    for y, name in enumerate(sorted(REPORTED, key=lambda name: -REPORTED[name])):
        mean, spread = (1e6 * number for number in TABLE[name])
        axes.errorbar([mean], [y], xerr=[spread], fmt="ko", markersize=7, capsize=5)
        said = f"{mean:.0f}" if mean > 1000 else f"{mean:.3g}"
        axes.annotate(f"{name}: {said}", (mean + spread, y), xytext=(7, 0), va="center",
                      textcoords="offset points")
    for loss, name, style in ((SCORES["copy the input"], "copy the input", "-"),
                              (FLOOR, "floor", "--")):
        axes.axvline(1e6 * loss, color="#555555", linestyle=style, linewidth=1.2)
        axes.annotate(f"{name}: {1e6 * loss:.2f}", (1e6 * loss, 1.5), xytext=(-3, 0), rotation=90,
                      textcoords="offset points", ha="right", va="center", fontsize=10)
    axes.set(xscale="log", xlim=(0.5, 2e5), ylim=(-0.5, 4.5), yticks=[],
             title="Five models on echo", xlabel="mean squared error per number, in millionths")
    axes.set_xticks([1, 10, 100, 1000, 1e4], ["1", "10", "100", "1000", "10,000"])
    axes.minorticks_off()
    return show(figure, "On the echo task of E-MHC-Geo every reported mean loss lies to the right "
                        "of the loss of copying the input, and that one lies to the right of the "
                        "floor.",
                caption="Dots: the losses that the paper reports. Bars: its ±, one standard "
                        "deviation over three seeds. Dashed: the floor, the least that a model can "
                        "reach which reads only the past.")


def draw_guess(g: float) -> Figure:
    """The loss of a guess is a parabola with its lowest point at the guess 10 and height 1. A grey band of height 1 below it is the same for all guesses; the rest vanishes at 10."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, axes = subplots(height=3)
    at, loss = np.linspace(8, 12, 33), 1 + (g - 10) ** 2
    axes.fill_between(at, 0, 1, color="#cccccc", linewidth=0)
    axes.plot(at, 1 + (at - 10) ** 2, color="black", linewidth=1.5)
    axes.bar(g, 1, 0.13, color="#555555")
    axes.bar(g, loss - 1, 0.13, bottom=1, color=ACCENT)
    axes.text(8.1, 0.5, "the coin: 1", va="center", fontsize=10)
    axes.text(10, 5.4, f"½ · ({g:.2f} − 9)² + ½ · ({g:.2f} − 11)² = {loss:.2f}", ha="center",
              fontsize=10)
    axes.set(xlim=(7.8, 12.2), ylim=(0, 5.9), xticks=range(8, 13), xlabel="what you say",
             ylabel="loss", title="The loss of a guess")
    return figure


def _output_two(axes: Axes, name: str, sources: tuple[int, ...], pooled: bool) -> None:
    """Draw four inputs below, output 2 above, and lines from what the output reads."""
    for s in range(1, 5):
        axes.text(s, 0, f"$x_{s}$", **BOXED)
    axes.text(2, 3, "$y_2$", **BOXED)
    for s in sources:
        late = dict(color=SECOND, linestyle=(0, (4, 2))) if s > 2 else {}
        way = [(s, 0.42), (2.5, 1.35)] if pooled else [(s, 0.42), (2, 2.58)]
        axes.plot(*np.transpose(way), **{**LINE, **late, "zorder": 0})
    if pooled:
        axes.plot([2.5, 2], [1.35, 2.58], **LINE | {"zorder": 0})
        axes.text(2.5, 1.45, "mean", **OPERATOR)
    axes.set(xlim=(0.4, 4.6), ylim=(-0.6, 3.6), title=name)
    axes.set_axis_off()


def reads() -> HTML:
    """What output 2 reads with a mask, with a mean of all inputs, and with a mean so far."""
    figure, panels = subplots(1, 3, height=2.3)
    _output_two(panels[0], "a mask", (1, 2), False)
    _output_two(panels[1], "mean of all", (1, 2, 3, 4), True)
    _output_two(panels[2], "mean so far", (1, 2), True)
    return show(figure, "Three drawings of what output 2 reads of four inputs. With a mask it "
                        "reads inputs 1 and 2. The mean of all inputs brings inputs 3 and 4 as "
                        "well. The mean so far doesn't.",
                caption="What output 2 reads. Dashed: inputs that come after it. This is a leak.")


def influences(tables: Mapping[str, Tensor]) -> HTML:
    """How much each output of two models depends on each input, as two tables of colours."""
    figure, panels = subplots(1, 2, height=3.0)
    for axes, (name, matrix) in zip(panels, tables.items(), strict=True):
        count = np.arange(len(matrix))
        share = (matrix / matrix.diagonal()[:, None]).numpy()
        ink = np.where(share > 0, 1 + 0.1 * np.log10(share.clip(1e-5, 1)), 0)
        late = count > count[:, None]
        tint = np.where(late[..., None], (0.8, 0.2, 0.07), (0.2, 0.2, 0.2))
        axes.imshow(1 - ink[..., None] * (1 - tint), interpolation="nearest")
        edge = np.arange(len(matrix) + 1) - 0.5
        axes.step(edge, edge, where="post", color="black", linewidth=1.2)
        axes.set(xticks=count, xticklabels=count + 1, yticks=count, yticklabels=count + 1,
                 xlabel="input s", title=name)
        axes.grid(False)
    panels[0].set_ylabel("output t")
    return show(figure, "Two tables of eight outputs and eight inputs. With the mean of all inputs "
                        "every entry right of the diagonal is red. With the mean so far these "
                        "entries are white.",
                caption="A row for each output, a column for each input. The darker, the more "
                        "influence, on a logarithmic scale. Red: later inputs. White: zero.")


def scores(model: nn.Module) -> tuple[float, float]:
    """A predictor's norm deviation, and its loss on echo in floors."""
    return norm_drift(model, 64), ECHO.loss(model(INPUTS), TARGETS).item() / FLOOR


def averages(make: Callable[[float], nn.Module]) -> Callable[[float], Figure]:
    """A drawing of the average that `make` gives for a fade: its weights and its two scores."""
    def draw_average(fade: float) -> Figure:
        """Left, how much each of the last twelve vectors counts. Right, a plane of the norm deviation and the loss on echo. As old vectors fade, the blue dot of the average moves from a large deviation and a loss at the floor to no deviation and twice the floor. The paper's models lie above it, at small and at large deviations."""  # noqa: E501  (the docstring is the figure's alt text)
        figure, (left, right) = subplots(1, 2, height=3.4, width_ratios=(1, 2.1))
        weights = make(fade)(torch.eye(12)[None])[0, -1].flip(0)
        left.bar(range(12), weights.numpy(), color=ACCENT)
        left.set(ylim=(0, 1.05), xticks=[0, 11], xticklabels=["last", "12th"], title="the average",
                 xlabel="vector, backwards", ylabel="weight")
        left.grid(axis="x", visible=False)
        for name, deviation in (DEVIATION | {"JPmHC": REWRITTEN}).items():
            if name == "mHC":                                      # eight thousand floors
                continue
            right.plot(deviation, REPORTED[name] / FLOOR, "ko", markersize=6)
            right.annotate(name, (deviation, REPORTED[name] / FLOOR), textcoords="offset points",
                           xytext=(-8 if name == "GPT" else 8, 0), va="center", fontsize=10,
                           ha="right" if name == "GPT" else "left")
        right.axhline(1, color="black", linestyle=":", linewidth=1.2)
        right.text(0.25, 0.97, "floor", ha="center", va="top", fontsize=10)
        right.plot(*scores(make(fade)), "o", color=ACCENT, markersize=11, clip_on=False)
        right.set(xlim=(-0.04, 0.92), ylim=(0.75, 22), yscale="log", xlabel="norm deviation",
                  title="loss on echo, in floors")
        right.set_yticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
        right.minorticks_off()
        return figure
    return draw_average


def forgetting(shares: Mapping[str, list[float]]) -> HTML:
    """How much is left of a difference between streams, sublayer by sublayer, before training."""
    figure, axes = subplots(height=3.3)
    drawn = stored_runs("19/stack")
    for name, (model, style, stored) in START.items():
        color = LOOKS[model].color
        axes.plot(shares[name], color=color, linestyle=style)
        axes.text(19.6, shares[name][-1], name, color=color, va="center", fontsize=10)
        if stored:
            axes.plot([18.7] * 2, [drawn[stored].min(), drawn[stored].max()], color=color,
                      alpha=0.4, linewidth=6, solid_capstyle="butt")
    axes.plot([0.5**k for k in range(19)], color="black", linestyle=":", linewidth=1.2)
    axes.text(7, 1.5e-3, "6 and 2:\n½ each time", ha="right", va="center", fontsize=10)
    axes.set(yscale="log", xlim=(0, 30), ylim=(6e-5, 1.6), xticks=[0, 6, 12, 18],
             xlabel="sublayers passed", ylabel="share that is left",
             title="Three untrained networks")
    axes.minorticks_off()
    return show(figure, "Share of a difference through 18 sublayers. With the gate near one end it "
                        "stays close to 1. With the gate at one half it stays there for the first "
                        "few sublayers and then falls to about a tenth. With mHC it falls by the "
                        "same factor in each one, to less than a thousandth.",
                caption="How much is left of the difference between streams that survives best. "
                        "Pale bars: twelve stored draws after 18 sublayers. Dotted: the example of "
                        "6 and 2.")


def signs() -> HTML:
    """The letter F with one sign changed, with two, and 16 letters with 32 signs changed."""
    figure, panels = subplots(1, 3, height=2.1, width_ratios=(1, 1, 1.1))
    at = np.array([0.6, 0.6])
    for axes, name, by in ((panels[0], "one sign changed", np.diag([-1, 1])),
                           (panels[1], "two signs changed", -np.eye(2))):
        draw_letter(axes, lambda points, by=by: moved(points + at, by) - at, at=at)
        axes.axhline(0, color="black", linewidth=0.8)
        axes.axvline(0, color="black", linewidth=0.8)
        axes.set(aspect="equal", xlim=(-1.2, 1.2), ylim=(-1.3, 1.3))
        axes.set_title(name, fontsize=10)
    for k in range(16):
        draw_letter(panels[2], -np.eye(2), at=(1.1 * (k % 4), 1.1 * (3 - k // 4)), size=0.75,
                    ghost=False)
    panels[2].set(aspect="equal", xlim=(-0.7, 4), ylim=(-0.7, 4))
    panels[2].set_title("32 signs changed", fontsize=10)
    for axes in panels:
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
    return show(figure, "With one sign changed the letter F is mirrored. With two it is turned by "
                        "half a turn. With 32 signs changed, 16 letters are each turned by half a "
                        "turn.",
                caption="Grey: before, blue: after. One sign: a mirrored F. Two signs: half a "
                        "turn, which a rotation can do too. 32 signs: 16 planes with half a turn "
                        "each.")


def times() -> dict[str, tuple[float, float]]:
    """How long a stored step of training takes on a CPU, over the additive one, and its ±."""
    rows = {row["residual"]: row
            for row in results.read(results.FOLDER / "steps_cpu.json")["rows"]}
    return {name: (rows[key]["ratio"], rows[key]["half width"]) for name, key in TIMED.items()}


def costs(vectors: Mapping[str, float]) -> HTML:
    """Bytes moved and time of a step of four residual connections, each over the additive one."""
    figure, axes = subplots(height=2.7)
    y, spent = np.arange(len(TIMED)), times()
    axes.barh(y + 0.2, [vectors[name] / 3 for name in TIMED], 0.36, color=ACCENT,
              label="numbers moved by the operators")
    axes.barh(y - 0.2, [spent[name][0] for name in TIMED], 0.36, color=SECOND, hatch="///",
              edgecolor="white", xerr=[spent[name][1] for name in TIMED], label="time of a step")
    axes.set(yticks=y, yticklabels=TIMED, xlim=(0, 8.5), xlabel="times the additive residual",
             title="What a residual connection costs")
    axes.grid(axis="y", visible=False)
    axes.legend(loc="lower right")
    return show(figure, "Numbers moved and time of a step of DDL, HC, mHC and DDL with four "
                        "channels. mHC lies above HC in both, and DDL with four channels takes the "
                        "longest.",
                caption="Four streams or channels, in a Transformer of width 128. Blue: counted. "
                        "Hatched: stored steps of training on a CPU, and their 95 % intervals.")


def wrong(gap: float, seeds: int) -> float:
    """The chance that means over seeds rank two models wrongly; the gap is in deviations."""
    return NormalDist().cdf(-gap * (seeds / 2) ** 0.5)


def draw_overlap(seeds: int, gap: str) -> Figure:
    """The mean losses of two models over seeds as two bell curves. More seeds make them narrower, and the chance of a wrong ranking smaller."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, axes = subplots(height=3)
    width, far, at = seeds**-0.5, float(gap), np.linspace(-3, 3, 31)
    for mean, color, style, name in ((0, ACCENT, "-", "better"), (far, SECOND, "--", "worse")):
        axes.plot(mean + width * at, np.exp(-at**2 / 2) / width, color=color, linestyle=style,
                  label=name)
    axes.text(-2.9, 1.26 / width, f"wrong winner: {100 * wrong(far, seeds):.1f} %", va="center")
    axes.set(xlim=(-3.1, 6.1), ylim=(0, 1.4 / width), yticks=[],
             xlabel="mean loss, in deviations of one seed",
             title="Two models, and the mean over seeds")
    axes.legend(loc="upper right", ncols=2)
    return figure
