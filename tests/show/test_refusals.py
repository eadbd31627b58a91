"""What cannot be shown is refused by its name, in a notebook and on a page."""

from pathlib import Path

import pytest

from geolab.show import ask, compute, explore, figures, network
from geolab.show.diagrams import BLOCKS, diagram
from geolab.show.hearing import triangles
from geolab.show.schematic import canvas, path
from geolab.show.sliders import slider


def point(beta, gate=0.5):
    """A point."""
    figure, axes = figures.subplots(height=1.5)
    axes.plot([beta], [gate], "o")
    return figure


def silent(beta):
    return point(beta)


def fails(beta, name):
    """It fails."""
    raise KeyError("k")


def forgets(beta):
    """It returns no figure."""


def networks(**changed):
    """A panel of two networks, whose one file is there."""
    given = {"weights": {"delta": Path(__file__)}, "hashes": {"delta": "0"}, "still": "",
             "left": "delta", "right": "delta"}
    return network(**given | changed)


THREE, HERE = range(3), Path(__file__)
REFUSALS = [
    (lambda: figures.look("detla, leak"), "^no look for 'detla'; known: additive, delta"),
    (lambda: figures.show(point(1), " \n "), "alt must say what the figure shows, in words"),
    (lambda: diagram("detla"), f"^no diagram of 'detla'; BLOCKS has {', '.join(BLOCKS)}"),
    (lambda: canvas(float("nan")), "height must be a positive .*nan"),
    (lambda: canvas(2, rows=0), "rows must be at least 1, got 0"),
    (lambda: path(canvas(2)[1], (1, 1)), "points must be at least two, got 1"),
    (lambda: triangles({"a": [[1, 2]]}), "^weights must have at least one square matrix"),
    (lambda: ask("Why?", {"only": "Yes."}), "at least two answers, got 1"),
    (lambda: ask("Why?", {"a": "Yes.", "b": " "}), "the answer 'b' needs a reply"),

    (lambda: compute("beta"), "name must be one of delta, gain, .* got 'beta'"),
    (lambda: compute("delta", gate=1), "delta has the fields k, beta, x, got 'gate'"),
    (lambda: compute("delta", k="0 0"), "k must be 2, 3 or 4 numbers .* not all of them 0"),
    (lambda: compute("delta", x="1 2 3"), "x must be .* as many as k, .* got '1 2 3'"),
    (lambda: compute("gain", L=1.5), "L must be a whole number from 1 to 60, got '1.5'"),
    (lambda: compute("gain", H="1 2; 3"), "H must be 2, 3 or 4 rows.* got '1 2; 3'"),
    (lambda: networks(left="mhc"), "left must be one of 'delta'"),
    (lambda: networks(hashes={}), "none for 'delta'"),
    (lambda: networks(weights={"delta": HERE, "hyper": HERE}), "weights must be one of"),
    (lambda: networks(weights={"delta": HERE / "gone.js"}), "page_network writes it"),

    (lambda: slider([]), "values must have at least one entry"),
    (lambda: slider(["a", "b"], smooth=True), r"smooth values must be numbers, got \['a', 'b'"),
    (lambda: slider([False, True], smooth=True), r"smooth values must be numbers, got \[False"),
    (lambda: slider(["a", "b"], marks={"c": "none"}), "one of the values, got 'c'"),
    (lambda: slider([1e-12, 1e-10], start=1e-11), "one of the values, got 1e-11"),
    (lambda: explore(point), "explore needs at least one slider"),
    (lambda: explore(point, beta=[1], gate=[]), "empty list for gate"),
    (lambda: explore(point, beta=range(6), gate=range(17)), "got 102 combinations"),
    (lambda: explore(silent, beta=[1]), "silent needs a docstring: it is the alt text"),
    (lambda: explore(point, beta=THREE, gate=THREE, pad=("beta", "turn")),
     r"pad must name two of the sliders beta, gate, across first; got \('beta', 'turn'\)"),
    (lambda: explore(point, beta=THREE, pad=("beta", "beta")), "two of the sliders beta"),
    (lambda: explore(point, beta=THREE, gate=[0, 1], pad=("beta", "gate")),
     r"three or more numbers; gate has \[0, 1\]"),
    (lambda: explore(fails, beta=[0.5], name=["a"]),
     r"^fails\(beta=0.5, name=a\) raised KeyError: 'k'$"),
    (lambda: explore(forgets, beta=[-1]),
     r"^forgets\(beta=-1\) must return a matplotlib Figure, got NoneType$"),
]


@pytest.mark.parametrize("where", ["live", "static"])
@pytest.mark.parametrize("call, message", REFUSALS, ids=[message for _, message in REFUSALS])
def test_what_cannot_be_shown_is_refused_by_name(request, where, call, message):
    request.getfixturevalue(where)
    with pytest.raises((ValueError, RuntimeError, FileNotFoundError), match=message):
        call()
