"""`compare` gives every model the same search."""

import json

import pytest
import torch
from torch import nn

from geolab.training import Budget
from studies.runner.compare import compare, merge, thinned
from geolab.tasks import Negation

TASK = Negation(dim=4, train=32, validation=16)
SHORT = Budget(steps=40, evaluate_every=10, warmup=5)
MODELS = {"linear": lambda: nn.Linear(4, 4), "two layers": lambda: nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))}


@pytest.fixture
def search(tmp_path):
    return {"seeds": (0, 1), "rates": (1e-3, 1e-1), "search_steps": 10, "folder": tmp_path / "runs"}


def test_every_model_gets_the_same_search_and_runs_at_its_own_winner(search):
    found = compare(MODELS, TASK, SHORT, **search)
    tried = [(run["model"], run["lr"], run["seed"]) for run in found["search"]["runs"]]
    assert tried == [(name, lr, seed) for name in MODELS for lr in (1e-3, 1e-1) for seed in (0, 1)]
    assert found["search"]["best"] == {"linear": 1e-1, "two layers": 1e-1}
    assert [(run["model"], run["seed"]) for run in found["runs"]] == [(name, seed) for name in MODELS for seed in (0, 1)]
    assert all(run["evaluated_at"] == [10, 20, 30, 40] and len(run["validation_loss"]) == 4 for run in found["runs"])
    assert found["parameters"] == {"linear": 20, "two layers": 76}
    json.dumps(found)


def test_a_seed_makes_the_model_and_its_batches(search):
    found = compare({"linear": MODELS["linear"]}, TASK, SHORT, **search)
    again = compare({"linear": MODELS["linear"]}, TASK, SHORT, **{**search, "folder": search["folder"] / "again"})
    losses = [run["validation_loss"] for run in found["runs"]]
    assert losses == [run["validation_loss"] for run in again["runs"]] and losses[0] != losses[1]


def test_a_finished_run_is_read_not_repeated(search, monkeypatch):
    found = compare({"linear": MODELS["linear"]}, TASK, SHORT, **search)
    monkeypatch.setattr("geolab.training._Run.step", lambda run: pytest.fail("trained again"))
    again = compare({"linear": MODELS["linear"]}, TASK, SHORT, **search)
    assert again["runs"] == found["runs"]


def test_a_trained_model_is_measured(search):
    found = compare({"linear": MODELS["linear"]}, TASK, SHORT, measure=lambda model: {"norm": model.weight.norm().item()}, **search)
    assert all(run["measured"]["norm"] > 0 for run in found["runs"])


class Diverges(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, x):
        return self.weight * x / 0


def test_a_model_that_always_diverges_is_named(search):
    with pytest.raises(FloatingPointError, match="broken diverges at every learning rate of 0.001, 0.1"):
        compare({"broken": Diverges}, TASK, SHORT, **search)


def test_a_single_rate_is_not_searched_for(search):
    trained = []

    def build():
        trained.append(nn.Linear(4, 4))
        return trained[-1]

    found = compare({"linear": build}, TASK, SHORT, seeds=(0, 1), rates=(1e-2,), folder=search["folder"])
    assert len(trained) == 3  # one a seed, and one whose parameters are counted
    assert found["search"]["runs"] == [] and found["search"]["best"] == {"linear": 1e-2}
    assert [run["lr"] for run in found["runs"]] == [1e-2, 1e-2]


def test_a_run_that_diverges_at_the_only_rate_says_so(search):
    found = compare({"broken": Diverges}, TASK, SHORT, seeds=(0,), rates=(1e-2,), folder=search["folder"])
    assert found["runs"] == [{"model": "broken", "seed": 0, "lr": 1e-2, "diverged": True}]


def test_the_search_can_have_seeds_of_its_own(search):
    found = compare({"linear": MODELS["linear"]}, TASK, SHORT, **search, search_seeds=(7,))
    assert [run["seed"] for run in found["search"]["runs"]] == [7, 7] and found["search"]["seeds"] == [7]
    assert [run["seed"] for run in found["runs"]] == [0, 1]


@pytest.mark.parametrize("nothing, message", [
    ({"seeds": ()}, r"at least one seed and one rate, got seeds=\(\)"), ({"rates": ()}, r"and rates=\(\)"),
    ({"search_seeds": ()}, r"search_seeds=\(\)"), ({"search_steps": None}, "search_steps must be given to choose among 2 rates, got None")])
def test_nothing_to_try_is_refused(search, nothing, message):
    with pytest.raises(ValueError, match=message):
        compare(MODELS, TASK, SHORT, **{**search, **nothing})


def test_what_is_measured_is_what_the_checkpoint_holds(search):
    class Counts(nn.Linear):
        """Keeps what a checkpoint doesn't: how often it was called."""
        calls = 0

        def forward(self, x):
            self.calls += 1
            return super().forward(x)

    found = compare({"counts": lambda: Counts(4, 4)}, TASK, SHORT, seeds=(0,), rates=(1e-2,), folder=search["folder"],
                    measure=lambda model: {"calls": model.calls, "norm": model.weight.norm().item()},
                    untrained=lambda model: {"norm": model.weight.norm().item()})
    run, = found["runs"]
    assert run["measured"]["calls"] == 0 and run["measured"]["norm"] != run["untrained"]["norm"]


def test_training_curves_are_kept_as_means_over_stretches(search):
    run, = compare({"linear": MODELS["linear"]}, TASK, Budget(steps=120), seeds=(0,), rates=(1e-2,), folder=search["folder"])["runs"]
    assert len(run["train_loss"]) == len(run["gradient_norm"]) == 50
    assert thinned([1.0, 2.0, 3.0, 6.0], points=2) == [1.5, 4.5] and thinned([1.0, 2.0], points=2) == thinned([1.0, 2.0]) == [1.0, 2.0]
    assert sum(thinned(range(101), points=10)) / 10 == pytest.approx(50, abs=0.5)


def test_parts_make_the_whole(search):
    whole = compare(MODELS, TASK, SHORT, **search)
    parts = [compare({name: MODELS[name]}, TASK, SHORT, **search) for name in MODELS]
    assert {**merge(parts), "seconds_not_quoted": 0} == {**whole, "seconds_not_quoted": 0}
