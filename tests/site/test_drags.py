"""What a figure's script does, on pages made for it: a drag, keys, buttons, addresses, a pad.

Between two stops it shows what geolab.show.between computes.
"""

from pathlib import Path

import numpy as np
import pytest
from shared_sliders import Slider, location, write_page

from geolab.show import explore, figures, slider
from geolab.show.between import between, error, mean

pytestmark = pytest.mark.browser
STATIC = Path(__file__).resolve().parents[2] / "book/_static"
BETAS = [0, 0.1, 0.2, 0.35]
PHASES, HEIGHTS = [0, 0.5, 1, 1.5], [1, 1.5, 2]
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


def tide(phase, height, mean=0):
    """A tide."""
    figure, axes = figures.subplots(height=1.5)
    axes.plot(mean + height * np.sin(np.linspace(0, 3, 40) + phase), color=(0, height / 2, 0.5))
    axes.set(ylim=(-2, 3), title=f"{phase:.2f} and {height:.2f}")
    return figure


def frame(draw, *at):
    with figures.matplotlib.rc_context({"path.simplify": False}):
        return figures.svg(draw(*at)).strip()


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


@pytest.fixture(scope="module")
def drawn(static):
    return explore(wave, beta=slider(BETAS, marks={0.1: "here"}, start=0.2, smooth=True),
                   kind=slider(["low", "high", "none"], "which", start="high")).data


@pytest.fixture
def figure(drawn, window):
    window.goto("about:blank")   # an address would keep what other tests did
    window.set_content(HTML.format(drawn, drawn))  # two of a kind: their names must not meet
    return window.locator(".geolab-explore").last


# ---------------------------------------------------------------- a track and radio buttons

def test_a_drag_ends_at_a_stop_frames_not_alike_jump_and_keys_step_from_stop_to_stop(figure):
    track = figure.locator("[type=range]")
    for place, beta in ((2.4, 0.2), (2.6, 0.35)):
        track.evaluate(DRAG, place)
        assert same(figure, frame(wave, beta, "high"))
    track.evaluate(DRAG, 0.7)
    assert same(figure, between(*(frame(wave, beta, "high") for beta in BETAS[:2]), 0.7))
    assert figure.locator("output").inner_text() == "0.07" == track.get_attribute("aria-valuetext")
    track.dispatch_event("change")
    assert track.input_value() == "1" and same(figure, frame(wave, 0.1, "high"))
    track.press("ArrowRight")
    assert track.input_value() == "2" and same(figure, frame(wave, 0.2, "high"))
    figure.get_by_text("here").click()
    assert same(figure, frame(wave, 0.1, "high"))


def test_a_mouse_drags_between_stops_and_lets_go_at_one(figure):
    box, mouse = figure.locator("[type=range]").bounding_box(), figure.page.mouse
    mouse.move(box["x"] + 0.55 * box["width"], box["y"] + box["height"] / 2)
    mouse.down()
    figure.page.wait_for_function("track => track.value % 1", arg=figure.locator(
        "[type=range]").element_handle())
    mouse.move(box["x"] + box["width"], box["y"])
    mouse.up()
    assert same(figure, frame(wave, 0.35, "high"))


def test_a_few_words_are_radio_buttons_that_keys_move(figure):
    group = figure.get_by_role("group", name="kind which")
    assert group.get_by_role("radio").count() == 3
    high = group.get_by_role("radio", name="high")
    assert high.is_checked()
    high.press("ArrowRight")
    assert group.get_by_role("radio", name="none").is_checked()
    assert same(figure, frame(wave, 0.2, "none"))
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
    assert same(figure, frame(wave, 0.1, "none"))
    assert figure.get_by_role("radio", name="none").is_checked()
    window.locator("[type=range]").press("ArrowRight")      # back at its start
    assert location(window).endswith("?wave.kind=none#here")
    window.goto(page.as_uri() + "?wave.beta=7&wave.kind=loud")   # no values of theirs
    assert same(figure, frame(wave, 0.2, "high"))


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
    assert same(window.locator(".geolab-explore"), frame(wave, 0.35, "high"))
    window.get_by_role("button", name="Fill the screen, or leave it").click()
    window.wait_for_function("!document.fullscreenElement")


@pytest.mark.parametrize("broken", ["", "JSON.parse = null;", "Array.prototype.map = null;", None])
def test_without_the_script_stand_the_first_picture_and_a_sentence(
        drawn, open_phone, tmp_path, broken):
    """It fails, or there is no JavaScript."""
    path = tmp_path / "page.html"
    path.write_text(HTML.format(f"<script>{broken or ''}</script>", drawn))
    page = open_phone(path, raises=True, java_script_enabled=broken is not None)
    works = broken == ""
    assert page.get_by_text("The slider needs JavaScript").is_visible() != works
    assert page.locator(".geolab-sliders").is_visible() == works
    assert page.locator("[role=img] svg").bounding_box()["width"] > 200


# ---------------------------------------------------------------- a pad

def pad_page(folder: Path, smooth: bool) -> Path:
    """A page with a pad of one figure, below as much text as a screen holds."""
    with pytest.MonkeyPatch.context() as patch:
        # the check of pictures between looks for curves that bend; these bend a little too much
        patch.setattr("geolab.show.frames.error", lambda picture, drawn: 0)
        drawn = explore(
            tide, phase=slider(PHASES, "of the moon", marks={1: "new"}, start=0.5, smooth=smooth),
            mean=slider([0, 1], start=0), height=slider(HEIGHTS, start=1.5, smooth=smooth),
            pad=("phase", "height")).data
    return write_page(
        folder / f"{smooth}.html", [STATIC / "book.css"],
        f'<div style="height: 500px">Text</div><section id="here">{drawn}</section>'
        '<div style="height: 2000px">Text</div>')


