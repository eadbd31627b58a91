"""The figures of chapter 4: streams past layers, what many layers make of a signal, and the runs.

`wiring` draws streams from left to right past boxes, which are layers. `measured` and `PEAKS` read
the stored networks of the study hyper_gain, all in the dynamic form unless their name says static.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np
from IPython.display import HTML
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from geolab.show.figures import ACCENT, QUIET, SECOND, show, subplots
from geolab.show.hearing import triangles
from geolab.show.letter import F as LETTER
from geolab.show.schematic import CENTRE
from studies.claims import TABLES
from studies.engine import results

WORDS = "#555555"
POWERS = {"yticks": range(6), "yticklabels": ["1", "10", "100", "1000", "10⁴", "10⁵"]}
REPORTED = TABLES["mhc-gain"].rows["HC"]["gain"][0]
LAYERS = 2 * int(TABLES["mhc-models"].rows["27B"]["layers"][0])  # attention and MLP of each block
STORED = results.stored("hyper_gain")["rates"]
ONE, TWO = np.eye(2)  # stream 1 alone, stream 2 alone
RIGHT, UP = np.array([[1, 1], [0, 1]]), np.array([[1, 0], [1, 1]])
Layer = tuple[np.ndarray, np.ndarray, np.ndarray]  # the a, b and H of one layer


def measured(lr: str, model: str, quantity: str = "forward") -> np.ndarray:
    """A stored quantity at the evaluations of every seed: (seeds, evaluations)."""
    return np.array([run["measured"][quantity] for run in STORED[lr]["runs"]
                     if run["model"] == model])


def losses(lr: str, model: str) -> np.ndarray:
    """The last validation loss of every seed: (seeds,)."""
    return np.array([run["validation_loss"][-1] for run in STORED[lr]["runs"]
                     if run["model"] == model])


def typical(gains: np.ndarray) -> np.ndarray:
    """The geometric mean over seeds, and its 95 % interval: (3,)."""
    mean, half = results.interval(np.log10(gains))
    return 10 ** np.array([mean, mean - half, mean + half])


# layers -> the largest gain of every seed, at the learning rate 0.008
PEAKS = {2 * blocks: measured("0.008", f"hyper, {blocks} blocks").max(1)
         for blocks in (4, 8, 16, 24)}


def at_peak(layers: int, quantity: str) -> np.ndarray:
    """A stored quantity of every seed at the moment of its largest gain: (seeds,)."""
    model = f"hyper, {layers // 2} blocks"
    peak = measured("0.008", model).argmax(1)
    return measured("0.008", model, quantity)[range(len(peak)), peak]


def wiring(axes: Axes, layers: Sequence[Layer], title: str, names: Sequence[str],
           held: Sequence[Sequence[str]] = ()) -> None:
    """Draw streams past one box per layer. A line is as wide as its coefficient is large.

    Arguments:
        names: the words in the boxes.
        held: what stands over each stream before, between and after the boxes.
    """
    n = len(layers[0][0])
    for x, (a, b, H) in enumerate(layers):
        for i in range(n):
            axes.plot([x, x + 0.5], [n - i, 0.25], ":", color=ACCENT, linewidth=2.4 * a[i])
            axes.plot([x + 0.5, x + 1], [0.25, n - i], "--", color=SECOND, linewidth=1.6 * b[i])
            for j in range(n):
                axes.plot([x, x + 1], [n - j, n - i], color=WORDS, linewidth=2.4 * H[i, j])
        axes.text(x + 0.5, 0, names[x], bbox=dict(boxstyle="square", facecolor="white"), **CENTRE)
    axes.plot(*np.meshgrid(range(len(layers) + 1), range(1, n + 1)), "o", color="black",
              markersize=4, linestyle="none")
    for i, row in enumerate(held):
        for x, said in enumerate(row):
            axes.text(x, n - i + 0.12, said, ha="center", va="bottom")
    axes.set(title=title, xlim=(-0.1, len(layers) + 0.1), ylim=(-0.5, n + (0.75 if held else 0.4)),
             xticks=[], yticks=range(1, n + 1), yticklabels=[f"stream {n - k}" for k in range(n)])
    axes.tick_params(length=0)
    axes.grid(False)
    axes.spines[:].set_visible(False)


def opening() -> HTML:
    """One stream that forgets the 5, and two streams that keep it."""
    figure, (top, bottom) = subplots(2, 1, height=4, height_ratios=[1, 1.5])
    said = ("add 3", "wants 5")
    wiring(top, [(np.ones(1), np.ones(1), np.eye(1))] * 2, "One stream", said, [["5", "8", "?"]])
    wiring(bottom, [(ONE, ONE, np.eye(2)), (TWO, TWO, np.eye(2))], "Two streams", said,
           [["5", "8", "8"], ["5", "5", "?"]])
    top.text(0.13, 0.5, "read", ha="right", color=ACCENT)
    top.text(0.83, 0.5, "write", color=SECOND)
    return show(figure, "Above, one stream that holds 5, then 8: the second box can read only the "
                        "8. Below, two streams that both hold 5. The first box writes to stream "
                        "1, and the second box reads stream 2.",
                caption="Boxes are layers. Solid lines carry a stream forward. Dotted lines lead "
                        "from a stream into a box, dashed lines from a box to a stream. Over the "
                        "streams stands what they hold.")


@cache
def coins(plus: float, draws: int = 12, size: float = 0.2) -> np.ndarray:
    """The gain of the first 0, 1, ..., 60 layers in each draw: (draws, 61).

    All entries of H − I are ± size/4, and each has a plus with the probability `plus`.
    """
    uniform = np.random.RandomState(0).rand(draws, LAYERS, 4, 4)
    H = np.eye(4) + size * np.where(uniform < plus, 0.25, -0.25)
    P, gains = np.broadcast_to(np.eye(4), (draws, 4, 4)), [np.ones(draws)]
    for layer in range(LAYERS):
        P = H[:, layer] @ P
        gains.append(np.abs(P).sum(-1).max(-1))
    return np.array(gains).T


def draw_coins(plus: float) -> Figure:
    """The gain of twelve draws of sixty layers. With fair signs it stays near 3. The more of the signs agree, the steeper it rises, and with all signs plus it lies on its bound, which ends above 50,000."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, axes = subplots(height=3.2)
    gains, depth = coins(plus), np.arange(LAYERS + 1)
    axes.axhline(np.log10(REPORTED), color=QUIET, linewidth=1)
    axes.text(1, np.log10(1.2 * REPORTED), f"reported: {REPORTED:.0f}", fontsize=10, color=WORDS)
    axes.plot(depth, np.log10(gains.T), color=ACCENT, linewidth=0.8, alpha=0.6)
    axes.plot(depth, np.log10(1.2) * depth, "--", color=SECOND)
    least, most = gains[:, -1].min(), gains[:, -1].max()
    ends = [f"{g:.2g}" if g < 100 else f"{g:,.0f}" for g in (least, most)]
    axes.set(ylim=(-0.3, 5.2), xlim=(0, LAYERS), xlabel="layers", ylabel="gain", **POWERS,
             title=f"after {LAYERS} layers: " + " to ".join(dict.fromkeys(ends)))
    return figure


