"""The figures of chapter 10, and the stored runs of E-MHC-Geo's benchmark that they show.

A loss is drawn over that of a guess of one line: copy the input, change some of its signs, or a
linear map of the last three inputs.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import geometric_mean

import numpy as np
from IPython.display import HTML
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from torch import Tensor

from geolab.show.diagrams import describe, diagram
from geolab.show.figures import ACCENT, QUIET, SECOND, look, show, subplots
from geolab.show.letter import F as LETTER
from geolab.show.letter import draw_letter
from geolab.show.schematic import BOXED, CENTRE, LINE, OPERATOR, canvas
from notebooks.figures.ch02 import at_angle
from notebooks.figures.ch09 import turn
from studies.claims import TABLES
from studies.engine import results
from studies.engine.live import FOLDER as LIVE

STORED = {"near π, one plane": results.stored("emhc_near_pi_single"),
          "near π, all planes": results.stored("emhc_near_pi_multi")}
GYROSCOPE, ECHO, REAL = (results.stored(name)
                         for name in ("emhc_gyroscope", "emhc_echo", "real_turns"))
REPORTED = {"gyroscope": TABLES["emhc-table-6-gyroscope"].rows["gyroscope"],
            "echo": TABLES["emhc-table-6-stability"].rows["stability"],
            "near π, one plane": TABLES["emhc-table-12"].rows["single"],
            "near π, all planes": TABLES["emhc-table-12"].rows["multi"]}
GUESS = {"gyroscope": "linear, three steps", "echo": "copy the input",
         "near π, one plane": "negate coordinates 0 and 1",
         "near π, all planes": "negate the input"}
PAPER = {"GPT": "additive", "DDL": "delta, leak", "mHC": "mhc", "JPmHC": "jpmhc",
         "E-MHC-Geo": "emhc-hybrid, leak"}
BLOCK = look("emhc-hybrid")
PENALISED = BLOCK | {"marker": "v", "color": "black"}
ARMS = {"additive, 3 blocks": ("GPT,\n3 layers", look("additive")),
        "hybrid, free": ("the block", BLOCK),
        "maps only": ("no G", look("additive") | {"marker": "D", "color": "#8c6d1f"})}
GREY = "#555555"


def guess_of(task: str) -> float:
    """The loss of the guess in the small form of a task near π."""
    return STORED[task]["baselines"][GUESS[task]]


def over_guess(task: str, arm: str, runs: str = "runs") -> np.ndarray:
    """The last losses of an arm's seeds near π, over that of the guess: (seeds,)."""
    stored = STORED[task]
    found = stored["runs"] if runs == "runs" else stored["sensitivity"][runs]
    return np.array([np.ravel(run["validation_loss"])[-1]
                     for run in found if run["model"] == arm]) / guess_of(task)


def of_arm(content: dict, arm: str) -> list[dict]:
    """The stored runs of one arm, one per seed."""
    return [run for run in content["runs"] if run["model"] == arm]


def widest(run: dict) -> float:
    """The largest angle of a run's rotations, in degrees."""
    return max(run["measured"]["widest"])


def block() -> HTML:
    """One sublayer of E-MHC-Geo."""
    return show(diagram("emhc-hybrid"), describe("emhc-hybrid"),
                caption="One sublayer of E-MHC-Geo. First G (the box) acts on the state. Then F, "
                        "attention or MLP, reads the result and adds to it.")


def influences(published: Tensor, causal: Tensor) -> HTML:
    """How much the output at t depends on the input at s, (T, T), in two networks."""
    figure, panels = subplots(1, 2, height=2.9, sharey=True)
    image = None
    for axes, matrix, title in zip(panels, (published, causal),
                                   ("published: a leak", "causal form"), strict=True):
        image = axes.imshow(matrix.clamp_min(1e-4).log10().numpy(), cmap="Greys", vmin=-1.2,
                            vmax=1.3, extent=(0, 8, 8, 0))
        axes.step(range(9), range(9), where="post", color=SECOND, linewidth=1.5)
        axes.set(xlabel="input s", aspect="equal", xticks=[], yticks=[])
        axes.set_title(title, fontsize=10)
        axes.grid(visible=False)
    panels[0].set_ylabel("output t")
    bar = figure.colorbar(image, ax=panels, ticks=[-1, 0, 1], shrink=0.8)
    bar.ax.set_yticklabels(["0.1", "1", "10"])
    return show(
        figure, "Influence of input s on output t. In the published form all cells are dark, "
        "including those to the right of the diagonal, where the input comes after the output. In "
        "the causal form those cells are white.",
        caption="How much the output at t (rows, from the top) depends on the input at s "
                "(columns). Blank: not at all. Right of the orange staircase the input comes "
                "after the output.")


