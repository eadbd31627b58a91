"""Keys, mouse and finger move the picture of every slider on every page, at once.

Without JavaScript, the page shows one frame.
"""

import itertools
import json

import pytest
from shared_sliders import MOVES, figures, sliders

pytestmark = pytest.mark.browser
MOST_MILLISECONDS = 50  # for a new frame, so that the picture follows the finger
SCREEN_MILLISECONDS = 16
PASSES = 30
NEUTRAL = {"as above", "as it was", "as to stream 1"}


def data_of(figure) -> dict:
    """The JSON that the figure's script reads."""
    return json.loads(figure.locator("script[type='application/json']").text_content())


def test_every_figure_has_its_sliders(phone):
    for figure in figures(phone):
        data = data_of(figure)
        count = len(data["values"])
        assert figure.locator(".geolab-slider").count() == count > 0
        assert not figure.locator(".geolab-still").is_visible()
        assert all(len(values) > 1 for values in data["values"])


def test_no_slider_starts_on_its_answer(phone):
    """A mark between the ends is what a reader shall find, unless it names what is there anyway."""
    for track in phone.page.locator(".geolab-slider:has([data-at])").all():
        start = track.locator("input").get_attribute("value")
        end = track.locator("input").get_attribute("max")
        mark = track.locator(f"[data-at='{start}']")
        assert start in ("0", end) or not mark.count() or mark.inner_text() in NEUTRAL, start


def test_a_slider_alone_has_fifteen_stops(phone):
    """One of two may have fewer, since a figure holds every combination. A choice has buttons."""
    for figure in figures(phone):
        tracks = figure.locator("input[type=range]").all()
        for track in tracks if len(tracks) == 1 else ():
            assert int(track.get_attribute("max")) >= 14, track.get_attribute("aria-label")


def test_each_stop_says_its_value(phone):
    said = [values for figure in figures(phone) for values in data_of(figure)["values"]]
    assert [slider.values for slider in sliders(phone)] == said


def test_keys_move_every_picture(phone):
    """The middle differs from both ends, as a picture too. With two values there is none."""
    pictures = set()
    for slider in sliders(phone):
        middle, last = (slider.last + 1) // 2, slider.last
        assert not slider.alike(0, middle), slider.values
        assert middle == last or not slider.alike(middle, last), slider.values
        assert slider.home() and slider.press("ArrowRight", 1), slider.values
        if (figure := slider.figure()) not in pictures:  # a screenshot takes longer than all else
            pictures.add(figure)
            slider.put(0)
            first = slider.pixels()
            slider.put(middle)
            assert slider.pixels() != first, slider.values


def test_mouse_and_finger_reach_every_slider_and_move_one(phone):
    """The script is the same for all, so what may differ is whether something lies on a track."""
    mouse = phone.page.mouse
    for number, slider in enumerate(sliders(phone)):
        assert slider.lies_open(), slider.values
        if number or slider.choice:
            continue
        assert slider.press("End", slider.last), slider.values
        assert slider.press("ArrowLeft", slider.last - 1), slider.values
        slider.press("End", slider.last)                 # away from the mouse
        mouse.move(*slider.at(0.5 + 0.3 / slider.last))  # between two stops
        mouse.down()
        assert slider.between() if slider.smooth else slider.reaches(*slider.inner) >= 0
        mouse.move(*slider.at(1))
        mouse.up()
        assert slider.reaches(slider.last, slider.last) > 0, slider.values
        slider.reset()
        for share, stops in ((0.5, slider.inner), (0, (0, 0))):
            phone.page.touchscreen.tap(*slider.at(share))
            assert slider.reaches(*stops) >= 0, (share, slider.values)


def test_neighbouring_frames_differ(phone):
    """Two in three do. A slider may rest where another is at its start, or past the answer."""
    for figure in figures(phone):
        data = data_of(figure)
        frames = ["\n".join("\n".join(data["lines"][first:first + count]) for first, count in runs)
                  for runs in data["frames"]]
        same, stride = [], 1
        for values in reversed(data["values"]):
            same += [frames[n] == frames[n + stride] for n in range(len(frames))
                     if n // stride % len(values) < len(values) - 1]
            stride *= len(values)
        assert stride == len(frames) and 3 * sum(same) <= len(same), data["alt"]


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


def test_a_frame_stands_without_javascript(without_javascript):
    for figure in figures(without_javascript):
        box = figure.locator("[role=img] svg").bounding_box()
        assert box and box["width"] > 200 and box["height"] > 50
        assert not figure.locator(".geolab-sliders").is_visible()
        assert figure.locator(".geolab-still").is_visible()


def test_sliders_leave_no_error_behind(phone):
    """This is a page's last test: what the others did must not have failed in silence."""
    assert phone.trouble == []
