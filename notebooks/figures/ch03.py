"""The figures of chapter 3: a layer that should answer −x, and a task whose floor is known.

A log of a training is (evaluations, 2, inputs): β of each new input, and the cosine of its answer
and −x. `reflect` is x − β (kᵀx) k, with an arrow k of length one for each x.
"""

import numpy as np
from IPython.display import HTML
from matplotlib.figure import Figure
from torch import Tensor

from geolab.show.figures import ACCENT, QUIET, SECOND, look, show, subplots
from geolab.show.letter import F as LETTER
from geolab.show.schematic import arrow
from studies.claims import TABLES
from studies.engine import results

EVERY = 10                                      # steps between two entries of a log
PAPER = TABLES["emhc-table-6-stability"].rows["stability"]   # model -> (loss, spread)
TRANSFORMERS = results.stored("echo")           # small Transformers on a small echo
# how many real eigenvalues below 0 each sublayer of SmolLM2 has, over six windows of text
REAL = {name: np.array(counts) for name, counts in
        results.stored("real_turns")["eigenvalues"]["negative"].items()
        if name in ("least", "mean", "most")}

# points between the corners of the F, so that its edges can bend
POINTS = np.array([0.9, 0.75]) + np.concatenate([
    np.linspace(p, q, 1 + round(np.hypot(*(q - p)) / 0.25), endpoint=False)
    for p, q in zip(LETTER, np.roll(LETTER, -1, axis=0), strict=True)])
ARROWS = {"one for all points": np.tile([np.cos(0.35), -np.sin(0.35)], (len(POINTS), 1)),
          "one for each point": POINTS / np.linalg.norm(POINTS, axis=1, keepdims=True)}


def reflect(x: np.ndarray, k: np.ndarray, beta: float) -> np.ndarray:
    """x − β (kᵀx) k for vectors and unit arrows: (..., d), (..., d) -> (..., d)."""
    return x - beta * (k * x).sum(-1, keepdims=True) * k


def answers() -> HTML:
    """All answers of the layer with the arrow (1, 0) to x = (3, 4), and the target."""
    figure, axes = subplots(height=3.9)
    axes.plot([-5.6, 5.2], [4, 4], color=QUIET, linewidth=1.3)
    axes.plot([-3, -3], [4, -4], ":", color="black", linewidth=1.3)
    arrow(axes, (0, 0), (1, 0), linewidth=1.5)
    axes.text(1.35, 0, "k", style="italic", va="center")
    for beta in (0, 0.5, 1, 1.5, 2, 2.5):
        axes.plot(3 - 3 * beta, 4, "o", color=ACCENT)
        axes.text(3 - 3 * beta, 4.45, f"{beta:g}", color=ACCENT, ha="center", va="bottom")
    axes.text(4.2, 4.45, "= β", color=ACCENT, ha="center", va="bottom")
    axes.text(3, 3.5, "x", style="italic", ha="center", va="top")
    axes.plot(-3, -4, "s", color=SECOND, markersize=8)
    axes.text(-2.6, -4, "the target −x", color=SECOND, va="center")
    axes.text(-2.8, -1, "8", va="center")
    axes.set(xlim=(-5.6, 5.2), ylim=(-5, 5.6), aspect="equal", xlabel="first coordinate",
             ylabel="second coordinate", xticks=[-3, 0, 3], yticks=[-4, 0, 4],
             title="Everything that this layer can answer")
    return show(figure, "All answers lie on a horizontal line through x = (3, 4), one for each "
                        "beta. The target (−3, −4) lies 8 below the line, and the nearest point of "
                        "the line is at beta 2.",
                caption="With k = (1, 0) each gate β (blue) gives one point of the grey line. The "
                        "dotted way from the line to the target is the shortest one, and 8² = 64.")


