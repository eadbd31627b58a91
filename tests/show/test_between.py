"""The picture between frames is the mean of their coordinates, colours and numbers."""

import numpy as np
import pytest

from geolab.show import explore, figures, slider
from geolab.show.between import bend, between, error, mean

A = '<g id="ab1"><path d="M 0 10" style="fill: #000000"/></g><text x="1">n = 1,000 of −2.5</text>'
B = '<g id="cd2"><path d="M 4 20" style="fill: #ff0080"/></g><text x="3">n = 2,000 of 2.5</text>'
C = A.replace("M 0 10", "M 8 50").replace("1,000", "5,000")
MANY = B.replace("2,000", "many")


def test_half_way_is_the_mean_and_a_number_keeps_its_form():
    assert between(A, B, 0.5) == ('<g id="n0"><path d="M 2.00 15.00" style="fill: #800040"/></g>'
                                  '<text x="2.00">n = 1,500 of 0.0</text>')
    for share, said in ((0, "n = 1,000 of −2.5"), (0.25, "n = 1,250 of −1.2")):
        assert f">{said}</text>" in between(A, B, share)


def test_between_four_frames_each_counts_by_its_weight():
    picture = mean([A, B, C, C.replace("M 8", "M 9")], [0.4, 0.2, 0.3, 0.1])
    assert '"M 4.10 28.00"' in picture and "#33001a" in picture and ">n = 2,800 of" in picture


@pytest.mark.parametrize("weights, word", [
    ([0.51, 0.49], "1,000"), ([0.5, 0.5], "many"), ([0.4, 0.3, 0.3], "1,000"),
    ([0.3, 0.3, 0.4], "many")])
def test_other_words_are_those_of_the_frame_that_counts_most_and_the_rest_moves(weights, word):
    picture = mean([A, B, MANY] if len(weights) == 3 else [A, MANY], weights)
    assert word in picture and f'"M {4 * (1 - weights[0]):.2f} ' in picture


@pytest.mark.parametrize("old, new", [("M 4 20", "M 4 20 L 5 6"), ("M 4", "L 4"),
                                      ("fill", "stroke"), ("</g>", "<g></g></g>")])
def test_other_elements_are_not_alike(old, new):
    other = B.replace(old, new)
    assert between(A, other, 0.5) is None and mean([A, C, other], [0.4, 0.3, 0.3]) is None
    assert error(A, other) == np.inf


@pytest.mark.parametrize("old, new, units", [
    ("M 0 10", "M 2 10", 1), ("#000000", "#001900", 0.98), ("1,000", "1,060", 60 / 31.8),
    ("1,000", "1,001", 1 / 30.03), ("x", "x", 0)])
def test_the_error_is_in_units_that_a_reader_sees(old, new, units):
    assert error(A, A.replace(old, new, 1)) == pytest.approx(units, rel=0.01)


def test_the_bend_is_where_the_frame_is_farthest_from_its_neighbours_mean():
    assert bend([A.replace("M 0", f"M {x}") for x in (0, 1, 2, 13, 14)]) in (2, 3)
    assert bend([A, B]) == 1
    other = A.replace("M 0 10", "M 0 10 L 5 6")  # beside it there is no middle
    assert bend([other, A, A, A]) == 2 and bend([A, other, A, A, A]) == 3


def sine(x, beta, gate):
    return np.sin(x + beta) + 0 * gate


def jump(x, beta, gate):
    return 0 * x + (beta > 0.7)


def saddle(x, beta, gate):
    """Where both sliders start, neither bends: only a look at the middle of a cell finds it."""
    return x * (beta + gate + 6 * beta * gate * (beta - 1) * (gate - 1)) / 4


@pytest.mark.parametrize("of, values, gates, wrong", [
    (sine, np.linspace(0, 1, 7), [0], None), (sine, [0, 1, 3], [0], "beta: half-way between "),
    (jump, [0, 0.5, 1, 1.5], [0], "beta: half-way between "),
    (sine, np.linspace(0, 1, 7), [0, 1, 2], None),
    (saddle, [0, 0.5, 1, 1.5], [0, 0.5, 1, 1.5], "beta and gate: at ")])
@pytest.mark.usefixtures("static")
def test_wrong_pictures_between_frames_warn_and_are_left_out(of, values, gates, wrong):
    def draw(beta, gate):
        """A curve."""
        figure, axes = figures.subplots(height=1.5)
        x = np.linspace(0, 3, 200)  # so many points that matplotlib would leave some out
        axes.plot(x, of(x, beta, gate))
        axes.set(xlim=(0, 3), ylim=(-1, 1))
        return figure

    pad = ("beta", "gate") if len(gates) > 1 else None

    def smooth_sliders(smooth=True):
        sliders = {"beta": slider(values, smooth=smooth, start=values[0]),
                   "gate": slider(gates, smooth=smooth and bool(pad), start=0)}
        return explore(draw, pad=pad, **sliders).data.count("data-smooth ")

    assert smooth_sliders(False) == 0
    if wrong:
        with pytest.warns(UserWarning, match=f"draw is shown in steps of {wrong}"):
            assert smooth_sliders() == 0
    else:
        assert smooth_sliders() == (2 if pad else 1)
