"""What can be tested of the benchmark without a GPU: it compares before it times, and its numbers
follow from its times.
"""

import json
from types import SimpleNamespace

import pytest
import torch

from benchmarks import kernels as benchmark
from benchmarks import peers, timing
from benchmarks.cases import CASES, STREAMS, draws
from benchmarks.peers import Contender

NO_GPU = pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU it measures")
SECONDS, CACHE = 2e-3, 2**20
CPU = benchmark.Options("cpu", rounds=5, dtype=torch.float32)


@pytest.fixture
def stopwatch(monkeypatch):
    """A stand-in for a device: every run takes SECONDS. Returns the list of what was run."""
    ran = []

    def copied(read, written, times):
        return lambda: ran.append(("copy", read, written, times)), read + written

    def captured(function, sets, cotangents):
        return SimpleNamespace(
            forward=SimpleNamespace(replay=lambda: ran.append((function, len(sets)))),
            backward=SimpleNamespace(replay=lambda: None))

    def turns(runs, rounds, meanwhile):
        for run in runs.values():
            run()
        meanwhile()
        return {name: [SECONDS] * rounds for name in runs}

    for stand_in in (copied, captured, turns):
        monkeypatch.setattr(timing, stand_in.__name__, stand_in)
    monkeypatch.setattr(timing, "cache_bytes", lambda: CACHE)
    monkeypatch.setattr(timing, "clocks", lambda: {"MHz": 1980.0})
    monkeypatch.setattr(timing, "peaks", lambda function, inputs, cotangents: (100, 200))
    return ran


@pytest.fixture
def contend(monkeypatch):
    """Lets functions take part by name."""
    return lambda **functions: monkeypatch.setattr(
        benchmark, "contenders", lambda name, case, options: {
            key.replace("_", " "): Contender(function) for key, function in functions.items()})


@NO_GPU
def test_in_the_interpreter_it_writes_errors_and_no_times(tmp_path, capsys):
    benchmark.main(["--interpret", "--only", "stream_read", "--without", "compiled",
                    "--out", str(tmp_path / "kernels.json")])
    kept = json.loads((tmp_path / "kernels.stream_read.json").read_text())
    assert [row["contender"] for row in kept["rows"]][:2] == ["kernel", "eager"]
    assert "compiled" not in {row["contender"] for row in kept["rows"]}
    done = [row for row in kept["rows"] if "failed" not in row]  # a peer may not be installed
    assert all(max(row["error"].values()) < 1e-4 for row in done)
    assert all(row["right"] == {"forward": True, "backward": True} for row in done)
    assert not any("us" in row for row in kept["rows"]) and kept["versions"]["triton"]
    assert capsys.readouterr().out.count("stream_read") == len(kept["rows"])


@NO_GPU
def test_numbers_follow_from_times(stopwatch, contend):
    case = CASES["stream_read"]
    contend(eager=case.function)
    row, copies = benchmark.run("stream_read", benchmark.TINY, CPU)["rows"]
    floor, inputs = case.floor(37, STREAMS, 48, 4), 37 * STREAMS * (48 + 1) * 4
    output = 37 * 48 * 4
    sets = 1 + 2 * CACHE // inputs  # one more than twice the cache holds
    assert sets * inputs > 2 * CACHE and sets > 64 and stopwatch[2][1] == sets == copies["sets"]
    assert stopwatch[:2] == [("copy", inputs, output, sets),
                             ("copy", floor.backward - inputs, inputs, sets)]
    assert row["peak_bytes"] == {"forward": 100, "backward": 200}
    assert copies["clocks"] == {"MHz": 1980.0}
    for side in benchmark.SIDES:
        assert row["us"][side] == pytest.approx(1e6 * SECONDS / sets, rel=1e-3)
        assert row["copy_share"][side] == copies["copy_share"][side] == 1
        assert copies["bytes_a_second"][side] == pytest.approx(
            getattr(floor, side) * sets / SECONDS, rel=1e-3)
    assert f"{row['us']['forward']:.1f}" in benchmark.line(row)
    assert "copy" in benchmark.line(copies)


def test_what_is_wrong_is_not_timed_and_what_fails_stands_in_the_table(stopwatch, contend):
    case = CASES["stream_read"]

    def broken(*inputs):
        raise RuntimeError("no such size\nand more")

    def no_gradient(x, weights):
        return case.function(x, weights).detach() + 0 * x.sum() + 0 * weights.sum()

    contend(kernel=lambda x, a: 1.01 * case.function(x, a), no_gradient=no_gradient,
            broken=broken, eager=case.function)
    found = benchmark.measure("stream_read", 5, 8, CPU)
    rows = {row["contender"]: row for row in found}
    assert "us" not in rows["kernel"]
    assert rows["kernel"]["error"]["forward"] == pytest.approx(0.01, rel=1e-3)
    assert list(rows["no gradient"]["us"]) == ["forward"]
    assert rows["no gradient"]["error"]["backward"] == pytest.approx(1)
    assert rows["broken"]["failed"] == "RuntimeError: no such size"
    assert "no such size" in benchmark.line(rows["broken"])
    assert list(rows["eager"]["us"]) == ["forward", "backward"]
    assert "stream_read at N = 5" in benchmark.wrong(list(rows.values()))[0]


def test_a_product_that_cuts_off_low_bits_is_wrong_though_its_error_is_that_of_rounding(
        stopwatch, contend):
    case = CASES["stream_mix"]
    contend(kernel=lambda x, h: (0.9993 * case.function(x.float(), h)).bfloat16(),
            eager=lambda x, h: case.function(x.float(), h).bfloat16())
    cut, rounded, _ = benchmark.measure("stream_mix", 500, 64, CPU._replace(
        device="cpu", dtype=torch.bfloat16))
    tolerance = benchmark.KERNEL_TOLERANCE[torch.bfloat16]
    assert cut["error"]["forward"] < tolerance and cut["bias"]["forward"] > 6e-4
    assert rounded["error"]["forward"] < tolerance and rounded["bias"]["forward"] < benchmark.BIAS


@pytest.mark.parametrize("case, given", [("rms_linear", peers._RmsLinear.given),
                                         ("sinkhorn, rows first", peers._Sinkhorn.given)])
def test_a_peer_gets_its_own_layout_outside_of_what_is_timed(case, given):
    drawn = CASES[case].inputs(5, STREAMS, 8, *draws("cpu", torch.float32, seed=3))
    inputs = tuple(x.detach().requires_grad_() for x in drawn)
    leaves = [x for x in given(*inputs) if x.requires_grad]
    assert len(leaves) == len(inputs)
    for leaf, x in zip(leaves, inputs, strict=True):
        assert leaf.is_leaf and torch.equal(leaf, x)
    shared = [x for x in given(*inputs) if not x.requires_grad][0]
    assert leaves[-1].untyped_storage().nbytes() == shared.untyped_storage().nbytes()


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


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="times need a GPU")
def test_it_measures(tmp_path):
    benchmark.main(["--quick", "--only", "stream_read", "--without", "compiled", "--out",
                    str(tmp_path / "kernels.json")])
    rows = json.loads((tmp_path / "kernels.stream_read.json").read_text())["rows"]
    assert all(0 < row["copy_share"][side] < 1.1 for row in rows if row["contender"] == "kernel"
               for side in benchmark.SIDES)
