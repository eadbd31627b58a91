"""The findings of the stored runs about the claims, each from one comparison of one file.

    finding(row)            the effect, its variations and the verdict, or None without runs
    comparison_of(row)      the comparison itself
    ends(row)               how the runs of each arm ended: diverged, stalled, below a predictor
    renewed(row)            whether its study would make its runs by another protocol today
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import cache

from studies.claims.hypothesis import HYPOTHESES, Hypothesis
from studies.engine import judge, results
from studies.engine.arm import Arm
from studies.engine.judge import Ends, Finding
from studies.experiments.registry import STUDIES

stored = cache(results.stored)
# a study -> the one with the same arms, where one text selects a setting and another one reports
ON_TWO_TEXTS = {"released": "released_halves"}


@cache
def finding(row: Hypothesis) -> Finding | None:
    """Return the runs' finding about a claim; None without runs.

    Claims about the same comparison share its level. Where its study was made with two texts, too,
    that is one more variation.
    """
    comparison = comparison_of(row)
    again = comparison and comparison_of(replace(row, study=ON_TWO_TEXTS.get(row.study, "")))
    if again:
        varied = {**comparison["sensitivity"], judge.TWO_TEXTS: again["runs"]}
        comparison = {**comparison, "sensitivity": varied}
    return judged(row, comparison) if comparison else None


def judged(row: Hypothesis, comparison: dict) -> Finding:
    """Return what a comparison says about a claim, whoever made its runs.

    Raises: ValueError for an arm without runs, or with fewer than two seeds.
    """
    together = sum(_place(row) == _place(other) for other in HYPOTHESES)
    simple = baselines_of(row) if row.claim.beats else {}
    return judge.judge(comparison, row.claim, together, simple)


def comparison_of(row: Hypothesis) -> dict | None:
    """Return the comparison that decides a claim; None if it wasn't made."""
    if not row.study or not results.path_of(row.study, row.size).exists():
        return None
    return part_of(row, stored(row.study, row.size))


def part_of(row: Hypothesis, content: dict) -> dict | None:
    """Return a claim's comparison in the content of a file.

    It is None if the protocol didn't make it, or if it lacks one of its arms or runs of it.
    """
    found = _part(row, content)
    if found is None or not row.claim.contrast.keys() <= found["parameters"].keys():
        return None
    unfinished = {f"{row.part}: {arm}" for arm in row.claim.contrast}
    return found if unfinished.isdisjoint(content.get("unfinished", ())) else None


def _part(row: Hypothesis, content: dict) -> dict | None:
    """Return a claim's comparison, whatever its arms; None if the protocol didn't make it."""
    found = content.get(row.part, content if "runs" in content else {})
    return found if "protocol" in found else None


def ends(row: Hypothesis) -> dict[str, Ends]:
    """Count by arm of a claim how its runs ended; empty without runs.

    None stalls where the task has no loss of predicting zero, and none beats a predictor where the
    claim names none.
    """
    comparison = comparison_of(row)
    if comparison is None:
        return {}
    simple = baselines_of(row)
    known = {"zero": simple.get("zero", math.inf), "simple": simple.get(row.claim.beats, math.nan)}
    return {arm: judge.ends(comparison["runs"], arm, **known) for arm in row.claim.contrast}


def baselines_of(row: Hypothesis) -> Mapping[str, float]:
    """The simple predictors of a claim's task: those of its comparison, or else those of the task
    as its study has it, where the file keeps none.
    """
    return (comparison_of(row) or {}).get("baselines") or _baselines(*_place(row))


def renewed(row: Hypothesis) -> bool:
    """Return whether a claim's study has another protocol now than its stored runs, of any arms."""
    if not row.study or not results.path_of(row.study, row.size).exists():
        return False
    there = _part(row, stored(row.study, row.size))
    now = json.loads(json.dumps(asdict(_first(*_place(row)).protocol)))
    return there is not None and there["protocol"] != now


@cache
def _baselines(study: str, part: str, size: str) -> Mapping[str, float]:
    return _first(study, part, size).task.baselines()


@cache
def _first(study: str, part: str, size: str) -> Arm:
    return next(arm for arm in STUDIES[study].arms(size) if arm.part == part)


def _place(row: Hypothesis) -> tuple[str, str, str]:
    """The names of the comparison that decides a claim."""
    return row.study, row.part, row.size
