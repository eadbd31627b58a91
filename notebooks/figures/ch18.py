"""The figures and tables of chapter 18.

A layer multiplies a state by a matrix, its operator. On the map the operator stands at its largest
and its smallest singular value, and the letter F shows what it does.
"""

from collections.abc import Collection, Mapping
from itertools import accumulate

import numpy as np
import torch
from IPython.display import HTML
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from geolab.show.figures import ACCENT, QUIET, SECOND, show, subplots, table
from geolab.show.letter import draw_depth, draw_letter
from studies.engine import results
from studies.engine.live import stored_runs

AVERAGE = np.array([[0.75, 0.25], [0.25, 0.75]])
TURN = np.array([[0.6, -0.8], [0.8, 0.6]])
LAYERS = {"averages": AVERAGE, "erases": np.diag([0, 1]), "turns": TURN,
          "free": np.array([[1.2, -0.3], [0.1, 1.15]])}
LEAST = (11 / 27) ** 0.5                    # the least singular value of a near turn
EXAMPLES = {                                # one matrix of each kind, as the chapter's table has it
    "keeps": np.eye(2), "turns": TURN, "detours": np.array([[0, -1], [1, 0]]),
    "erases": LAYERS["erases"], "averages": AVERAGE,
    "blends": np.array([[0.8, -0.4], [0.4, -0.2]]),
    "near turn": np.array([[0.5, -0.75], [0.75, 0.5]]), "free": LAYERS["free"],
    "scales": np.diag([1.3, 0.7])}
WORDS = {                                   # which kind each residual of the library is
    "additive": "keeps", "emhc-cayley": "turns", "emhc-exact": "turns", "emhc-geodesic": "detours",
    "delta": "erases", "delta-matrix": "erases", "mhc": "averages", "emhc-hybrid": "blends",
    "emhc-stream": "blends", "jpmhc": "near turn", "hyper": "free", "mgt": "scales"}
KINDS = {word: next(name for name, said in WORDS.items() if said == word) for word in EXAMPLES}
FORGETS, GROWS, BOTH = "#eeeeee", "#f6e3d7", "#cfe3f1"
NO_GROUND = dict(facecolor="white", edgecolor="none", pad=1.5)


def place(matrix: np.ndarray) -> tuple[float, float]:
    """The largest and the smallest singular value of a matrix."""
    values = np.linalg.svd(matrix)[1]
    return values[0], values[-1]


def letters() -> HTML:
    """The letter F after each of four equal layers, for four kinds of layer."""
    figure, panels = subplots(4, height=4.4)
    for axes, (name, by) in zip(panels, LAYERS.items(), strict=True):
        draw_depth(axes, [by] * 4, step=2.3)
        axes.set(xlim=(-0.8, 10.3), ylim=(-1.05, 1.05))
        axes.set_ylabel(name, rotation=0, ha="right", va="center")
    panels[-1].set_xticks([2.3 * k for k in range(5)], ["0", "1", "2", "3", "4"])
    panels[-1].set_xlabel("layers")
    return show(figure, "A letter after 0 to 4 layers of four kinds. Averaging squeezes it onto "
                        "the diagonal. Erasing flattens it at once onto the vertical axis. Turning "
                        "keeps its shape. A free matrix turns it and makes it larger.",
                caption="The letter before the first layer (grey) and after each of four (blue).")


def draw_map(axes: Axes, right: float = 2.1, top: float = 1.8) -> None:
    """Draw the map: the places that forget, grow and do both, the line and the dot."""
    axes.fill([0, 1, 1, 0], [0, 0, 1, 0], color=FORGETS)
    axes.fill([1, right, right, 1], [0, 0, 1, 1], color=BOTH)
    axes.fill([1, right, right, 1], [1, 1, right, 1], color=GROWS)
    axes.plot([0, right], [0, right], color=QUIET, linewidth=1)
    axes.plot([1, 1], [0, 1], color=SECOND, linewidth=4, solid_capstyle="round")
    axes.plot(1, 1, "o", color="black", markersize=9)
    axes.set(xlim=(0, right), ylim=(0, top), xlabel="largest singular value", xticks=[0, 1, 2],
             ylabel="smallest singular value", yticks=[0, 1])
    axes.grid(visible=False)


