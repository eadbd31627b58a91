"""In Firefox, a key and the mouse move the picture of every slider on every page."""

import pytest
from shared_sliders import sliders

pytestmark = pytest.mark.browser


def test_a_key_and_the_mouse_move_the_picture(in_firefox):
    """What is painted is looked at once a page: a screenshot takes longer than all the rest."""
    for number, slider in enumerate(sliders(in_firefox)):
        assert slider.home(), slider.values
        first = None if number else slider.pixels()
        # the last value of a slider may look like its first, so prefer the middle
        in_firefox.page.mouse.click(*slider.at(0.5 if slider.last > 1 else 1))
        stop = slider.reaches(1, slider.last)
        assert stop > 0 and not slider.alike(0, stop), slider.values
        assert number or slider.pixels() != first, slider.values
    assert in_firefox.trouble == []
