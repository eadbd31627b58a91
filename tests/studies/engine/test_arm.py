"""Training an arm: every arm gets the same search, and a finished run is not repeated."""

import json
import math
from dataclasses import replace

import pytest
import torch
from shared_studies import TASK
from torch import nn

from geolab.training import Budget
from studies.engine import arm as module
from studies.engine.arm import Arm, comparison, thinned, train
from studies.engine.protocol import VARIATIONS, Protocol, Setting

SHORT = Budget(steps=40, evaluate_every=10, warmup=5)


def linear():
    return nn.Linear(4, 4)


def two_layers():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))


GRID = Protocol(rates=(1e-3, 1e-1), warmups=None, search_seeds=(7, 8), seeds=(0, 1),
                search_steps=10, widen=False, variations=())
BOTH = comparison("negation", {"linear": linear, "two layers": two_layers}, TASK, SHORT, GRID)
LINEAR = BOTH[0]


def under(protocol, arm=LINEAR):
    return replace(arm, protocol=protocol)


def test_every_model_gets_the_same_search_and_runs_at_its_own_winner(tmp_path):
    for arm, parameters in zip(BOTH, (20, 76), strict=True):
        found = train(arm, tmp_path)
        tried = [(run["model"], run["lr"], run["seed"]) for run in found["search"]]
        assert sorted(tried) == [(arm.name, lr, seed) for lr in (1e-3, 1e-1) for seed in (7, 8)]
        assert found["best"] == {"lr": 1e-1, "warmup": None} and found["next best"]["lr"] == 1e-3
        assert found["parameters"] == parameters and found["sensitivity"] == {}
        assert [(run["model"], run["seed"]) for run in found["runs"]] == [
            (arm.name, 0), (arm.name, 1)]
        for run in found["runs"]:
            assert run["lr"] == 1e-1 and len(run["validation_loss"]) == 4
            assert run["evaluated_at"] == [10, 20, 30, 40]
        json.dumps(found)


def test_a_seed_makes_the_model_and_its_batches_and_a_finished_run_is_read_not_repeated(tmp_path):
    found = train(LINEAR, tmp_path / "one")
    losses = [run["validation_loss"] for run in found["runs"]]
    written = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.pt")}
    assert train(LINEAR, tmp_path / "one")["runs"] == found["runs"]
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.pt")} == written
    again = train(LINEAR, tmp_path / "again")
    assert losses == [run["validation_loss"] for run in again["runs"]] and losses[0] != losses[1]


class Counts(nn.Linear):
    """Keeps what a checkpoint doesn't: how often it was called."""

    calls = 0

    def forward(self, x):
        self.calls += 1
        return super().forward(x)


def counts_and_norm(model):
    return {"calls": model.calls, "norm": model.weight.norm().item()}


def test_what_is_measured_is_what_the_checkpoint_holds(tmp_path):
    protocol = replace(Protocol.stated(1e-2, (0,)), few=(0,), variations=("half the steps",))
    arm = Arm("negation", "counts", lambda: Counts(4, 4), TASK, SHORT, protocol,
              measure=counts_and_norm, untrained=counts_and_norm)
    found = train(arm, tmp_path)
    run, half = *found["runs"], *found["sensitivity"]["half the steps"]
    norms = [run["untrained"]["norm"], run["measured"]["norm"], half["measured"]["norm"]]
    assert run["measured"]["calls"] == half["measured"]["calls"] == 0 and len(set(norms)) == 3


class Diverges(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, x):
        return self.weight * x / 0


def test_a_model_that_diverges_says_so(tmp_path):
    broken = replace(LINEAR, name="broken", build=Diverges)
    with pytest.raises(FloatingPointError,
                       match="broken diverges at every learning rate of 0.001, 0.1"):
        train(broken, tmp_path)
    protocol = replace(Protocol.stated(1e-3, (0,)), few=(0,), variations=("twice the steps",))
    found = train(replace(broken, protocol=protocol), tmp_path)
    diverged = {"model": "broken", "seed": 0, "lr": 1e-3, "warmup": None, "diverged": True}
    assert found["runs"] == found["sensitivity"]["twice the steps"] == [diverged]


def test_a_single_rate_is_not_searched_for(tmp_path):
    found = train(under(Protocol.stated(1e-2, (0, 1))), tmp_path)
    assert found["search"] == [] and found["best"]["lr"] == 1e-2 and len(found["runs"]) == 2


class Unlucky(nn.Linear):
    """Diverges where a step is large, if it is built from seed 8."""

    def __init__(self):
        self.unlucky = torch.initial_seed() == 8
        super().__init__(4, 4)

    def forward(self, x):
        return super().forward(x / 0 if self.unlucky and self.weight.norm() > 3 else x)