def the_map() -> HTML:
    """The map with one letter in each of its three parts."""
    figure, axes = subplots(height=3.6)
    draw_map(axes)
    angle = np.deg2rad(20)
    turned = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    for at, by, said, below in (((0.7, 0.36), np.eye(2), "forgets", 0.17),
                                ((1.75, 1.4), turned, "grows", 0.27),
                                ((1.6, 0.42), np.eye(2), "forgets and grows", 0.2)):
        draw_letter(axes, by @ np.diag(at), at=at, size=0.26, ghost=False)
        axes.text(at[0], at[1] - below, said, fontsize=10, ha="center", va="center")
    pointer = dict(arrowprops=dict(arrowstyle="-", color="black", linewidth=1), fontsize=10)
    axes.annotate("the dot:\nkeeps all lengths", (1, 1), xytext=(0.08, 0.95), **pointer)
    axes.annotate("the line", (1, 0.75), xytext=(1.15, 0.72), **pointer)
    return show(figure, "The plane of the largest and the smallest singular value. Up to 1 on "
                        "the horizontal axis an operator forgets. Above 1 on the vertical axis it "
                        "grows. In the lower right it does both. The line leads from the dot, "
                        "where both are 1, straight down to 0.",
                caption="The map. Each letter stands at the place of the layer that made it. On "
                        "the line the largest value is exactly 1. The white corner is empty.")


def _moved(by: np.ndarray) -> tuple[Figure, Axes, Axes]:
    """The letter and the unit circle before and after a map, and the map with its place."""
    figure, (left, right) = subplots(1, 2, height=2.8, width_ratios=[1, 1.2])
    angles = np.linspace(0, 2 * np.pi, 41)
    circle = np.stack([np.cos(angles), np.sin(angles)], 1)
    left.plot(*circle.T, color=QUIET, linewidth=1)
    left.plot(*(circle @ by.T).T, color="black", linewidth=1.3)
    draw_letter(left, by, size=1.1)
    left.set(aspect="equal", xlim=(-1.9, 1.9), ylim=(-1.9, 1.9), xticks=[0], yticks=[0])
    draw_map(right)
    right.plot(*place(by), "D", color=ACCENT, markersize=9, zorder=5, clip_on=False)
    right.set_title("at ({:.2f}, {:.2f})".format(*place(by)))
    return figure, left, right


