"""`explore(draw, beta=[...])`: a slider that works in a live kernel and on a page without one.

In a live kernel, a move of a slider calls `draw` again. While the book is built, the environment
variable GEOLAB_EXPLORE is "static". Then every combination of values is drawn once, and the page
carries the frames as SVG, and runs sliders.js for each figure.
"""

import html
import itertools
import json
import math
import numbers
import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import ipywidgets
import numpy as np
from IPython.display import HTML
from matplotlib.figure import Figure

from geolab.show.figures import svg

MOST_FRAMES = 100
MOST_BYTES = 400_000
SYMBOLS = {"beta": "β", "gate": "γ", "alpha": "α", "eps": "ε", "mu": "μ", "rho": "ρ",
           "depth": "L", "layers": "L"}
SCRIPT = (Path(__file__).parent / "sliders.js").read_text()


def explore(draw: Callable[..., Figure], **values: Sequence):
    """Show a figure under sliders.

    Arguments:
        draw: takes one value of each slider by name and returns a matplotlib Figure. Its docstring
            is the alt text: it tells the message of the picture in words. Train and load outside
            of `draw`, which is called for every combination of values.
        values: the list of values of each slider, which starts in the middle. About 21 values are
            right for one slider. At most 100 combinations are possible.

    Returns: in a live kernel, an ipywidgets box whose `sliders` maps each name to its widget. While
        the book is built, the HTML of all frames.

    Raises:
        ValueError: for no slider, an empty list, too many combinations, a `draw` without a
            docstring, or frames that are too large for a page.
        RuntimeError: when `draw` fails; the message names the values.
    """
    choices = {name: list(options) for name, options in values.items()}
    if not choices:
        raise ValueError("explore needs at least one slider, for example beta=[0, 1, 2]")
    for name, options in choices.items():
        if not options:
            raise ValueError(f"explore got an empty list for {name}; give it the slider's values")
    frames = math.prod(map(len, choices.values()))
    if frames > MOST_FRAMES:
        raise ValueError(f"explore got {frames} combinations, more than {MOST_FRAMES}; "
                         "the page draws all of them, so use fewer values")
    if not (draw.__doc__ or "").strip():
        raise ValueError(f"{draw.__name__} needs a docstring: it is the alt text of the picture")
    static = os.environ.get("GEOLAB_EXPLORE") == "static"
    return (_static if static else _live)(draw, choices)


def _frame(draw, chosen: dict) -> str:
    arguments = ", ".join(f"{name}={_text(value)}" for name, value in chosen.items())
    call = f"{draw.__name__}({arguments})"
    try:
        figure = draw(**chosen)
    except Exception as error:
        raise RuntimeError(f"{call} raised {type(error).__name__}: {error}") from error
    if not isinstance(figure, Figure):
        raise RuntimeError(f"{call} must return a matplotlib Figure, got {type(figure).__name__}")
    return svg(figure)


def _text(value) -> str:
    return f"{value:g}" if isinstance(value, numbers.Real) else str(value)


def _live(draw, choices: dict[str, list]) -> ipywidgets.VBox:
    sliders = {name: ipywidgets.SelectionSlider(
        options=[(_text(value), value) for value in options], value=options[len(options) // 2],
        description=SYMBOLS.get(name, name)) for name, options in choices.items()}
    picture = ipywidgets.Image(format="svg+xml", layout={"max_width": "38rem"})
    message = ipywidgets.HTML()

    def redraw(change=None):
        try:
            frame = _frame(draw, {name: slider.value for name, slider in sliders.items()})
        except RuntimeError as error:  # the traceback of a callback goes to a log that nobody reads
            message.value = f"<b>{html.escape(str(error))}</b>"
            raise
        picture.value, message.value = frame.encode(), ""

    redraw()
    for slider in sliders.values():
        slider.observe(redraw, names="value")
    box = ipywidgets.VBox([*sliders.values(), picture, message])
    box.sliders, box.picture, box.message = sliders, picture, message
    return box


def _static(draw, choices: dict[str, list]) -> HTML:
    frames = [_frame(draw, dict(zip(choices, chosen, strict=True))).strip().split("\n")
              for chosen in itertools.product(*choices.values())]
    lines: dict[tuple[str, int], int] = {}
    coded = [_coded(frame, lines) for frame in frames]
    alt = " ".join(draw.__doc__.split())
    symbols = [SYMBOLS.get(name, name) for name in choices]
    labels = [[_text(value) for value in options] for options in choices.values()]
    data = json.dumps({"lines": [line for line, _ in lines], "frames": coded, "values": labels,
                       "names": symbols, "alt": alt}, ensure_ascii=False, separators=(",", ":"))
    # "</script" would end the script, and "<!--<script" would hide its end
    data = data.replace("</", "<\\/").replace("<!", "<\\u0021")
    sliders = "".join(
        f'<label>{html.escape(symbol)} <input type="range" min="0" max="{len(shown) - 1}" '
        f'value="{len(shown) // 2}" autocomplete="off" aria-label="{html.escape(name)}"> '
        f'<output></output></label>'
        for name, symbol, shown in zip(choices, symbols, labels, strict=True))
    shape = [len(shown) for shown in labels]
    first = "\n".join(frames[np.ravel_multi_index([count // 2 for count in shape], shape)])
    page = (f'<div class="geolab-explore">'
            f'<div role="img" aria-label="{html.escape(alt)}">{first}</div>'
            f'<div class="geolab-sliders" hidden>{sliders}</div>'
            f'<noscript>The slider needs JavaScript; this is its middle frame.</noscript>'
            f'<script type="application/json">{data}</script><script>{SCRIPT}</script></div>')
    size = len(page.encode())
    if size > MOST_BYTES:
        raise ValueError(f"the frames of {draw.__name__} take {size:,} bytes, more than "
                         f"{MOST_BYTES:,}: use fewer values, or fewer points per curve")
    return HTML(page)


def _coded(frame: list[str], lines: dict[tuple[str, int], int]) -> list[tuple[int, int]]:
    """A frame as runs (first, count) of consecutive entries of `lines`, which gets what it lacks.

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
