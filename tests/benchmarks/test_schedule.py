import json

import pytest

from benchmarks import schedule
from geolab.kernels import launch
from studies.engine.results import FOLDER

pytestmark = pytest.mark.skipif(not launch.INTERPRETED,
                                reason="only Triton's interpreter counts addresses")
VECTORS = {  # of a sublayer, at n streams: forward and backward
    "a kernel per operator": lambda n: (4 * n + 2, 13 * n + 3),
    "a sublayer alone": lambda n: (4 * n + 2, 7 * n + 4),
    "two phases, joined": lambda n: (3 * n + 2, 4 * n + 4),
    "two phases, joined, with a norm": lambda n: (3 * n + 2, 4 * n + 5),
    "two phases, joined, states recomputed": lambda n: (3 * n + 2, 7 * n + 6),
    "a norm behind each sum": lambda n: (4 * n + 2, 7 * n + 4),
    "a norm behind each sum, apart": lambda n: (6 * n + 2, 10 * n + 4),
    "TileKernels, ∂X in place": lambda n: (4 * n + 2, 9 * n + 3),
    "TileKernels, states recomputed": lambda n: (4 * n + 2, 10 * n + 5),
    "two phases, ∂Z written": lambda n: (3 * n + 2, 6 * n + 4),
    "floor, joined": lambda n: (2 * n + 2, 3 * n + 3),
}


@pytest.mark.parametrize("name", schedule.COUNTED)
def test_every_schedule_moves_its_number_of_vectors(name, monkeypatch):
    monkeypatch.setattr(schedule, "TOKENS", (8, 24))  # the interpreter is slow
    monkeypatch.setattr(schedule, "LENGTHS", (1, 2))
    found = schedule.COUNTED[name](n=2)
    if name in VECTORS:
        assert found["vectors"] == VECTORS[name](2)
    assert all(vectors == round(vectors) for vectors in found["vectors"])
    if name != "eager":
        assert all(0 < others < 4 * 150 for others in found["bytes"])


def test_the_stored_table_is_that_of_these_schedules():
    rows = json.loads((FOLDER / "schedule.json").read_text())["rows"]
    assert {row["schedule"] for row in rows} == {*schedule.COUNTED, *schedule.COMPUTED}
    for row in rows:
        if row["schedule"] in VECTORS:
            assert tuple(row["vectors"]) == VECTORS[row["schedule"]](row["n"])


def test_kernels_take_seven_launches_for_a_sublayer_of_mhc():
    assert schedule.launches("mhc", N=80, d=640, iterations=2) == (3, 4)
    apart = schedule.launches("mhc", N=80, d=640, iterations=2, apart=True)
    assert sum(apart) > 7 + 20  # PyTorch's norm of a bfloat16 state, with float32 weights
    # single programs leave nothing to add up
    assert schedule.launches("mhc", N=40, d=64, iterations=2) == (3, 3)


def test_eight_streams_take_one_launch_more():
    assert schedule.launches("mhc", N=80, d=640, iterations=2, streams=8) == (3, 5)


def test_hyper_connections_and_jpmhc_take_few_launches_more():
    assert schedule.launches("hyper", N=80, d=640) == (4, 5)
    assert schedule.launches("jpmhc", N=80, d=640) == (6, 11)


def test_a_norm_behind_the_residual_takes_one_launch_there_and_two_back():
    assert schedule.launches("additive", N=80, d=640, post=True) == (1, 2 + 1)  # and adds up
    assert schedule.launches("mhc", N=80, d=640, iterations=2, post=True) == (3 + 1, 4 + 2)


def test_delta_residuals_take_fewer_launches_where_a_kernel_makes_value_and_rate():
    assert schedule.launches("delta", N=80, d=640) == (17, 35)
    longer = schedule.launches("delta", N=80, d=640, value="linear")
    assert sum(longer) > 17 + 35 + 20
    assert schedule.launches("delta-matrix", N=80, d=640) == (23, 43)


def test_it_writes_what_it_prints(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(schedule, "COUNTED", {})
    monkeypatch.setattr(schedule, "STEPS", {})
    schedule.main(["--streams", "4", "--out", str(tmp_path / "schedule.json")])
    rows = json.loads((tmp_path / "schedule.json").read_text())["rows"]
    assert [(row["schedule"], sum(row["vectors"])) for row in rows] == [
        ("a norm behind each sum, apart", 70), ("TileKernels, states recomputed", 63),
        ("TileKernels, ∂X in place", 57),
        ("two phases, ∂Z written", 42), ("floor, joined", 25)]
    assert capsys.readouterr().out.count("\n") == 2 + len(rows)