def draw_share(share: float) -> Figure:
    """From the share 1 to one half the letter shrinks to a line, and the layer goes straight down the line of the map, from the dot to 0. From one half to 0 the letter grows again, as its mirror image, and the layer goes back up to the dot."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, left, _ = _moved(np.array([[share, 1 - share], [1 - share, share]]))
    left.set_title(f"keeps {100 * share:.0f} %")
    return figure


def draw_shear(push: float) -> Figure:
    """The shear keeps both eigenvalues at 1. Yet the unit circle becomes a longer and thinner ellipse, and on the map the shear moves to the right and down, away from the dot."""  # noqa: E501  (the docstring is the figure's alt text)
    by = np.array([[1, push], [0, 1]])
    figure, left, right = _moved(by)
    left.set_title("eigenvalues 1, 1")
    way = np.array([place([[1, s], [0, 1]]) for s in np.linspace(0, push, 13)])
    right.plot(*way.T, color="black", linewidth=1.3, linestyle=":")
    return figure


def _numbers(pair: np.ndarray) -> str:
    """A pair as text, with two decimals where it is small."""
    rounded = np.round(pair, 2 if np.abs(pair).max() < 100 else 0) + 0.0
    return "(" + ", ".join(f"{x:,g}" for x in rounded).replace("-", "−") + ")"


def moved_four() -> HTML:
    """What six layers make of (4, 0), if the third one also writes a 4 in the second place."""
    first, second = np.eye(2)
    directions = np.random.default_rng(45).normal(size=(6, 2))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    stacks = {"keeps": [np.eye(2)] * 6, "turns (read after turning back)": [TURN] * 6,
              "averages": [AVERAGE] * 6, "grows by a half": [1.5 * np.eye(2)] * 6,
              "erases the first number, in layer 3 only":
                  [np.eye(2) - (k == 2) * np.outer(first, first) for k in range(6)],
              "erases some direction in every layer":
                  [np.eye(2) - np.outer(k, k) for k in directions]}
    rows = []
    for name, layers in stacks.items():
        state, turned = 4 * first, np.eye(2)
        for k, layer in enumerate(layers):
            if name.startswith("turns"):
                turned = layer @ turned
            state = layer @ state + (k == 2) * 4 * turned @ second
        rows.append((name, _numbers(turned.T @ state)))
    return table(("each layer", "after six layers"), rows)


def papers() -> HTML:
    """The map with a letter for each of the nine kinds."""
    at = {"keeps": (0.15, 1.62), "turns": (0.5, 1.62), "detours": (0.88, 1.62),
          "near turn": (0.25, 0.98), "averages": (2.3, 0.7), "erases": (2.3, 0.4),
          "blends": (2.3, 0.12)}
    starts = {"turns": (0.6, 1.32), "near turn": (0.4, 0.97), "averages": (2.18, 0.69),
              "erases": (2.24, 0.37), "blends": (2.18, 0.1)}
    figure, axes = subplots(height=3.5)
    draw_map(axes)
    axes.fill([LEAST, 2.1, 2.1], [LEAST, LEAST, 2.1], facecolor="none", edgecolor="#bbbbbb",
              hatch="//", linewidth=0)
    for name, by in EXAMPLES.items():
        x, y = at.get(name, place(by))
        draw_letter(axes, by, at=(x, y), size=0.22, ghost=False)
        if name in at and x < 1:
            axes.text(x, y - 0.2, name, fontsize=10, ha="center", va="center")
        else:
            axes.text(x + 0.18, y, name, fontsize=10, va="center",
                      bbox=None if name in at else NO_GROUND)
    for name, start in starts.items():
        end = place(EXAMPLES[name])
        axes.plot(*zip(start, end, strict=True), color="black", linewidth=0.8)
        axes.plot(*end, "o", color="black", markersize=4, clip_on=False)
    for where, said in (((0.72, 0.3), "forgets"), ((1.78, 1.5), "grows"),
                        ((1.52, 0.37), "forgets and grows")):
        axes.text(*where, said, fontsize=10, ha="center", style="italic", color="#555555",
                  va="center")
    axes.set(aspect="equal", xlim=(0, 2.85), ylim=(0, 1.8))
    axes.spines["bottom"].set_bounds(0, 2.1)
    return show(figure, "The map with nine letters, each after the matrix that the table gives "
                        "for its kind. Keeps, turns and detours belong to the dot. Erases, "
                        "averages and blends belong to the line below it. Near turn stands in the "
                        "hatched area, where the smallest value is above 0.638. Free and scales "
                        "stand elsewhere.",
                caption="The nine matrices of the tables, each at its place or with a line to it. "
                        "Near turns stay in the hatched area. All areas but the grey one go on to "
                        "the right.")


def near_turn() -> HTML:
    """The length that JPmHC's iteration makes of a vector of length 1."""
    figure, axes = subplots(height=2.8)
    z = np.linspace(0, 3, 61)
    axes.plot(z, np.sqrt(1 - z**4 / 4 + z**6 / 16), color=ACCENT)
    axes.axhline(1, color=QUIET, linewidth=1)
    dip = (8 / 3) ** 0.5, LEAST
    axes.plot(*dip, "o", color=SECOND)
    axes.annotate(f"least: {LEAST:.3f}", dip, xytext=(-20, -16), textcoords="offset points",
                  color=SECOND)
    axes.plot(2, 1, "o", color="black", markersize=5)
    axes.set(xlabel="z, how far the generator turns", ylabel="length after", xlim=(0, 3),
             ylim=(0, 3), xticks=[0, 1, 2, 3], yticks=[0, 1, 2, 3])
    return show(figure, "The length of a vector of length 1 after the step. It starts at 1, dips "
                        "to 0.638 at z about 1.63, is 1 again at 2, and grows without a bound.",
                caption="What JPmHC's iteration does to a vector of length 1. Thin: a rotation.")