def draw_coin_errors(n: int) -> Figure:
    """The error of the predictor that knows the mean falls towards the end of the sequence and is zero at the last but one position. On average over the sequence it gains less, the longer the sequence is."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, axes = subplots(height=3)
    t = np.arange(1, n + 1)
    with_mean = np.where(t < n, 1 - 1 / np.maximum(n - t, 1), 1.0)
    for values, style, color in ((np.ones(n), "-", GREY), (with_mean, "--", ACCENT),
                                 ((t == n) * 1.0, ":", SECOND)):
        axes.plot(t[:-1], values[:-1], style, color=color, linewidth=2)
    axes.plot(n, 1, "ko", markersize=7)
    axes.text(n + 0.45, 1.07, "not an input", ha="right", va="bottom", fontsize=9)
    for y, text, value, color in ((0.83, "past", 1.0, GREY),
                                  (0.5, "past and mean", with_mean.mean(), ACCENT),
                                  (0.17, "all inputs", 1 / n, SECOND)):
        axes.text(1.04, y, f"{text}:\nmean {value:.2f}", transform=axes.transAxes, va="top",
                  color=color, fontsize=10)
    axes.set(xlim=(0.5, n + 0.5), ylim=(-0.08, 1.35), xlabel="position", ylabel="squared error",
             yticks=[0, 0.5, 1], xticks=sorted({1, n // 2, n}), title="Guessing the next coin")
    return figure


STAYS, FLIPS = {0: "0 to 3"}, {1.0: "1, 3", 2.0: "0, 2"}
TURNS = {t: str(t) for t in range(4)}
DRAWN = {"gyroscope": ((0.9, TURNS), (0, STAYS)), "echo": ((0.012, STAYS), (-0.012, STAYS)),
         "near π,\none plane": ((3.10, FLIPS), (0, STAYS)),
         "near π,\nall planes": ((3.14, FLIPS), (3.14, FLIPS))}


def _arrows(axes: Axes, start: float, step: float, labels: Mapping[float, str]) -> None:
    """Four unit vectors of a plane, each turned by `step` radians from the one before."""
    at = start + step * np.arange(4)
    axes.quiver(0 * at, 0 * at, np.cos(at), np.sin(at), color=("#bbbbbb", "#888888", GREY, "black"),
                angles="xy", scale_units="xy", scale=1, width=0.022, headlength=4, headaxislength=4)
    for t, said in labels.items():
        x, y = at_angle(np.rad2deg(start + t * step))
        place = (1.4 * x, 1.4 * y) if len(said) == 1 else (x, y + np.copysign(0.45, y))
        axes.text(*place, said, fontsize=9, **CENTRE)
    axes.set(xlim=(-1.9, 1.9), ylim=(-1.9, 1.9), aspect="equal", xticks=[], yticks=[])
    axes.grid(visible=False)


def tasks() -> HTML:
    """Four vectors of one sequence of each task, in two of its planes."""
    figure, grid = subplots(2, 4, height=3.1)
    for column, (task, planes) in zip(grid.T, DRAWN.items(), strict=True):
        for axes, start, (step, labels) in zip(column, (0.5, 1.1), planes, strict=True):
            _arrows(axes, start, step, labels)
        column[0].set_title(task, fontsize=10)
    for axes, said in zip(grid[:, 0], ("coordinates\n0 and 1", "coordinates\n2 and 3"),
                          strict=True):
        axes.set_ylabel(said, fontsize=9)
    return show(
        figure, "Four columns, one per task, and two planes. In the gyroscope four arrows turn "
        "step by step in the first plane and stay in the second. In echo all four lie on one "
        "another in both planes. Near pi in one plane they flip to and fro in the first plane "
        "only, and in all planes in both.",
        caption="Vectors 0 to 3 of one sequence in each task, light to dark, in two of its planes.")


def draw_guess(theta: float) -> Figure:
    """Left, the turned letter and a dashed one upright, the copy. Middle, the turned letter and a dashed one upside down. Right, the squared error of both guesses: that of copying grows with the angle from 0 to 4, that of negation falls from 4 to 0, and they cross at a right angle."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, (*panels, right) = subplots(1, 3, height=2.3, width_ratios=(1, 1, 1.5))
    cosine, line = np.cos(np.deg2rad(theta)), np.linspace(0, 180, 13)
    for axes, name, sign, color, style in zip(panels, ("copy", "negate"), (1, -1), (GREY, SECOND),
                                              ("-", "--"), strict=True):
        draw_letter(axes, turn(theta), size=1.3, ghost=False)
        axes.fill(*(sign * 1.3 * LETTER).T, fill=False, linestyle="--", edgecolor=color,
                  linewidth=1.5)
        axes.set(xlim=(-0.95, 0.95), ylim=(-0.95, 0.95), aspect="equal", xticks=[], yticks=[])
        axes.set_title(f"{name}: {2 - 2 * sign * cosine:.1f}", color=color)
        right.plot(line, 2 - 2 * sign * np.cos(np.deg2rad(line)), style, color=color)
        right.plot(theta, 2 - 2 * sign * cosine, "o", color=color, markersize=7)
    right.set(xlabel="turn θ, in degrees", title="squared error", xlim=(-8, 188), ylim=(-0.3, 4.4),
              xticks=[0, 90, 180], yticks=[0, 2, 4])
    return figure