def draw_letter(beta: float, arrows: str) -> Figure:
    """With one arrow for all points the F is squeezed and then mirrored. With an arrow of its own for each point it shrinks to the origin at beta = 1, and at 2 it is upside down, on the target."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, axes = subplots(height=3.9)
    k = ARROWS[arrows]
    after = reflect(POINTS, k, beta)
    axes.fill(*POINTS.T, facecolor="#dddddd", edgecolor="#aaaaaa", linewidth=1)
    axes.fill(*-POINTS.T, fill=False, edgecolor=SECOND, linestyle="--")
    axes.fill(*after.T, facecolor=ACCENT, edgecolor=ACCENT, alpha=0.8, linewidth=2)
    axes.plot(*after[::8].T, "o", color=ACCENT, markersize=5, zorder=4)   # seen at a single point
    for one in k[::8]:
        arrow(axes, (0, 0), one)
    error = np.square(after + POINTS).sum(1).mean()
    axes.text(2.1, -1.8, f"mean squared error {error:.1f}", ha="right", va="center")
    axes.set(xlim=(-2.2, 2.2), ylim=(-2, 2), aspect="equal", xticks=[-1, 0, 1], yticks=[-1, 0, 1],
             xlabel="first coordinate", ylabel="second coordinate",
             title="The F before and after the layer")
    return figure


def moments(log: Tensor) -> HTML:
    """β and the cosine of 50 new inputs: at the start, after a tenth, after a fifth, at the end."""
    entries = len(log) - 1
    steps = [EVERY * round(share * entries) for share in (0, 0.1, 0.2, 1)]
    figure, panels = subplots(2, 2, height=4.4, sharex=True, sharey=True)
    for axes, step in zip(panels.flat, steps, strict=True):
        beta, cosine = log[step // EVERY]
        axes.axhline(0, color=QUIET, linewidth=1)
        axes.scatter(beta[:50], cosine[:50], s=14, color=ACCENT, linewidths=0, zorder=3)
        axes.plot(2, 1, "*", color=SECOND, markersize=15, zorder=1)
        axes.set(xlim=(0.7, 2.15), ylim=(-1.2, 1.2), xticks=[1, 1.5, 2], yticks=[-1, 0, 1],
                 title=f"after {step} steps" if step else "before training")
    for axes in panels[1]:
        axes.set_xlabel("gate β(x)")
    for axes in panels[:, 0]:
        axes.set_ylabel("cosine with −x")
    return show(figure, "Beta of new inputs across, the cosine of answer and −x upwards, at four "
                        "moments. The dots first move to the right, where beta is 2. Only later "
                        "do they rise to the star at beta 2 and cosine 1.",
                caption="Dots: 50 of 500 new inputs. Star: the task is solved.")


def paths(learned: Tensor, frozen: Tensor) -> HTML:
    """The mean β and the mean cosine over training, with an arrow that learns and a frozen one."""
    figure, axes = subplots(height=3.6)
    axes.axhline(0, color=QUIET, linewidth=1)
    axes.plot(2, 1, "*", color=SECOND, markersize=15, zorder=1)
    for log, color, style, mark in ((learned, ACCENT, "-", "o"), (frozen, "black", "--", "s")):
        beta, cosine = log.mean(-1).T
        axes.plot(beta, cosine, style, color=color, linewidth=1.8)
        last = EVERY * (len(log) - 1)
        for step in [*(step for step in (50, 100, 200) if step < last), last]:
            at = (beta[step // EVERY], cosine[step // EVERY])
            axes.plot(*at, mark, color=color, markersize=5)
            if log is learned:
                axes.annotate(str(step), at, xytext=(-7, 4), textcoords="offset points",
                              ha="right", va="center", fontsize=10, color=color)
    for x, y, said, color in ((1.93, 0.6, "the arrow learns", ACCENT),
                              (1.5, -1.13, "the arrow is frozen", "black"),
                              (1.93, 1.1, "solved", SECOND)):
        axes.text(x, y, said, color=color, ha="right", va="center")
    axes.set(xlim=(0.95, 2.06), ylim=(-1.25, 1.2), xticks=[1, 1.5, 2], yticks=[-1, 0, 1],
             xlabel="mean gate β", ylabel="mean cosine with −x")
    return show(figure, "Mean beta across, mean cosine upwards. The run with a learned arrow goes "
                        "to the right first and then up to the star. The run with a frozen arrow "
                        "goes to the right as well, to beta 2, and stays at the bottom.",
                caption="One run each. Numbers: steps of training. Squares: 50, 100, 200 and the "
                        "last step with a frozen arrow.")


def draw_triangle(angle: float) -> Figure:
    """The loss is least at beta = 2 for each angle between k and x below 90 degrees. A worse arrow lengthens the leg across it, which lifts the parabola and flattens it. The error is the long side of the triangle."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, (plane, axes) = subplots(1, 2, height=3.2, width_ratios=[1.1, 1])
    phi, betas = np.deg2rad(angle), np.linspace(0, 3, 25)
    x, k = np.array([0, 1]), np.array([np.sin(phi), np.cos(phi)])
    output, corner = reflect(x, k, 1), reflect(x, k, 2)
    along, across = np.cos(phi) ** 2, 4 * np.sin(phi) ** 2
    plane.plot(*np.outer(k, (1, 1.25)), "k:", linewidth=1.2)
    for start, end, color in ((corner, output, "#7fb8d8"), (corner, -x, "#eaae7f")):
        plane.plot(*np.transpose([start, end]), color=color, linewidth=5, solid_capstyle="butt")
    plane.plot(*np.transpose([output, -x]), "--", color="black", linewidth=1.6)
    for vector, color in ((x, "#777777"), (-x, SECOND), (k, "black"), (output, ACCENT)):
        arrow(plane, (0, 0), vector, color, linewidth=2)
    plane.text(*(1.38 * k + (0.1, 0)), "k", ha="center", va="center", style="italic")
    aside = 0.16 * np.clip((angle - 75) / 10, -1, 1)  # p comes near from the left
    plane.text(aside, 1.12, "x", color="#555555", ha="center", va="center", style="italic")
    plane.text(0.14, -1.0, "−x", color=SECOND, va="center")
    plane.text(*((corner + output) / 2 + 0.2 * np.array([-k[1], k[0]])), "p", color="#2f7fae",
               ha="center", va="center", style="italic")
    plane.text(*((corner - x) / 2 - 0.24 * k), "2q", color="#b3621d", ha="center", va="center",
               style="italic")
    plane.set(xlim=(-1.3, 1.6), ylim=(-1.45, 1.6), aspect="equal", title="at β = 1")
    plane.axis("off")
    axes.plot(betas, across + (2 - betas) ** 2 * along, "k-")
    for beta in (1, 2):
        axes.plot([beta, beta], [0, across], color="#eaae7f", linewidth=5, solid_capstyle="butt")
    axes.plot([1, 1], [across, across + along], color="#7fb8d8", linewidth=5,
              solid_capstyle="butt")
    axes.plot([1, 2], [across + along, across], "ko", markersize=5)
    axes.set(ylim=(0, 5.2), xticks=[0, 1, 2, 3], xlabel="gate β", ylabel="squared error",
             title=f"at 1: {across:.2f} + {along:.2f}")
    return figure


