"""A slider of a built page, moved as a reader moves it, in any browser."""

import base64
import io
from functools import cached_property

import numpy as np
from PIL import Image

# What a reader sees and hears at each stop stays in the page: {value, frame, alt}.
LEARN = """(input) => {
    const figure = input.closest(".geolab-explore"), picture = figure.querySelector("[role=img]");
    const output = figure.querySelectorAll("output")[
        [...figure.querySelectorAll("input")].indexOf(input)];
    input.shown = () => [output.innerText, picture.innerHTML, picture.getAttribute("aria-label")];
    input.put = (k) => {
        const start = performance.now();
        input.value = k;
        input.dispatchEvent(new Event("input", {bubbles: true}));
        picture.firstElementChild.getBBox();
        return performance.now() - start;
    };
    const times = [...Array(+input.max + 1).keys()].map(k => {
        const time = input.put(k);
        (input.stops ??= []).push(input.shown());
        return time;
    });
    input.put(input.defaultValue);
    return [input.stops.map(([value]) => value), times];
}"""
REACH = """async (input, [low, high]) => {
    for (const start = performance.now(); ;) {
        const now = input.shown().join();
        const stop = input.stops.findIndex(known => known.join() === now);
        if (low <= stop && stop <= high) return stop;
        if (performance.now() > start + 3000) return -1;
        await new Promise(later => setTimeout(later, 20));
    }
}"""
# A finger or a mouse at the ends and the middle of the track would meet the slider itself.
OPEN = """(input) => {
    input.scrollIntoView({block: "center", behavior: "instant"});
    const {x, y, width, height} = input.getBoundingClientRect();
    return !input.disabled && [2, width / 2, width - 2].every(
        along => document.elementFromPoint(x + along, y + height / 2) === input);
}"""
FIGURE = """(input) => [...document.querySelectorAll(".geolab-explore")]
    .indexOf(input.closest(".geolab-explore"))"""
PLACE = """(input, what) => {
    const element = what === "track" ? input
        : input.closest(".geolab-explore").querySelector("[role=img]");
    element.scrollIntoView({block: "center", behavior: "instant"});
    const {x, y, width, height} = element.getBoundingClientRect();
    return {x, y, width, height};
}"""


class Pixels:
    """A screenshot. Two differ if a colour does by more than 8 of 255: painted again, the same
    picture may be off by a shade, and more along an edge.
    """

    __hash__ = None

    def __init__(self, png: bytes):
        self.colours = np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)

    def __eq__(self, other):
        return (self.colours.shape == other.colours.shape
                and abs(self.colours - other.colours).max() <= 8)


class Slider:
    """One slider of a figure on the page. Its stops are known by their numbers, from 0."""

    def __init__(self, page, element):
        self.page, self.element = page, element
        # what it says at each stop, and the milliseconds until the picture stood
        self.values, self.milliseconds = element.evaluate(LEARN)
        self.last = len(self.values) - 1
        self.inner = min(1, self.last - 1), max(1, self.last - 1)  # the ends only if no other is

    def reaches(self, low: int, high: int) -> int:
        """The stop from low to high that value, picture and alt text show now or soon, or -1.

        A finger, and a mouse on a busy machine, take effect a moment after the call.
        """
        return self.element.evaluate(REACH, [low, high])

    def put(self, k: int) -> float:
        """Move it to a stop, and return the milliseconds until the new picture stands."""
        return self.element.evaluate("(input, k) => input.put(k)", k)

    def figure(self) -> int:
        """The number of its figure on the page. Several sliders may move one picture."""
        return self.element.evaluate(FIGURE)

    def lies_open(self) -> bool:
        """Whether nothing lies over its track, which takes the mouse and the finger."""
        return self.element.evaluate(OPEN)

    def reset(self) -> None:
        self.element.evaluate("(input) => input.put(input.defaultValue)")

    def press(self, key: str, stop: int) -> bool:
        """Whether the key leads to that stop."""
        self.element.evaluate("(input) => input.focus()")
        self.page.keyboard.press(key)
        return self.reaches(stop, stop) == stop

    def at(self, share: float) -> tuple[float, float]:
        """The place on the window at this share of the track. Pictures of two heights move it."""
        box = self.element.evaluate(PLACE, "track")
        return box["x"] + 2 + share * (box["width"] - 4), box["y"] + box["height"] / 2

    @cached_property
    def devtools(self):
        """Chromium's own protocol, by which a screenshot takes a tenth of the time."""
        return self.page.context.new_cdp_session(self.page)

    def pixels(self) -> Pixels:
        """The picture as it is painted."""
        clip = self.element.evaluate(PLACE, "picture")
        if self.page.context.browser.browser_type.name == "firefox":
            return Pixels(self.page.screenshot(clip=clip))
        x, y = self.page.evaluate("() => [scrollX, scrollY]")  # the protocol counts from the top
        clip |= {"x": clip["x"] + x, "y": clip["y"] + y, "scale": 1}
        taken = self.devtools.send("Page.captureScreenshot", {"clip": clip})
        return Pixels(base64.b64decode(taken["data"]))

    def alike(self, j: int, k: int) -> list[str]:
        """What is the same at two stops, of value, picture and alt text."""
        compare = "(input, [j, k]) => input.stops[j].map((part, i) => part === input.stops[k][i])"
        same = self.element.evaluate(compare, [j, k])
        return [part for part, alike in zip(("value", "picture", "alt text"), same) if alike]


def figures(visit):
    return visit.page.locator(".geolab-explore").all()


def sliders(visit):
    """One after the other. The others stand where a reader finds them: each is put back."""
    visit.unfold()
    if visit.sliders is None:
        inputs = visit.page.query_selector_all(".geolab-explore input")
        visit.sliders = [Slider(visit.page, element) for element in inputs]
    for slider in visit.sliders:
        yield slider
        slider.reset()
