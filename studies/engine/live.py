"""The run that a cell trains now, beside stored runs of the same cell.

    live("06/losses", histories, "loss (nats per byte)", floor=0.0, beats=start)
    stored_runs("06/losses")["mhc"]      # the same quantity of the stored runs: (runs,)

Two machines differ in the last digits, and training enlarges the difference. So a chapter asserts
nothing about a run that it trains: it shows the run in the band of stored runs, and draws its
conclusions from those. The same cells made them with other seeds, under other instruction sets, and
with first weights moved by one unit in the last place (`make stored-live`). They lie in
results/live/.
"""

import html
import itertools
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from geolab.show.figures import LEAK, LOOKS, QUIET, captioned, look, name_level, subplots, svg
from geolab.training import History
from studies.engine import results

FOLDER = results.FOLDER / "live"
LOG = "GEOLAB_LIVE_LOG"  # names a file that collects the numbers of live cells for the stored runs
# the looks of arms that aren't models of the book
OTHERS = ("additive", "delta", "post-LN", "mhc", "hyper", "jpmhc", "mgt", "emhc-exact")
# A validation set is finite: a loss may lie this share below the floor of infinite data
SLACK = 0.1


class LiveError(RuntimeError):
    """A trained number that no machine produces by chance.

    It isn't finite, it lies below its floor, or its model learned nothing.
    """


def live(label: str, runs: Mapping[str, History | float], quantity: str, *,
         floor: float | None = None, beats: float | Mapping[str, float] | None = None,
         baselines: Mapping[str, float] | None = None, log: bool = True,
         title: str = "") -> "Live":
    """Show this run over the band of the stored runs, and say in words whether it lies inside.

    The call is the last line of a cell.

    Arguments:
        label: "CHAPTER/name", such as "06/losses", the place of the stored runs.
        runs: arm -> its History, drawn as a curve, or one number, drawn as a dot.
        quantity: the label of the axis, with the unit.
        floor: a bound that no arm can be below, except those whose name ends in ", leak". Curves
            are drawn as multiples of it, unless it is None or 0.
        beats: a value that every arm, or each named arm, must end below; otherwise it has learned
            nothing.
        baselines: name -> value, drawn across.
        log: whether the axis is logarithmic.
    Raises: LiveError for a number that no machine produces by chance; ValueError for names in
        `beats` that aren't in `runs`.
    """
    ends = {arm: _end(run) for arm, run in runs.items()}
    everyone = {} if beats is None else dict.fromkeys(ends, beats)
    bars = beats if isinstance(beats, Mapping) else everyone
    if strange := set(bars) - set(ends):
        raise ValueError(f"beats must name arms of runs ({', '.join(ends)}), "
                         f"got {', '.join(sorted(strange))}")
    for arm, end in ends.items():
        lowest = -math.inf if floor is None or arm.endswith(LEAK) else floor
        _require_possible(arm, end, quantity, lowest, bars.get(arm, math.inf))
    shown = Live(label, dict(runs), quantity, floor, dict(baselines or {}), log, title)
    if path := os.environ.get(LOG):
        line = {"label": label, "runs": {arm: _plain(run) for arm, run in runs.items()},
                "outside": shown.outside}
        with Path(path).open("a") as file:
            file.write(json.dumps(line) + "\n")
    return shown


def stored_runs(label: str) -> dict[str, np.ndarray]:
    """Arm -> its last values over the stored runs, (runs,).

    Run k of every arm has the same seeds and the same machine, so runs can be compared in pairs.

    Raises: FileNotFoundError if no runs of this cell are stored; it names the command for that.
    """
    found = _stored(label)
    if not found:
        chapter = label.partition("/")[0]
        raise FileNotFoundError(f"{FOLDER / chapter}.json has no runs of {label!r}: "
                                f"make stored-live ONLY={chapter} makes them")
    return {arm: np.array([_end(run) for run in entry["runs"]]) for arm, entry in found.items()}


