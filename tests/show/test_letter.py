import numpy as np
import pytest

from geolab.show.figures import subplots
from geolab.show.letter import F, draw_depth, draw_letter, moved

MIRROR = np.diag([-1.0, 1.0])


@pytest.mark.parametrize("by, shapes", [(None, 1), (MIRROR, 2)])
def test_the_letter_before_the_map_is_drawn_too(by, shapes):
    _, axes = subplots()
    draw_letter(axes, by, at=(1, 2), size=2)
    assert len(axes.patches) == shapes
    drawn = axes.patches[-1].get_xy()[:12]
    assert np.allclose(drawn, (2 * F if by is None else moved(2 * F, by)) + (1, 2))


def test_depth_applies_the_maps_one_after_the_other():
    _, axes = subplots()
    draw_depth(axes, [2 * np.eye(2), MIRROR], step=3)
    letters = [patch.get_xy()[:12] for patch in axes.patches]
    assert np.allclose(letters[1], 2 * F + (3, 0))
    assert np.allclose(letters[2], 2 * F * [-1, 1] + (6, 0))