def _dot(axes: Axes, x: float, y: float, style: dict) -> None:
    axes.plot(x, y, **style | {"linestyle": "", "markersize": 7})


def guesses(guess: Mapping[str, float], floor: Mapping[str, float]) -> HTML:
    """The paper's losses, over that of a guess of one line; both by task."""
    figure, axes = subplots(height=4.3)
    for y, (task, losses) in enumerate(REPORTED.items()):
        for k, (name, (loss, _)) in enumerate(losses.items()):
            _dot(axes, loss / guess[task], y + 0.1 * (k - 2), look(PAPER[name]))
            if y == 0:
                axes.text(800, -0.7 + 0.21 * k, name, fontsize=10, va="center")
                _dot(axes, 400, -0.7 + 0.21 * k, look(PAPER[name]))
        if floor[task]:
            axes.plot(2 * [floor[task] / guess[task]], [y - 0.3, y + 0.3], ":", color="black")
    axes.text(4e-3, 0.45, "best possible", ha="left", va="center", fontsize=9)
    axes.axvline(1, color="black", linewidth=1)
    axes.axvspan(1, 1e5, color="#f3f3f3", zorder=0)
    axes.set(xscale="log", xlim=(3e-3, 1e5), ylim=(3.5, -0.95),
             xlabel="loss / loss of a simple guess", title="The paper's losses, and a simple guess")
    short = {"near π, one plane": "negate two coordinates"}
    axes.set_yticks(range(4), [f"{task}\n({short.get(task, GUESS[task])})" for task in REPORTED],
                    fontsize=9)
    axes.grid(axis="y", visible=False)
    return show(
        figure, "The paper's losses over those of a fixed guess. On the gyroscope all five models "
        "are better than the three-step guess, JPmHC by a factor of 24. On echo and near pi all "
        "five are worse, by factors from 1.6 to 40,000. The floors of gyroscope and echo are "
        "dotted.",
        caption="One mark per model of the paper; in the grey region it is worse than the guess "
                "named at the left. Dotted: the best possible loss (near π it is 0). Hollow marks: "
                "models whose operator reads the mean of all tokens.")


