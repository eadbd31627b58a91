"""The triangles of who hears whom: what a square says without its colour."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from geolab.show.hearing import triangles

A = np.array([[1, 9, 9], [-0.5, 2, 9], [0, 1, 4]])


def squares(axes, rows):
    """(row, column) -> the square there; the key of the first panel comes last."""
    places = zip(*np.tril_indices(rows))
    return {(int(t), int(s)): patch for (t, s), patch in zip(places, axes.patches)}


def test_a_square_has_the_area_of_its_weight_at_one_scale_for_all_panels():
    first, second = triangles({"A": A, "half": A[:2, :2] / 2}).axes
    drawn = squares(first, 3)
    full = drawn[2, 2].get_width() ** 2
    for panel, weights in ((first, A), (second, A[:2, :2] / 2)):
        for (t, s), square in squares(panel, len(weights)).items():
            assert np.isclose(square.get_width() ** 2 / full, abs(weights[t, s]) / 4)
            assert np.allclose(square.get_center(), (s, t + 1))
    assert np.isclose(first.patches[-1].get_width() ** 2 / full, 1 / 4)   # the key
    assert len(first.patches) == 6 + 1 and len(second.patches) == 3


def test_a_negative_weight_is_open_and_a_positive_one_darker_than_its_ground():
    drawn = squares(triangles({"A": A}).axes[0], 3)
    light = {place: sum(to_rgb(square.get_facecolor())) / 3 for place, square in drawn.items()}
    assert light[1, 0] == 1 and to_rgb(drawn[1, 0].get_edgecolor()) != (1, 1, 1)
    assert max(value for place, value in light.items() if place != (1, 0)) < 0.5


def test_a_weight_above_the_largest_fills_its_place():
    drawn = squares(triangles({"A": A}, largest=2).axes[0], 3)
    assert drawn[2, 2].get_width() == drawn[1, 1].get_width() < 1
    small = squares(triangles({"A": A / 100}).axes[0], 3)
    assert np.isclose(small[2, 2].get_width() ** 2 / drawn[1, 1].get_width() ** 2, 0.04)


def test_the_exit_stands_below_all_layers():
    axes, = triangles({"plain": A}).axes
    assert axes.get_title() == "plain" and axes.yaxis_inverted()
    assert [label.get_text() for label in axes.get_yticklabels()][-1] == "exit"


@pytest.mark.parametrize("weights", [{}, {"a": [1, 2]}, {"a": [[1, 2]]}])
def test_weights_must_be_square(weights):
    with pytest.raises(ValueError, match=r"^weights must have at least one square matrix"):
        triangles(weights)
