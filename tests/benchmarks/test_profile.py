"""The rows of a profile add up to the step."""

import json

import pytest
from shared_clock import lacks

from benchmarks import profile

TINY = ["--device", "cpu", "--width", "16", "--layers", "1", "--heads", "2", "--hidden", "32",
        "--batch", "2", "--length", "5", "--repeats", "3"]


def test_the_rows_add_up_to_the_step(tmp_path, capsys):
    path = tmp_path / "profile.json"
    profile.main([*TINY, "--residual", "hyper", "--out", str(path)])
    kept = json.loads(path.read_text())
    assert not lacks(kept)
    rows = {row["kernel"]: row for row in kept["rows"]}
    assert kept["residual"] == "hyper" and kept["mode"] == "eager"
    assert sum(row["us"] for row in rows.values()) == pytest.approx(kept["step_us"], rel=1e-2)
    assert sum(row["share"] for row in rows.values()) == pytest.approx(1, rel=1e-2)
    assert all(row["us_low"] <= row["us"] <= row["us_high"] for row in rows.values())
    # two forward and four backward products in the MLP alone, in each step
    assert rows["aten::mm"]["runs"] >= 6 and "idle" in rows
    assert f"{kept['step_us']:.1f} µs a step" in capsys.readouterr().out
