"""Each slider of each page, in Firefox: keys and mouse move its picture."""

import pytest
from shared_sliders import all_moved, sliders

pytestmark = pytest.mark.browser


def test_keys_and_mouse_move_the_picture(in_firefox):
    for slider in sliders(in_firefox):
        first = slider.press("Home")
        in_firefox.page.mouse.click(*slider.at(0.5))
        middle, last = slider.shown(), slider.press("End")
        assert (first.value, last.value) == (slider.values[0], slider.values[-1])
        assert all_moved(slider, first, middle, last), slider.data["alt"]
    assert in_firefox.trouble == []
