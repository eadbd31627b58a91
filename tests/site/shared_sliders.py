"""A slider of a built page, moved as a reader moves it, in any browser, and pages for a test."""

import base64
import io
from functools import cached_property
from pathlib import Path

import numpy as np
from PIL import Image

# What a reader sees and hears at each stop stays in the page: {value, frame, alt}. A choice has
# radio buttons, and any other slider has one input.
LEARN = """(of) => {
    const figure = of.closest(".geolab-explore"), picture = figure.querySelector("[role=img]");
    const inputs = [...of.querySelectorAll("input")], [input] = inputs;
    of.square = of.closest(".geolab-pad")?.querySelector(".geolab-square");
    const choice = of.choice = inputs.length > 1, last = choice ? inputs.length - 1 : +input.max;
    const said = () => choice ? inputs.find(one => one.checked).nextElementSibling
        : of.querySelector("output");
    of.handle = () => choice ? inputs.find(one => one.checked) : input;
    of.handles = inputs;
    of.first = choice ? inputs.findIndex(one => one.defaultChecked) : input.defaultValue;
    of.shown = () => [said().innerText, picture.innerHTML, picture.getAttribute("aria-label")];
    of.stop = () => {
        const now = of.shown().join();
        return of.stops.findIndex(known => known.join() === now);
    };
    of.soon = async (holds) => {
        for (const start = performance.now(); performance.now() < start + 3000;) {
            if (holds()) return true;
            await new Promise(later => setTimeout(later, 20));
        }
        return false;
    };
    of.put = (k) => {
        const start = performance.now();
        if (choice) inputs[k].click();
        else {
            input.step = k % 1 ? "any" : "1";
            input.value = k;
            input.dispatchEvent(new Event("input", {bubbles: true}));
        }
        picture.firstElementChild.getBBox();
        return performance.now() - start;
    };
    const times = [...Array(last + 1).keys()].map(k => {
        const time = of.put(k);
        (of.stops ??= []).push(of.shown());
        return time;
    });
    of.put(of.first);
    return [of.stops.map(([value]) => value), times, choice, "smooth" in input.dataset,
        of.dataset.axis ?? ""];
}"""
REACH = """async (of, [low, high]) =>
    await of.soon(() => low <= of.stop() && of.stop() <= high) ? of.stop() : -1"""
BETWEEN = "(of) => of.soon(() => of.stops.every(([, frame]) => frame !== of.shown()[1]))"
# A finger or a mouse at the ends and the middle of the track would meet the slider itself, or on a
# pad the square with its point.
OPEN = """(of) => (of.square ? [of.square] : of.handles).every(input => {
    input.scrollIntoView({block: "center", behavior: "instant"});
    const {x, y, width, height} = input.getBoundingClientRect();
    return !input.disabled && [2, width / 2, width - 2].every(
        along => input.contains(document.elementFromPoint(x + along, y + height / 2)));
})"""
FIGURE = """(of) => [...document.querySelectorAll(".geolab-explore")]
    .indexOf(of.closest(".geolab-explore"))"""
PLACE = """(of, what) => {
    const element = what === "picture" ? of.closest(".geolab-explore").querySelector("[role=img]")
        : of.square ?? of.handles[what];
    element.scrollIntoView({block: "center", behavior: "instant"});
    const {x, y, width, height} = element.getBoundingClientRect();
    return {x, y, width, height};
}"""
POINT = """(of) => ["--x", "--y"].map(side => +of.parentElement.style.getPropertyValue(side))"""
UPWARDS = {"ArrowRight": "ArrowUp", "ArrowLeft": "ArrowDown"}
MOVES = 100


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
        (self.values, self.milliseconds, self.choice, self.smooth,
         self.axis) = element.evaluate(LEARN)
        self.last = len(self.values) - 1
        self.inner = min(1, self.last - 1), max(1, self.last - 1)  # the ends only if no other is

    def reaches(self, low: int, high: int) -> int:
        """The stop from low to high that value, picture and alt text show now or soon, or -1.

        A finger, and a mouse on a busy machine, take effect a moment after the call.
        """
        return self.element.evaluate(REACH, [low, high])

    def put(self, k: int) -> float:
        """Move it to a stop, and return the milliseconds until the new picture stands."""
        return self.element.evaluate("(of, k) => of.put(k)", k)

    def drag(self) -> list[float]:
        """Move it from end to end in many steps. Returns the milliseconds of each."""
        return self.element.evaluate(
            "(of, [last, count]) => [...Array(count).keys()].map(k => of.put(last * k / count))",
            [self.last, MOVES])

    def between(self) -> bool:
        """Whether the picture isn't that of any stop, now or soon."""
        return self.element.evaluate(BETWEEN)

    def figure(self) -> int:
        """The number of its figure on the page. Several sliders may move one picture."""
        return self.element.evaluate(FIGURE)

    def lies_open(self) -> bool:
        """Whether nothing lies over its track, which takes the mouse and the finger."""
        return self.element.evaluate(OPEN)

    def reset(self) -> None:
        self.element.evaluate("(of) => of.put(of.first)")

    def press(self, key: str, stop: int) -> bool:
        """Whether the key leads to that stop. On the axis of a pad that goes up, it is turned."""
        self.element.evaluate("(of) => of.handle().focus()")
        self.page.keyboard.press(UPWARDS.get(key, key) if self.axis == "y" else key)
        return self.reaches(stop, stop) == stop

    def home(self) -> bool:
        """Whether the key for it leads to the first stop. Radio buttons know no such key."""
        return self.put(0) >= 0 if self.choice else self.press("Home", 0)

    def at(self, share: float) -> tuple[float, float]:
        """The place on the window at this share of the track, of an axis of a pad, or of a
        choice's buttons. Pictures of two heights move it.
        """
        box = self.element.evaluate(PLACE, round(share * self.last) if self.choice else 0)
        if self.choice:
            return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        if self.axis:
            x, y = self.element.evaluate(POINT)
            x, y = (share, y) if self.axis == "x" else (x, share)
            return box["x"] + 1 + x * (box["width"] - 2), box["y"] + 1 + (1 - y) * (
                box["height"] - 2)
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
        compare = "(of, [j, k]) => of.stops[j].map((part, i) => part === of.stops[k][i])"
        same = self.element.evaluate(compare, [j, k])
        return [part for part, alike in zip(("value", "picture", "alt text"), same) if alike]


def figures(visit):
    return visit.page.locator(".geolab-explore").all()


def sliders(visit):
    """One after the other. The others stand where a reader finds them: each is put back."""
    visit.unfold()
    if visit.sliders is None:
        found = visit.page.query_selector_all(".geolab-slider")
        visit.sliders = [Slider(visit.page, element) for element in found]
    for slider in visit.sliders:
        yield slider
        slider.reset()


def write_page(path: Path, files: list[Path], body: str) -> Path:
    """A page that loads scripts and a style once, as the book's pages do."""
    *scripts, style = (file.as_uri() for file in files)
    loaded = "".join(f'<script defer src="{script}"></script>' for script in scripts)
    path.write_text('<!DOCTYPE html><html lang="en" data-theme="light"><meta charset="utf-8">'
                    f'<link rel="stylesheet" href="{style}">{loaded}{body}')
    return path


def location(page) -> str:
    """The page's address by its own word. `page.url` may be older, since the browser tells
    Playwright of a new address some time after the script has set it."""
    return page.evaluate("location.href")


def wait_for_address(page, end: str) -> None:
    """Wait until the address ends so: a mouse takes effect a moment after the call."""
    page.wait_for_function("end => location.href.endsWith(end)", arg=end)
