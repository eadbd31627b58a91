"""Effects and verdicts from the runs of a comparison under the protocol.

    comparison = results.stored("delta")["text"]
    found = judge(comparison, Claim({"additive": 1, "delta": -1}))     # nats that delta gains
    found.effect, found.varied["half the steps"], found.verdict

A claim says that a contrast of arms, a weighted sum of the arms' quantities, lies above a number.
The contrast is computed for each seed. Its interval is Student's. Its level is divided by the
number of claims about the same comparison (Bonferroni), so that all of them hold together with
95 %.

    holds    the interval lies above, and no variation's mean lies below
    fails    the interval lies below, and no variation's mean lies above
    open     anything else, and comparisons in which no arm learned enough to decide, or in which
             an arm diverged on at least as many seeds as are left

A finding names the variations that weren't made. A verdict is `untested` where none was, and pages
say so.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from studies.engine.results import interval

STALLED = 0.3  # a share of the loss of predicting zero
MARGIN = 0.02  # an arm that has learned beats the simple predictor by more than this
HOLDS, FAILS, OPEN = "holds here", "fails here", "open"
Quantity = Callable[[dict], float]


def loss(run: dict) -> float:
    """The last validation loss."""
    losses = run["validation_loss"]
    return losses[-1] if isinstance(losses, list) else losses


def log_loss(run: dict) -> float:
    """The natural logarithm of `loss`, with which a contrast of two arms is the log of a ratio."""
    return math.log(loss(run))


def measured(*names: str, of: Callable[[Iterable[float]], float] = statistics.mean,
             log: bool = False) -> Quantity:
    """Return a function that reads a measured number of a run.

    Arguments:
        names: the keys that lead to the number or to a list of numbers.
        of: reduces a list to one number.
        log: whether to take the natural logarithm.
    """
    def value(run: dict) -> float:
        found = run["measured"]
        for name in names:
            found = found[name]
        number = of(found) if isinstance(found, list) else float(found)
        return math.log(number) if log else number
    return value


@dataclass(frozen=True)
class Claim:
    """A contrast of arms lies above a number.

    Arguments:
        contrast: arm -> weight.
        above: the number.
        quantity: run -> number; by default the last validation loss.
        beats: the simple predictor that one of the arms must beat for the comparison to decide
            anything, by its name in the task; "" for a claim that needs none.
        varies: False if runs of the variations don't keep the quantity, or are too few for it.
        spread: whether the contrast is one of spreads over seeds. Each seed's quantity is then the
            logarithm of its arm's distance from the mean, as in Levene's test: one below 0 by log 2
            says half the standard deviation.
    """

    contrast: Mapping[str, float]
    above: float = 0.0
    quantity: Quantity = loss
    beats: str = ""
    varies: bool = True
    spread: bool = False


def gain(better: str, than: str, beats: str = "") -> Claim:
    """The first arm's loss is lower: the effect is the difference."""
    return Claim({than: 1, better: -1}, beats=beats)


def lower(better: str, than: str, beats: str = "") -> Claim:
    """The first arm's loss is lower: the effect is the logarithm of the ratio."""
    return Claim({than: 1, better: -1}, quantity=log_loss, beats=beats)


@dataclass(frozen=True)
class Effect:
    """The contrast over seeds."""

    mean: float
    half: float        # half the width of its interval
    seeds: int
    diverged: int = 0  # seeds on which an arm of the contrast diverged

    @property
    def low(self) -> float:
        return self.mean - self.half

    @property
    def high(self) -> float:
        return self.mean + self.half

    def __str__(self) -> str:
        return f"{self.mean:+.3g} ± {self.half:.2g}"


@dataclass(frozen=True)
class Finding:
    """A claim beside the runs."""

    effect: Effect                      # at the best settings; all claims' intervals hold together
    varied: dict[str, Effect] = field(default_factory=dict)   # each by itself; "equal time" too
    verdict: str = OPEN
    why: str = ""                       # the reason for an open verdict
    lacks: tuple[str, ...] = ()         # variations that could turn the verdict, and weren't made

    @property
    def untested(self) -> bool:
        """True if no variation was made that could have turned the verdict."""
        return len(self.lacks) == len(NAMES)


@dataclass(frozen=True)
class Ends:
    """Counts of the ways in which an arm's runs ended, since a mean over them doesn't show it."""

    runs: int
    diverged: int
    stalled: int   # ended as if they predicted zero
    beat: int      # ended more than `MARGIN` below the simple predictor

    def __str__(self) -> str:
        """The ends that a mean over the other runs hides, such as "8 of 16 stalled"; "" if none."""
        counts = {"diverged": self.diverged, "stalled": self.stalled}
        return ", ".join(f"{n} of {self.runs} {name}" for name, n in counts.items() if n)


