"""The picture between frames: p = Σ wₖ aₖ for each coordinate, colour and number, where Σ wₖ = 1.

Between two frames the weights are 1 − t and t. Between four, the corners of a pad's cell, they are
(1 − s)(1 − t), (1 − s) t, s (1 − t) and s t. Frames are alike if they have the same elements, with
the same words between their numbers. A text whose words differ is that of the nearest frame.
sliders.js does the same on a page.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import count

UNIT = re.compile(r"<text\b.*?</text>|<[^>]+>|[^<]+", re.S)  # a text is one, with all that is in it
NUMBER = re.compile(r"(#[0-9a-f]{6}\b|(?<![\w.])[-−]?\d+(?:,\d{3})*(?:\.\d+)?|\d+(?:\.\d+)?)")
NAME = re.compile(r'(\bid="|url\(#|href="#)([^")]+)')
LINE = 2.0          # points, the width of a line
COLOUR, NUMERAL = 0.1, 0.03  # of the scale from black to white, and of a printed number


def between(a: str, b: str, share: float) -> str | None:
    """The picture at a share of the way from frame a to frame b, or None if they aren't alike.

    Arguments:
        a, b: SVG text of `figures.svg`.
        share: 0 gives a, 1 gives b.
    """
    return mean([a, b], [1 - share, share])


def mean(frames: Sequence[str], weights: Sequence[float]) -> str | None:
    """The mean of frames with these weights, which sum to 1, or None if they aren't alike."""
    units = _alike(*frames)
    if units is None:
        return None
    nearest = max(range(len(frames)), key=lambda k: (weights[k], k))
    return "".join(_mixed(unit, weights) if all(_words(x) == _words(unit[0]) for x in unit) else
                   unit[nearest] for unit in units)


def error(picture: str, drawn: str) -> float:
    """The distance of a picture from a drawn one, in units of what a reader can see.

    1 is a line's width for a coordinate, a tenth of the scale for a colour, and 3 %, or one unit of
    its last digit, for a printed number. It is infinite if the two aren't alike.
    """
    pairs = _alike(picture, drawn)
    if pairs is None:
        return float("inf")
    return max((_error(p, q, x.endswith("</text>")) for x, y in pairs if _words(x) == _words(y)
                for p, q in zip(NUMBER.findall(x), NUMBER.findall(y), strict=True)), default=0.0)


def bend(frames: list[str]) -> int:
    """The index of the frame that is farthest from the middle of its alike neighbours, from 1."""
    def far(k: int) -> float:
        middle = between(frames[k - 1], frames[k + 1], 0.5)
        off = float("inf") if middle is None else error(middle, frames[k])
        return off if off < float("inf") else -1.0
    return max(range(1, len(frames) - 1), key=far, default=1)


def named(frame: str) -> str:
    """The frame with names by their order. matplotlib makes a name of what it draws."""
    order, known = count(), {}
    return NAME.sub(lambda at: at[1] + known.setdefault(at[2], f"n{next(order)}"), frame)


def _alike(*frames: str) -> list[tuple[str, ...]] | None:
    first, *others = units = [UNIT.findall(named(frame)) for frame in frames]
    alike = all(len(other) == len(first) and all(
        _words(x) == _words(y) or (x.startswith("<text") and y.startswith("<text"))
        for x, y in zip(first, other, strict=True)) for other in others)
    return list(zip(*units, strict=True)) if alike else None


def _words(unit: str) -> list[str]:
    return NUMBER.split(unit)[::2]


def _mixed(unit: Sequence[str], weights: Sequence[float]) -> str:
    parts, tag = [], ""
    for k, same in enumerate(zip(*map(NUMBER.split, unit), strict=True)):
        if k % 2 == 0:
            tag += same[0]
        inside = tag.rfind("<") > tag.rfind(">")  # a coordinate, which is finer than a numeral
        parts.append(same[0] if len(set(same)) == 1 else _number(same, weights, 2 if inside else 0))
    return "".join(parts)


def _number(parts: Sequence[str], weights: Sequence[float], places: int) -> str:
    if parts[0].startswith("#"):
        return "#" + "".join(f"{round(_sum(weights, of)):02x}"
                             for of in zip(*map(_rgb, parts), strict=True))
    places = max(places, *(len(part.partition(".")[2]) for part in parts))
    value = round(_sum(weights, map(_value, parts)), places) + 0.0  # no -0
    joined = "".join(parts)
    text = f"{value:{',' if ',' in joined else ''}.{places}f}"
    return text.replace("-", "−") if "−" in joined else text


def _sum(weights: Sequence[float], numbers: Iterable[float]) -> float:
    return sum(weight * number for weight, number in zip(weights, numbers, strict=True))


def _error(p: str, q: str, numeral: bool) -> float:
    if p.startswith("#"):
        return max(abs(u - v) for u, v in zip(_rgb(p), _rgb(q), strict=True)) / 255 / COLOUR
    off = abs(_value(p) - _value(q))
    if not numeral:
        return off / LINE
    last = 10.0 ** -min(len(part.partition(".")[2]) for part in (p, q))
    return off / max(NUMERAL * abs(_value(q)), 1.01 * last)


def _rgb(colour: str) -> list[int]:
    return [int(colour[k:k + 2], 16) for k in (1, 3, 5)]


def _value(text: str) -> float:
    return float(text.replace("−", "-").replace(",", ""))
