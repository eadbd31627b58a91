"""The ledger of hypotheses as readers see it: rows for its page, and tables for chapters.

    HTML(table("mgt-synergy", "mgt-full"))     # claim, verdict, effect, variations
    verdict("mgt-synergy")                     # "open"
    badge("emhc-smooth")                       # "fails here, not varied"
"""

import html
import math
import re
import statistics
from collections.abc import Container, Iterable, Mapping
from functools import cache

from studies import findings
from studies.claims.hypothesis import HYPOTHESES, Hypothesis
from studies.claims.observation import OBSERVATIONS, Observation
from studies.engine.judge import (
    HOLDS,
    MARGIN,
    OPEN,
    STALLED,
    Claim,
    Effect,
    Finding,
    effect,
    ends,
    log_loss,
    loss,
    with_base,
)
from studies.engine.protocol import search_share

VARIATIONS = ("next best", "half the steps", "twice the steps", "equal time")
NOT_TRIED = "not tried"
RATIO = "log ratio"   # effects in this unit are shown as ratios
SPACE = "\N{NO-BREAK SPACE}"


@cache
def _rows() -> dict[str, Hypothesis | Observation]:
    return {row.label: row for row in (*HYPOTHESES, *OBSERVATIONS)}


def row(label: str) -> Hypothesis | Observation:
    """Return a row of the ledger, of trained networks or of the real one.

    Raises: ValueError for a label that the ledger doesn't have.
    """
    if label not in _rows():
        raise ValueError(f"label must be a row of the ledger of hypotheses, got {label!r}")
    return _rows()[label]


def finding(label: str) -> Finding:
    """Return the runs' finding about a row. Raises: ValueError for a row without runs."""
    found = _found(label)
    if found is None:
        raise ValueError(f"row {label} has no runs here")
    return found


def _found(label: str) -> Finding | None:
    """Return the runs' finding about a row; None without runs."""
    one = row(label)
    return findings.finding(one) if isinstance(one, Hypothesis) else None


def verdict(label: str) -> str:
    """A row's verdict: "holds here", "fails here", "open" or "not tried"; of the real network
    "seen", "not seen" or "open".
    """
    one = row(label)
    if isinstance(one, Observation):
        return one.verdict(findings.stored(one.study))
    found = findings.finding(one)
    return found.verdict if found else NOT_TRIED


def badge(label: str) -> str:
    """A row's verdict, and whether no variation was made that could have turned it."""
    found = _found(label)
    return verdict(label) + (", not varied" if found and found.untested else "")


def said(effect: Effect | None, unit: str) -> str:
    """Write an effect with its interval, and a log ratio as a ratio."""
    if effect is None:
        return "–"
    if unit == RATIO:
        middle, low, high = (f"{math.exp(x):.3g}" for x in (effect.mean, effect.low, effect.high))
        text = f"×{middle} ({low} to {high})"
    else:
        digits = max(0, 1 - math.floor(math.log10(effect.half))) if effect.half > 0 else 4
        text = f"{effect.mean:+.{min(digits, 6)}f} ±{SPACE}{effect.half:.{min(digits, 6)}f}"
    return text.replace("-", "−") + (f", {effect.diverged} diverged" if effect.diverged else "")


def stalled(label: str) -> str:
    """Say how many runs of each arm of a row stalled, such as "hybrid on 8 of 16 seeds"; "" without
    runs, or where the task has no loss of predicting zero.
    """
    one = row(label)
    if not isinstance(one, Hypothesis) or "zero" not in _simple(one):
        return ""
    arms = "; ".join(f"{arm} on {of.stalled or 'none'} of {of.runs - of.diverged} seeds"
                     for arm, of in findings.ends(one).items())
    return f"Stalled, above {STALLED} of the loss of predicting zero: {arms}"


