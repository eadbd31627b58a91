"""An experiment is data: its parts can be trained one by one, side by side, and again, and come out the same."""

import os
from dataclasses import replace
from functools import partial

import pytest
from torch import nn

from geolab.distributed import Engine
from studies import EXPERIMENTS, Comparison, Experiment, base, run
from studies.runner.jobs import side_by_side
from geolab.tasks import Negation
from geolab.training import Budget

TASK = Negation(dim=4, train=32, validation=16)


def toy():
    linear = partial(nn.Linear, 4, 4)
    arms = {"biased": linear, "linear": partial(linear, bias=False)}
    return {"long": Comparison(arms, TASK, Budget(steps=20, evaluate_every=10, warmup=2), rates=(1e-2, 1e-1), search_steps=5),
            "short": Comparison({"biased": linear}, TASK, Budget(steps=4, warmup=1), rates=(1e-2,), seeds=(5,))}


@pytest.fixture(autouse=True)
def experiment(monkeypatch):
    monkeypatch.setitem(EXPERIMENTS, "toy", Experiment("Does it run?", {"cpu": toy}))


def test_the_content_is_each_comparison_by_name(tmp_path):
    found = run("toy", folder=tmp_path)
    assert found["command"] == "python -m studies toy --budget cpu" and found["device"] == "cpu" and found["processes"] == 1
    assert {(r["model"], r["seed"]) for r in found["long"]["runs"]} == {(name, seed) for name in ("biased", "linear") for seed in (0, 1, 2)}
    assert [(r["model"], r["seed"]) for r in found["short"]["runs"]] == [("biased", 5)]
    assert found["engine"]["long"]["precision"] == "float32"


def test_a_part_is_that_part_of_the_whole(tmp_path):
    whole, part = run("toy", folder=tmp_path / "a"), run("toy", arms=["biased"], seeds=[1], folder=tmp_path / "b")

    def lines(found):
        return [{key: value for key, value in line.items() if key != "seconds_not_quoted"} for line in found["long"]["runs"]]
    assert lines(part) == [line for line in lines(whole) if (line["model"], line["seed"]) == ("biased", 1)]
    assert part["long"]["search"]["best"]["biased"] == whole["long"]["search"]["best"]["biased"]  # searched with all seeds
    assert "linear" not in part["long"]["parameters"]


def test_an_arm_of_one_comparison_leaves_the_other_out(tmp_path):
    assert "short" not in run("toy", arms=["linear"], seeds=[0], folder=tmp_path)


def test_a_killed_run_goes_on_to_the_same_result(tmp_path, monkeypatch):
    whole = run("toy", folder=tmp_path / "a")
    step, left = base.compare.__globals__["fit"].__globals__["_Run"].step, iter(range(47))

    def killed(self, pressed):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return step(self, pressed)
    with monkeypatch.context() as patch:
        patch.setattr("geolab.training._Run.step", killed)
        with pytest.raises(KeyboardInterrupt):
            run("toy", folder=tmp_path / "b")
    again = run("toy", folder=tmp_path / "b")
    for part in ("long", "short"):
        assert [r["validation_loss"] for r in again[part]["runs"]] == [r["validation_loss"] for r in whole[part]["runs"]]


def test_a_field_of_the_engine_takes_the_place_of_its_own(tmp_path, monkeypatch):
    halved = {name: replace(part, engine=Engine(accumulate=2)) for name, part in toy().items()}
    monkeypatch.setitem(EXPERIMENTS, "toy", Experiment("Does it run?", {"cpu": lambda: halved}))
    found = run("toy", arms=["linear"], seeds=[0], engine={"precision": "bfloat16"}, folder=tmp_path)
    assert found["engine"]["long"] == {"precision": "bfloat16", "accumulate": 2, "shard": False, "compile": False}


@pytest.mark.parametrize("wrong, message", [
    ({"name": "toys"}, "experiment must be one of 'delta'.*got 'toys'"), ({"budget": "gpu"}, "budget must be one of 'cpu', got 'gpu'"),
    ({"arms": ["cubic"]}, "arm must be one of 'biased', 'linear', got 'cubic'"), ({"jobs": 0}, "jobs must be at least 1, got 0")])
def test_what_is_not_there_is_refused(wrong, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        run(**{"name": "toy", "folder": tmp_path} | wrong)


def test_jobs_are_processes_and_results_keep_their_order(tmp_path, monkeypatch):
    (tmp_path / "jobs_of_this_test.py").write_text(
        "import os, pathlib, time\n"
        f"SEEN = pathlib.Path({str(tmp_path / 'seen')!r})\n"
        "class Wait:\n"
        "    def __init__(self, k): self.k = k\n"
        "    def run(self):\n"
        "        while self.k == 0 and not SEEN.exists(): time.sleep(0.02)  # the first ends after the second\n"
        "        SEEN.touch()\n"
        "        return self.k, os.getpid()\n"
        "class Fail(Wait):\n"
        "    def run(self): raise ValueError('the loss is not finite')\n")
    monkeypatch.syspath_prepend(tmp_path)
    import jobs_of_this_test as jobs
    found = side_by_side([jobs.Wait(k) for k in range(3)], 2)
    assert [k for k, _ in found] == [0, 1, 2] and len({process for _, process in found} - {os.getpid()}) == 2
    with pytest.raises(ValueError, match="the loss is not finite"):
        side_by_side([jobs.Fail(0), jobs.Wait(1)], 2)