def random_arrows() -> HTML:
    """The cosine that random arrows reach at β = 2, with 2 and with 64 coordinates."""
    figure, panels = subplots(1, 2, height=3)
    for axes, d, top in zip(panels, (2, 64), (18, 105), strict=True):
        k = np.random.default_rng(0).standard_normal((20_000, d))
        cosine = 2 * k[:, 0] ** 2 / np.square(k).sum(1) - 1        # x is the first axis
        shares, bins = np.histogram(cosine, np.linspace(-1, 1, 21))
        axes.bar(bins[:-1], shares / len(k) * 100, 0.092, align="edge", color="#cfe3f1",
                 edgecolor=ACCENT)
        axes.axvline(cosine.mean(), color=SECOND, linewidth=2)
        mean = f"mean {cosine.mean():.2f}".replace("-0.00", "0").replace("-", "−")
        axes.text(cosine.mean() + 0.16, 0.93 * top, mean, color=SECOND, va="top")
        axes.set(xlim=(-1.06, 1.06), ylim=(0, top), xticks=[-1, 0, 1], xlabel="cosine with −x",
                 title=f"{d} coordinates")
    panels[0].set(ylabel="% of random arrows", yticks=[0, 5, 10, 15])
    panels[1].set(yticks=[0, 50, 100])
    return show(figure, "Two histograms of the cosine of the answer with −x at beta 2. With 2 "
                        "coordinates the bars are highest at both ends, and the mean is 0. With 64 "
                        "coordinates nearly all arrows lie at −1, and the mean is −0.97.",
                caption="The answers of 20,000 random arrows at β = 2. The vertical scales differ. "
                        "Orange: the mean.")


def real_mirrors() -> HTML:
    """How many negative eigenvalues each of SmolLM2's sixty sublayers has."""
    figure, axes = subplots(height=3)
    axes.vlines(range(60), REAL["least"], REAL["most"], color=QUIET, linewidth=1.5)
    for start, said, style in ((0, "attention", dict(color=SECOND, marker="s",
                                                     markerfacecolor="white")),
                               (1, "MLP", dict(color=ACCENT, marker="o"))):
        axes.plot(range(start, 60, 2), REAL["mean"][start::2], linestyle="", markersize=4.5,
                  label=said, **style)
    axes.set(xlabel="sublayer", ylabel="eigenvalues below 0")
    axes.legend(loc="upper right")
    return show(figure, "The number of negative eigenvalues of sixty sublayers. Attentions have "
                        "none, with few exceptions. Most MLPs have up to three on average, and the "
                        "first one has eight.",
                caption="Real eigenvalues of I + J below 0, of 576, at one word with the 28 before "
                        "it. Marks: means over six windows of text. Lines: from the least to the "
                        "most.")


