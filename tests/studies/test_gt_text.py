"""The table's rows, from runs of which some are missing."""

import pytest

from studies import gt_text

COLUMNS = ("cross-entropy", "perplexity", "accuracy", "Čech", "Dirichlet", "H₁", "bars")


def run(row: str, seed: int, value: float) -> dict:
    return {"model": row, "seed": seed, "measured": dict.fromkeys(COLUMNS, value)}


def arranged(runs: list[dict]) -> dict:
    return gt_text.arrange({"text": {"runs": runs}}, gt_text.EXPERIMENT.plan("cpu"), "cpu")


def test_a_row_is_the_mean_and_the_deviation_over_its_seeds():
    rows = arranged([run("GT-Full, pre-LN", 0, 1.0), run("GT-Full, pre-LN", 1, 3.0), run("GT-Lite, pre-LN, leak", 0, 9.0)])["reproduces"]["rows"]
    assert list(rows) == ["GT-Full, pre-LN"]
    assert rows["GT-Full, pre-LN"]["Čech"] == pytest.approx((2.0, 2**0.5))


def test_one_seed_has_no_deviation_and_a_row_that_diverged_is_left_out():
    rows = arranged([run("GT-Full, pre-LN", 0, 1.0), {"model": "GT-Lite, pre-LN", "seed": 0, "diverged": True}])["reproduces"]["rows"]
    assert set(rows) == {"GT-Full, pre-LN"} and rows["GT-Full, pre-LN"]["bars"] == (1.0, None)


def test_only_the_rows_that_say_so_leak():
    models = gt_text.EXPERIMENT.plan("cpu")["text"].models
    assert {row for row, build in models.items() if build().trunk.leaks} == set(gt_text.LEAKS)