def to_beat(label: str) -> str:
    """Say which simple predictor a row's arms must beat, and how many runs do; "" without runs."""
    one = row(label)
    if not isinstance(one, Hypothesis) or not findings.ends(one):
        return ""
    if not one.claim.beats:
        return "It names no simple predictor to beat"
    arms = "; ".join(f"{arm} on {of.beat or 'none'} of {of.runs} seeds"
                     for arm, of in findings.ends(one).items())
    return (f"To beat: “{one.claim.beats}”, {_simple(one)[one.claim.beats]:.4g}. More than "
            f"{MARGIN:.0%} below it: {arms}")


def _simple(one: Hypothesis) -> Mapping[str, float]:
    """The simple predictors of a row's task; empty without runs."""
    return findings.baselines_of(one) if findings.comparison_of(one) else {}


def at_setting(label: str) -> str:
    """Say at which setting the arms of a row report, such as "each at its best setting".

    Raises: ValueError for a row without runs.
    """
    one = row(label)
    comparison = findings.comparison_of(one) if isinstance(one, Hypothesis) else None
    if comparison is None:
        raise ValueError(f"row {label} has no runs here")
    share = search_share(comparison)
    if not share:
        return "all at one rate"
    length = "half" if share == 0.5 else f"{share:.2g} times"
    return ("each at its best setting" + (f" in runs {length} as long" if share < 1 else "")
            + (" on the other half of the held-out text" if comparison.get("selects") else ""))


def in_time(label: str) -> str:
    """Say whether a row's effect changes its side where the arms train for the same time; "" if
    not, and without such runs.
    """
    one, found = row(label), _found(label)
    timed = found and found.varied.get("equal time")
    if found is None or not timed or found.verdict == OPEN:
        return ""
    side = 1 if found.verdict == HOLDS else -1
    mean, nearer = (side * (x - one.claim.above) for x in (
        timed.mean, timed.high if side > 0 else timed.low))
    if mean >= 0:
        return ""
    return "In the same time it lies on the other side of the border" + (
        ", with its whole interval" if nearer < 0 else " in the mean")


def unvaried(label: str) -> str:
    """Say which variations that could turn a row's verdict weren't made; "" where none lacks."""
    found = _found(label)
    return f"Not asked at {' or '.join(found.lacks)}" if found and found.lacks else ""


def made_by(label: str) -> str:
    """Say which command makes a row's runs, where it waits for them or its study has another
    protocol by now; else "".
    """
    one = row(label)
    if not isinstance(one, Hypothesis) or not one.study:
        return ""
    again = findings.renewed(one)
    command = f"`python -m studies {one.study}" + (
        f" --size {one.size}" * (one.size != "cpu") + " --force REASON" * again + "`")
    if findings.finding(one) is None:
        return f"It waits for runs, which {command} makes"
    return f"Its study has another protocol by now, and {command} makes its runs again" * again


def table(*labels: str, link: str = "../book/hypotheses.html") -> str:
    """Return rows of the ledger as a table, with their variations.

    Arguments:
        labels: of rows.
        link: the path of the ledger's page from the page that shows the table.
    """
    head = "".join(f"<th>{name}</th>" for name in ("claim", "verdict", "effect", "varied"))
    return (f'<div class="reported"><table class="table ledger"><tr>{head}</tr>'
            f'{"".join(_line(row(label), link) for label in labels)}</table></div>')


def _line(hypothesis: Hypothesis, link: str) -> str:
    found, unit = findings.finding(hypothesis), hypothesis.unit
    where = f'<a href="{link}#{hypothesis.label}">{badge(hypothesis.label)}</a>'
    effects, varied = "", ""
    if found is not None:
        shown = "" if unit == RATIO else f"<br>{html.escape(unit)}"
        effects = said(found.effect, unit) + shown
        if any(of.stalled for of in findings.ends(hypothesis).values()):
            effects += f"<br>{html.escape(stalled(hypothesis.label))}"
        varied = "<br>".join(f"{name}: {said(found.varied.get(name), unit)}"
                             for name in dict.fromkeys((*VARIATIONS, *found.varied)))
    return (f'<tr><td>{html.escape(hypothesis.statement)}</td><td>{where}</td>'
            f"<td>{effects}</td><td>{varied}</td></tr>")


