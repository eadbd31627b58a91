"""The benchmark writes what it says, and the stored run agrees with what the book says of it."""

import json
from pathlib import Path

import pytest
from shared_clock import lacks

from benchmarks import cayley_cpu

STORED = Path(__file__).resolve().parents[2] / "results/cayley_cpu.json"
BOTH = {"eager": ("solve", "ours"), "compiled": ("solve", "ours, compiled"),
        "both compiled": ("solve, compiled", "ours, compiled")}
BOUNDS = {65536: {"eager": (2, 99), "compiled": (3, 99), "both compiled": (2, 99)},
          64: {"eager": (0.25, 0.75), "both compiled": (1, 2)}}


def require_ratios(rows):
    for row in rows:
        seconds = row["seconds"]
        assert row["times as fast"] == {name: pytest.approx(seconds[a] / seconds[b], abs=1e-3)
                                        for name, (a, b) in BOTH.items()}


def test_it_writes_a_row_for_every_operator_size_and_pass(tmp_path):
    out = tmp_path / "tiny.json"
    cayley_cpu.main(["--sizes", "3", "2", "--rounds", "2", "--turn", "6", "--compiler", "eager",
                     "--out", str(out)])
    found = json.loads(out.read_text())
    assert found["threads"] == 1 and not lacks(found)
    assert [(row["operator"], row["matrices"], row["pass"]) for row in found["times"]] == [
        (name, count, which) for name in cayley_cpu.OPERATORS for count in (3, 2)
        for which in ("forward", "forward + backward")]
    require_ratios(found["times"])


def test_the_stored_closed_form_is_faster_for_many_matrices_and_alone_stays_orthogonal():
    found = json.loads(STORED.read_text())
    require_ratios(found["times"])
    for row in found["times"]:
        for name, (low, high) in BOUNDS.get(row["matrices"], {}).items():
            assert low < row["times as fast"][name] < high, row
    for defect in found["defect"].values():
        assert defect["ours"] < 1e-6 and defect["solve"] > 1e-3