def shears() -> HTML:
    """The F after two layers of one shear and of two in turn, and both gains by depth."""
    figure, (letters, gains) = subplots(1, 2, height=3.1, width_ratios=[1, 1.15])
    for second, at, color, said in ((RIGHT, (0.2, 0.2), "#777777", "one shear"),
                                    (UP, (0.2, 2.2), ACCENT, "two in turn")):
        letters.fill(*(LETTER - LETTER.min(0) + at).T, facecolor="#dddddd", edgecolor="#aaaaaa")
        after = LETTER @ (second @ RIGHT).T
        letters.fill(*(after - after.min(0) + (1.5, at[1])).T, facecolor=color, edgecolor=color,
                     alpha=0.85)
        letters.text(0.2, at[1] - 0.35, said, color=color, va="center", fontsize=10)
        product, grown = np.eye(2), [1.0]
        for layer in range(24):
            product = (second if layer % 2 else RIGHT) @ product
            grown.append(np.abs(product).sum(1).max())
        gains.plot(range(25), np.log10(grown), "--" if second is RIGHT else "-", color=color)
        gains.text(24, np.log10(grown[-1]) + 0.15, f"{grown[-1]:,.0f}", color=color, ha="right",
                   va="bottom", fontsize=10)
    letters.set(aspect="equal", xticks=[], yticks=[], title="the F after two layers")
    letters.spines[:].set_visible(False)
    gains.set(xlabel="layers", ylabel="gain", ylim=(-0.25, 5.8), xticks=[0, 8, 16, 24],
              title="the gain", **POWERS)
    return show(figure, "Left: the letter F before and after two layers. One shear slants it, and "
                        "it stays as high as it was. Two shears in turn make it long along a "
                        "diagonal. Right: the gain over 24 layers on a logarithmic axis. One "
                        "shear bends and ends at 25; two in turn make a straight line, up to "
                        "121,393.",
                caption="Left: the F before (light) and after. Right: the gain on a logarithmic "
                        "axis. Adding bends, and multiplying makes a straight line.")


