"""The ledger of hypotheses: every row can be read off, and is read off a file of the protocol."""

import html
import json
import re
from functools import cache
from pathlib import Path

import pytest
from geolab_plain import myst

from studies import ledger
from studies.claims.hypothesis import BOOK, HYPOTHESES
from studies.claims.observation import OBSERVATIONS
from studies.engine.judge import Effect
from studies.engine.protocol import WARMUPS
from studies.experiments.registry import STUDIES
from studies.findings import baselines_of, comparison_of, part_of, stored
from studies.ledger import NOT_TRIED

ROOT = Path(__file__).resolve().parents[2]
PAGES = {path.stem for folder in ("notebooks", "book") for path in ROOT.glob(f"{folder}/*.ipynb")}
READ_OFF = [h for h in HYPOTHESES if h.study]
TRIED = [h for h in READ_OFF if comparison_of(h)]
FILES = {(h.study, h.part, h.size): h for h in TRIED}
tried = pytest.mark.parametrize("row", TRIED, ids=lambda row: row.label)
files = pytest.mark.parametrize("row", FILES.values(), ids=[" ".join(key) for key in FILES])


@cache
def entry(row):
    return ledger.entry(row)


def text(path):
    cells = json.loads(path.read_text())["cells"]
    return "\n\n".join(myst("".join(cell["source"])) for cell in cells)


def test_every_row_has_a_label_of_its_own_and_a_chapter_that_is_there():
    assert len({h.label for h in HYPOTHESES}) == len(HYPOTHESES)
    assert {h.chapter for h in HYPOTHESES} <= PAGES


@pytest.mark.parametrize("row", READ_OFF, ids=lambda row: row.label)
def test_a_row_is_read_off_arms_that_its_study_has(row):
    arms = [arm for arm in STUDIES[row.study].arms(row.size) if arm.part == row.part]
    assert set(row.claim.contrast) <= {arm.name for arm in arms}
    if row.claim.beats:
        assert row.claim.beats in baselines_of(row)


def test_a_row_that_was_not_tried_says_why_or_names_the_command():
    for h in HYPOTHESES:
        if not h.study:
            assert ledger.verdict(h.label) == NOT_TRIED and h.remark and h.source != BOOK, h.label
        elif comparison_of(h) is None:
            assert f"`python -m studies {h.study}`" in h.remark, h.label


def test_a_row_waits_until_all_of_its_arms_are_finished():
    row, other = TRIED[0], "an arm of no row"
    content = {row.part: comparison_of(row)}
    assert part_of(row, content | {"unfinished": {f"{row.part}: {other}": 3}}) is not None
    for arm in row.claim.contrast:
        assert part_of(row, content | {"unfinished": {f"{row.part}: {arm}": 1}}) is None


@files
def test_a_file_of_the_ledger_was_made_by_a_commit_and_by_the_rule(row):
    content = stored(row.study, row.size)
    assert content["uncommitted changes"] is False and content["commit"]
    protocol = comparison_of(row)["protocol"]
    if row.size == "cpu" and len(protocol["rates"]) > 1:
        assert len(protocol["seeds"]) >= 8
        assert not set(protocol["seeds"]) & set(protocol["search_seeds"])
        assert "next best" in protocol["variations"] or row.study == "headline"


@files
def test_every_best_setting_lies_inside_of_what_was_tried(row):
    found = comparison_of(row)
    for arm, best in found["search"]["best"].items():
        tried = [run for run in found["search"]["runs"] if run["model"] == arm]
        rates, shares = ({run[name] for run in tried} for name in ("lr", "warmup"))
        assert not tried or min(rates) < best["lr"] < max(rates), arm
        if best["warmup"] is not None and tried:
            k = WARMUPS.index(best["warmup"])
            assert set(WARMUPS[max(0, k - 1):k + 2]) <= shares, arm


@tried
def test_a_row_that_was_tried_has_a_verdict_and_says_its_numbers(row):
    found = ledger.finding(row.label)
    assert found.effect.seeds + found.effect.diverged >= 3
    shown = entry(row)
    assert ledger.said(found.effect, row.unit) in shown and f'id="{row.label}"' in shown
    assert f">{ledger.badge(row.label)}</a>" in ledger.table(row.label)
    assert f"{found.effect.diverged or 'none'} diverged" in shown


