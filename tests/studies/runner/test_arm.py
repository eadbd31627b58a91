"""Training an arm: every arm gets the same search, and a finished run is not repeated."""

import json
from dataclasses import replace

import pytest
import torch
from torch import nn

from geolab.tasks import Negation
from geolab.training import Budget
from studies.runner.arm import Arm, comparison, thinned, train

TASK = Negation(dim=4, train=32, validation=16)
SHORT = Budget(steps=40, evaluate_every=10, warmup=5)


def linear():
    return nn.Linear(4, 4)


def two_layers():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))


BOTH = comparison("negation", {"linear": linear, "two layers": two_layers}, TASK, SHORT,
                  rates=(1e-3, 1e-1), seeds=(0, 1), search_steps=10)
LINEAR = BOTH[0]


def test_every_model_gets_the_same_search_and_runs_at_its_own_winner(tmp_path):
    for arm, parameters in zip(BOTH, (20, 76), strict=True):
        found = train(arm, tmp_path)
        tried = [(run["model"], run["lr"], run["seed"]) for run in found["search"]]
        assert tried == [(arm.name, lr, seed) for lr in (1e-3, 1e-1) for seed in (0, 1)]
        assert found["best"] == 1e-1 and found["parameters"] == parameters
        assert [(run["model"], run["seed"]) for run in found["runs"]] == [
            (arm.name, 0), (arm.name, 1)]
        for run in found["runs"]:
            assert run["evaluated_at"] == [10, 20, 30, 40] and len(run["validation_loss"]) == 4
        json.dumps(found)


def test_a_seed_makes_the_model_and_its_batches(tmp_path):
    found, again = train(LINEAR, tmp_path / "one"), train(LINEAR, tmp_path / "again")
    losses = [run["validation_loss"] for run in found["runs"]]
    assert losses == [run["validation_loss"] for run in again["runs"]] and losses[0] != losses[1]


def test_a_finished_run_is_read_not_repeated(tmp_path):
    found = train(LINEAR, tmp_path)
    written = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.pt")}
    assert train(LINEAR, tmp_path)["runs"] == found["runs"]
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.pt")} == written


class Counts(nn.Linear):
    """Keeps what a checkpoint doesn't: how often it was called."""

    calls = 0

    def forward(self, x):
        self.calls += 1
        return super().forward(x)


def counts_and_norm(model):
    return {"calls": model.calls, "norm": model.weight.norm().item()}


def test_what_is_measured_is_what_the_checkpoint_holds(tmp_path):
    arm = Arm("negation", "counts", lambda: Counts(4, 4), TASK, SHORT, rates=(1e-2,), seeds=(0,),
              measure=counts_and_norm, untrained=counts_and_norm)
    run, = train(arm, tmp_path)["runs"]
    assert run["measured"]["calls"] == 0 and run["measured"]["norm"] != run["untrained"]["norm"]


class Diverges(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, x):
        return self.weight * x / 0


def test_a_model_that_always_diverges_is_named(tmp_path):
    broken = replace(LINEAR, name="broken", build=Diverges)
    with pytest.raises(FloatingPointError,
                       match="broken diverges at every learning rate of 0.001, 0.1"):
        train(broken, tmp_path)


def test_a_single_run_that_diverges_says_so(tmp_path):
    broken = replace(LINEAR, build=Diverges, rates=(1e-3,), seeds=(0,))
    assert train(broken, tmp_path)["runs"] == [
        {"model": "linear", "seed": 0, "lr": 1e-3, "diverged": True}]


def test_a_single_rate_is_not_searched_for(tmp_path):
    found = train(replace(LINEAR, rates=(1e-2,), search_steps=None), tmp_path)
    assert found["search"] == [] and found["best"] == 1e-2 and len(found["runs"]) == 2


def test_a_search_may_have_seeds_of_its_own(tmp_path):
    found = train(replace(LINEAR, search_seeds=(7,)), tmp_path)
    assert [run["seed"] for run in found["search"]] == [7, 7]
    assert [run["seed"] for run in found["runs"]] == [0, 1]


@pytest.mark.parametrize("wrong, message", [
    ({"seeds": ()}, "seeds must hold at least one number, got ()"),
    ({"rates": ()}, "rates must hold at least one number, got ()"),
    ({"seeds": (0, 0)}, "seeds must differ, got 0, 0"),
    ({"search_steps": None}, "search_steps must be given to choose among 2 rates, got None")])
def test_an_arm_that_can_not_be_trained_is_refused(wrong, message):
    with pytest.raises(ValueError) as refused:
        replace(LINEAR, **wrong)
    assert message in str(refused.value)


def test_training_curves_are_kept_as_means_over_stretches(tmp_path):
    arm = replace(LINEAR, budget=Budget(steps=120), seeds=(0,), rates=(1e-2,))
    run, = train(arm, tmp_path)["runs"]
    assert len(run["train_loss"]) == len(run["gradient_norm"]) == 50
    assert thinned([1.0, 2.0, 3.0, 6.0], points=2) == [1.5, 4.5]
    assert thinned([1.0, 2.0], points=2) == thinned([1.0, 2.0]) == [1.0, 2.0]
    assert sum(thinned(range(101), points=10)) / 10 == pytest.approx(50, abs=0.5)