def by_depth() -> HTML:
    """The largest gain of the stored networks by their number of layers."""
    figure, axes = subplots(height=3.3)
    axes.plot([0, LAYERS], [0, np.log10(REPORTED)], "--", color="#777777", linewidth=1.3)
    for layers, peak in PEAKS.items():
        middle, low, high = np.log10(typical(peak))
        aside = np.resize([-0.5, 0.5], len(peak))[peak.argsort().argsort()]  # so all are seen
        axes.plot(layers - 0.8 + aside, np.log10(peak), "o", color=ACCENT, markersize=6,
                  markerfacecolor="none", markeredgewidth=1.3)
        axes.plot([layers + 1.2] * 2, [low, high], color="black", linewidth=1.6)
        axes.plot(layers + 1.2, middle, "s", color="black", markersize=6)
        said = f"{10**middle:.{2 if middle < 2 else 3}g}" if middle < 3 else \
            f"{10 ** (middle - 2):.0f}00"
        at, shift = (high, (-1, 9)) if layers == 8 else (middle, (7, 8 if layers == 48 else -13))
        axes.annotate(said, (layers + 1.2, at), xytext=shift, textcoords="offset points",
                      va="center")
    axes.plot(LAYERS, np.log10(REPORTED), "*", color=SECOND, markersize=13)
    axes.annotate("27B,\nreported", (LAYERS, np.log10(REPORTED)), xytext=(0, -9),
                  textcoords="offset points", ha="center", va="top", fontsize=10)
    axes.set(xlim=(0, 66), ylim=(-0.1, 4.9), xticks=[0, 8, 16, 32, 48, 60], xlabel="layers",
             ylabel="largest gain", yticks=range(5), yticklabels=POWERS["yticklabels"][:5])
    return show(figure, "The largest gain against the number of layers, eight seeds each. Typical "
                        "gains are 7.7 at 8 layers, 11 at 16, 132 at 32 and 2200 at 48. The seeds "
                        "at 48 layers spread from 94 to 40,700. A dashed line leads from 1 to the "
                        "reported 3000 at 60 layers.",
                caption="Rings: the seeds. Squares: the geometric mean, with its 95 % interval. "
                        "The dashed line would be 14 percent in every layer, up to the star.")


def worst_case() -> HTML:
    """How much longer the streams get in the stored networks, against what the gain allows."""
    figure, axes = subplots(height=3.5)
    axes.plot([2, 1e5], [2, 1e5], color="#777777", linewidth=1.2)
    axes.text(1.5e3, 130, "as long as\nthe gain says", color=WORDS, fontsize=10)
    for quantity, mark, color, said in (
            ("length", "o", ACCENT, "the streams, with all that layers write"),
            ("met", "s", SECOND, "the embedding's copies, by mixing alone")):
        for layers, gains in PEAKS.items():
            axes.plot(gains, at_peak(layers, quantity), mark, color=color, markersize=5,
                      markerfacecolor=color if mark == "o" else "none",
                      label=said if layers == 8 else None)
    axes.set(xscale="log", yscale="log", xlim=(2, 1e5), ylim=(1, 5e7), xlabel="largest gain",
             ylabel="times as long as at the entry")
    axes.set_xticks([10, 100, 1000, 1e4, 1e5], ["10", "100", "1000", "10⁴", "10⁵"])
    axes.set_yticks([1, 10, 100, 1000, 1e4, 1e5, 1e6], [*POWERS["yticklabels"], "10⁶"])
    axes.minorticks_off()
    axes.legend(loc="upper left", fontsize=10)
    return show(figure, "How many times as long the streams get against the largest gain, both on "
                        "logarithmic axes, for 32 networks. Squares for mixing alone lie a little "
                        "below the diagonal. Dots for the streams lie above it, at two to "
                        "thirty-five times the gain.",
                caption="The 32 networks at the moment of their largest gain: the longest stream "
                        "of a token at the last layer over that at the entry, in the median over "
                        "tokens. Line: what the gain allows to mixing.")


def in_turn(own: float, leak: float, layers: int = 8) -> np.ndarray:
    """Who hears whom where layers take turns on two streams: A, with the exit in the last row.

    Each layer reads its stream and writes to it with the weight 2. H has `own` on its diagonal and
    `leak` beside it. The exit reads the mean of the streams.
    """
    H, A = np.array([[own, leak], [leak, own]]), np.zeros((layers + 1, layers + 1))
    said = np.zeros((2, layers + 1))  # the weight of each output in each stream
    said[:, 0] = 1
    for t in range(layers):
        A[t], said = said[t % 2], H @ said
        said[t % 2, t + 1] += 2
    A[layers] = said.mean(0)
    return A


def draw_hears(leak: float) -> Figure:
    """Three triangles of squares. In the plain one all squares are equal. In the others every second square is missing at the leak 0. With a leak these holes fill: in HC the squares of the oldest answers grow beyond one, in mHC they tend to one."""  # noqa: E501  (the docstring is the figure's alt text)
    return triangles({"plain": np.tril(np.ones((9, 9))), "HC": in_turn(1, leak),
                      "mHC": in_turn(1 - leak, leak)}, largest=3)