def over_first(content: dict, part: str, unit: str = "nats",
               arms: Container[str] | None = None) -> dict[str, tuple[Effect, Effect]]:
    """Return the gains of a comparison's other finished arms over its first one.

    One gain is for the same number of steps at the best setting, one for the same time. The
    intervals for the steps hold together, and so do those for the time.

    Arguments:
        arms: those that the caller shows; None for all.
    """
    comparison, unfinished = content.get(part, content), content["unfinished"]
    first, *others = (arm for arm in comparison["parameters"] if f"{part}: {arm}" not in unfinished)
    others = [arm for arm in others if arms is None or arm in arms]
    quantity = log_loss if unit == RATIO else loss
    timed = comparison["sensitivity"]["equal time"]
    found = {}
    for arm in others:
        claim = Claim({first: 1, arm: -1}, quantity=quantity)
        in_time = with_base(comparison, timed, claim)
        found[arm] = (effect(comparison["runs"], claim, len(others)),
                      effect(in_time, claim, len(others)))
    return found


def against_first(content: dict, part: str, unit: str = "nats",
                  arms: Container[str] | None = None) -> str:
    """Return a table of every finished arm of a comparison beside its first one.

    The columns are weights, the time of a step, the loss with the number of runs that diverged or
    stalled, and the gains of `over_first`.
    """
    comparison, lines = content.get(part, content), []
    gains = over_first(content, part, unit, arms)
    zero = content.get("baselines", {}).get("zero", math.inf)
    first = next(iter(comparison["parameters"]))
    for arm in (first, *gains):
        losses = [loss(run) for run in comparison["runs"]
                  if run["model"] == arm and "validation_loss" in run]
        apart = str(ends(comparison["runs"], arm, zero))
        cells = [f"{comparison['parameters'][arm]:,}", f"{comparison['pace'][arm]:.2f}",
                 f"{statistics.mean(losses):.4g}" + (f", {apart}" if apart else ""),
                 *(said(gain, unit) for gain in gains.get(arm, (None, None)))]
        lines.append(f"<th>{html.escape(arm)}</th>" + "".join(f"<td>{cell}</td>" for cell in cells))
    head = "".join(f"<th>{name}</th>" for name in (
        "", "weights", "time of a step", "loss", f"gain over {first}", "gain in the same time"))
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<div class="reported lines"><table class="table"><tr>{head}</tr>{body}</table></div>'


def entry(hypothesis: Hypothesis) -> str:
    """Return a row for the ledger's page: a term and its description."""
    found, comparison = findings.finding(hypothesis), findings.comparison_of(hypothesis)
    parts = [html.escape(hypothesis.statement)]
    if hypothesis.quote:
        language = "zh" if re.search("[一-鿿]", hypothesis.quote) else "en"
        parts.append(f'<q lang="{language}">{html.escape(hypothesis.quote)}</q>')
    if found is not None and comparison is not None:
        parts.append(f"{_numbers(hypothesis, found)} {_runs(hypothesis, found, comparison)}")
        parts += [f"{found.why[0].upper()}{found.why[1:]}."] if found.why else []
    parts += [f"{_marked(told)}." for told in (one(hypothesis.label) for one in (
        stalled, to_beat, unvaried, in_time, made_by)) if told]
    if hypothesis.remark:
        parts.append(f"<em>{_marked(hypothesis.remark)}</em>")
    title = html.escape(f"{hypothesis.source}, {hypothesis.number}")
    link = f'<a href="{_page(hypothesis.chapter)}">{title}</a>'
    return (f'<dt id="{hypothesis.label}">{link}: '
            f"<strong>{badge(hypothesis.label)}</strong></dt><dd>{'<br>'.join(parts)}</dd>")


