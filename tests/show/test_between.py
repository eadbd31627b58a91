import numpy as np
import pytest

from geolab.show import explore, figures, slider
from geolab.show.between import bend, between, error, mean

A = '<g id="ab1"><path d="M 0 10" style="fill: #000000"/></g><text x="1">n = 1,000 of −2.5</text>'
B = '<g id="cd2"><path d="M 4 20" style="fill: #ff0080"/></g><text x="3">n = 2,000 of 2.5</text>'


def test_half_way_is_the_mean_of_coordinates_colours_and_numbers():
    assert between(A, B, 0.5) == ('<g id="n0"><path d="M 2.00 15.00" style="fill: #800040"/></g>'
                                  '<text x="2.00">n = 1,500 of 0.0</text>')


@pytest.mark.parametrize("share, said", [(0, "n = 1,000 of −2.5"), (0.25, "n = 1,250 of −1.2"),
                                         (1, "n = 2,000 of 2.5")])
def test_a_number_keeps_its_form(share, said):
    assert f">{said}</text>" in between(A, B, share)


@pytest.mark.parametrize("share, word", [(0.49, "1,000"), (0.5, "many")])
def test_other_words_are_those_of_the_nearer_frame_and_the_rest_moves(share, word):
    picture = between(A, B.replace("2,000", "many"), share)
    assert word in picture and f'"M {4 * share:.2f} ' in picture


def test_between_four_frames_each_counts_by_its_weight():
    c = A.replace("M 0 10", "M 8 50").replace("1,000", "5,000")
    picture = mean([A, B, c, c.replace("M 8", "M 9")], [0.4, 0.2, 0.3, 0.1])
    assert '"M 4.10 28.00"' in picture and "#33001a" in picture and ">n = 2,800 of" in picture
    assert mean([A, B], [0.25, 0.75]) == between(A, B, 0.75)
    assert mean([A, B, c.replace("M 8", "L 8")], [0.4, 0.3, 0.3]) is None


@pytest.mark.parametrize("weights, word", [([0.4, 0.3, 0.3], "1,000"), ([0.3, 0.3, 0.4], "many")])
def test_other_words_are_those_of_the_frame_that_counts_most(weights, word):
    assert word in mean([A, B, B.replace("2,000", "many")], weights)


@pytest.mark.parametrize("old, new", [("M 4 20", "M 4 20 L 5 6"), ("M 4", "L 4"),
                                      ("fill", "stroke"), ("</g>", "<g></g></g>")])
def test_other_elements_are_not_alike(old, new):
    assert between(A, B.replace(old, new), 0.5) is None
    assert error(A, B.replace(old, new)) == np.inf


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


# ---------------------------------------------------------------- sliders that say they are smooth

def curve(of):
    def draw(beta):
        """A curve."""
        figure, axes = figures.subplots(height=1.5)
        x = np.linspace(0, 3, 200)  # so many points that matplotlib would leave some out
        axes.plot(x, of(x, beta))
        axes.set(xlim=(0, 3), ylim=(-1, 1))
        return figure
    return draw


@pytest.mark.parametrize("of, values, right", [
    (lambda x, beta: np.sin(x + beta), np.linspace(0, 1, 7), True),
    (lambda x, beta: np.sin(x + beta), [0, 1, 3], False),  # bends too much
    (lambda x, beta: 0 * x + (beta > 0.3), [0, 0.1, 0.2, 0.45, 0.6], False)])  # a jump
@pytest.mark.usefixtures("static")
def test_wrong_pictures_between_frames_warn_and_are_left_out(of, values, right):
    def shown():
        return explore(curve(of), beta=slider(values, smooth=True)).data

    assert "data-smooth " not in explore(curve(of), beta=slider(values)).data
    if right:
        assert "data-smooth " in shown()
        return
    with pytest.warns(UserWarning, match="draw is shown in steps of beta: half-way between "):
        assert "data-smooth " not in shown()


@pytest.mark.parametrize("bent", [0, 6])
@pytest.mark.usefixtures("static")
def test_a_pad_whose_picture_within_a_cell_is_wrong_goes_in_steps(bent):
    """Where both sliders start, neither bends: only a look at the middle of a cell finds it."""
    def draw(beta, gate):
        """A point."""
        figure, axes = figures.subplots(height=1.5)
        axes.plot([0, 1], [0, beta + gate + bent * beta * gate * (beta - 1) * (gate - 1)])
        axes.set(ylim=(0, 3))
        return figure

    def shown():
        values = slider([0, 0.5, 1, 1.5], smooth=True, start=0)
        return explore(draw, beta=values, gate=values, pad=("beta", "gate")).data

    if not bent:
        assert shown().count("data-smooth ") == 2
        return
    with pytest.warns(UserWarning, match="draw is shown in steps of beta and gate: at "):
        assert "data-smooth " not in shown()


@pytest.mark.parametrize("values, buttons", [
    ([0.5], False), ([0, 1], True), ([0, 1, 2], False), (["a"], False), (["a", "b"], True),
    (["none", 1, 3, 9], True), (list("abcde"), True), (list("abcdef"), False)])
@pytest.mark.usefixtures("static")
def test_two_values_or_a_few_words_are_buttons(values, buttons):
    def empty(beta):
        """Nothing."""
        return figures.subplots(height=1)[0]

    assert slider(values).choice == buttons
    page = explore(empty, beta=slider(values, "which")).data
    assert page.count('type="radio"') == len(values) * buttons
    assert page.count(" checked>") == buttons and page.count('type="range"') == (not buttons)