KINDS = {"γ from ½, penalty": ("from ½, with the penalty", "-", SECOND),
         "γ from ½, no penalty": ("from ½, without it", "--", "#777777"),
         "γ from 0.95, penalty": ("from 0.95, with the penalty", ":", ACCENT)}


def _joined(at: Iterable, lines: Iterable[Iterable]) -> tuple[np.ndarray, np.ndarray]:
    """Several lines as one, with gaps between them."""
    many = [[*line, np.nan] for line in lines]
    return np.tile([*at, np.nan], len(many)), np.ravel(many)


def stall(gates: Mapping[str, np.ndarray]) -> HTML:
    """Twelve stored runs of three kinds, and the gates of this run, kind -> (steps, sublayers)."""
    curves = json.loads((LIVE / "10.json").read_text())["cells"]["echo"]
    figure, (above, below) = subplots(2, height=4.9, sharex=True, height_ratios=[1.35, 1])
    for arm, (said, style, color) in KINDS.items():
        above.plot(*_joined(curves[arm]["at"], curves[arm]["runs"]), style, color=color,
                   linewidth=1.2, label=said)
        steps = range(1, len(gates[arm]) + 1, 5)
        below.plot(*_joined(steps, gates[arm].T[:, ::5]), style, color=color, linewidth=1.5)
    above.axhline(1 / 16, color="black", linewidth=1)
    above.text(1, 0.074, "predict zero", va="bottom", fontsize=10)
    above.set(yscale="log", ylim=(3e-4, 0.17), ylabel="loss")
    above.set_yticks([1e-3, 1e-2, 1e-1], ["0.001", "0.01", "0.1"])
    above.minorticks_off()
    below.set(xlim=(0, 102), ylim=(-0.06, 1.06), xlabel="training step", ylabel="gates γ",
              yticks=[0, 0.5, 1])
    figure.legend(loc="outside upper center", ncols=2, fontsize=9)
    return show(
        figure, "Above, the losses of twelve runs each of three kinds of networks. All fall at "
        "first. From one half with the penalty they climb back to the loss of predicting zero "
        "between steps 40 and 60 and stay there, and the other two kinds go on falling. Below, the "
        "gates: in the stored runs those from one half part if there is a penalty, and stay near "
        "one half if there is none.",
        caption="Tiny networks on echo. Above: the loss of the task alone, twelve stored runs of "
                "each kind. Below: the gates of four sublayers, in this run of the page.")


def changes() -> HTML:
    """One sublayer of GPT, of the block, and of the block without G."""
    figure, axes = canvas(2.6)
    places = {"G": 3.0, "P₁": 5.0, "F": 6.4, "P₂": 7.8}
    for y, name, parts in ((3.85, "GPT", ("F",)), (2.15, "the block", ("G", "P₁", "F", "P₂")),
                           (0.45, "no G", ("P₁", "F", "P₂"))):
        axes.text(0.2, y, name, fontsize=11, va="center")
        axes.plot([2.1, 9.6], [y, y], zorder=1, **LINE)
        axes.plot([4.1, 4.1, 8.7, 8.7], [y, y + 0.85, y + 0.85, y], zorder=1, **LINE)
        axes.plot([9.6], [y], "k>", markersize=6)
        axes.text(8.7, y, "+", **BOXED)
        for part in parts:
            axes.text(places[part], y + 0.85 * (part != "G"), part,
                      **(OPERATOR if part == "G" else BOXED))
    return show(
        figure, "Three rows: a line with a branch that comes back at a plus. GPT has F on the "
        "branch. The block has G on the line, and P1, F and P2 on the branch. No G has P1, F and "
        "P2 on the branch.",
        caption="One sublayer of each network. The line is the state, and the branch is added to "
                "it.")


Row = tuple[str, dict, Callable[[str], np.ndarray]]


