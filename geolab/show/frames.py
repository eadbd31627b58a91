"""A slider on a page without a kernel: every frame is drawn once, and a script shows one of them.

Frames are SVG, and share their lines, so that twenty of them take little more than a few.
"""

import gzip
import html
import itertools
import json
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from IPython.display import HTML

from geolab.show.between import bend, between, error, mean
from geolab.show.figures import printed, toned

MOST_BYTES = 300_000  # of a page as it travels, compressed
SCRIPT = (Path(__file__).parent / "sliders.js").read_text()


class Shown(NamedTuple):
    """The texts and values of a slider on a page."""

    name: str
    symbol: str
    values: list[str]
    words: str
    marks: dict[int, str]   # index of a value -> what happens there
    start: int              # index of the first value that is shown
    smooth: bool            # whether a drag shows pictures between its frames
    choice: bool            # whether its values are buttons, of which one is chosen
    axis: str               # "x" or "y" of a pad, or "": the first two sliders may be a pad


def page(frame: Callable[..., str], values: Sequence[list], sliders: list[Shown], alt: str,
         caption: str, name: str) -> HTML:
    """The picture at the sliders' starts, the sliders, all frames, and the script.

    Arguments:
        frame: takes one value of each slider and returns its picture as SVG.
        values: the values of each slider.
        alt: the message of the picture in words.
        caption: stands under the sliders.
        name: the name of the drawing function, for errors.
    Warns: of frames that are too large for a page. A smooth slider whose picture between two
        frames isn't the drawn one is shown in steps, and this warns of it: with other numbers a
        cell still has its picture, and the book's own pages may hold no warning.
    """
    drawn = [frame(*chosen).strip().split("\n") for chosen in itertools.product(*values)]
    lines: dict[tuple[str, int], int] = {}
    coded = [_coded(picture, lines) for picture in drawn]
    data = json.dumps({"lines": [line for line, _ in lines], "frames": coded,
                       "values": [shown.values for shown in sliders],
                       "names": [shown.symbol for shown in sliders], "alt": alt,
                       "keys": [f"{name}.{shown.name}" for shown in sliders]},
                      ensure_ascii=False, separators=(",", ":"))
    # "</script" would end the script, and "<!--<script" would hide its end
    data = data.replace("</", "<\\/").replace("<!", "<\\u0021")
    starts = [shown.start for shown in sliders]
    grid = np.arange(len(drawn)).reshape([len(shown.values) for shown in sliders])
    first = grid[tuple(starts)]
    for axis, shown in enumerate(sliders := list(sliders)):
        if shown.smooth:
            along = grid[(*starts[:axis], slice(None), *starts[axis + 1:])]
            others = [options[k] for options, k in zip(values, starts, strict=True)]

            def at(value, axis=axis, others=others):
                return frame(*others[:axis], value, *others[axis + 1:])

            bad = _bad_between(at, values[axis], ["\n".join(drawn[k]) for k in along])
            if bad:
                warnings.warn(f"{name} is shown in steps of {shown.name}: {bad}", stacklevel=2)
                sliders[axis] = shown._replace(smooth=False)
    pad, rest = [of for of in sliders if of.axis], [of for of in sliders if not of.axis]
    if len(pad) == 2 and all(shown.smooth for shown in pad):
        square = grid[(slice(None), slice(None), *starts[2:])]
        others = [options[k] for options, k in zip(values, starts, strict=True)][2:]
        bad = _bad_cell(lambda x, y: frame(x, y, *others), values[:2],
                        [["\n".join(drawn[k]) for k in row] for row in square])
        if bad:
            warnings.warn(f"{name} is shown in steps of {pad[0].name} and {pad[1].name}: {bad}",
                          stacklevel=2)
            pad = [shown._replace(smooth=False) for shown in pad]
    controls = (_pad(*pad) if pad else "") + "".join(map(_control, rest))
    picture = "\n".join(drawn[first])
    under = f'<div class="geolab-caption">{toned(caption)}</div>' if caption else ""
    text = (f'<div class="geolab-explore">'
            f'<div role="img" aria-label="{html.escape(alt)}">{picture}</div>'
            f'<div class="geolab-sliders" hidden>{controls}</div>{under}'
            f'<p class="geolab-still">The slider needs JavaScript; this is its first picture.</p>'
            f'<script type="application/json">{data}</script><script>{SCRIPT}</script></div>')
    size = len(gzip.compress(text.encode()))
    if size > MOST_BYTES:
        warnings.warn(f"the frames of {name} take {size:,} bytes as they travel, more than "
                      f"{MOST_BYTES:,}: use fewer values, or fewer points per curve", stacklevel=2)
    return HTML(text)


def _bad_between(frame: Callable[[float], str], values: list, drawn: list[str]) -> str:
    """Say where a picture half-way isn't the drawn one, on both sides of the frame that bends most.
    """
    most = bend(drawn)
    for k in range(most - 1, min(most + 1, len(drawn) - 1)):
        low, high = values[k:k + 2]
        picture = between(drawn[k], drawn[k + 1], 0.5)
        off = 0 if picture is None else error(picture, frame((low + high) / 2).strip())
        if off > 1:
            return (f"half-way between {low:g} and {high:g} its picture is {off:.1f} line widths "
                    "from the drawn one; give more values there, or leave smooth out")
    return ""


