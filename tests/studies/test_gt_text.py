"""The table's rows, from runs of which some are missing."""

from dataclasses import asdict

import pytest
from shared_studies import tasks_of

from studies.experiments import gt_text

COLUMNS = ("cross-entropy", "perplexity", "accuracy", "Čech", "Dirichlet", "H₁", "bars")


def run(row: str, seed: int, value: float) -> dict:
    return {"model": row, "seed": seed, "measured": dict.fromkeys(COLUMNS, value)}


def arranged(runs: list[dict]) -> dict:
    arms = gt_text.STUDY.arms("cpu")
    text = {"runs": runs, "seeds": arms[0].protocol.seeds, "budget": asdict(arms[0].budget)}
    return gt_text.arrange({"text": text}, tasks_of(arms), "cpu")


def test_a_row_is_the_mean_and_the_deviation_over_its_seeds():
    runs = [run("GT-Full, pre-LN", 0, 1.0), run("GT-Full, pre-LN", 1, 3.0),
            run("GT-Lite, pre-LN, leak", 0, 9.0),
            {"model": "GT-Lite, pre-LN", "seed": 0, "diverged": True}]
    rows = arranged(runs)["reproduces"]["rows"]
    assert list(rows) == ["GT-Full, pre-LN"]
    assert rows["GT-Full, pre-LN"]["Čech"] == pytest.approx((2.0, 2**0.5))
    rows = arranged(runs[:1])["reproduces"]["rows"]
    assert rows["GT-Full, pre-LN"]["bars"] == (1.0, None)


def test_only_the_rows_that_say_so_leak():
    leaking = {arm.name for arm in gt_text.STUDY.arms("cpu") if arm.build().trunk.leaks}
    assert leaking == set(gt_text.LEAKS)
