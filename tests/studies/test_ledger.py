"""The ledger of hypotheses: every row can be read off, and is read off a file of the protocol."""

import html
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from geolab_plain import myst

from studies import __main__ as command_line
from studies import findings, ledger
from studies.claims.hypothesis import BOOK, HYPOTHESES
from studies.claims.observation import OBSERVATIONS
from studies.engine.judge import Effect
from studies.engine.protocol import WARMUPS
from studies.experiments.registry import STUDIES
from studies.findings import baselines_of, comparison_of, part_of, stored

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("notebooks/*.ipynb"), *ROOT.glob("book/*.ipynb")]
TRIED = [h for h in HYPOTHESES if h.study and comparison_of(h)]
FILES = {(h.study, h.part, h.size): h for h in TRIED}
every_row = pytest.mark.parametrize("row", HYPOTHESES, ids=lambda row: row.label)
tried = pytest.mark.parametrize("row", TRIED, ids=lambda row: row.label)
files = pytest.mark.parametrize("row", FILES.values(), ids=[" ".join(key) for key in FILES])


def runs_of(row, arm):
    return [run for run in comparison_of(row)["runs"] if run["model"] == arm]


def ends_of(runs):
    """The last losses of the runs that didn't diverge."""
    return [run["validation_loss"][-1] for run in runs if "validation_loss" in run]


def said(arm, n, of):
    return f"{arm} on {n or 'none'} of {of} seeds"


# ---------------------------------------------------------------- rows

def test_every_row_has_a_label_of_its_own_and_a_chapter_and_pages_refer_to_rows():
    assert len({h.label for h in HYPOTHESES}) == len(HYPOTHESES)
    assert {h.chapter for h in HYPOTHESES} <= {path.stem for path in PAGES}
    text = "\n".join(myst("".join(cell["source"])) for path in PAGES
                     for cell in json.loads(path.read_text())["cells"])
    used = set(re.findall(r"\{row\}`([^`]+)`", text))
    assert used <= {row.label for row in (*HYPOTHESES, *OBSERVATIONS)}


@every_row
def test_a_row_is_read_off_arms_that_its_study_has_or_says_why_not(row):
    if not row.study:
        assert ledger.verdict(row.label) == ledger.NOT_TRIED and row.remark and row.source != BOOK
        return
    arms = [arm for arm in STUDIES[row.study].arms(row.size) if arm.part == row.part]
    assert set(row.claim.contrast) <= {arm.name for arm in arms}
    assert not row.claim.beats or row.claim.beats in baselines_of(row)
    size = f" --size {row.size}" * (row.size != "cpu")
    waits = f"waits for runs, which <code>python -m studies {row.study}{size}"
    assert (row in TRIED) != (waits in ledger.entry(row)) and "python -m" not in row.remark


def test_a_row_waits_until_all_of_its_arms_are_finished():
    row, other = TRIED[0], "an arm of no row"
    content = {row.part: comparison_of(row)}
    assert part_of(row, content | {"unfinished": {f"{row.part}: {other}": 3}}) is not None
    for arm in row.claim.contrast:
        assert part_of(row, content | {"unfinished": {f"{row.part}: {arm}": 1}}) is None


def test_the_border_of_byte_counts_is_their_loss_in_the_row_s_own_task():
    row = ledger.row("mgt-post-deep")
    assert row.claim.above == pytest.approx(-baselines_of(row)["unigram"], abs=5e-6)


# ---------------------------------------------------------------- files

@files
def test_a_file_of_the_ledger_was_made_by_a_commit_and_by_the_rule(row):
    content = stored(row.study, row.size)
    assert content["uncommitted changes"] is False and content["commit"]
    protocol = comparison_of(row)["protocol"]
    if row.size == "cpu" and len(protocol["rates"]) > 1:
        assert len(protocol["seeds"]) >= 8
        assert not set(protocol["seeds"]) & set(protocol["search_seeds"])
        assert "next best" in protocol["variations"]
        assert protocol["search_steps"] is None and len(protocol["search_seeds"]) >= 2


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


# ---------------------------------------------------------------- what a reader sees

@tried
def test_a_row_that_was_tried_says_its_numbers_its_search_and_how_its_runs_ended(row):
    """Those that beat a simple predictor, and those that stalled where zero can be predicted."""
    found, comparison, simple = ledger.finding(row.label), comparison_of(row), baselines_of(row)
    entry, table = map(html.unescape, (ledger.entry(row), ledger.table(row.label)))
    at, to_beat, stalled = (tell(row.label) for tell in (
        ledger.at_setting, ledger.to_beat, ledger.stalled))
    for told in (f'id="{row.label}"', ledger.said(found.effect, row.unit), to_beat, stalled,
                 f"{found.effect.diverged or 'none'} diverged", f", {at}; results/"):
        assert told in entry
    assert f">{ledger.badge(row.label)}</a>" in table
    assert found.effect.seeds + found.effect.diverged >= 3
    short = comparison["protocol"]["search_steps"] not in (None, comparison["budget"]["steps"])
    apart = bool(comparison.get("selects"))
    assert at == ("each at its best setting" + " in runs half as long" * short
                  + " on the other half of the held-out text" * apart
                  if comparison["search"]["runs"] else "all at one rate")
    name, zero = row.claim.beats, simple.get("zero")
    assert bool(stalled) == (zero is not None)
    assert name or to_beat == "It names no simple predictor to beat"
    for arm in row.claim.contrast:
        ends = ends_of(runs_of(row, arm))
        if name:
            n = sum(loss < 0.98 * simple[name] for loss in ends)
            assert f"“{name}”, {simple[name]:.4g}" in to_beat
            assert said(arm, n, len(runs_of(row, arm))) in to_beat
        if stalled:
            n = sum(loss > 0.3 * zero for loss in ends)
            lost = said(arm, n, len(ends))
            assert lost in stalled and (not n or lost in table)


