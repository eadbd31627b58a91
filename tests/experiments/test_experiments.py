"""The stored files are what the experiments say: the same tasks, budgets, seeds, rates and parameters."""

from dataclasses import asdict

import pytest

from geolab.experiments import EXPERIMENTS
from geolab.results import path_of, read

STORED = [(name, budget) for name, experiment in EXPERIMENTS.items() for budget in experiment.plans if path_of(name, budget).exists()]
PLANS = [(name, budget) for name, experiment in EXPERIMENTS.items() for budget in experiment.plans]


def comparisons(content):
    """All of a file, however it is arranged."""
    if isinstance(content, dict):
        if "search" in content and "parameters" in content:
            yield content
        for value in content.values():
            yield from comparisons(value)


@pytest.mark.parametrize("name, budget", PLANS)
def test_a_plan_can_be_made_and_named(name, budget):
    for part, comparison in EXPERIMENTS[name].plan(budget).items():
        assert comparison.models and all(callable(build) for build in comparison.models.values())
        assert len(comparison.rates) == 1 or comparison.search_steps, part
        assert len(comparison.seeds) >= 3, part


@pytest.mark.parametrize("name, budget", STORED)
def test_the_stored_file_is_of_this_plan(name, budget):
    kept = list(comparisons(read(path_of(name, budget))))
    for part, comparison in EXPERIMENTS[name].plan(budget).items():
        parameters = {arm: sum(p.numel() for p in build().parameters()) for arm, build in comparison.models.items()}
        settings = {**asdict(comparison.budget), "lr": "by search" if len(comparison.rates) > 1 else comparison.rates[0]}
        assert any(one["task"] == repr(comparison.task) and one["parameters"] == parameters and one["budget"] == settings
                   and one["seeds"] == list(comparison.seeds) and one["search"]["rates"] == list(comparison.rates)
                   and {(run["model"], run["seed"]) for run in one["runs"]} == {(arm, seed) for arm in parameters for seed in comparison.seeds}
                   for one in kept), part
