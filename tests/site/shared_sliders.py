"""A slider of a page, moved as a reader moves it, in any browser, and pages for a test."""

import io
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
# A finger, and a mouse on a busy machine, take effect a moment after the call.
REACH = """async (of, [low, high]) => {
    for (const start = performance.now(); performance.now() < start + 3000;) {
        const now = of.shown().join(), stop = of.stops.findIndex(known => known.join() === now);
        if (low <= stop && stop <= high) return stop;
        await new Promise(later => setTimeout(later, 20));
    }
    return -1;
}"""
# A finger or a mouse at the ends and the middle of the track would meet the slider itself, or on a
# pad the square with its point.
OPEN = """(of) => (of.square ? [of.square] : of.handles).every(input => {
    input.scrollIntoView({block: "center", behavior: "instant"});
    const {x, y, width, height} = input.getBoundingClientRect();
    return !input.disabled && [2, width / 2, width - 2].every(
        along => input.contains(document.elementFromPoint(x + along, y + height / 2)));
})"""
PLACE = """(of, what) => {
    const element = what === "picture" ? of.closest(".geolab-explore").querySelector("[role=img]")
        : of.square ?? of.handles[what];
    element.scrollIntoView({block: "center", behavior: "instant"});
    const {x, y, width, height} = element.getBoundingClientRect();
    return {x, y, width, height};
}"""
POINT = """(of) => ["--x", "--y"].map(side => +of.parentElement.style.getPropertyValue(side))"""
ALIKE = "(of, [j, k]) => of.stops[j].some((part, i) => part === of.stops[k][i])"
MOVES = 100


class Slider:
    """One slider of a figure on the page. Its stops are known by their numbers, from 0."""

    def __init__(self, page, element):
        self.page, self.element = page, element
        # what it says at each stop, and the milliseconds until the picture stood
        (self.values, self.milliseconds, self.choice, self.smooth,
         self.axis) = element.evaluate(LEARN)
        self.last = len(self.values) - 1

    def reaches(self, low: int, high: int) -> int:
        """The stop from low to high that value, picture and alt text show now or soon, or -1."""
        return self.element.evaluate(REACH, [low, high])

    def put(self, k: float) -> float:
        """Move it to a stop, and return the milliseconds until the new picture stands."""
        return self.element.evaluate("(of, k) => of.put(k)", k)

    def drag(self) -> list[float]:
        """Move it from end to end in many steps. Returns the milliseconds of each."""
        return self.element.evaluate(
            "(of, [last, count]) => [...Array(count).keys()].map(k => of.put(last * k / count))",
            [self.last, MOVES])

    def lies_open(self) -> bool:
        """Whether nothing lies over its track, which takes the mouse and the finger."""
        return self.element.evaluate(OPEN)

    def reset(self) -> None:
        self.element.evaluate("(of) => of.put(of.first)")

    def middle(self) -> tuple[float, float]:
        """The place on the window of its middle, or of the last of two."""
        box = self.element.evaluate(PLACE, (self.last + 1) // 2 if self.choice else 0)
        x, y = 0.5 if self.choice or self.last > 1 else 0.9, 0.5
        if self.axis:  # on a pad, the other slider stays where it is
            left, bottom = self.element.evaluate(POINT)
            x, y = (x, 1 - bottom) if self.axis == "x" else (left, y)
        return (box["x"] + 1 + x * (box["width"] - 2), box["y"] + 1 + y * (box["height"] - 2))

    def pixels(self) -> np.ndarray:
        """The picture as it is painted."""
        taken = self.page.screenshot(clip=self.element.evaluate(PLACE, "picture"))
        return np.asarray(Image.open(io.BytesIO(taken)).convert("RGB")).astype(int)

    def require_moves(self, click, painted: bool = False) -> None:
        """Assert that a key and a click at its middle change value, picture and alt text.

        A screenshot takes longer than all the rest, so not all sliders are looked at as painted.
        """
        assert self.lies_open(), self.values
        self.put(0)
        first = self.pixels() if painted else None
        self.element.evaluate("(of) => of.handle().focus()")
        self.page.keyboard.press("ArrowUp" if self.axis == "y" else "ArrowRight")
        assert self.reaches(1, 1) == 1, self.values
        self.put(0)
        click(*self.middle())
        stop = self.reaches(1, self.last)
        assert stop > 0 and not self.element.evaluate(ALIKE, [0, stop]), self.values
        if painted:  # painted again, the same picture may be off by a shade
            second = self.pixels()
            assert first.shape != second.shape or abs(first - second).max() > 8, self.values


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
