"""`explore(draw, beta=[...])`: a slider that works in a live kernel and on a page without one.

    explore(draw, beta=slider(np.linspace(0, 2, 21), "how much is erased",
                              marks={1: "a projection", 2: "a reflection"}, start=0.4))

In a live kernel, a move of a slider calls `draw` again. While the book is built, the environment
variable GEOLAB_EXPLORE is "static". Then frames.py draws every combination of values once, for a
page without a kernel. A drag there shows pictures between its frames (between.py). Two numbers
that belong together are set by one point:

    explore(draw, gate=slider(...), angle=slider(...), pad=("gate", "angle"))
"""

import html
import math
import numbers
import os
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import ipywidgets
import matplotlib
from matplotlib.figure import Figure

from geolab.show import frames
from geolab.show.figures import captioned, svg

MOST_FRAMES = 100
MOST_BUTTONS = 5     # beside a picture; more words stand on a slider
MILLISECONDS = 350   # between two frames while a slider plays
SYMBOLS = {"beta": "β", "gate": "γ", "alpha": "α", "eps": "ε", "mu": "μ", "rho": "ρ",
           "tau": "τ", "theta": "θ", "depth": "L", "layers": "L"}


class Slider(NamedTuple):
    """A slider's values, and the texts beside them."""

    values: list
    words: str                 # what the quantity is called
    marks: dict[int, str]      # index of a value -> what happens there
    start: int                 # index of the first value that is shown
    smooth: bool               # whether it has values between those

    @property
    def choice(self) -> bool:
        """True if buttons show its values: two of any kind, or a few words."""
        count = len(self.values)
        return count == 2 or (2 < count <= MOST_BUTTONS and not _numbers(self.values))


def slider(values: Sequence, words: str = "", marks: Mapping | None = None, start=None,
           smooth: bool = False) -> Slider:
    """Make a slider for `explore`, with the name of its quantity and marks at values that are worth
    a look.

    Arguments:
        values: in order. About 21 are right for a figure's only slider. On a page, two values, or
            at most five words, become buttons.
        words: the name of the quantity, such as "how much is erased".
        marks: value -> what happens there. Each is one of the values, up to rounding.
        start: the value that is shown first, likewise; the middle one by default.
        smooth: whether `draw` has a picture for each number between two values. A drag on a page
            then shows the pictures between its frames, and the page's build compares them with
            drawn ones. A count has no values between, and stays as it is.
    Raises: ValueError for an empty list, a mark or a start that isn't a value, or smooth values
        that are words.
    """
    options = values.tolist() if hasattr(values, "tolist") else list(values)
    if not options:
        raise ValueError("values must have at least one entry, got an empty list")
    placed = {_index(options, value): said for value, said in (marks or {}).items()}
    first = len(options) // 2 if start is None else _index(options, start)
    if smooth and not _numbers(options):
        raise ValueError(f"smooth values must be numbers, got {options!r}")
    return Slider(options, words, placed, first, smooth)


def _numbers(options: Sequence) -> bool:
    return all(isinstance(option, numbers.Real) and not isinstance(option, bool)
               for option in options)


def _index(options: list, value) -> int:
    """The place of a value among the options: of itself, or else of the nearest but for rounding.
    """
    if value in options:
        return options.index(value)
    if _numbers((*options, value)):
        size = max(map(abs, options))  # relative, to float32: 1e-12 isn't 1e-10
        near = min(range(len(options)), key=lambda k: abs(options[k] - value))
        if math.isclose(options[near], value, abs_tol=1e-6 * size):
            return near
    raise ValueError(f"a mark or start must be one of the values, got {value!r}")


def explore(draw: Callable[..., Figure], caption: str = "", pad: tuple[str, str] | None = None,
            **values: Sequence):
    """Show a figure under sliders.

    Arguments:
        draw: takes one value of each slider by name and returns a matplotlib Figure. Its docstring
            is the alt text: it tells the message of the picture in words. Train and load outside
            of `draw`, which is called for every combination of values.
        caption: one or two sentences under the picture; the page numbers it.
        pad: the names of two sliders of numbers that belong together, such as ("gate", "angle"). A
            page then has a square in which a point is dragged, the first one across and the second
            one up. In a live kernel the two sliders stand side by side.
        values: for each slider, its list of values, or what `slider` makes of them. At most 100
            combinations are possible.

    Returns: in a live kernel, an ipywidgets box whose `sliders` maps each name to its widget. While
        the book is built, the HTML of all frames.

    Raises:
        ValueError: for no slider, an empty list, a pad that isn't of two sliders of numbers, too
            many combinations, or a `draw` without a docstring.
        RuntimeError: when `draw` fails; the message names the values.

    Warns: while the book is built, of frames that are too large for a page, and of a smooth slider
        between whose values the page's picture would be wrong. That one then goes in steps.
    """
    if not values:
        raise ValueError("explore needs at least one slider, for example beta=[0, 1, 2]")
    for name, options in values.items():
        if not isinstance(options, Slider) and not len(options):
            raise ValueError(f"explore got an empty list for {name}; give it the slider's values")
    choices = {name: options if isinstance(options, Slider) else slider(options)
               for name, options in values.items()}
    if pad is not None:
        choices = _pad_first(choices, pad)
    count = math.prod(len(choice.values) for choice in choices.values())
    if count > MOST_FRAMES:
        raise ValueError(f"explore got {count} combinations, more than {MOST_FRAMES}; "
                         "the page draws all of them, so use fewer values")
    if not (draw.__doc__ or "").strip():
        raise ValueError(f"{draw.__name__} needs a docstring: it is the alt text of the picture")
    alt = " ".join(draw.__doc__.split())
    if os.environ.get("GEOLAB_EXPLORE") != "static":
        return _live(draw, choices, alt, caption, pad is not None)
    shown = [frames.Shown(name, SYMBOLS.get(name, name), [_text(v) for v in choice.values],
                          choice.words, choice.marks, choice.start, choice.smooth, choice.choice,
                          "xy"[pad.index(name)] if pad and name in pad else "")
             for name, choice in choices.items()]
    # a curve that matplotlib simplifies has another number of points in each frame
    smooth = any(choice.smooth for choice in choices.values())
    with matplotlib.rc_context({"path.simplify": not smooth}):
        return frames.page(lambda *chosen: _frame(draw, dict(zip(choices, chosen, strict=True))),
                           [choice.values for choice in choices.values()], shown, alt, caption,
                           draw.__name__)