def draw_rows(panels: Iterable[tuple[Axes, str]], rows: Sequence[Row], xlim: tuple[float, float],
              ticks: list[float], zero: bool = True) -> None:
    """Losses over the guess: small marks for seeds, and a large one for their geometric mean."""
    for axes, task in panels:
        for y, (_, style, losses) in enumerate(rows):
            values = losses(task)
            if len(values) > 1:      # round caps of lines that are hardly longer than a point
                spread = y + np.linspace(-0.28, 0.28, len(values))
                dots = np.array([(x, x, np.nan, at, at + 0.02, np.nan)
                                 for x, at in zip(values, spread, strict=True)])
                axes.plot(dots[:, :3].ravel(), dots[:, 3:].ravel(), linewidth=4,
                          color=tuple(np.add(to_rgb(style["color"]), 1) / 2),
                          solid_capstyle="round")
            axes.plot(geometric_mean(values), y, **style | {"linestyle": "", "markersize": 9})
        lines = {"guess": (1, "black"),
                 "zero": (STORED[task]["baselines"]["zero"] / guess_of(task), QUIET)}
        for said in ("guess", "zero")[:1 + zero]:
            at, color = lines[said]
            axes.axvline(at, color=color, linewidth=1)
            axes.text(at, -0.65, said, ha="center", va="bottom", fontsize=9, color=GREY)
        axes.set(xscale="log", xlim=xlim, ylim=(len(rows) - 0.5, -0.6), xlabel="loss / guess",
                 xticks=ticks)
        axes.set_yticks(range(len(rows)), [said for said, *_ in rows], fontsize=10)
        axes.tick_params(axis="y", length=0, pad=7)  # a tick would read as a letter of "2 I"
        axes.minorticks_off()
        axes.grid(visible=False)


def control() -> HTML:
    """GPT, the block and the block without G near π."""
    rows: list[Row] = [(said, style, lambda task, arm=arm: over_guess(task, arm))
                       for arm, (said, style) in ARMS.items()]
    figure, panels = subplots(1, 2, height=2.6, sharey=True)
    draw_rows(zip(panels, STORED, strict=True), rows, (0.04, 300), [0.1, 1, 10, 100], zero=False)
    for axes, task in zip(panels, STORED, strict=True):
        axes.set_title(task, fontsize=10, pad=18)
    return show(
        figure, "Two panels, one per task, with losses over that of the fixed guess. In both of "
        "them GPT lies furthest right. The block lies about ten times further left, and no G a "
        "little left of the block.",
        caption="Small networks after 300 steps: sixteen seeds (small marks) and their geometric "
                "mean (large). Upright line: the guess of one line.")


def protractor() -> HTML:
    """How far rotations turn near π in all planes, and where the gates end."""
    figure, (left, right) = subplots(1, 2, height=3.2, sharey=True)
    for arm, said, style in (("hybrid, free", "without the penalty", BLOCK),
                             ("hybrid", "with it", PENALISED)):
        runs = of_arm(STORED["near π, all planes"], arm)
        losses = over_guess("near π, all planes", arm)
        alone = style | {"linestyle": "", "markersize": 6, "markeredgecolor": "white",
                         "markeredgewidth": 0.4}
        left.plot([widest(run) for run in runs], losses, **alone, label=said)
        ends = [(gate, loss) for run, loss in zip(runs, losses, strict=True)
                for gate in np.unique(np.round(run["measured"]["gate"], 1))]
        right.plot(*np.transpose(ends), **alone)
    for axes, at, said, x, side in ((left, 180, "what the\ndata do", 172, "right"),
                                    (right, 0.5, "the start", 0.53, "left")):
        axes.axvline(at, color=GREY, linestyle=":", linewidth=1.3)
        axes.text(x, 3.2, said, ha=side, va="center", fontsize=9, color=GREY)
    for axes, x in ((left, 9), (right, 0.55)):
        axes.text(x, 14, "16 seeds", va="center", fontsize=9, color=BLOCK["color"])
    left.set(yscale="log", ylim=(1, 1e6), xlim=(-9, 189), xticks=[0, 90, 180],
             xlabel="widest turn, in degrees", ylabel="loss / guess")
    right.set(xlim=(-0.07, 1.07), xlabel="gates γ")
    right.set_xticks([0, 0.5, 1], ["0", "½", "1"])
    left.minorticks_off()
    figure.legend(loc="outside upper center", ncols=2, fontsize=10)
    return show(
        figure, "The loss against the widest angle of the rotations and against the gates, near pi "
        "in all planes. Without the penalty all marks lie together low, at angles near zero and at "
        "gates of one half. With it the angles are spread from about 20 to 180 degrees, the gates "
        "stand at zero and one, and the losses are higher.",
        caption="The causal block near π, all planes, after training. Left, one mark per seed: how "
                "far the widest of its rotations turns, and its loss. Right: the gates of the same "
                "seeds, rounded to tenths.")


