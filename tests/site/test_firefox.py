"""Each slider of each page, in Firefox: a key and the mouse move its picture."""

import pytest
from shared_sliders import all_differ, sliders

pytestmark = pytest.mark.browser


def test_a_key_and_the_mouse_move_the_picture(in_firefox):
    for slider in sliders(in_firefox):
        first = slider.press("Home")
        assert first.value == slider.values[0]
        in_firefox.page.mouse.click(*slider.at(0.5 if len(slider.values) > 2 else 1))  # at its end a slider may look as at its start
        assert all_differ(first, slider.shown()), slider.data["alt"]
    assert in_firefox.trouble == []
