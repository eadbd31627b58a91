"""`explore(draw, beta=[...])`: a slider that works in a live kernel, and on a static page without one.

Live, moving a slider calls `draw` again. While the book is built (the environment says GEOLAB_EXPLORE=static),
every combination is drawn once, and the page carries the frames as SVG and a few lines of plain JavaScript.
"""

import html
import itertools
import json
import numbers
import os
from collections import Counter
from collections.abc import Callable, Sequence

import ipywidgets
from IPython.display import HTML
from matplotlib.figure import Figure

from geolab.show.figures import svg

MOST_FRAMES = 100
MOST_BYTES = 400_000
SYMBOLS = {"beta": "β", "gate": "γ", "alpha": "α", "eps": "ε", "mu": "μ", "depth": "L", "layers": "L", "rho": "ρ"}

# What the page runs, for one figure: read the slider positions, put the frame's lines together, show them.
SCRIPT = """(()=>{
const box=document.currentScript.parentElement,data=JSON.parse(box.querySelector('[type="application/json"]').textContent),
sliders=[...box.querySelectorAll("input")],picture=box.firstElementChild;
const show=()=>{let n=0,alt=data.alt,out="";
sliders.forEach((s,k)=>{const v=data.values[k][s.value];n=n*(+s.max+1)+ +s.value;
s.nextElementSibling.value=v;s.setAttribute("aria-valuetext",v);alt+=`; ${data.names[k]} = ${v}`});
for(const [from,count] of data.frames[n])out+=data.lines.slice(from,from+count).join("\\n")+"\\n";
picture.innerHTML=out;picture.setAttribute("aria-label",alt)};
sliders.forEach(s=>s.oninput=show);box.querySelector(".geolab-sliders").hidden=false;show()})()"""


def explore(draw: Callable[..., Figure], **values: Sequence):
    """A figure under sliders.

    Arguments:
        draw: takes one value of each slider by name and returns a matplotlib Figure. Its docstring is the alt text:
            the message of the picture in words. Train and load outside of it; it is called for every combination.
        values: for each slider, the list of its values; it starts in the middle. About 21 for one slider, at most
            100 combinations.
    Returns: in a live kernel, an ipywidgets box, whose `sliders` maps each name to its widget; while the book is built,
        the HTML of all frames.
    Raises: ValueError for no slider, an empty list, too many combinations, a draw without a docstring, or
        frames too large for a page; RuntimeError naming the values at which draw failed.
    """
    values = {name: list(options) for name, options in values.items()}
    if not values:
        raise ValueError("explore needs at least one slider, for example beta=[0, 1, 2]")
    for name, options in values.items():
        if not options:
            raise ValueError(f"explore got an empty list for {name}; give it the values that its slider shall take")
    frames = 1
    for options in values.values():
        frames *= len(options)
    if frames > MOST_FRAMES:
        raise ValueError(f"explore got {frames} combinations, more than {MOST_FRAMES}: every one is drawn on the page")
    if not (draw.__doc__ or "").strip():
        raise ValueError(f"{draw.__name__} needs a docstring: it is the alt text of the picture")
    return (_static if os.environ.get("GEOLAB_EXPLORE") == "static" else _live)(draw, values)


def _frame(draw, **chosen) -> str:
    at = ", ".join(f"{name}={_text(value)}" for name, value in chosen.items())
    try:
        figure = draw(**chosen)
    except Exception as error:
        raise RuntimeError(f"{draw.__name__}({at}) raised {type(error).__name__}: {error}") from error
    if not isinstance(figure, Figure):
        raise RuntimeError(f"{draw.__name__}({at}) must return a matplotlib Figure, got {type(figure).__name__}")
    return svg(figure)


def _text(value) -> str:
    return f"{value:g}" if isinstance(value, numbers.Real) else str(value)


def _alt(draw) -> str:
    return " ".join(draw.__doc__.split())


def _live(draw, values):
    sliders = {name: ipywidgets.SelectionSlider(
        options=[(_text(v), v) for v in options], value=options[len(options) // 2], description=SYMBOLS.get(name, name),
        continuous_update=True) for name, options in values.items()}
    picture = ipywidgets.Image(format="svg+xml", layout={"max_width": "38rem"})
    message = ipywidgets.HTML()

    def redraw(change=None):
        try:
            picture.value = _frame(draw, **{name: slider.value for name, slider in sliders.items()}).encode()
            message.value = ""
        except RuntimeError as error:  # a callback's traceback goes to a log that nobody reads
            message.value = f"<b>{html.escape(str(error))}</b>"
            raise

    redraw()
    for slider in sliders.values():
        slider.observe(redraw, names="value")
    box = ipywidgets.VBox([*sliders.values(), picture, message])
    box.sliders, box.picture, box.message = sliders, picture, message
    return box


def _static(draw, values):
    frames = [_frame(draw, **dict(zip(values, chosen))).strip().split("\n")
              for chosen in itertools.product(*values.values())]
    lines: dict[tuple[str, int], int] = {}  # a line and how often it stood before: so a frame is a few long runs
    coded = [_runs([lines.setdefault(line, len(lines)) for line in _numbered(frame)]) for frame in frames]
    middle = 0
    for options in values.values():
        middle = middle * len(options) + len(options) // 2
    labels = [[_text(v) for v in options] for options in values.values()]
    names = [SYMBOLS.get(name, name) for name in values]
    # "</script" would end the script, and "<!--<script" would swallow its end
    data = json.dumps({"lines": [line for line, _ in lines], "frames": coded, "values": labels, "names": names, "alt": _alt(draw)},
                      ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/").replace("<!", "<\\u0021")
    sliders = "".join(
        f'<label>{html.escape(symbol)} <input type="range" min="0" max="{len(shown) - 1}" value="{len(shown) // 2}" '
        f'autocomplete="off" aria-label="{html.escape(name)}"> <output></output></label>'
        for name, symbol, shown in zip(values, names, labels))
    first = "\n".join(frames[middle])
    page = (f'<div class="geolab-explore"><div role="img" aria-label="{html.escape(_alt(draw))}">{first}</div>'
            f'<div class="geolab-sliders" hidden>{sliders}</div>'
            f'<noscript>The slider needs JavaScript; this is its middle frame.</noscript>'
            f'<script type="application/json">{data}</script><script>{SCRIPT}</script></div>')
    if len(page.encode()) > MOST_BYTES:
        raise ValueError(f"the frames of {draw.__name__} take {len(page.encode()):,} bytes, more than {MOST_BYTES:,}: "
                         "use fewer values, or fewer points a curve")
    return HTML(page)


def _numbered(frame: list[str]) -> list[tuple[str, int]]:
    """["a", "b", "a"] -> [("a", 0), ("b", 0), ("a", 1)]."""
    numbered, seen = [], Counter()
    for line in frame:
        numbered.append((line, seen[line]))
        seen[line] += 1
    return numbered


def _runs(indices: list[int]) -> list[tuple[int, int]]:
    """[3, 4, 5, 9] -> [(3, 3), (9, 1)]: consecutive lines as (first, count)."""
    runs: list[tuple[int, int]] = []
    for index in indices:
        if runs and sum(runs[-1]) == index:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((index, 1))
    return runs