def _marked(text: str) -> str:
    """Text for a page, with commands between backticks."""
    return re.sub("`(.+?)`", r"<code>\1</code>", html.escape(text))


def observed(rows: Iterable[Observation] = OBSERVATIONS) -> str:
    """The observations of one real network: terms and their descriptions, with the numbers."""
    entries = []
    for one in rows:
        content = findings.stored(one.study)
        mean, half = one.measured(content)
        number = (f"{mean:.3g}" + (f" ± {half:.2g}" if half else "")).replace("-", "−")
        border = f"above {one.above:g}" if one.below is None else f"below {one.below:g}"
        link = f'<a href="{_page(one.chapter)}">in one real network</a>'
        entries.append(f'<dt id="{one.label}">{link}: <strong>{one.verdict(content)}</strong></dt>'
                       f"<dd>{html.escape(one.statement)}<br>{number} {one.unit} "
                       f"(said: {border})</dd>")
    return f"<dl>{''.join(entries)}</dl>"


def _page(chapter: str) -> str:
    return f"../notebooks/{chapter}.html" if chapter[:2].isdigit() else f"{chapter}.html"


def _numbers(hypothesis: Hypothesis, found: Finding) -> str:
    unit, above = hypothesis.unit, hypothesis.claim.above
    border = "" if not above else f" (claimed: above {above:+g})".replace("-", "−")
    varied = "; ".join(f"{name} {said(of, unit)}" for name, of in found.varied.items())
    shown = "" if unit == RATIO else f" {html.escape(unit)}"
    return f"{said(found.effect, unit)}{shown}{border}." + (f" Varied: {varied}." if varied else "")


def _runs(hypothesis: Hypothesis, found: Finding, comparison: dict) -> str:
    """The file, the size and the seeds of a row."""
    sizes = [comparison["parameters"][arm] for arm in hypothesis.claim.contrast]
    weights = " to ".join(f"{size:,}" for size in sorted({min(sizes), max(sizes)}))
    budget = comparison["budget"]
    return (f"{found.effect.seeds + found.effect.diverged} seeds of {weights} weights, "
            f"{found.effect.diverged or 'none'} diverged, {budget['steps']} steps of "
            f"{budget['batch']}, {at_setting(hypothesis.label)}; "
            f"results/{hypothesis.study}.{hypothesis.size}.json, commit "
            f"{findings.stored(hypothesis.study, hypothesis.size)['commit']}.")


def beside(study: str, size: str, content: dict) -> list[str]:
    """Return a line per row of a study: its finding for other runs, beside the stored one."""
    lines = []
    for hypothesis in HYPOTHESES:
        comparison = findings.part_of(hypothesis, content)
        if (hypothesis.study, hypothesis.size) != (study, size) or comparison is None:
            continue
        try:
            new = findings.judged(hypothesis, comparison)
        except ValueError as problem:  # an arm is missing, or there is a single seed
            now = str(problem)
        else:
            now = f"{said(new.effect, hypothesis.unit)}, {new.verdict}" + (
                ", not varied" if new.untested else "")
        found = findings.finding(hypothesis)
        stored = f"; stored {said(found.effect, hypothesis.unit)}, {found.verdict}" if found else ""
        lines.append(f"{hypothesis.label}: {now}{stored}")
    return lines


def count(hypotheses: Iterable[Hypothesis]) -> str:
    """Return in words the number of rows with each verdict, and of those that weren't varied."""
    rows = list(hypotheses)
    verdicts = [verdict(one.label) for one in rows]
    counted = ", ".join(f"{verdicts.count(name)} {name}" for name in dict.fromkeys(verdicts))
    bare = sum(badge(one.label) != verdict(one.label) for one in rows)
    return counted + (f"; {bare} of them not varied" if bare else "")
