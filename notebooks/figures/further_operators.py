"""The figures of Going further: operators and streams.

The letter F under additions, memories that are written once, and negation with its controls.
"""

from functools import cache

import numpy as np
import torch
from IPython.display import HTML
from matplotlib.figure import Figure

from geolab.probes import effective_rank
from geolab.show.figures import ACCENT, QUIET, SECOND, label_line, look, show, subplots
from geolab.show.letter import F as LETTER
from notebooks.figures import ch09
from studies.claims import TABLES

PRINTED = {"delta": TABLES["emhc-table-7"].rows["DDL alignment"]["500"][0],
           ch09.LOW: TABLES["emhc-table-7"].rows["E-MHC-Geo alignment"]["500"][0],
           "JPmHC, start I": TABLES["emhc-figure-6"].rows["JPmHC"]["500"][0]}
SIZES = [int(size) for size in TABLES["emhc-table-7"].rows["DDL beta"]]


def additions(x: complex | np.ndarray, layers: int) -> np.ndarray:
    """Half a turn by Euler steps: the points after 0, ..., layers additions of π/layers · i x."""
    path = [x]
    for _ in range(layers):
        path.append(path[-1] + np.pi / layers * 1j * path[-1])
    return np.array(path)


def draw_additions(layers: int) -> Figure:
    """Each addition leaves the circle along its tangent, so the F lands too far out and too large. More layers land it closer."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, axes = subplots(height=3.8)
    letter, around = 0.8 * LETTER @ [1, 1j] + 1, np.exp(1j * np.linspace(0, 2 * np.pi, 49))
    field = np.array([a + 1j * b for a in range(-3, 2) for b in range(-1, 3) if a or b])
    axes.plot(around.real, around.imag, "--", color="#777777", linewidth=0.8)
    axes.quiver(field.real, field.imag, -field.imag, field.real, color="#cccccc", angles="xy",
                scale_units="xy", scale=5, width=0.006)
    way = additions(letter, layers)
    for k in np.linspace(0, layers, 6).astype(int)[1:-1]:
        axes.fill(way[k].real, way[k].imag, fill=False, edgecolor=ACCENT, linewidth=0.7)
    axes.fill(letter.real, letter.imag, color=QUIET)
    axes.fill(way[-1].real, way[-1].imag, color=ACCENT)
    axes.fill(-letter.real, -letter.imag, fill=False, linestyle="--", linewidth=1.3)
    axes.text(1.9, 2.3, f"its centre is off by {abs(additions(1 + 0j, layers)[-1] + 1):.2f}",
              ha="right")
    axes.set(xlim=(-3.6, 2), ylim=(-1.5, 2.7), aspect="equal", title=f"{layers} additions")
    return figure


def undone() -> HTML:
    """An F, the F bent by a layer of slope 0.8, and guesses of it after calls of the branch."""
    swirl = np.array([[0.3, -1], [1, 0.3]]) / np.hypot(1, 0.3)
    guess, guesses = np.zeros_like(LETTER), []
    bent = LETTER + 0.8 / 4 * np.tanh(4 * LETTER) @ swirl.T
    for _ in range(9):
        guess = bent - 0.8 / 4 * np.tanh(4 * guess) @ swirl.T
        guesses.append(guess)
    figure, axes = subplots(height=1.6)
    for place, (name, points) in enumerate((("x", LETTER), ("T(x)", bent), *(
            (f"{calls} calls", guesses[calls - 1]) for calls in (2, 4, 9)))):
        axes.fill(*(points + (1.4 * place, 0)).T, facecolor=ACCENT if place else QUIET,
                  alpha=1 if place < 2 else 0.7)
        axes.text(1.4 * place, -0.95, name, ha="center")
    axes.set(aspect="equal", xlim=(-0.7, 6.3), ylim=(-1.1, 0.9))
    axes.set_axis_off()
    return show(figure, "A letter F, the F bent by a layer, and guesses of the F from the bent "
                        "one. The last guess looks like the first F.",
                caption="Grey: the input. Then the output of the layer, and the guesses of the "
                        "input after some calls of the branch, whose slope is 0.8.")


@cache
def moved_cloud() -> tuple[np.ndarray, np.ndarray]:
    """64 random tokens that move away by 0, 0.5, ..., 10 lengths of a token.

    Returns these distances and the effective ranks, as in the paper and centred: (21,), (2, 21).
    """
    generator, moved = torch.Generator().manual_seed(3), np.linspace(0, 10, 21)
    tokens, step = (torch.randn(*size, generator=generator).double() for size in ((64, 64), (64,)))
    return moved, np.array([[effective_rank(tokens + far * step, center=center).item()
                             for far in moved] for center in (False, True)])


def draw_cloud(far: float) -> Figure:
    """A cloud of tokens moves away from the origin. Its effective rank falls although its shape stays the same. The centred rank doesn't change."""  # noqa: E501  (the docstring is the figure's alt text)
    figure, (above, axes) = subplots(2, height=4.4, sharex=True, height_ratios=(1, 1.6))
    draws = torch.randn(12, 2, generator=torch.Generator().manual_seed(5)).double()
    above.plot([0, far], [0, 0], color="#aaaaaa", linewidth=1.3)
    above.plot(*(3 * torch.linalg.qr(draws)[0].numpy() + (far, 0)).T, ".", color=ACCENT)
    above.plot(0, 0, "k+", markersize=9)
    above.set(ylim=(-2, 2), yticks=[], title="the tokens, seen from the origin (+)")
    moved, (raw, centred) = moved_cloud()
    way = np.linspace(0, far, 21)
    for scores, color, style, name, shift in ((centred, SECOND, "--", "centred", 0.03),
                                              (raw, ACCENT, "-", "as in the paper", -0.09)):
        found = np.interp(way, moved, scores)
        axes.plot(way, found, color=color, linestyle=style)
        axes.plot(far, found[-1], "o", color=color)
        axes.text(far + 0.3, found[-1] + shift, f"{found[-1]:.2f} {name}", color=color)
    axes.set(xlim=(-2, 16.5), ylim=(0, 1), ylabel="effective rank", xticks=range(0, 11, 2),
             xlabel="how far the cloud is, in lengths of a token")
    return figure


