"""Keys, mouse and finger move the picture of every slider on every page, at once."""

import itertools
import json

import pytest
from shared_sliders import MOVES, sliders

pytestmark = pytest.mark.browser
MOST_MILLISECONDS = 50  # for a new frame, so that the picture follows the finger
SCREEN_MILLISECONDS = 16
PASSES = 30
NEUTRAL = {"as above", "as it was", "as to stream 1"}


# ---------------------------------------------------------------- as files

def data_of(figure) -> dict:
    """The JSON that the figure's script reads."""
    return json.loads(figure.find("script", type="application/json").string)


def test_every_figure_has_its_sliders_and_one_alone_has_fifteen_stops(html):
    """One of two may have fewer, since a figure holds every combination. A choice has buttons."""
    for figure in html.select(".geolab-explore"):
        values = data_of(figure)["values"]
        assert len(figure.select(".geolab-slider")) == len(values) > 0
        assert all(len(of) > 1 for of in values)
        stops = [int(track["max"]) + 1 for track in figure.select("input[type=range]")]
        assert len(stops) > 1 or all(count >= 15 for count in stops), values


def test_no_slider_starts_on_its_answer(html):
    """A mark between the ends is what a reader shall find, unless it names what is there anyway."""
    for track in html.select(".geolab-slider:has([data-at])"):
        start, end = track.input["value"], track.input.get("max")
        mark = track.find(attrs={"data-at": start})
        assert start in ("0", end) or not mark or mark.get_text() in NEUTRAL, start


def test_neighbouring_frames_differ(html):
    """Two in three do. A slider may rest where another is at its start, or past the answer."""
    for figure in html.select(".geolab-explore"):
        data = data_of(figure)
        frames = [[data["lines"][first:first + count] for first, count in runs]
                  for runs in data["frames"]]
        same, stride = [], 1
        for values in reversed(data["values"]):
            same += [frames[n] == frames[n + stride] for n in range(len(frames))
                     if n // stride % len(values) < len(values) - 1]
            stride *= len(values)
        assert stride == len(frames) and 3 * sum(same) <= len(same), data["alt"]


# ---------------------------------------------------------------- in the browser

def test_keys_mouse_and_finger_move_every_picture(phone):
    tap, click = phone.page.touchscreen.tap, phone.page.mouse.click
    for number, slider in enumerate(sliders(phone)):
        slider.require_moves(click if number else tap, painted=not number)


def test_a_new_frame_comes_at_once(phone):
    """The best of up to thirty passes counts, because other processes interrupt most of them."""
    for slider in sliders(phone):
        for k, time in enumerate(slider.milliseconds):
            passes = itertools.chain([time], (slider.put(k) for _ in range(PASSES - 1)))
            assert any(time < MOST_MILLISECONDS for time in passes), (k, slider.values)


def test_a_drag_is_smooth(phone):
    """Of a hundred moves, 95 show within a frame of the screen. The best pass of each counts."""
    slider = next((slider for slider in sliders(phone) if slider.smooth), None)
    best = [float("inf")] * MOVES
    for _ in range(PASSES if slider else 0):
        best = list(map(min, best, slider.drag()))
        if sorted(best)[MOVES * 95 // 100] < SCREEN_MILLISECONDS:
            return
    assert not slider, (sorted(best)[-5:], slider.values)


def test_sliders_leave_no_error_behind(phone):
    """This is a page's last test: what the others did must not have failed in silence."""
    assert phone.trouble == []