def cloud(shown=(4, 16, 64)) -> HTML:
    """One game of echo in the plane: the vectors so far, their mean, and the last one."""
    key = np.array([np.cos(0.7), np.sin(0.7)])
    heard = key + 0.3 * np.random.default_rng(27).standard_normal((64, 2))
    figure, panels = subplots(1, 3, height=2.6, sharey=True)
    angle = np.linspace(-0.3, 2.1, 40)
    for axes, count in zip(panels, shown, strict=True):
        mean, last = heard[:count].mean(0), heard[count - 1]
        axes.plot(np.cos(angle), np.sin(angle), color=QUIET, linewidth=1)
        axes.plot(*heard[:count].T, "o", color="#aaaaaa", markersize=3)
        axes.plot(*last, "D", color=SECOND, markersize=6)
        axes.plot(*mean, "s", color=ACCENT, markersize=6)
        axes.plot(*key, "*", color="black", markerfacecolor="white", markersize=12)
        for y, at, color in ((-0.42, mean, ACCENT), (-0.72, last, SECOND)):
            axes.text(0.85, y, f"{np.hypot(*(at - key)):.2f} off", color=color, fontsize=10,
                      ha="center", va="center")
        axes.set(xlim=(-0.1, 1.8), ylim=(-0.9, 1.5), aspect="equal", xticks=[0, 1],
                 yticks=[0, 1], title=f"{count} vectors")
    return show(figure, "Noisy vectors lie around a hidden key on the circle of length 1. After 4, "
                        "16 and 64 of them their mean is closer and closer to the key, while the "
                        "last one is sometimes near and sometimes far.",
                caption="One game in the plane, with much noise: σ = 0.3. Star: the key, at length "
                        "1 (grey circle). Grey dots: the vectors so far. Blue square: their mean. "
                        "Orange diamond: the last one.")


def losses(noise: float, floor: float, trivial: dict[str, float]) -> HTML:
    """The published losses on echo, beside its floor and beside guesses without training."""
    unit, edge = noise**2, 21
    once = trivial["copy the input"] / unit
    rows = {"running mean": (trivial["running mean"], 0.0), "copy the input": (once * unit, 0.0),
            **dict(sorted(PAPER.items(), key=lambda item: item[1][0])),
            "always 0": (trivial["zero"], 0.0)}
    figure, axes = subplots(height=3.3)
    for y, (name, (loss, spread)) in enumerate(rows.items()):
        color, loss, spread = ACCENT if name in PAPER else "black", loss / unit, spread / unit
        if loss > edge:                                    # far outside: an arrow at the edge
            arrow(axes, (edge - 1.4, y), (edge, y), color, linewidth=1.5)
            axes.text(edge - 1.6, y, f"at {loss:,.0f}", ha="right", va="center", color=color)
            continue
        axes.errorbar(loss, y, xerr=spread or None, fmt="s" if name in PAPER else "o", color=color,
                      markerfacecolor="white" if name in ("E-MHC-Geo", "DDL") else color)
        digits = 3 if name == "running mean" else 2 if loss < 10 else 1
        axes.annotate(f"{loss:.{digits}f}", (loss + spread, y), xytext=(8, 0),
                      textcoords="offset points", va="center", color=color)
    axes.axvline(floor / unit, color="black", linestyle=":")
    axes.annotate(f"floor {floor / unit:.3f}", (floor / unit, len(rows) - 0.7), xytext=(4, 0),
                  textcoords="offset points", va="center", fontsize=10)
    axes.axvspan(once, edge, color="#f0f0f0", zorder=0)
    axes.plot([2 * once] * 2, [1.5, 7], "--", color="#777777", linewidth=1.2)
    axes.text(2 * once + 0.3, 5, "twice a copy", va="center", color="#555555")
    axes.text(edge - 0.3, 0, "worse than copying", ha="right", va="center", color="#555555")
    axes.set(xlim=(0, edge), ylim=(-0.5, len(rows) - 0.1), xticks=[0, 2, 4, 10, 15, 20],
             xlabel="validation loss / σ²", title="Losses on echo, in units of σ²")
    axes.set_yticks(range(len(rows)), list(rows))
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    return show(figure, "Loss in units of σ²: running mean 1.043, copying 2.00, then the paper's "
                        "models: E-MHC-Geo 4.35, JPmHC 8.19, DDL 15.3 and GPT 16.4, all beyond the "
                        "dashed line at twice a copy. mHC at 8,650 and always answering 0 at "
                        "15,626 lie far outside. The floor is at 1.042.",
                caption="Dots: three guesses without training. Squares: the paper's networks; the "
                        "two open ones read later vectors. Bars: published spread over three "
                        "seeds, at E-MHC-Geo smaller than the square. Grey: worse than copying. "
                        "Arrows: far outside the picture.")