def written_once(counts: list[int], mean: dict[str, list[float]]) -> HTML:
    """Mean errors of four memories, each pair written once: name -> one number for each count."""
    figure, axes = subplots(height=3.6)
    last, shift = counts[-1], {"empty memory": 0.03, "additive": -0.03}  # these two end close by
    for level, said, style in ((0, "least squares", look("floor") | {"marker": None}),
                               (1, "empty memory", dict(color=QUIET, linewidth=1))):
        axes.plot([counts[0], last], [level, level], **style)
        label_line(axes, last + 0.3, level + shift.get(said, 0), said)
    for name, like, said, style in (
            ("additive", "additive", "additive", {}),
            ("scaled", "additive", "additive,\nbest factor", {"marker": "v", "linestyle": ":"}),
            ("delta", "delta", "delta, once", {}),
            ("ten passes", "delta", "delta,\nten passes",
             {"linestyle": "-", "markerfacecolor": "white"})):
        axes.plot(counts, mean[name], **look(like) | style, markersize=5)
        label_line(axes, last + 0.3, mean[name][-1] + shift.get(said, 0), said,
                   color=look(like)["color"])
    axes.set(xlabel="pairs stored (keys have 16 features)", ylabel="relative squared error",
             xlim=(0, last + 5.5), ylim=(-0.08, 1.15), xticks=counts,
             title="Each pair is written once")
    return show(figure, "Retrieval error against the number of stored pairs. The delta memory "
                        "written once lies below the plain sum and close to the sum with its best "
                        "factor. With ten passes it is lower still.",
                caption="The error of what a memory answers, relative to the size of the values: "
                        "means over random keys and values.")