@tried
def test_a_row_says_at_which_settings_and_lengths_it_was_not_asked(row):
    made = {name for name, runs in comparison_of(row).get("sensitivity", {}).items()
            if row.claim.varies and any(run["model"] in row.claim.contrast for run in runs)}
    lacks = [name.replace("next best", "the next-best settings")
             for name in ("next best", "half the steps", "twice the steps") if name not in made]
    told = ledger.unvaried(row.label)
    assert told == ("Not asked at " + " or ".join(lacks) if lacks else "")
    assert told in ledger.entry(row)
    assert ledger.badge(row.label).endswith(", not varied") == (len(lacks) == 3)


@tried
def test_a_decided_row_says_whether_it_lies_elsewhere_in_the_same_time(row):
    found, told = ledger.finding(row.label), ledger.in_time(row.label)
    timed = found.varied.get("equal time")
    above = timed is not None and timed.mean > row.claim.above
    turned = {"holds here": not above, "fails here": above}.get(found.verdict, False)
    assert bool(told) == (timed is not None and turned) and told in ledger.entry(row)
    if told:
        inside = timed.low <= row.claim.above <= timed.high
        assert told.endswith("in the mean" if inside else "whole interval")


@tried
def test_a_row_whose_arms_have_two_texts_says_what_the_other_one_reports(row):
    path = ROOT / "results" / f"{row.study}_halves.{row.size}.json"
    again = part_of(row, json.loads(path.read_text())) if path.exists() else None
    told = ledger.finding(row.label).varied.get("two texts")
    assert (told is None) == (again is None)
    if again:
        assert again["selects"] != again["task"]
        ends = [{run["seed"]: run["validation_loss"][-1] for run in again["runs"]
                 if run["model"] == arm} for arm in row.claim.contrast]
        gains = [sum(weight * of[seed] for weight, of in zip(row.claim.contrast.values(), ends))
                 for seed in ends[0]]
        assert told.seeds == len(gains) and told.mean == pytest.approx(sum(gains) / len(gains))
        assert f"two texts {ledger.said(told, row.unit)}" in ledger.entry(row)


def test_no_row_is_of_an_older_protocol_and_such_a_row_would_say_so(monkeypatch):
    assert not any(ledger.made_by(row.label) for row in TRIED)
    now = findings._first

    def with_another_search(*place):
        arm = now(*place)
        return replace(arm, protocol=replace(arm.protocol, search_seeds=(100, 101, 102)))

    monkeypatch.setattr(findings, "_first", with_another_search)
    for row in TRIED:
        told = ledger.made_by(row.label)
        assert told.startswith("Its study has another protocol by now")
        assert f"studies {row.study}" in told and "--force REASON`" in told


@pytest.mark.parametrize("row", [h for h in HYPOTHESES if ledger.made_by(h.label)],
                         ids=lambda row: row.label)
def test_the_command_that_a_row_names_would_train_and_forces_only_where_it_must(row, monkeypatch):
    command = re.search("<code>python -m studies (.+?)</code>", ledger.entry(row)).group(1).split()
    trained = []
    monkeypatch.setattr(command_line, "run_study", lambda *args, **options: trained.append(args))
    monkeypatch.setattr(command_line, "record", lambda *args, **options: None)
    monkeypatch.setattr(ledger, "beside", lambda *args: [])
    assert command_line.main(command) == 0 and len(trained) == 1
    if "--force" in command:
        with pytest.raises(SystemExit):
            command_line.main(command[:-2])


TABLED = [h for h in FILES.values() if "equal time" in comparison_of(h)["sensitivity"]]


@pytest.mark.parametrize("row", TABLED, ids=lambda row: f"{row.study} {row.part}")
def test_a_table_of_means_counts_the_runs_that_stalled_or_diverged(row):
    content, comparison = stored(row.study, row.size), comparison_of(row)
    arms = list(comparison["parameters"])
    ended = [run for run in runs_of(row, arms[0]) if "validation_loss" in run][-2:]
    runs = [run for run in comparison["runs"] if run not in ended] + [
        {"model": arms[0], "seed": run["seed"], "diverged": True} for run in ended]
    part = {**comparison, "runs": runs}
    shown = ledger.against_first({**content, **part, row.part: part}, row.part)
    count, zero = len(runs_of(row, arms[0])), content.get("baselines", {}).get("zero")
    assert f"2 of {count} diverged" in shown
    for arm in arms if zero else ():
        n = sum(loss > 0.3 * zero for loss in ends_of(run for run in runs if run["model"] == arm))
        assert not n or f"{n} of {count} stalled" in shown


@pytest.mark.parametrize("effect, unit, shown", [
    (Effect(0.12345, 0.0421, 8), "nats", "+0.123 ± 0.042"),
    (Effect(-12.345, 4.21, 8), "degrees", "−12.3 ± 4.2"),
    (Effect(0.693147, 0.1, 8), "log ratio", "×2 (1.81 to 2.21)"),
    (Effect(0.5, 0.1, 7, 1), "nats", "+0.50 ± 0.10, 1 diverged"), (None, "nats", "–")], ids=str)
def test_an_effect_is_said_with_the_digits_that_its_interval_leaves(effect, unit, shown):
    assert ledger.said(effect, unit) == shown