def depths(stacks: Mapping[str, Tensor]) -> HTML:
    """The singular values of the product of the first layers, for nine stacks of 64 layers."""
    figure, panels = subplots(3, 3, height=4.9, sharex=True, sharey=True)
    edge, steps = 3.0, np.array([1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64])
    for axes, (word, name) in zip(panels.flat, KINDS.items(), strict=True):
        products = accumulate(stacks[name], lambda before, layer: layer @ before)
        values = torch.linalg.svdvals(torch.stack(list(products))[steps - 1])
        logs = values.clamp(min=1e-30).log10().median(1).values.numpy().clip(-edge, edge)
        axes.fill_between(steps, logs[:, -1], logs[:, 0], color="#9cc5e3", linewidth=0)
        for line in (logs[:, 0], logs[:, -1]):
            axes.plot(steps, line, color=ACCENT, linewidth=1.6)
        axes.set(xscale="log", xlim=(1, 64), ylim=(-edge - 0.1, edge + 0.1), title=word)
        axes.set_xticks([1, 8, 64], ["1", "8", "64"])
        axes.set_yticks([-3, 0, 3], ["0.001", "1", "1000"])
        axes.minorticks_off()
    panels[2, 1].set_xlabel("layers")
    panels[1, 0].set_ylabel("what is left of a length")
    return show(figure, "Nine panels, each with the range of singular values of a product of 1 to "
                        "64 layers. Keeps, turns and detours are a flat line at 1. Averages stays "
                        "between 1 and a fifth. Erases, blends and near turn fall. Free opens to "
                        "both sides and leaves the panel. Scales opens to both sides at first.",
                caption="The largest and the smallest singular value of the product of the first "
                        "layers, medians over ten tokens. A line at the edge lies beyond it.")


def trained_map() -> HTML:
    """Where twelve short trainings take the operators of MGT."""
    runs = stored_runs("18/trained")
    figure, axes = subplots(height=3.4)
    draw_map(axes)
    axes.set(xlim=(0.75, 1.35), ylim=(0.8, 1.25), xticks=[0.8, 1, 1.2], yticks=[0.8, 1, 1.2])
    for low, high in zip(runs["mgt, least σ"], runs["mgt, largest σ"], strict=True):
        axes.fill([low, high, high], [low, low, high], facecolor=ACCENT + "14", edgecolor=ACCENT,
                  linewidth=1)
    for at, said in (((0.93, 0.83), "forgets"), ((1.28, 1.04), "grows"),
                     ((1.17, 0.84), "forgets and grows")):
        axes.text(*at, said, fontsize=10, ha="center", va="center")
    axes.annotate("the dot: start", (1, 1), xytext=(0.78, 1.08), fontsize=10,
                  arrowprops=dict(arrowstyle="-", color="black", linewidth=1))
    return show(figure, "The map near the dot. Twelve small triangles, one for each run, lie "
                        "close together in the part that grows, up and to the right of the dot.",
                caption="The middle of the map. Each triangle is one stored run of MGT: its "
                        "corners are the smallest and the largest singular value of all its "
                        "operators, so all of them stand inside it.")