def by_inputs(sizes: tuple[int, ...], new: dict[str, np.ndarray], linear: np.ndarray,
              constant: np.ndarray) -> HTML:
    """The cosine of new inputs against the number of training inputs, run by run."""
    figure, axes = subplots(height=3.6)
    for name, shift in (("additive", 0.94), ("delta", 1.06)):
        values = np.array([new[f"{name}, N = {size}"] for size in sizes])       # (sizes, runs)
        axes.plot(sizes, values.mean(1), **look(name))
        axes.scatter(np.repeat(np.multiply(sizes, shift), values.shape[1]), values.ravel(), s=12,
                     color=look(name)["color"], alpha=0.6)
    reported = TABLES["emhc-table-7"].rows["DDL alignment"]
    axes.plot([int(n) for n in reported], [value for value, _ in reported.values()], "x",
              color="black", markersize=8)
    axes.plot(sizes, linear, color=QUIET)
    axes.plot(sizes, constant, ":", color=QUIET)
    axes.axhline(-1, **{**look("floor"), "marker": None})
    for x, y, text, color in ((62, 0.7, "least squares", "#777777"),
                              (46, 0.2, "additive", "#555555"), (130, -0.55, "delta", ACCENT),
                              (10, 0.06, "training mean", "#777777"),
                              (10, -0.2, "crosses: paper", "black"), (70, -1.14, "copy", "black")):
        axes.text(x, y, text, color=color)
    axes.set(xscale="log", ylim=(-1.2, 1.1), xlabel="training inputs N",
             ylabel="cosine with −x, new inputs")
    axes.set_xticks([10, 25, 50, 100, 200, 500], ["10", "25", "50", "100", "200", "500"])
    axes.minorticks_off()
    return show(figure, "Cosine with −x against the number of training inputs, twelve stored runs "
                        "each. Least squares is exact from 64 inputs on. Additive rises early. "
                        "Delta stays near copying at 50, scatters at 200 from copying to beyond "
                        "additive, and is just above additive at 500. The paper's values lie at or "
                        "above the best of the runs.",
                caption="Dots: the twelve stored runs of each model, additive a little to the left "
                        "and delta to the right. Lines with marks: their means.")


def curves(part: str, name: str) -> tuple[np.ndarray, list[int]]:
    """The losses of each seed at the evaluations, and the steps of these, "short" or "long"."""
    runs = [run for run in TRANSFORMERS[part]["runs"] if run["model"] == name]
    return np.array([run["validation_loss"] for run in runs]), runs[0]["evaluated_at"]


def transformers(copy: float) -> HTML:
    """Three residual connections on the small echo, in runs of 300 and of 3000 steps."""
    figure, axes = subplots(height=3.3)
    for name in TRANSFORMERS["short"]["search"]["best"]:
        style = look("delta-matrix" if name == "delta, v-Map" else name)
        for part in ("short", "long"):
            values, at = curves(part, name)
            axes.fill_between(at, values.min(0) / copy, values.max(0) / copy, color=style["color"],
                              alpha=0.15, linewidth=0)
            axes.plot(at, np.exp(np.log(values).mean(0)) / copy, **{**style, "linewidth": 1.6},
                      markersize=5, label=name if part == "short" else None)
    axes.axhline(1, color="black", linewidth=1.2)
    axes.text(3000, 0.85, "copying the last vector", ha="right", va="top")
    axes.set(xscale="log", yscale="log", ylim=(0.3, None), xlabel="training steps",
             ylabel="loss / loss of copying")
    axes.set_xticks([50, 100, 300, 1000, 3000], ["50", "100", "300", "1000", "3000"])
    axes.minorticks_off()
    axes.legend(fontsize=9)
    return show(figure, "Loss over the loss of copying on logarithmic axes. In runs of 300 steps "
                        "all three curves fall to between ten and twenty, and both delta curves "
                        "end at half of the additive one. After 3000 steps all three lie between "
                        "one and a quarter and two times the loss of copying, the v-Map lowest.",
                caption="Lines: geometric means over eight seeds, for runs of 300 and of 3000 "
                        "steps. Bands: their range. Black: copying.")
