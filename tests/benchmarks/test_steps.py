import json
from functools import partial
from multiprocessing.pool import ThreadPool
from types import SimpleNamespace

import pytest
import torch
from shared_clock import lacks

from benchmarks import steps
from geolab.models import Transformer

TINY = ["--width", "16", "--layers", "1", "--heads", "2", "--hidden", "32", "--batch", "2",
        "--length", "5", "--repeats", "1", "--processes", "2"]
SIZE = {"width": 16, "layers": 1, "heads": 2, "hidden": 32, "batch": 2, "length": 5,
        "repeats": 3}
CONFIG = steps.configuration("cuda", SIZE)


def test_on_a_cpu_each_ratio_is_to_the_additive_block(tmp_path):
    path = tmp_path / "steps.json"
    steps.main(["--device", "cpu", "--only", "delta,mhc", *TINY, "--out", str(path)])
    kept = json.loads(path.read_text())
    rows = {row["residual"]: row for row in kept["rows"]}
    assert not lacks(kept)
    assert list(rows) == ["additive", "delta", "mhc", "additive again"]
    assert kept["device"] == "cpu" and kept["size"]["width"] == 16 and kept["threads"] == 1
    assert rows["additive"]["ratio"] == 1 and rows["additive"]["half width"] == 0
    # the mean of two processes' ratios, and the ratio of their mean times
    assert all(0.5 < row["ratio"] / (row["ms"] / rows["additive"]["ms"]) < 2
               for row in rows.values())
    assert rows["additive"]["parameters"] < rows["mhc"]["parameters"]
    assert all(row["half width"] >= 0 for row in rows.values())


def test_the_models_of_table_5_are_measured_over_their_gpt(monkeypatch, capsys):
    """Threads stand in for processes, each of which would take seconds to start."""
    context = SimpleNamespace(Pool=lambda count, maxtasksperchild: ThreadPool(count))
    monkeypatch.setattr(steps.multiprocessing, "get_context", {"spawn": context}.get)
    monkeypatch.setitem(steps.TABLE5_SIZE, "batch", 1)
    monkeypatch.setitem(steps.TABLE5_SIZE, "length", 3)
    steps.main(["--device", "cpu", "--table5", "--only", "emhc-hybrid", "--repeats", "1",
                "--processes", "2"])
    first, second, *printed = [row.split() for row in capsys.readouterr().out.splitlines()]
    assert first[0] == "1" and second[0] == "2"
    assert [row[0] for row in printed] == ["emhc-gpt", "emhc-hybrid", "emhc-gpt"]
    assert printed[0][-3:] == ["1.000", "±", "0.000"]
    assert printed[1][-2] == "±" and float(printed[1][-1]) >= 0
    assert printed[2][1] == "again"  # how far the GPT is from its own copy


def test_on_a_device_every_mode_is_measured_beside_the_additive_block_in_the_same_mode(monkeypatch):
    milliseconds = {("additive", "eager"): 10, ("additive", "compiled"): 5,
                    ("additive", "kernels"): 10, ("mhc", "eager"): 20, ("mhc", "kernels"): 11,
                    ("mhc", "compiled"): 8}

    def turns(runs, rounds, meanwhile):
        for step in runs.values():
            step()
        meanwhile()
        again = {("again", mode): ("additive", mode) for _, mode in runs}
        return {name: [1e-3 * milliseconds[again.get(name, name)]] * rounds for name in runs}

    monkeypatch.setattr(steps, "turns", turns)
    monkeypatch.setattr(steps, "clocks", lambda: {"MHz": 1980.0})
    monkeypatch.setattr(steps, "_peak", lambda step: 2**30)
    monkeypatch.setattr(torch, "compile", lambda model: model)
    models = {name: partial(Transformer, CONFIG, name) for name in ("additive", "mhc")}
    rows = [row for found in steps.on_cuda(models, ["eager", "kernels", "compiled"], SIZE,
                                           device="cpu") for row in found]
    assert not lacks({"rows": rows})
    ratios = {row["mode"]: row["ratio"] for row in rows if row["residual"] == "mhc"}
    assert ratios == {"eager": 2, "kernels": 1.1, "compiled": 1.6}
    assert all(row["peak_bytes"] == 2**30 and row["clocks"] == {"MHz": 1980.0}
               and row["ratio_deciles"] == [row["ratio"]] * 2 and row["again"] == 1 for row in rows)


def test_a_mode_that_fails_is_a_row_with_its_message(monkeypatch):
    class Refuses(steps.Run):
        def forward(self, x):
            if self.kernels == "auto":
                raise RuntimeError("out of memory\nby far")
            return super().forward(x)

    monkeypatch.setattr(steps, "Run", Refuses)
    monkeypatch.setattr(steps, "turns",
                        lambda runs, rounds, meanwhile: {name: [1.0] for name in runs})
    monkeypatch.setattr(steps, "_peak", lambda step: 0)
    (eager, with_kernels), = steps.on_cuda({"delta": partial(Transformer, CONFIG, "delta")},
                                        ["eager", "kernels"], SIZE, device="cpu")
    assert eager["ratio"] == 1 and "ratio" not in with_kernels
    assert with_kernels["failed"] == "RuntimeError: out of memory"


def test_one_more_layer_takes_what_the_depths_differ_by():
    def row(name, layers, ms, again=1.0):
        return {"residual": name, "mode": "eager", "layers": layers, "ms": ms, "parameters": layers,
                "ms_deciles": [ms - 1, ms + 1], "again": again}

    few = [row("additive", 4, 50.0), row("mhc", 4, 60.0, again=0.98)]
    many = [row("additive", 8, 90.0), row("mhc", 8, 110.0, again=1.01)]
    plain, mhc = steps.slopes(few, many)
    assert not lacks({"rows": [plain, mhc]})
    assert plain["ms"] == 10 and plain["ratio"] == 1 and mhc["ms"] == 12.5 and mhc["ratio"] == 1.25
    assert plain["ms_deciles"] == [9.5, 10.5] and mhc["ms_deciles"] == [12, 13]
    assert plain["ratio_deciles"] == [1, 1] and mhc["again"] == 0.98
    assert mhc["ratio_deciles"] == pytest.approx([12 / 10.5, 13 / 9.5], rel=1e-3)
    assert steps.slopes(few, [many[0], {"residual": "mhc", "mode": "eager"}]) == [plain]