class Live:
    """A figure of this run over the band of the stored ones, and a sentence about it."""

    def __init__(self, label: str, runs: dict, quantity: str, floor: float | None,
                 baselines: dict, log: bool, title: str):
        self.label, self.runs, self.quantity, self.floor = label, runs, quantity, floor
        self.baselines, self.log, self.title = baselines, log, title
        self.stored = _stored(label)
        self.bands = {arm: (min(ends), max(ends)) for arm, entry in self.stored.items()
                      if arm in runs and (ends := [_end(run) for run in entry["runs"]])}
        self.reach = {arm: _widened(*band, log, -math.inf if floor is None or arm.endswith(LEAK)
                                    else floor) for arm, band in self.bands.items()}
        self.outside = [arm for arm, (low, high) in self.reach.items()
                        if not low <= _end(runs[arm]) <= high]

    @property
    def sentence(self) -> str:
        unknown = [arm for arm in self.runs if arm not in self.bands]
        count = max((len(self.stored[arm]["runs"]) for arm in self.bands), default=0)
        said = []
        if self.bands and not self.outside:
            said.append(f"This run is like the {count} stored ones.")
        for arm in self.outside:
            low, high = self.bands[arm]
            said.append(f"{arm} ends at {_end(self.runs[arm]):.3g}, and the {count} stored runs "
                        f"end at {low:.3g} to {high:.3g}.")
        if self.outside:
            said.append("So this run is an unusual one, as a few are: other seeds and processors "
                        "train other weights. What the text concludes, it takes from the stored "
                        "runs. After a change in a cell, this is what your change does.")
        if unknown:
            said.append(f"There are no stored runs of: {', '.join(unknown)}.")
        return " ".join(said)

    @property
    def caption(self) -> str:
        """A sentence that explains the figure."""
        word = self.quantity[:2].isascii() and self.quantity[:2].isalpha()  # else it is a symbol
        what = self.quantity[0].upper() + self.quantity[1:] if word else self.quantity
        others = "stored runs of the same cell, with other seeds and on other processors"
        if self.trained:
            return f"{what}. Line: this run. Band: {others}."
        return (f"{what}. Mark: this run. Strokes: {others}. Dark band: their range. Light band: "
                "half of it more on each side.")

    @property
    def trained(self) -> bool:
        """True if every arm has a curve."""
        return all(isinstance(run, History) for run in self.runs.values())

    def figure(self) -> Figure:
        return _curves(self) if self.trained else _dots(self)

    def __repr__(self) -> str:
        return self.sentence

    def _repr_html_(self) -> str:
        numbers = []
        for arm, run in self.runs.items():
            low, high = self.bands.get(arm, (None, None))
            stored = "" if low is None else f", stored {low:.3g} to {high:.3g}"
            numbers.append(f"{arm} {_end(run):.3g}{stored}")
        alt = f"{self.quantity} of this run beside the stored runs: {'; '.join(numbers)}."
        picture = f'<div role="img" aria-label="{html.escape(alt)}">{svg(self.figure())}</div>'
        return (f'<div class="geolab-live">{captioned(picture, self.caption)}'
                f"<p>{html.escape(self.sentence)}</p></div>")


def _require_possible(arm: str, end: float, quantity: str, floor: float, bar: float) -> None:
    if not math.isfinite(end):
        raise LiveError(f"{arm}: {quantity} ends at {end}, which is not a number to go on with. A "
                        "lower learning rate is the first thing to try")
    if end < floor - SLACK * abs(floor):
        raise LiveError(f"{arm}: {quantity} ends at {end:.4g}, below the floor {floor:.4g}, which "
                        "no model can beat that doesn't read its target. Look for a leak: a mask, "
                        "a shift of the targets, a mean over the sequence")
    if not end < bar:
        raise LiveError(f"{arm}: {quantity} ends at {end:.4g}, not below {bar:.4g}: it has learned "
                        "nothing. If you changed the cell, try more steps or another learning rate")


def _dots(shown: Live) -> Figure:
    arms = list(shown.runs)
    figure, axes = subplots(height=1.2 + 0.42 * len(arms))
    looks = _looks(arms)
    for row, arm in enumerate(arms):
        style = looks[arm]
        if arm in shown.bands:
            for span, color in ((shown.reach[arm], "#ececec"), (shown.bands[arm], "#c8c8c8")):
                axes.plot(span, (row, row), color=color, linewidth=9, solid_capstyle="butt",
                          zorder=1)
            ends = [_end(run) for run in shown.stored[arm]["runs"]]
            xs = [x for end in ends for x in (end, end, np.nan)]  # one path for all ticks
            ys = [row - 0.2, row + 0.2, np.nan] * len(ends)
            axes.plot(xs, ys, color="#555555", linewidth=1, zorder=2)
        axes.plot([_end(shown.runs[arm])], [row], linestyle="", marker=style["marker"],
                  color=style["color"], markersize=7, zorder=3)
    for name, value in shown.baselines.items():
        axes.axvline(value, color=QUIET, linewidth=1)
        axes.annotate(name, (value, -0.6), fontsize=9, color="#555555", ha="center", va="bottom")
    if shown.floor:
        axes.axvline(shown.floor, color="black", linestyle=":", linewidth=1.2)
        axes.annotate("floor", (shown.floor, len(arms) - 0.4), (3, 2), fontsize=9, va="bottom",
                      textcoords="offset points")
    axes.set(yticks=range(len(arms)), yticklabels=arms, ylim=(len(arms) - 0.4, -0.6),
             xlabel=shown.quantity, xscale="log" if shown.log else "linear")
    if shown.log:  # few labels: those between the powers of ten run into each other
        low, high = axes.get_xlim()
        subs = (1, 3) if high < 100 * low else (1,)
        axes.xaxis.set_major_locator(LogLocator(subs=subs, numticks=6))
        axes.xaxis.set_major_formatter(FuncFormatter(_tick))
        axes.xaxis.set_minor_locator(NullLocator())
    if shown.title:
        figure.suptitle(shown.title, fontsize=11)
    axes.grid(axis="y", visible=False)
    return figure