def test_a_rate_at_which_one_seed_diverges_is_out(tmp_path):
    protocol = replace(GRID, rates=(1e-2, 1.0), search_steps=None)
    found = train(replace(LINEAR, build=Unlucky, protocol=protocol), tmp_path)
    losses = {(run["lr"], run["seed"]): run["validation_loss"] for run in found["search"]}
    assert losses.pop((1.0, 8)) is None and None not in losses.values()
    assert found["best"]["lr"] == found["next best"]["lr"] == 1e-2


# ---------------------------------------------------------------- under the whole protocol

FULL = replace(under(Protocol()), pace=0.8)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """What an arm gives under the whole protocol, and (seed, budget) of all of its runs."""
    asked = []

    def noted(model, task, budget, seed, **options):
        asked.append((seed, budget))
        return fit(model, task, budget, seed, **options)

    fit, module.fit = module.fit, noted
    try:
        return train(FULL, tmp_path_factory.mktemp("whole")), asked
    finally:
        module.fit = fit


def test_a_search_goes_on_past_the_edge_of_its_grid(whole):
    found, _ = whole
    best, second = Setting(**found["best"]), Setting(**found["next best"])
    losses = {}
    for run in found["search"]:
        losses.setdefault(Setting(run["lr"], run["warmup"]), []).append(
            math.log(run["validation_loss"]))
    assert max(FULL.protocol.rates) < best.lr < max(setting.lr for setting in losses)
    assert set(FULL.protocol.grid()) <= set(losses)
    twice = [setting for setting, of in losses.items() if len(of) == 2]
    assert sorted(twice, key=lambda setting: sum(losses[setting]))[:2] == [best, second]


def test_the_seeds_of_the_search_report_nothing(whole):
    found, _ = whole
    assert {run["seed"] for run in found["search"]} == {100, 101}
    assert [run["seed"] for run in found["runs"]] == list(FULL.protocol.seeds)
    assert all({**run, **found["best"]} == run for run in found["runs"])


def test_each_variation_has_its_setting_and_its_steps(whole):
    found, asked = whole
    names = ("model", "seed", "lr", "warmup")
    settings = {"next best": found["next best"]}
    assert tuple(found["sensitivity"]) == VARIATIONS
    for (name, runs), steps in zip(found["sensitivity"].items(), (40, 20, 80, 50), strict=True):
        expected = [{"model": "linear", "seed": seed, **settings.get(name, found["best"])}
                    for seed in range(3)]
        assert [{key: run[key] for key in names} for run in runs] == expected
        assert {run["steps"] for run in runs} == {steps}
    json.dumps(found)
    # and none was trained for anything else
    assert {(seed, budget.steps) for seed, budget in asked} == {
        *((seed, 40) for seed in (100, 101, *FULL.protocol.seeds)),
        *((seed, steps) for seed in range(3) for steps in (20, 80, 50))}


def test_a_warm_up_is_a_share_of_the_steps(whole):
    found, asked = whole
    varied = [budget for _, budget in asked if budget.steps != 40]
    assert varied and all(budget.warmup == round(found["best"]["warmup"] * budget.steps)
                          and budget.evaluate_every == budget.steps for budget in varied)
    tried = {(run["lr"], round(40 * run["warmup"])) for run in found["search"]}
    assert {(budget.lr, budget.warmup) for seed, budget in asked if seed >= 100} == tried


@pytest.mark.parametrize("pace, runs", [(1.02, None), (0.98, None), (1.25, 3)])
def test_an_arm_as_fast_as_the_first_one_has_no_runs_at_equal_time(pace, runs, tmp_path):
    protocol = replace(Protocol.stated(1e-2, (0,)), variations=("equal time",))
    found = train(replace(LINEAR, protocol=protocol, pace=pace), tmp_path)["sensitivity"]
    assert found.keys() == ({"equal time"} if runs else set())
    assert [run["steps"] for run in found.get("equal time", ())] == [32] * (runs or 0)


def test_training_curves_are_kept_as_means_over_stretches(tmp_path):
    arm = replace(LINEAR, budget=Budget(steps=120), protocol=Protocol.stated(1e-2, (0,)))
    run, = train(arm, tmp_path)["runs"]
    assert len(run["train_loss"]) == len(run["gradient_norm"]) == 50
    assert thinned([1.0, 2.0, 3.0, 6.0], points=2) == [1.5, 4.5]
    assert thinned([1.0, 2.0], points=2) == thinned([1.0, 2.0]) == [1.0, 2.0]
    assert sum(thinned(range(101), points=10)) / 10 == pytest.approx(50, abs=0.5)
