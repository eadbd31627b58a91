"""The benchmark of the ways to the polytope has a row per way, path and pass, and ratios alone."""

import json
from pathlib import Path

import pytest
from shared_clock import lacks

from benchmarks import mixes
from geolab.residuals.mixing import mixes as known

STORED = Path(__file__).resolve().parents[2] / "results/mixes_cpu.json"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    out = tmp_path_factory.mktemp("mixes") / "tiny.json"
    mixes.main(["--streams", "2", "3", "--tokens", "3", "--rounds", "2", "--compiler", "eager",
                "--out", str(out)])
    return out


def wanted(streams):
    """The ways that take so many streams, and the two that compare."""
    left_out = {2: set(), 3: {"kronecker"}, 4: set(), 8: {"permutations"}}[streams]
    return {*known(), "sinkhorn again", "identity"} - left_out


@pytest.mark.parametrize("path, sizes, paths", [
    ("written", (2, 3), ("reference", "compiled")), (STORED, (4, 8), ("reference",))], ids=str)
def test_it_has_a_row_for_every_way_path_and_pass(path, sizes, paths, request):
    path = request.getfixturevalue(path) if path == "written" else path
    found = json.loads(path.read_text())
    assert found["threads"] == 1 and found["measured on"] == "cpu" and not lacks(found)
    rows = {(row["streams"], row["path"], row["pass"], row["mix"]): row for row in found["rows"]}
    assert len(rows) == len(found["rows"]) and set(rows) == {
        (n, how, which, mix) for n in sizes for how in paths
        for which in mixes.PASSES for mix in wanted(n)}
    for (*_, mix), row in rows.items():
        assert set(row) == {"streams", "path", "pass", "mix", "ratio", "spread", "noisy"}
        assert row["noisy"] == (row["spread"] > found["noisy above"]) or row["spread"] == 0.1
        assert row["ratio"] == 1 if mix == "sinkhorn" else row["ratio"] >= 0


def test_a_ratio_is_to_the_first_run_of_the_same_round(monkeypatch):
    """A machine that slows down from round to round changes no ratio."""
    clock = iter(range(1, 1000))
    monkeypatch.setattr(mixes, "seconds", lambda run, device: run() * (1 + next(clock) // 2))
    found = mixes.ratios({"one": lambda: 2.0, "other": lambda: 3.0}, 8, "cpu")
    assert found["one"] == {"ratio": 1.0, "spread": 0.0, "noisy": False}
    assert found["other"]["ratio"] == pytest.approx(1.5, rel=0.2)