def _curves(shown: Live) -> Figure:
    figure, axes = subplots(height=3.7)
    unit, looks = shown.floor or 1.0, _looks(shown.runs)
    for arm, history in shown.runs.items():
        style = looks[arm]
        entry = shown.stored.get(arm)
        if entry and entry.get("at"):
            values = np.array(entry["runs"]) / unit
            axes.fill_between(entry["at"], values.min(0), values.max(0), color=style["color"],
                              alpha=0.18, linewidth=0)
        axes.plot(history.evaluated_at, np.array(history.validation_loss) / unit, label=arm,
                  markersize=4, **{**style, "linewidth": 1.6})
    levels = {name: axes.axhline(value / unit, color=QUIET, linewidth=1)
              for name, value in shown.baselines.items()}
    if shown.floor:
        axes.axhline(1, color="black", linestyle=":", linewidth=1.2)
    axes.set(yscale="log" if shown.log else "linear", xlabel="training steps",
             ylabel=f"{shown.quantity}{' / floor' if shown.floor else ''}",
             title=shown.title)
    for name, level in levels.items():
        name_level(axes, level, name)
    # below, since the names of baselines stand inside; three long names are wider than the figure
    columns = 3 if max(map(len, shown.runs)) <= 13 else 2
    figure.legend(loc="outside lower center", ncols=columns, fontsize=9)
    return figure


def _tick(value: float, _: int) -> str:
    """A number of a logarithmic axis, as a power of ten where its zeros would fill the axis."""
    if 1e-3 <= value < 1e5:
        return f"{value:g}"
    mantissa, power = f"{value:.0e}".split("e")
    return f"${'' if mantissa == '1' else mantissa + ' · '}10^{{{int(power)}}}$"


def _looks(arms: Iterable[str]) -> dict[str, dict]:
    """Return the look that each arm has throughout the book.

    Arms without one get looks that no other arm here has.
    """
    known = {arm for arm in arms if arm.removesuffix(LEAK) in LOOKS}
    taken = {arm.removesuffix(LEAK) for arm in known}
    free = itertools.cycle([name for name in OTHERS if name not in taken])
    return {arm: look(arm if arm in known else next(free)) for arm in arms}


def _end(run: History | Sequence[float] | float) -> float:
    """The last value."""
    if isinstance(run, History):
        return float(run.final)
    return float(run[-1] if isinstance(run, Sequence) else run)


def _widened(low: float, high: float, log: bool, least: float) -> tuple[float, float]:
    """The range, widened by half of it on each side, but not below `least`.

    After twelve normal draws, about one further draw in two hundred falls outside this range. On a
    logarithmic axis the range is that of the logarithms. The stored numbers have six digits, so
    rounding widens the range of a number that never varies.
    """
    if log and low > 0:
        further = (high / low) ** 0.5 * (1 + 1e-5)
        return max(low / further, min(low, least)), high * further
    further = (high - low) / 2 + 1e-5 * max(abs(low), abs(high)) + 1e-12
    return max(low - further, min(low, least)), high + further


def _plain(run: History | float) -> dict:
    if isinstance(run, History):
        losses = [float(f"{value:.6g}") for value in run.validation_loss]
        return {"at": run.evaluated_at, "run": losses}
    return {"at": None, "run": float(f"{float(run):.6g}")}


def _stored(label: str) -> dict:
    """Return arm -> {"at": steps or None, "runs": one value or curve per stored run}.

    The dictionary is empty if nothing is stored.
    """
    chapter, _, name = label.partition("/")
    if not chapter or not name:
        raise ValueError(f"label must be 'CHAPTER/name', for example '06/losses', got {label!r}")
    return _file(chapter).get("cells", {}).get(name, {})


@cache
def _file(chapter: str) -> dict:
    path = FOLDER / f"{chapter}.json"
    return results.read(path) if path.exists() else {}
