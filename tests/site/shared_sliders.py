"""A slider of a built page, moved as a reader moves it, in any browser."""

import io
import json
from typing import NamedTuple

import numpy as np
from PIL import Image


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


class Shown(NamedTuple):
    """What a reader sees of a figure and hears of its alt text."""

    value: str
    frame: str
    pixels: Pixels
    alt: str


class Slider:
    """One slider of a figure on the page."""

    def __init__(self, figure, k: int):
        self.picture, self.input = figure.locator("[role=img]"), figure.locator("input").nth(k)
        self.output = figure.locator("output").nth(k)
        self.data = json.loads(figure.locator("script[type='application/json']").text_content())
        self.values = self.data["values"][k]

    def shown(self) -> Shown:
        pixels = Pixels(self.picture.screenshot())
        return Shown(self.output.inner_text(), self.picture.inner_html(), pixels,
                     self.picture.get_attribute("aria-label"))

    def press(self, key: str) -> Shown:
        self.input.press(key)
        return self.shown()

    def at(self, share: float) -> tuple[float, float]:
        """The place on the window at this share of the track."""
        self.input.scroll_into_view_if_needed()
        box = self.input.bounding_box()
        return box["x"] + 2 + share * (box["width"] - 4), box["y"] + box["height"] / 2


def figures(visit):
    return visit.page.locator(".geolab-explore").all()


def sliders(visit):
    """One after the other. The others stand where a reader finds them: each is put back."""
    for figure in figures(visit):
        for k in range(figure.locator("input").count()):
            slider = Slider(figure, k)
            yield slider
            slider.input.evaluate("""(input) => {
                input.value = input.defaultValue;
                input.dispatchEvent(new Event("input", {bubbles: true}));
            }""")


def same_frame(one: Shown, other: Shown) -> bool:
    """Whether the same frame is back, whatever shades it is painted in this time."""
    return (one.value, one.frame, one.alt) == (other.value, other.frame, other.alt)


def all_differ(one: Shown, other: Shown) -> bool:
    return all(seen != again for seen, again in zip(one, other))


def all_moved(slider, first, middle, last) -> bool:
    """Whether the picture changed. With two values there is no middle, so only the ends count."""
    if len(slider.values) == 2:
        return all_differ(first, last)
    return all_differ(first, middle) and all_differ(middle, last)