@pytest.fixture(scope="module")
def pad_pages(static, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pad")
    return {smooth: pad_page(folder, smooth) for smooth in (True, False)}


@pytest.fixture
def pad(pad_pages, open_phone):
    return open_phone(pad_pages[True], has_touch=True).locator(".geolab-explore")


def spot(pad, across, up):
    """The place on the window at these shares of the square."""
    square = pad.locator(".geolab-square")
    square.scroll_into_view_if_needed()
    box = square.bounding_box()
    return box["x"] + across * box["width"], box["y"] + (1 - up) * box["height"]


def heard(pad):
    return [name.inner_text().replace("\u00a0", " ") for name in pad.locator(".geolab-name").all()]


def stands_at(pad, across, up):
    """Whether the middle of the point is at these shares of the square."""
    x, y = spot(pad, across, up)
    point = pad.locator(".geolab-point").bounding_box()
    return (abs(point["x"] + point["width"] / 2 - x) < 1
            and abs(point["y"] + point["height"] / 2 - y) < 1)


def test_a_pad_says_what_it_is(pad):
    assert pad.get_by_role("group", name="phase across, height up").count() == 1
    assert pad.get_by_role("slider").count() == 2
    box = pad.locator(".geolab-square").bounding_box()
    assert box["width"] == box["height"] >= 200
    point = pad.locator(".geolab-point").bounding_box()
    assert min(point["width"], point["height"]) >= 44 and stands_at(pad, 1 / 3, 1 / 2)
    assert pad.page.evaluate("document.documentElement.scrollWidth") == 390
    said = pad.locator("[aria-live=polite]")
    assert said.count() == 2 and heard(pad)[:2] == ["→ phase of the moon = 0.5", "↑ height = 1.5"]
    assert pad.locator("output").first.get_attribute("aria-live") == "off"  # else it's said twice


@pytest.mark.parametrize("smooth", [True, False], ids=["smooth", "in steps"])
def test_dragged_within_a_cell_the_picture_is_the_mean_of_its_four_frames(
        pad_pages, open_phone, smooth):
    pad = open_phone(pad_pages[smooth]).locator(".geolab-explore")
    mouse = pad.page.mouse
    mouse.move(*spot(pad, 0.1, 0.9))
    mouse.down()
    mouse.move(*spot(pad, 0.4, 0.3))           # a fifth of its cell, and three fifths
    if smooth:
        corners = [frame(tide, phase, height) for height in (1, 1.5) for phase in (0.5, 1)]
        assert same(pad, mean(corners, [0.32, 0.08, 0.48, 0.12]))
        assert heard(pad)[:2] == ["→ phase of the moon = 0.60", "↑ height = 1.30"]
        label = pad.locator("[role=img]").get_attribute("aria-label")
        assert label == "A tide.; phase = 0.60; height = 1.30; mean = 0"
    else:
        assert same(pad, frame(tide, 0.5, 1.5))
    assert "?" not in location(pad.page)
    mouse.move(*spot(pad, 0.7, 1.4))           # outside of the square
    mouse.up()
    assert same(pad, frame(tide, 1, 2))
    assert heard(pad)[:2] == ["→ phase of the moon = 1", "↑ height = 2"]
    mouse.move(*spot(pad, 0.2, 0.5))           # let go, it stays
    assert same(pad, frame(tide, 1, 2))


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
    assert same(pad, frame(tide, 1, 1.5))


def test_arrow_keys_move_the_point_across_and_up_and_the_address_keeps_it(pad):
    across, up = pad.get_by_role("slider").all()
    across.focus()
    page, press = pad.page, pad.page.keyboard.press
    for key, phase, height, now in (
            ("ArrowRight", 1, 1.5, across), ("ArrowUp", 1, 2, up), ("ArrowUp", 1, 2, up),
            ("ArrowLeft", 0.5, 2, across), ("End", 1.5, 2, across), ("ArrowDown", 1.5, 1.5, up),
            ("Home", 1.5, 1, up)):
        press(key)
        assert same(pad, frame(tide, phase, height)), key
        assert now.evaluate("input => input === document.activeElement"), key
        assert [of.get_attribute("aria-valuetext") for of in (across, up)] == [
            f"{phase:g}", f"{height:g}"]
    sent = location(page)
    assert sent.endswith("?tide.phase=1.5&tide.height=1#here"), sent
    page.goto("about:blank")
    page.goto(sent)
    assert same(pad, frame(tide, 1.5, 1)) and stands_at(pad, 1, 0)
    across.focus()
    outline = "point => getComputedStyle(point, '::before').outlineStyle"
    press("ArrowLeft")
    assert pad.locator(".geolab-point").evaluate(outline) == "solid"
    pad.get_by_role("button", name="new").focus()
    assert pad.locator(".geolab-point").evaluate(outline) == "none"
    press("Enter")
    assert same(pad, frame(tide, 1, 1))


# ---------------------------------------------------------------- in Firefox

def test_in_firefox_a_key_and_the_mouse_move_the_picture(firefox, drawn, pad_pages, tmp_path):
    single = write_page(tmp_path / "page.html", [STATIC / "book.css"], drawn)
    for path in (single, pad_pages[True]):
        page, trouble = firefox.new_page(), []
        page.on("pageerror", lambda error, found=trouble: found.append(error))
        page.goto(path.as_uri())
        for element in page.query_selector_all(".geolab-slider"):
            Slider(page, element).require_moves(page.mouse.click, painted=True)
        page.close()
        assert not trouble