def real() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The largest and the smallest singular values of the steps of SmolLM2-135M, by sublayer."""
    stored = results.stored("real_turns")["eigenvalues"]
    longest, shortest = (np.array(stored[name]["mean"]) for name in ("longest", "shortest"))
    return {"attention": (longest[0::2], shortest[0::2]), "MLP": (longest[1::2], shortest[1::2])}


def real_map() -> HTML:
    """The sixty steps of SmolLM2-135M on the map, with logarithmic axes."""
    figure, axes = subplots(height=3.2)
    axes.axhspan(0.001, 1, color=BOTH, linewidth=0)
    styles = (dict(color=SECOND, marker="s", markerfacecolor="white"),
              dict(color=ACCENT, marker="o"))
    for (said, values), style in zip(real().items(), styles, strict=True):
        axes.plot(*values, linestyle="", markersize=5, label=said, **style)
    axes.plot(1, 1, "o", color="black", markersize=9, clip_on=False)
    axes.set(xscale="log", yscale="log", xlim=(0.95, 80), ylim=(0.001, 1.6),
             xlabel="largest singular value", ylabel="smallest singular value")
    axes.set_xticks([1, 2, 5, 10, 50], ["1", "2", "5", "10", "50"])
    axes.set_yticks([0.001, 0.01, 0.1, 1], ["0.001", "0.01", "0.1", "1"])
    axes.minorticks_off()
    axes.legend(loc="center right")
    return show(figure, "The map on logarithmic axes with sixty marks. All lie in the part that "
                        "forgets and grows. Attentions lie near the top, with smallest singular "
                        "values around 0.2, and MLPs far below, around 0.01.",
                caption="SmolLM2-135M, means over one word of each of six windows of text. Black: "
                        "the dot. Blue ground: forgets and grows.")


def wishes(answers: Mapping[str, Collection[str]], special: Collection[str]) -> HTML:
    """Which kinds fulfil a wish, and in rings which can erase one direction and keep the rest."""
    figure, axes = subplots(height=3.9)
    for column, names in enumerate(answers.values()):
        rows = [row for row, name in enumerate(KINDS.values()) if name in names]
        axes.plot([column] * len(rows), rows, "o", color="black", markersize=7)
    column = list(answers).index("can erase\none, keep\nthe others")
    rows = [row for row, name in enumerate(KINDS.values()) if name in special]
    axes.plot([column] * len(rows), rows, "o", color="black", markerfacecolor="white", markersize=7)
    for at in (2.5, 5.5, 6.5):
        axes.axhline(at, color=QUIET, linewidth=1)
    axes.set(ylim=(8.6, -0.6), xlim=(-0.5, 5.5))
    axes.set_yticks(range(9), list(KINDS))
    axes.set_xticks(range(6), list(answers), fontsize=9)
    axes.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0)
    axes.spines[:].set_visible(False)
    said = ". ".join(f"{wish}: {', '.join(w for w, name in KINDS.items() if name in names)}"
                     for wish, names in answers.items()).replace("\n", " ")
    return show(figure, f"Six wishes and who can fulfil them. {said}. Averages, blends, free and "
                        "scaling layers can erase one and keep the others, too, but no random draw "
                        "did so exactly.",
                caption="A dot means yes, for one layer. Can: some draw does it. Always and never: "
                        "by the bounds of the kind. A ring: with special numbers, which no draw "
                        "hit exactly. Lines part the places on the map: dot, line, hatched area, "
                        "anywhere.")


def answer() -> HTML:
    """Two beginnings after 64 layers of the four kinds of the first picture."""
    def after(by: np.ndarray, *start: float) -> str:
        return _numbers(np.linalg.matrix_power(by, 64) @ start)
    return table(("each layer", "its place on the map", "(4, 0) after 64", "(0, 4) after 64"),
                 [(name, "({:.2f}, {:.2f})".format(*place(by)), after(by, 4, 0), after(by, 0, 4))
                  for name, by in LAYERS.items()])