def _bad_cell(frame: Callable[[float, float], str], values: Sequence[list],
              drawn: list[list[str]]) -> str:
    """Say in which cell of a pad the picture in the middle isn't the drawn one. It looks at those
    around the frame that bends most."""
    most = bend([row[len(row) // 2] for row in drawn]), bend(drawn[len(drawn) // 2])
    cells = [range(k - 1, min(k + 1, len(of) - 1)) for k, of in zip(most, values, strict=True)]
    for i, j in itertools.product(*cells):
        corners = [drawn[i][j], drawn[i][j + 1], drawn[i + 1][j], drawn[i + 1][j + 1]]
        picture = mean(corners, [0.25] * 4)
        x, y = ((of[k] + of[k + 1]) / 2 for k, of in zip((i, j), values, strict=True))
        off = 0 if picture is None else error(picture, frame(x, y).strip())
        if off > 1:
            return (f"at {x:g} and {y:g}, in the middle of four frames, its picture is {off:.1f} "
                    "line widths from the drawn one; give more values there, or leave smooth out")
    return ""


def _pad(across: Shown, up: Shown) -> str:
    """A square in which a point is dragged. For keys and screen readers, the tracks of its two
    sliders lie unseen over the square."""
    counts = [len(shown.values) - 1 for shown in (across, up)]
    lines = "".join(f'<i style="{side}:{100 * k / count:.4g}%"></i>'
                    for shown, side, count in zip((across, up), ("left", "bottom"), counts,
                                                  strict=True) for k in shown.marks)
    called = html.escape(f"{across.name} across, {up.name} up")
    return (f'<div class="geolab-pad" role="group" aria-label="{called}">'
            f'<div class="geolab-square" style="--columns:{counts[0]};--rows:{counts[1]}">{lines}'
            f'<span class="geolab-point"></span></div>{_slider(across)}{_slider(up)}</div>')


def _control(shown: Shown) -> str:
    return _choice(shown) if shown.choice else _slider(shown)


def _choice(shown: Shown) -> str:
    """Its name, and a radio button with each value. The script gives the buttons a common name."""
    words = f" <span>{printed(shown.words)}</span>" if shown.words else ""
    marks = {k: f": {printed(said)}" for k, said in shown.marks.items()}
    buttons = "".join(
        f'<label><input type="radio" autocomplete="off"{" checked" * (k == shown.start)}> '
        f'<span>{printed(value)}</span>{marks.get(k, "")}</label>'
        for k, value in enumerate(shown.values))
    return (f'<fieldset class="geolab-slider"><legend class="geolab-name"><strong>'
            f'{html.escape(shown.symbol)}</strong>{words}</legend>{buttons}</fieldset>')


def _slider(shown: Shown) -> str:
    """Its name, track, ends and marks, and buttons to step and play. The script moves them. On a
    pad the square takes the place of the buttons."""
    last = len(shown.values) - 1
    called = html.escape(shown.name)
    words = f" <span>{printed(shown.words)}</span>" if shown.words else ""
    said = f", {printed(shown.words)}" if shown.words else ""
    side = "bottom" if shown.axis == "y" else "left"
    marks = "".join(
        f'<button type="button" data-at="{k}" style="{side}:{100 * k / max(last, 1):.4g}%">'
        f'{printed(text)}</button>' for k, text in shown.marks.items())
    of = arrow = heard = quiet = upright = ""
    buttons = (
        '<div class="geolab-buttons">'
        f'<button type="button" data-step="-1" aria-label="{called}: one step back">‹</button>'
        f'<button type="button" data-step="1" aria-label="{called}: one step on">›</button>'
        f'<button type="button" data-play aria-label="{called}: play">▶</button></div>')
    if shown.axis:  # two numbers change at once, so each is said with its name
        of, buttons = f' data-axis="{shown.axis}"', ""
        arrow = f'<span aria-hidden="true">{"→" if shown.axis == "x" else "↑"}</span> '
        heard, quiet = ' aria-live="polite" aria-atomic="true"', ' aria-live="off"'
        upright = 'aria-orientation="vertical" ' * (shown.axis == "y")
    return (f'<div class="geolab-slider"{of}><div class="geolab-name"{heard}>{arrow}<strong>'
            f'{html.escape(shown.symbol)}</strong>{words} =\u00a0'
            f'<output{quiet}></output></div>'
            f'<input type="range" min="0" max="{last}" value="{shown.start}" autocomplete="off" '
            f'{"data-smooth " * shown.smooth}{upright}'
            f'aria-label="{called}{said}" style="--ticks:{max(last, 1)}">'
            f'<div class="geolab-ends" aria-hidden="true"><span>{html.escape(shown.values[0])}'
            f'</span><span>{html.escape(shown.values[-1])}</span></div>'
            + (f'<div class="geolab-marks">{marks}</div>' if marks else "") + buttons + '</div>')


def _coded(frame: list[str], lines: dict[tuple[str, int], int]) -> list[tuple[int, int]]:
    """A frame as runs (first, count) of consecutive entries of `lines`. New lines are added to
    `lines`.

    A key of `lines` is a line of SVG and how often it stood in the frame before. So a line that
    repeats has several entries, and a frame consists of a few long runs.
    """
    indices, seen = [], Counter()
    for line in frame:
        indices.append(lines.setdefault((line, seen[line]), len(lines)))
        seen[line] += 1
    # within a run, an index and its place in the frame differ by a constant
    runs = itertools.groupby(enumerate(indices), lambda entry: entry[1] - entry[0])
    return [(run[0][1], len(run)) for run in (list(run) for _, run in runs)]
