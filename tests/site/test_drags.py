"""Between two stops, a page shows what geolab.show.between computes. A choice is radio buttons."""

from pathlib import Path

import numpy as np
import pytest
from shared_sliders import location, wait_for_address, write_page

from geolab.show import explore, figures, slider
from geolab.show.between import between, error, mean

pytestmark = pytest.mark.browser
STATIC = Path(__file__).resolve().parents[2] / "book/_static"
BETAS = [0, 0.1, 0.2, 0.35]
HTML = "<!DOCTYPE html><meta charset='utf-8'>{}{}"
DRAG = """(track, place) => {
    track.dispatchEvent(new Event("pointerdown"));
    track.value = place;
    track.dispatchEvent(new Event("input"));
}"""


def wave(beta, kind="low"):
    """A wave."""
    figure, axes = figures.subplots(height=1.5)
    axes.plot(np.sin(np.linspace(0, 3, 150) + beta), color=(1 - beta, beta, 0.5))
    if beta > 0.3:
        axes.axvline(20)  # from here on the frames aren't alike
    size = "small" if beta < 0.15 else "large"
    axes.set(ylim=(-1.5, 1.5), xlabel=size, title=f"{kind}: {1 + beta:.2f}")
    return figure


@pytest.fixture(scope="module")
def drawn(static):
    return explore(wave, beta=slider(BETAS, marks={0.1: "here"}, start=0.2, smooth=True),
                   kind=slider(["low", "high", "none"], "which", start="high")).data


@pytest.fixture
def figure(drawn, window):
    window.goto("about:blank")   # an address would keep what other tests did
    window.set_content(HTML.format(drawn, drawn))  # two of a kind: their names must not meet
    return window.locator(".geolab-explore").last


def frame(beta, kind="high"):
    with figures.matplotlib.rc_context({"path.simplify": False}):
        return figures.svg(wave(beta, kind)).strip()


def same(figure, expected):
    """Whether the page's picture is that one, but for the last digit of a coordinate or colour.

    A mouse and a finger take effect a moment after the call, so it has three seconds.
    """
    parsed = figure.evaluate("""(box, text) => {
        const div = document.createElement("div"); div.innerHTML = text; return div.innerHTML;
    }""", expected)
    for _ in range(100):
        there = figure.locator("[role=img]").inner_html()
        if error(there.strip(), parsed.strip()) < 0.05:
            return True
        figure.page.wait_for_timeout(30)
    return False


@pytest.mark.parametrize("place, low, share, said", [
    (0.25, 0, 0.25, "0.03"), (0.5, 0, 0.5, "0.05"), (1.7, 1, 0.7, "0.17"), (2, 2, 0, "0.2")])
def test_between_two_stops_stands_the_mean(figure, place, low, share, said):
    figure.locator("[type=range]").evaluate(DRAG, place)
    expected = between(frame(BETAS[low]), frame(BETAS[low + 1] if share else BETAS[low]), share)
    assert same(figure, expected)
    assert figure.locator("output").inner_text() == said
    assert figure.locator("[type=range]").get_attribute("aria-valuetext") == said
    assert f"β = {said};" in figure.locator("[role=img]").get_attribute("aria-label")


@pytest.mark.parametrize("place, beta", [(2.4, 0.2), (2.6, 0.35)])
def test_frames_that_are_not_alike_jump_at_the_half(figure, place, beta):
    figure.locator("[type=range]").evaluate(DRAG, place)
    assert same(figure, frame(beta))


def test_a_drag_ends_at_a_stop_and_keys_step_from_stop_to_stop(figure):
    track = figure.locator("[type=range]")
    track.evaluate(DRAG, 0.7)
    track.dispatch_event("change")
    assert track.input_value() == "1" and same(figure, frame(0.1))
    track.press("ArrowRight")
    assert track.input_value() == "2" and same(figure, frame(0.2))
    figure.get_by_text("here").click()
    assert same(figure, frame(0.1))


def test_a_few_words_are_radio_buttons_that_keys_move(figure):
    group = figure.get_by_role("group", name="kind which")
    assert group.get_by_role("radio").count() == 3
    high = group.get_by_role("radio", name="high")
    assert high.is_checked()
    high.press("ArrowRight")
    assert group.get_by_role("radio", name="none").is_checked()
    assert same(figure, frame(0.2, "none"))
    other = figure.page.locator(".geolab-explore").first  # a figure of its own
    assert other.get_by_role("radio", name="high").is_checked()


