"""Training an arm: every arm gets the same search, and a finished run is not repeated."""

import json
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from shared_studies import TASK
from torch import nn

from geolab.tasks import Text
from geolab.training import Budget, fit
from studies.engine import arm as module
from studies.engine.arm import Arm, thinned, train
from studies.engine.held_out import Reported, Selected
from studies.engine.protocol import VARIATIONS, Protocol

SHORT = Budget(steps=40, evaluate_every=10, warmup=5)


def linear():
    return nn.Linear(4, 4)


def an_arm(protocol=Protocol.stated(1e-2, (0, 1)), **changes):
    return replace(Arm("negation", "linear", linear, TASK, SHORT, protocol), **changes)


def stated(*variations):
    """One seed at one rate, with variations on that seed."""
    return replace(Protocol.stated(1e-2, (0,)), few=(0,), variations=variations)


def norm(model):
    return {"norm": model.weight.norm().item()}


def test_what_is_measured_is_the_model_before_and_after_each_training(tmp_path):
    found = train(an_arm(stated("half the steps"), measure=norm, untrained=norm), tmp_path)
    run, half = *found["runs"], *found["sensitivity"]["half the steps"]
    assert run["untrained"] == norm(an_arm().model(0))
    assert len({run["untrained"]["norm"], run["measured"]["norm"], half["measured"]["norm"]}) == 3


class Unlucky(nn.Linear):
    """Diverges from seed 8 where a step is large, or from every seed at once."""

    def __init__(self, always=False):
        self.seed, self.always = torch.initial_seed(), always
        super().__init__(4, 4)

    def forward(self, x):
        lost = self.always or self.seed == 8 and self.weight.norm() > 3
        return super().forward(x / 0 if lost else x)


def test_a_model_that_diverges_says_so(tmp_path):
    broken = an_arm(stated("twice the steps"), name="broken", build=lambda: Unlucky(always=True))
    found = train(broken, tmp_path)
    diverged = {"model": "broken", "seed": 0, "lr": 1e-2, "warmup": None, "diverged": True}
    assert found["runs"] == found["sensitivity"]["twice the steps"] == [diverged]
    searched = Protocol(rates=(1e-3, 1e-1), warmups=None, widen=False)
    with pytest.raises(FloatingPointError,
                       match="broken diverges at every learning rate of 0.001, 0.1"):
        train(replace(broken, protocol=searched), tmp_path)


def test_a_rate_at_which_one_seed_diverges_is_out(tmp_path):
    protocol = Protocol(rates=(1e-2, 1.0), warmups=None, search_seeds=(7, 8), seeds=(0, 1),
                        widen=False, variations=())
    found = train(an_arm(protocol, build=Unlucky), tmp_path)
    losses = {(run["lr"], run["seed"]): run["validation_loss"] for run in found["search"]}
    assert losses.pop((1.0, 8)) is None and None not in losses.values() and len(losses) == 3
    assert found["best"]["lr"] == found["next best"]["lr"] == 1e-2


def test_one_text_selects_and_the_other_half_reports(tmp_path):
    task, selects = Reported(context=16), Selected(context=16)
    held_out = Text(context=16).tokens("validation")
    halves = selects.tokens("validation"), task.tokens("validation")
    assert (np.concatenate(halves) == held_out).all() and abs(len(halves[0]) - len(halves[1])) < 2
    assert (task.tokens("train") == selects.tokens("train")).all()
    protocol = Protocol(rates=(1e-3, 1e-2), warmups=None, seeds=(0, 1), widen=False, variations=())
    arm = Arm("text", "bytes", partial(nn.Embedding, 256, 256), task, Budget(steps=2, batch=2),
              protocol, selects=selects)
    found = train(arm, tmp_path)
    chosen, one = found["search"][0], found["runs"][0]

    def alone(of, seed, lr):
        budget = replace(arm.budget, lr=lr, evaluate_every=arm.budget.steps)
        return fit(arm.model(seed), of, budget, seed).final

    for of, seed, lr, seen in ((selects, 100, chosen["lr"], chosen["validation_loss"]),
                               (task, 0, one["lr"], one["validation_loss"][-1])):
        assert seen == pytest.approx(alone(of, seed, lr), rel=1e-4)
        assert abs(seen - alone(Text(context=16), seed, lr)) > 1e-3


# ---------------------------------------------------------------- under the whole protocol

FULL = an_arm(Protocol(), pace=0.8)


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


def test_the_best_setting_and_the_next_are_those_of_the_search_by_its_losses(whole):
    found, asked = whole
    losses = {}
    for run in found["search"]:
        losses.setdefault((run["lr"], run["warmup"]), []).append(math.log(run["validation_loss"]))
    twice = [setting for setting, of in losses.items() if len(of) == 2]
    best = sorted(twice, key=lambda setting: sum(losses[setting]))[:2]
    assert best == [tuple(found[which].values()) for which in ("best", "next best")]
    searched = {(budget.lr, budget.warmup) for seed, budget in asked if seed >= 100}
    assert searched == {(lr, round(40 * share)) for lr, share in losses}


def test_the_seeds_of_the_search_report_nothing(whole):
    found, _ = whole
    assert {run["seed"] for run in found["search"]} == {100, 101} and found["parameters"] == 20
    assert [run["seed"] for run in found["runs"]] == list(FULL.protocol.seeds)
    for run in found["runs"]:
        assert {**run, **found["best"]} == run and run["evaluated_at"] == [10, 20, 30, 40]
        assert len(run["validation_loss"]) == 4


def test_each_variation_has_its_setting_and_its_steps_with_the_same_share_of_warm_up(whole):
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
    for _, budget in (one for one in asked if one[1].steps != 40):
        assert budget.warmup == round(found["best"]["warmup"] * budget.steps)
        assert budget.evaluate_every == budget.steps
    # and none was trained for anything else
    assert {(seed, budget.steps) for seed, budget in asked} == {
        *((seed, 40) for seed in (100, 101, *FULL.protocol.seeds)),
        *((seed, steps) for seed in range(3) for steps in (20, 80, 50))}


@pytest.mark.parametrize("pace, steps", [(1.02, []), (0.98, []), (1.25, [32])])
def test_an_arm_as_fast_as_the_first_one_has_no_runs_at_equal_time(pace, steps, tmp_path):
    found = train(an_arm(stated("equal time"), pace=pace), tmp_path)
    assert [run["steps"] for run in found["sensitivity"].get("equal time", ())] == steps
    assert ("equal time" in found["sensitivity"]) == bool(steps) and found["search"] == []


def test_training_curves_are_kept_as_means_over_stretches(tmp_path):
    run, = train(an_arm(stated(), budget=Budget(steps=120)), tmp_path)["runs"]
    assert len(run["train_loss"]) == len(run["gradient_norm"]) == 50
    assert thinned([1.0, 2.0, 3.0, 6.0], points=2) == [1.5, 4.5]
    assert thinned([1.0, 2.0], points=2) == thinned([1.0, 2.0]) == [1.0, 2.0]