def named(model: str) -> str:
    """What a stored model of the negation task is called in a picture."""
    return ch09.STARTS.get(model, model.replace("aW", "2K"))


def who_negates() -> HTML:
    """The cosines of all models at 500 inputs, one mark per seed, and what the paper prints."""
    looks = {"linear": "baseline", "mHC": "mhc", "additive": "additive", "delta": "delta",
             "reflection alone": "delta", ch09.LOW: "emhc-hybrid", ch09.HALF: "emhc-hybrid",
             ch09.HIGH: "emhc-hybrid", "rotation alone": "emhc-cayley",
             "JPmHC, start I + aW": "jpmhc", "JPmHC, start I": "jpmhc"}
    figure, axes = subplots(height=4.4)
    for y, (model, like) in enumerate(looks.items()):
        found = ch09.kept(model, "alignment")
        axes.plot(found, [y] * len(found), look(like)["marker"] or "o", color=look(like)["color"],
                  markersize=6, linestyle="")
        if model in PRINTED:
            axes.plot(PRINTED[model], y + 0.36, "x", color="black", markersize=9,
                      markeredgewidth=1.4)
    axes.axvline(-1, **look("floor") | {"marker": None})
    axes.axvline(1, color=QUIET, linewidth=1)
    axes.text(-0.95, -0.9, "copy the input", va="center", fontsize=9)
    axes.text(1, -0.9, "least squares", ha="right", va="center", fontsize=9, color="#555555")
    axes.set(xlim=(-1.08, 1.08), ylim=(-1.4, 10.6), title="Who negates",
             xlabel="cosine with −x on new inputs")
    axes.set_yticks(range(len(looks)), map(named, looks))
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    return show(figure, "Cosines with −x on new inputs, one mark per seed, with the paper's values "
                        "as crosses. All models but the two of JPmHC lie near 1. JPmHC lies lower "
                        "from its own start, and lowest from the identity.",
                caption="One mark per seed. Crosses: the values that the paper prints, a little "
                        "below. Dotted: copying the input. Grey line: least squares.")


def inputs_needed(linear: list[float]) -> HTML:
    """Cosines against the number of training inputs; `linear` has those of least squares."""
    figure, axes = subplots(height=3.7)
    axes.plot(SIZES, linear, color=QUIET)
    for name, like in (("delta", "delta"), (ch09.LOW, "emhc-hybrid"),
                       ("rotation alone", "emhc-cayley"), ("JPmHC, start I", "jpmhc")):
        axes.plot(SIZES, [ch09.kept(name, "alignment", n).mean() for n in SIZES], **look(like))
    printed = TABLES["emhc-table-7"].rows["E-MHC-Geo alignment"].values()
    axes.plot(SIZES, [value for value, _ in printed], "x", color="black", markersize=8)
    axes.axhline(-1, **look("floor") | {"marker": None})
    axes.set(xscale="log", ylim=(-1.25, 1.1), xlabel="training inputs N",
             ylabel="cosine with −x on new inputs", title="How many inputs it takes")
    axes.set_xticks(SIZES, map(str, SIZES), minor=False)
    axes.minorticks_off()
    for x, y, text, color in ((11, 0.8, "least squares", "#777777"),
                              (11, -0.3, "crosses: hybrid in the paper", "black"),
                              (330, -0.62, "JPmHC", look("jpmhc")["color"]),
                              (11, -1.15, "copy the input", "black")):
        axes.text(x, y, text, color=color, fontsize=9)
    axes.legend(handles=[*axes.lines[1:4]], labels=["delta", "hybrid from 0.18", "rotation alone"],
                loc="upper left", bbox_to_anchor=(0, 0.68), fontsize=9)
    return show(figure, "Cosine with −x against the number of training inputs. Least squares is "
                        "exact from as many inputs as features. The operators stay near copying "
                        "with few inputs, scatter, and negate with the most. JPmHC stays below.",
                caption="Means over the seeds, against the number of training inputs. Crosses: the "
                        "hybrid in the paper. Dotted: copying the input.")
