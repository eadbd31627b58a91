"""The benchmark writes what it says, and the stored run agrees with what the book says of it."""

import json
from pathlib import Path

import pytest
from shared_clock import lacks

from benchmarks import cayley_cpu

STORED = Path(__file__).resolve().parents[2] / "results/cayley_cpu.json"
PASSES = ["forward", "forward + backward"]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    out = tmp_path_factory.mktemp("cayley") / "tiny.json"
    cayley_cpu.main(["--sizes", "3", "2", "--rounds", "2", "--turn", "6", "--compiler", "eager",
                     "--out", str(out)])
    return out


def test_it_writes_a_row_for_every_operator_size_and_pass(written):
    found = json.loads(written.read_text())
    assert found["threads"] == 1 and found["versions"]["torch"] and not lacks(found)
    assert [(row["operator"], row["matrices"], row["pass"]) for row in found["times"]] == [
        (name, count, which)
        for name in ("cayley_rank2", "cayley_skew4") for count in (3, 2) for which in PASSES]


@pytest.mark.parametrize("path", ["written", STORED])
def test_ratios_are_those_of_the_times(path, request):
    path = request.getfixturevalue(path) if path == "written" else path
    for row in json.loads(path.read_text())["times"]:
        seconds, ratios = row["seconds"], row["times as fast"]
        assert min(seconds.values()) > 0
        assert ratios == {"eager": pytest.approx(seconds["solve"] / seconds["ours"], abs=1e-3),
                          "compiled": pytest.approx(
                              seconds["solve"] / seconds["ours, compiled"], abs=1e-3),
                          "both compiled": pytest.approx(
                              seconds["solve, compiled"] / seconds["ours, compiled"], abs=1e-3)}


def stored(operator, count):
    found = [row["times as fast"] for row in json.loads(STORED.read_text())["times"]
             if (row["operator"], row["matrices"]) == (operator, count)]
    assert len(found) == len(PASSES)
    return found


@pytest.mark.parametrize("operator", cayley_cpu.OPERATORS)
def test_for_many_matrices_the_stored_closed_form_is_faster_in_every_way(operator):
    for row in stored(operator, 65536):
        assert row["eager"] > 2 and row["compiled"] > 3 and row["both compiled"] > 2


@pytest.mark.parametrize("operator", cayley_cpu.OPERATORS)
def test_for_64_matrices_the_stored_closed_form_is_slower_and_only_compiled_faster(operator):
    for row in stored(operator, 64):
        assert 0.25 < row["eager"] < 0.75 and 1 < row["both compiled"] < 2


def test_for_large_generators_only_the_stored_closed_form_stays_orthogonal():
    for found in json.loads(STORED.read_text())["defect"].values():
        assert found["ours"] < 1e-6 and found["solve"] > 1e-3