def test_the_address_keeps_where_a_slider_rests(drawn, window, tmp_path):
    page = tmp_path / "page.html"
    page.write_text(HTML.format("", f'<section id="here">{drawn}</section>'))
    window.goto(page.as_uri())
    window.locator("[type=range]").press("ArrowLeft")
    window.get_by_role("radio", name="none").check()
    sent = location(window)
    assert sent.endswith("?wave.beta=0.1&wave.kind=none#here"), sent
    window.goto("about:blank")
    window.goto(sent)
    figure = window.locator(".geolab-explore")
    assert same(figure, frame(0.1, "none"))
    assert figure.get_by_role("radio", name="none").is_checked()
    window.locator("[type=range]").press("ArrowRight")      # back at its start
    assert location(window).endswith("?wave.kind=none#here")
    window.goto(page.as_uri() + "?wave.beta=7&wave.kind=loud")   # no values of theirs
    assert same(figure, frame(0.2))


def test_a_figure_fills_the_screen_and_arrow_keys_step_there(drawn, window, tmp_path):
    page = write_page(tmp_path / "page.html", [STATIC / "book.js", STATIC / "book.css"], drawn)
    window.goto(page.as_uri())
    window.get_by_role("button", name="Fill the screen, or leave it").click()
    window.wait_for_function("document.fullscreenElement?.className === 'geolab-explore'")
    window.wait_for_function("""() => document.activeElement.type === "range"
        && document.querySelector("[role=img] svg").getBoundingClientRect().width > 1000""")
    name = window.locator(".geolab-name").first
    assert float(name.evaluate("x => getComputedStyle(x).fontSize").removesuffix("px")) >= 24
    window.keyboard.press("ArrowRight")
    assert same(window.locator(".geolab-explore"), frame(0.35))
    window.get_by_role("button", name="Fill the screen, or leave it").click()
    window.wait_for_function("!document.fullscreenElement")


# ---------------------------------------------------------------- a pad

PHASES, HEIGHTS = [0, 0.5, 1, 1.5], [1, 1.5, 2]


def tide(phase, height, mean=0):
    """A tide."""
    figure, axes = figures.subplots(height=1.5)
    axes.plot(mean + height * np.sin(np.linspace(0, 3, 40) + phase), color=(0, height / 2, 0.5))
    axes.set(ylim=(-2, 3), title=f"{phase:.2f} and {height:.2f}")
    return figure


@pytest.fixture(scope="module", params=[True, False], ids=["smooth", "in steps"])
def padded(request, static, tmp_path_factory):
    """A page with a pad of one figure, below as much text as a screen holds."""
    smooth = request.param
    with pytest.MonkeyPatch.context() as patch:
        # the check of pictures between looks for curves that bend; these bend a little too much
        patch.setattr("geolab.show.frames.error", lambda picture, drawn: 0)
        drawn = explore(
            tide, phase=slider(PHASES, "of the moon", marks={1: "new"}, start=0.5, smooth=smooth),
            mean=slider([0, 1], start=0), height=slider(HEIGHTS, start=1.5, smooth=smooth),
            pad=("phase", "height")).data
    page = write_page(
        tmp_path_factory.mktemp("pad") / "pad.html", [STATIC / "book.css"],
        f'<div style="height: 500px">Text</div><section id="here">{drawn}</section>'
        '<div style="height: 2000px">Text</div>')
    return page, smooth


@pytest.fixture
def pad(padded, open_phone):
    page, smooth = padded
    figure = open_phone(page, has_touch=True).locator(".geolab-explore")
    figure.smooth = smooth
    return figure


def tide_frame(phase, height, mean=0):
    with figures.matplotlib.rc_context({"path.simplify": False}):
        return figures.svg(tide(phase, height, mean)).strip()


def spot(pad, across, up):
    """The place on the window at these shares of the square."""
    square = pad.locator(".geolab-square")
    square.scroll_into_view_if_needed()
    box = square.bounding_box()
    return box["x"] + across * box["width"], box["y"] + (1 - up) * box["height"]


def heard(pad):
    return [name.inner_text().replace("\u00a0", " ") for name in pad.locator(".geolab-name").all()]


def test_a_pad_says_what_it_is(pad):
    assert pad.get_by_role("group", name="phase across, height up").count() == 1
    assert pad.get_by_role("slider").count() == 2
    box = pad.locator(".geolab-square").bounding_box()
    assert box["width"] == box["height"] >= 200
    point = pad.locator(".geolab-point").bounding_box()
    assert min(point["width"], point["height"]) >= 44
    assert abs(point["x"] + point["width"] / 2 - box["x"] - box["width"] / 3) < 1
    assert abs(point["y"] + point["height"] / 2 - box["y"] - box["height"] / 2) < 1
    assert pad.page.evaluate("document.documentElement.scrollWidth") == 390
    said = pad.locator("[aria-live=polite]")
    assert said.count() == 2 and heard(pad)[:2] == ["→ phase of the moon = 0.5", "↑ height = 1.5"]
    assert pad.locator("output").first.get_attribute("aria-live") == "off"  # else it's said twice