def judge(comparison: dict, claim: Claim, together: int = 1,
          baselines: Mapping[str, float] | None = None) -> Finding:
    """Return the effect of a claim's contrast, its variations, and the verdict.

    Arguments:
        comparison: one comparison of a result file.
        together: the number of claims about it.
        baselines: the task's simple predictors, for a claim that names one.
    Raises: ValueError for an arm without runs.
    """
    found = effect(comparison["runs"], claim, together)
    varied, lost = {}, []
    for name, runs in comparison.get("sensitivity", {}).items():
        if claim.varies and any(run["model"] in claim.contrast for run in runs):
            runs = with_base(comparison, runs, claim)
            if len(contrasts(runs, claim)[0]) > 1:
                varied[name] = effect(runs, claim)
            elif name in TURNS:
                lost.append(name)
    side = 1 if found.low > claim.above else -1 if found.high < claim.above else 0
    turned = [name for name, of in varied.items()
              if name in TURNS and side * (of.mean - claim.above) < 0]
    verdict, why = {1: HOLDS, -1: FAILS, 0: OPEN}[side], ""
    if not learned(comparison["runs"], claim, baselines or {}):
        verdict, why = OPEN, f"no arm beats “{claim.beats}”, so it decides nothing"
    elif found.diverged >= found.seeds:
        verdict = OPEN
        why = f"an arm diverges on {found.diverged} of {found.diverged + found.seeds} seeds"
    elif not side:
        why = "the interval holds the border"
    elif turned:
        verdict, why = OPEN, f"it turns at {' and '.join(map(TURNS.__getitem__, turned))}"
    elif lost:
        verdict, why = OPEN, f"its runs diverge at {' and '.join(map(TURNS.__getitem__, lost))}"
    lacks = tuple(said for name, said in NAMES.items() if name not in (*varied, *lost))
    return Finding(found, varied, verdict, why, lacks)


NAMES = {"next best": "the next-best settings", "half the steps": "half the steps",
         "twice the steps": "twice the steps"}
TWO_TEXTS = "two texts"   # one selects the setting and another one reports; few studies ask it
TURNS = NAMES | {TWO_TEXTS: "a text that selected no setting"}


def with_base(comparison: dict, runs: list[dict], claim: Claim) -> list[dict]:
    """Return a variation's runs. An arm that it leaves alone has its runs at the best settings."""
    there = {run["model"] for run in runs}
    return runs + [run for run in comparison["runs"]
                   if run["model"] in claim.contrast and run["model"] not in there]


def effect(runs: Iterable[dict], claim: Claim, together: int = 1) -> Effect:
    """Return the contrast over the seeds on which no arm of it diverged.

    Raises: ValueError for an arm without runs, or fewer than two seeds.
    """
    values, diverged = contrasts(runs, claim)
    mean, half = interval(values, together)
    return Effect(mean, half, len(values), diverged)


def contrasts(runs: Iterable[dict], claim: Claim) -> tuple[list[float], int]:
    """Return the contrast of each seed on which no arm diverged, and the number of other seeds.

    Raises: ValueError for an arm without runs.
    """
    values: dict[str, dict[int, float | None]] = {arm: {} for arm in claim.contrast}
    for run in runs:
        if run["model"] in values:
            ended = "validation_loss" in run
            values[run["model"]][run["seed"]] = claim.quantity(run) if ended else None
    for arm, by_seed in values.items():
        if not by_seed:
            raise ValueError(f"contrast names {arm}, which has no runs here")
    shared = set.intersection(*(set(by_seed) for by_seed in values.values()))
    whole = [seed for seed in sorted(shared) if all(v[seed] is not None for v in values.values())]
    found = {arm: [value for seed in whole if (value := by_seed[seed]) is not None]
             for arm, by_seed in values.items()}
    if claim.spread:
        found = {arm: [math.log(abs(x - statistics.mean(of))) for x in of]
                 for arm, of in found.items()}
    return [sum(weight * found[arm][i] for arm, weight in claim.contrast.items())
            for i in range(len(whole))], len(shared) - len(whole)


def ends(runs: Iterable[dict], arm: str, zero: float = math.inf,
         simple: float = math.nan) -> Ends:
    """Count how an arm's runs ended.

    Arguments:
        zero: the loss of predicting zero; a run above `STALLED` of it stalled.
        simple: the loss of the predictor to beat.
    """
    own = [run for run in runs if run["model"] == arm]
    losses = [loss(run) for run in own if "validation_loss" in run]
    return Ends(len(own), len(own) - len(losses), sum(value > STALLED * zero for value in losses),
                sum(value < (1 - MARGIN) * simple for value in losses))


def learned(runs: Iterable[dict], claim: Claim, baselines: Mapping[str, float]) -> bool:
    """Return whether an arm of the contrast has a mean loss below the simple predictor's."""
    if not claim.beats:
        return True
    means = {}
    for arm in claim.contrast:
        losses = [loss(run) for run in runs if run["model"] == arm and "validation_loss" in run]
        means[arm] = statistics.mean(losses) if losses else math.inf
    return min(means.values()) < (1 - MARGIN) * baselines[claim.beats]
