"""Between two stops, a page shows what geolab.show.between computes. A choice is radio buttons."""

from pathlib import Path

import numpy as np
import pytest

from geolab.show import explore, figures, slider
from geolab.show.between import between, error

pytestmark = pytest.mark.browser
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
def drawn():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GEOLAB_EXPLORE", "static")
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
    """Whether the page's picture is that one, but for the last digit of a coordinate or colour."""
    there = figure.locator("[role=img]").inner_html()
    parsed = figure.evaluate("""(box, text) => {
        const div = document.createElement("div"); div.innerHTML = text; return div.innerHTML;
    }""", expected)
    return error(there.strip(), parsed.strip()) < 0.05


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
    sent = window.url
    assert sent.endswith("?wave.beta=0.1&wave.kind=none#here"), sent
    window.goto("about:blank")
    window.goto(sent)
    figure = window.locator(".geolab-explore")
    assert same(figure, frame(0.1, "none"))
    assert figure.get_by_role("radio", name="none").is_checked()
    window.locator("[type=range]").press("ArrowRight")      # back at its start
    assert window.url.endswith("?wave.kind=none#here")
    window.goto(page.as_uri() + "?wave.beta=7&wave.kind=loud")   # no values of theirs
    assert same(figure, frame(0.2))


def test_a_figure_fills_the_screen_and_arrow_keys_step_there(drawn, window, tmp_path):
    static = Path(__file__).resolve().parents[2] / "book/_static"
    page = tmp_path / "page.html"
    page.write_text(HTML.format(f'<link rel="stylesheet" href="{(static / "book.css").as_uri()}">'
                                f'<script src="{(static / "book.js").as_uri()}"></script>', drawn))
    window.goto(page.as_uri())
    window.get_by_role("button", name="Fill the screen, or leave it").click()
    window.wait_for_function("document.fullscreenElement?.className === 'geolab-explore'")
    name, picture = window.locator(".geolab-name").first, window.locator("[role=img] svg")
    assert float(name.evaluate("x => getComputedStyle(x).fontSize").removesuffix("px")) >= 24
    assert picture.bounding_box()["width"] > 1000
    window.keyboard.press("ArrowRight")
    assert same(window.locator(".geolab-explore"), frame(0.35))
    window.get_by_role("button", name="Fill the screen, or leave it").click()
    window.wait_for_function("!document.fullscreenElement")


@pytest.mark.parametrize("broken", ["", "JSON.parse = null;", "Array.prototype.map = null;"])
def test_a_script_that_fails_leaves_the_first_picture_and_a_sentence(drawn, window, broken):
    window.set_content(HTML.format(f"<script>{broken}</script>", drawn))
    assert window.get_by_text("The slider needs JavaScript").is_visible() == bool(broken)
    assert window.locator(".geolab-sliders").is_visible() == (not broken)
    assert window.locator("[role=img] svg").bounding_box()["width"] > 200