def test_dragged_within_a_cell_the_picture_is_the_mean_of_its_four_frames(pad):
    mouse = pad.page.mouse
    mouse.move(*spot(pad, 0.1, 0.9))
    mouse.down()
    mouse.move(*spot(pad, 0.4, 0.3))           # a fifth of its cell, and three fifths
    if pad.smooth:
        corners = [tide_frame(phase, height) for height in (1, 1.5) for phase in (0.5, 1)]
        assert same(pad, mean(corners, [0.32, 0.08, 0.48, 0.12]))
        assert heard(pad)[:2] == ["→ phase of the moon = 0.60", "↑ height = 1.30"]
        label = pad.locator("[role=img]").get_attribute("aria-label")
        assert label == "A tide.; phase = 0.60; height = 1.30; mean = 0"
    else:
        assert same(pad, tide_frame(0.5, 1.5))
    mouse.move(*spot(pad, 0.7, 1.4))           # outside of the square
    mouse.up()
    assert same(pad, tide_frame(1, 2))
    assert heard(pad)[:2] == ["→ phase of the moon = 1", "↑ height = 2"]
    mouse.move(*spot(pad, 0.2, 0.5))           # let go, it stays
    assert same(pad, tide_frame(1, 2))


def test_a_finger_drags_the_point_and_not_the_page(pad):
    x, y = spot(pad, 0.5, 0.9)
    before = pad.page.evaluate("scrollY")
    devtools = pad.page.context.new_cdp_session(pad.page)
    for kind, points in (("touchStart", [(x, y)]), ("touchMove", [(x, y + 60)]),
                         ("touchMove", [(x + 40, y + 150)]), ("touchEnd", [])):
        devtools.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [
            {"x": x, "y": y} for x, y in points]})
    # it has the focus as soon as the finger has let go
    pad.page.wait_for_function("document.activeElement.matches('.geolab-pad input')")
    assert pad.page.evaluate("scrollY") == before
    assert same(pad, tide_frame(1, 1.5))


def test_arrow_keys_move_the_point_across_and_up(pad):
    across, up = pad.get_by_role("slider").all()
    across.focus()
    press = pad.page.keyboard.press
    for key, phase, height, now in (
            ("ArrowRight", 1, 1.5, across), ("ArrowUp", 1, 2, up), ("ArrowUp", 1, 2, up),
            ("ArrowLeft", 0.5, 2, across), ("End", 1.5, 2, across), ("ArrowDown", 1.5, 1.5, up),
            ("Home", 1.5, 1, up), ("ArrowLeft", 1, 1, across)):
        press(key)
        assert same(pad, tide_frame(phase, height)), key
        assert now.evaluate("input => input === document.activeElement"), key
        assert [of.get_attribute("aria-valuetext") for of in (across, up)] == [
            f"{phase:g}", f"{height:g}"]
    outline = "point => getComputedStyle(point, '::before').outlineStyle"
    assert pad.locator(".geolab-point").evaluate(outline) == "solid"
    pad.get_by_role("button", name="new").focus()
    assert pad.locator(".geolab-point").evaluate(outline) == "none"
    press("Enter")
    assert same(pad, tide_frame(1, 1))


def test_the_address_keeps_where_the_point_rests(pad):
    mouse, page = pad.page.mouse, pad.page
    mouse.move(*spot(pad, 0.98, 0.5))
    mouse.down()
    assert "?" not in location(page)
    mouse.up()
    wait_for_address(page, "?tide.phase=1.5#here")
    page.keyboard.press("ArrowDown")
    sent = location(page)
    assert sent.endswith("?tide.phase=1.5&tide.height=1#here"), sent
    page.goto("about:blank")
    page.goto(sent)
    assert same(pad, tide_frame(1.5, 1)) and heard(pad)[0].endswith("= 1.5")
    point = pad.locator(".geolab-point").bounding_box()
    x, y = spot(pad, 1, 0)
    assert abs(point["x"] + 22 - x) < 1 and abs(point["y"] + 22 - y) < 1


def test_each_place_has_its_own_picture(pad):
    across, up = pad.get_by_role("slider").all()
    across.press("Home")
    for phase in PHASES:
        up.press("Home")
        for height in HEIGHTS:
            assert same(pad, tide_frame(phase, height))
            up.press("ArrowUp")
        across.press("ArrowRight")


@pytest.mark.parametrize("broken", ["", "JSON.parse = null;", "Array.prototype.map = null;"])
def test_a_script_that_fails_leaves_the_first_picture_and_a_sentence(drawn, window, broken):
    window.set_content(HTML.format(f"<script>{broken}</script>", drawn))
    assert window.get_by_text("The slider needs JavaScript").is_visible() == bool(broken)
    assert window.locator(".geolab-sliders").is_visible() == (not broken)
    assert window.locator("[role=img] svg").bounding_box()["width"] > 200
