"""The stored files are what the experiments say: the same tasks, budgets, seeds, rates and parameters."""

from dataclasses import asdict

import pytest

from studies import EXPERIMENTS
from studies.results import path_of, read

PLANS = [(name, budget) for name, experiment in EXPERIMENTS.items() for budget in experiment.plans]
STORED = [plan for plan in PLANS if path_of(*plan).exists()]


def parts(content):
    """All of a file that has a budget, however it is arranged."""
    if isinstance(content, dict):
        if "budget" in content and "runs" in content:
            yield content
        for value in content.values():
            yield from parts(value)


@pytest.mark.parametrize("name, budget", PLANS)
def test_a_plan_can_be_made_and_has_a_search_and_three_seeds(name, budget):
    for part, comparison in EXPERIMENTS[name].plan(budget).items():
        assert comparison.models and all(callable(build) for build in comparison.models.values()), part
        assert len(comparison.rates) == 1 or comparison.search_steps, part
        assert len(set(comparison.seeds)) >= 3, part


@pytest.mark.parametrize("name, budget", STORED)
def test_the_stored_file_is_of_this_plan(name, budget):
    stored = list(parts(read(path_of(name, budget))))
    plan = EXPERIMENTS[name].plan(budget)
    for part, comparison in plan.items():
        parameters = {arm: sum(p.numel() for p in build().parameters()) for arm, build in comparison.models.items()}
        runs = {(arm, seed) for arm in parameters for seed in comparison.seeds}

        def is_it(one):
            settings = asdict(comparison.budget) | {"lr": one["budget"]["lr"]} | ({} if len(stored) == len(plan) else {"batch": one["budget"]["batch"]})
            return one["parameters"].items() >= parameters.items() and one["budget"] == settings and \
                one["seeds"] == list(comparison.seeds) and {(run["model"], run["seed"]) for run in one["runs"]} >= runs
        assert any(map(is_it, stored)), part


def test_another_budget_or_seed_is_seen():
    name, budget = "delta", "cpu"
    stored = next(parts(read(path_of(name, budget))))
    assert stored["budget"]["steps"] == EXPERIMENTS[name].plan(budget)["text"].budget.steps == 200
    assert stored["seeds"] != [0, 1, 3]