def gyroscope() -> HTML:
    """The loss of three networks on the gyroscope, and how far the block turns."""
    linear = GYROSCOPE["baselines"]["AR(3)"]
    shown = {"hybrid, free": ("the block", 62, 0.74), "maps only": ("no G", -10, 0.74),
             "additive": ("GPT,\n5 layers", -10, 0.2)}
    figure, axes = subplots(height=3)
    for arm, (said, x, y) in shown.items():
        runs = of_arm(GYROSCOPE, arm)
        style = ARMS[arm][1] if arm in ARMS else look(arm)
        angles = ([widest(run) for run in runs] if arm == "hybrid, free"
                  else np.linspace(-15, -5, len(runs)))
        axes.plot(angles, [run["validation_loss"][-1] / linear for run in runs],
                  **style | {"linestyle": "", "markersize": 6})
        axes.text(x, y, said, fontsize=10, color=style["color"], **CENTRE)
    axes.axvspan(-19, -1, color="#f3f3f3", zorder=0)
    axes.axhline(1, color="black", linewidth=1)
    axes.axhline(GYROSCOPE["floor"] / linear, color="black", linestyle=":", linewidth=1.3)
    axes.text(94, 1.02, "linear guess", ha="right", va="bottom", fontsize=9)
    axes.text(94, 0.07, "best possible", ha="right", va="bottom", fontsize=9)
    axes.set(xlim=(-19, 95), ylim=(0, 1.15), yticks=[0, 0.5, 1], xlabel="widest turn, in degrees",
             ylabel="loss / linear guess")
    axes.set_xticks([-10, 30, 60, 90], ["nothing\nturns", "30", "60", "90"])
    axes.grid(axis="x", visible=False)
    return show(
        figure, "Loss over that of a linear guess, against the widest turn, on the gyroscope. The "
        "eight seeds of the block lie at 41 to 89 degrees and at about 0.6. The eight of no G, "
        "where nothing turns, lie at about 0.6 as well. GPT with five layers lies lower, at about "
        "0.4.",
        caption="The gyroscope, small networks after 3000 steps, one mark per seed. In the grey "
                "band nothing turns, and the marks are spread to be seen.")


def kept() -> dict[str, np.ndarray]:
    """The percentages of lengths that SmolLM2's sublayers keep: mean, least and most, (60,)."""
    found = REAL["eigenvalues"]["kept lengths"]
    return {name: 100 * np.array(found[name]) for name in ("mean", "least", "most")}


def real_kept() -> HTML:
    """The share of singular values of I + J near 1, in SmolLM2."""
    shares = kept()
    figure, axes = subplots(height=3)
    axes.vlines(range(60), shares["least"], shares["most"], color=QUIET, linewidth=1.5)
    for start, said, style in (
            (0, "attention", dict(color=SECOND, marker="s", markerfacecolor="white")),
            (1, "MLP", dict(color=ACCENT, marker="o"))):
        axes.plot(range(start, 60, 2), shares["mean"][start::2], linestyle="", markersize=4.5,
                  label=said, **style)
    axes.set(xlabel="sublayer", ylabel="% of lengths kept", ylim=(0, 104), yticks=[0, 50, 100])
    axes.legend(loc="center right", bbox_to_anchor=(1, 0.56))
    return show(
        figure, "The share of singular values between 0.9 and 1.1, for sixty sublayers. Attentions "
        "keep most lengths, between 70 and 95 per cent. MLPs keep between 20 and 35 per cent.",
        caption="Singular values of I + J between 0.9 and 1.1, of 576, at one word with the 28 "
                "before it. Marks: means over six windows. Lines: from the least to the most.")
