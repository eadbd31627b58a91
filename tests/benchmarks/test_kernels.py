"""What can be tested of the benchmark without a GPU: it compares before it times, and its numbers
follow from its times.
"""

import json
import re
from types import SimpleNamespace

import pytest
import torch

from benchmarks import kernels as benchmark
from benchmarks import timing
from benchmarks.cases import CASES, STREAMS, draws
from geolab import kernels

NO_GPU = pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU it measures")
SECONDS, COPY = 2e-3, 1e9


@pytest.fixture
def stopwatch(monkeypatch):
    """A stand-in for a device: every run takes SECONDS, and a copy moves COPY bytes per second.
    Returns the list of what was run.
    """
    ran = []
    monkeypatch.setattr(timing, "copy_bandwidth", lambda: COPY)
    monkeypatch.setattr(timing, "peaks", lambda function, inputs, cotangents: (100, 200))
    monkeypatch.setattr(timing, "captured", lambda function, sets, cotangents: SimpleNamespace(
        forward=SimpleNamespace(replay=lambda: ran.append((function, len(sets)))),
        backward=SimpleNamespace(replay=lambda: None)))

    def turns(runs, rounds):
        for run in runs.values():
            run()
        return {name: [SECONDS] * rounds for name in runs}

    monkeypatch.setattr(timing, "turns", turns)
    return ran


@pytest.mark.parametrize("name", [name for name, case in CASES.items()
                                  if case.twin in kernels.TWINS])
@NO_GPU
def test_every_kernel_computes_its_case(name):
    case, d = CASES[name], 8 if CASES[name].kind == "state" else 0
    drawn = case.inputs(5, STREAMS, d, *draws("cpu", torch.float32, seed=3))
    inputs = tuple(x.detach().requires_grad_() for x in drawn)
    cotangents = timing.cotangents_of(timing.outputs_of(case.function, inputs))
    with kernels.use("always"):
        found = benchmark.errors(case.function, inputs, cotangents,
                                 benchmark.wanted(case, inputs, cotangents))
    assert max(found) <= benchmark.KERNEL_TOLERANCE[torch.float32]


@NO_GPU
def test_in_the_interpreter_it_writes_errors_and_no_times(tmp_path, capsys):
    path = tmp_path / "kernels.json"
    benchmark.main(["--interpret", "--only", "stream_read", "--out", str(path)])
    kept = json.loads(path.read_text())
    assert [row["contender"] for row in kept["rows"]][:3] == ["kernel", "eager", "compiled"]
    assert all(max(row["error"].values()) < 1e-4 for row in kept["rows"])
    assert all(row["right"] == {"forward": True, "backward": True} for row in kept["rows"])
    assert not any("us" in row for row in kept["rows"]) and kept["versions"]["triton"]
    assert capsys.readouterr().out.count("stream_read") == len(kept["rows"])


@NO_GPU
def test_numbers_follow_from_times(stopwatch, monkeypatch):
    case = CASES["stream_read"]
    monkeypatch.setattr(benchmark, "contenders",
                        lambda name, case, compiler: {"eager": case.function})
    found = benchmark.run(["stream_read"], benchmark.TINY, "cpu", rounds=5)
    (row,), (_, sets) = found["rows"], stopwatch[0]
    floor = case.floor(37, STREAMS, 48, 4)
    assert sets == 64 and found["copy_bytes_a_second"] == [COPY, COPY]
    assert row["peak_bytes"] == {"forward": 100, "backward": 200}
    for side in benchmark.SIDES:
        assert row["us"][side] == pytest.approx(1e6 * SECONDS / sets, rel=1e-3)
        share = getattr(floor, side) / (SECONDS / sets) / COPY
        assert row["floor_share"][side] == pytest.approx(share, rel=1e-3)
    assert f"{row['us']['forward']:.1f}" in benchmark.line(row)


def test_what_is_wrong_is_not_timed_and_what_fails_stands_in_the_table(stopwatch, monkeypatch):
    def broken(*inputs):
        raise RuntimeError("no such size\nand more")

    def no_gradient(x, weights):
        return CASES["stream_read"].function(x, weights).detach() + 0 * x.sum() + 0 * weights.sum()

    monkeypatch.setattr(benchmark, "contenders", lambda name, case, compiler: {
        "kernel": lambda x, a: 1.01 * case.function(x, a), "no gradient": no_gradient,
        "broken": broken, "eager": case.function})
    found = benchmark.measure("stream_read", CASES["stream_read"], 5, 8, "cpu", COPY, rounds=5)
    rows = {row["contender"]: row for row in found}
    assert "us" not in rows["kernel"]
    assert rows["kernel"]["error"]["forward"] == pytest.approx(0.01, rel=1e-3)
    assert list(rows["no gradient"]["us"]) == ["forward"]
    assert rows["no gradient"]["error"]["backward"] == pytest.approx(1)
    assert rows["broken"]["failed"] == "RuntimeError: no such size"
    assert "no such size" in benchmark.line(rows["broken"])
    assert list(rows["eager"]["us"]) == ["forward", "backward"]
    assert "stream_read at N = 5" in benchmark.wrong(list(rows.values()))[0]


@pytest.mark.parametrize("fill, error", [(float("nan"), float("inf")), (0.0, 1.0)])
def test_an_output_that_is_not_written_is_no_match(fill, error):
    assert benchmark._distance(torch.full((3,), fill), torch.ones(3).double()) == error


def test_contenders_take_turns(monkeypatch):
    order = []

    class Event:
        def __init__(self, enable_timing):
            self.at = None

        def record(self):
            self.at = len(order)

        def elapsed_time(self, later):
            return 1000.0 * (later.at - self.at)

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    seconds = timing.turns({"a": lambda: order.append("a"), "b": lambda: order.extend("bb")},
                           rounds=2, warm_up=1)
    assert order == ["a", "b", "b"] * 3 and seconds == {"a": [1, 1], "b": [2, 2]}


@NO_GPU
@pytest.mark.parametrize("arguments, message", [
    ([], "needs a CUDA device with Triton: PyTorch sees none"),
    (["--interpret", "--only", "nothing"], "--only must be part of .* got 'nothing'")])
def test_it_says_what_is_missing(arguments, message, capsys):
    with pytest.raises(SystemExit):
        benchmark.main(arguments)
    assert re.search(message, capsys.readouterr().err)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="times need a GPU")
def test_it_measures(tmp_path):
    path = tmp_path / "kernels.json"
    benchmark.main(["--quick", "--only", "stream_read", "--out", str(path)])
    rows = json.loads(path.read_text())["rows"]
    assert all(0 < row["floor_share"][side] < 1.1 for row in rows if row["contender"] == "kernel"
               for side in benchmark.SIDES)