def _pad_first(choices: dict[str, Slider], pad: tuple[str, str]) -> dict[str, Slider]:
    """The sliders in their order on a page, where those of the pad come first."""
    names = list(pad) if isinstance(pad, (tuple, list)) else []
    if len(set(names)) != 2 or len(names) != 2 or not set(names) <= set(choices):
        raise ValueError(f"pad must name two of the sliders {', '.join(choices)}, across first; "
                         f"got {pad!r}")
    for name in names:
        if len(choices[name].values) < 3 or not _numbers(choices[name].values):
            raise ValueError(f"pad wants sliders of three or more numbers; {name} has "
                             f"{choices[name].values!r}")
    return {name: choices[name] for name in dict.fromkeys([*names, *choices])}


def _frame(draw, chosen: dict) -> str:
    arguments = ", ".join(f"{name}={_text(value, '-')}" for name, value in chosen.items())
    call = f"{draw.__name__}({arguments})"
    try:
        figure = draw(**chosen)
    except Exception as error:
        raise RuntimeError(f"{call} raised {type(error).__name__}: {error}") from error
    if not isinstance(figure, Figure):
        raise RuntimeError(f"{call} must return a matplotlib Figure, got {type(figure).__name__}")
    return svg(figure)


def _text(value, minus: str = "−") -> str:
    if not _numbers((value,)):
        return str(value)
    text = f"{value:g}"
    return (text if len(text) <= 7 else f"{value:.3g}").replace("-", minus)


def _live(draw, choices: dict[str, Slider], alt: str, caption: str,
          pad: bool) -> ipywidgets.VBox:
    sliders = {name: ipywidgets.SelectionSlider(
        options=[(_text(value), value) for value in choice.values],
        value=choice.values[choice.start], description=SYMBOLS.get(name, name))
        for name, choice in choices.items()}
    picture, message = ipywidgets.HTML(layout={"max_width": "38rem"}), ipywidgets.HTML()

    def redraw(change=None):
        try:
            frame = _frame(draw, {name: slider.value for name, slider in sliders.items()})
        except RuntimeError as error:  # the traceback of a callback goes to a log that nobody reads
            message.value = f"<b>{html.escape(str(error))}</b>"
            raise
        image = f'<div role="img" aria-label="{html.escape(alt)}">{frame}</div>'
        picture.value = captioned(image, caption)
        message.value = ""

    redraw()
    for of in sliders.values():
        of.observe(redraw, names="value")
    rows = [_row(sliders[name], choice) for name, choice in choices.items()]
    if pad:
        rows[:2] = [ipywidgets.HBox(rows[:2], layout={"flex_flow": "row wrap"})]
    box = ipywidgets.VBox([picture, *rows, message])
    box.sliders, box.picture, box.message = sliders, picture, message
    return box


def _row(widget: ipywidgets.SelectionSlider, choice: Slider) -> ipywidgets.VBox:
    """A slider, a play button, and the same values as a list.

    A screen reader says the name of a list, but not that of a slider's handle.
    """
    play = ipywidgets.Play(min=0, max=len(choice.values) - 1, value=choice.start,
                           interval=MILLISECONDS)
    places = [(f"{_text(value)}: {choice.marks[k]}" if k in choice.marks else _text(value), k)
              for k, value in enumerate(choice.values)]
    listed = ipywidgets.Dropdown(options=places, value=choice.start,
                                 description=choice.words or widget.description,
                                 style={"description_width": "initial"})
    ipywidgets.jslink((play, "value"), (widget, "index"))
    ipywidgets.link((listed, "index"), (widget, "index"))
    marks = "; ".join(f"{_text(choice.values[k])}: {said}" for k, said in choice.marks.items())
    return ipywidgets.VBox([ipywidgets.HBox([widget, play, listed]),
                            ipywidgets.HTML(html.escape(marks))])