@pytest.mark.parametrize("row", HYPOTHESES, ids=lambda row: row.label)
def test_a_row_that_passed_no_variation_says_so_in_its_badge(row):
    comparison = comparison_of(row) or {}
    made = [name for name in ("next best", "half the steps", "twice the steps")
            if row.claim.varies and any(run["model"] in row.claim.contrast for run in
                                        comparison.get("sensitivity", {}).get(name, ()))]
    bare = bool(comparison) and not made
    assert ledger.badge(row.label) == ledger.verdict(row.label) + ", not varied" * bare


@tried
def test_a_row_counts_the_runs_that_beat_a_simple_predictor_and_those_that_stalled(row):
    """The second where zero can be predicted."""
    simple, shown = baselines_of(row), html.unescape(entry(row))
    to_beat, stalled = ledger.to_beat(row.label), ledger.stalled(row.label)
    name, zero = row.claim.beats, simple.get("zero")
    assert to_beat in shown and stalled in shown and bool(stalled) == (zero is not None)
    assert name or to_beat == "It names no simple predictor to beat"
    for arm in row.claim.contrast:
        own = [run for run in comparison_of(row)["runs"] if run["model"] == arm]
        ends = [run["validation_loss"][-1] for run in own if "validation_loss" in run]
        if name:
            n = sum(loss < 0.98 * simple[name] for loss in ends)
            assert f"“{name}”, {simple[name]:.4g}" in to_beat
            assert f"{arm} on {n or 'none'} of {len(own)} seeds" in to_beat
        if stalled:
            n = sum(loss > 0.3 * zero for loss in ends)
            said = f"{arm} on {n or 'none'} of {len(ends)} seeds"
            assert said in stalled and (not n or html.escape(said) in ledger.table(row.label))


TABLED = [h for h in FILES.values() if "equal time" in comparison_of(h)["sensitivity"]]


@pytest.mark.parametrize("row", TABLED, ids=lambda row: f"{row.study} {row.part}")
def test_a_table_of_means_counts_the_runs_that_stalled_or_diverged(row):
    content, comparison = stored(row.study, row.size), comparison_of(row)
    lost = next(iter(comparison["parameters"]))
    own = [run for run in comparison["runs"] if run["model"] == lost]
    ended = [run for run in own if "validation_loss" in run]
    part = {**comparison, "runs": [run for run in comparison["runs"] if run not in ended[-2:]]
            + [{"model": lost, "seed": run["seed"], "diverged": True} for run in ended[-2:]]}
    shown = ledger.against_first({**content, **part, row.part: part}, row.part)
    assert f"2 of {len(own)} diverged" in shown
    for arm in comparison["parameters"]:
        zero = content.get("baselines", {}).get("zero")
        n = zero and sum(run["validation_loss"][-1] > 0.3 * zero for run in part["runs"]
                         if run["model"] == arm and "validation_loss" in run)
        assert not n or f"{n} of {len(own)} stalled" in shown


@tried
def test_a_row_says_how_long_the_search_for_its_settings_was(row):
    found = comparison_of(row)
    protocol, steps = found["protocol"], found["budget"]["steps"]
    said = ledger.at_setting(row.label)
    assert f", {said}; results/" in entry(row)
    if len(found["search"]["runs"]) == 0:
        assert said == "all at one rate"
    else:
        short = protocol["search_steps"] not in (None, steps)
        assert said == "each at its best setting" + " in runs half as long" * short


def test_an_effect_is_said_with_the_digits_that_its_interval_leaves():
    assert ledger.said(Effect(0.12345, 0.0421, 8), "nats") == "+0.123 ± 0.042"
    assert ledger.said(Effect(-12.345, 4.21, 8), "degrees") == "−12.3 ± 4.2"
    assert ledger.said(Effect(0.693147, 0.1, 8), "log ratio") == "×2 (1.81 to 2.21)"
    assert ledger.said(Effect(0.5, 0.1, 7, 1), "nats").endswith(", 1 diverged")
    assert ledger.said(None, "nats") == "–"


def test_pages_refer_to_rows_that_are_there():
    pages = [*ROOT.glob("notebooks/*.ipynb"), *ROOT.glob("book/*.ipynb")]
    used = {label for path in pages for label in re.findall(r"\{row\}`([^`]+)`", text(path))}
    assert used <= {row.label for row in (*HYPOTHESES, *OBSERVATIONS)}
