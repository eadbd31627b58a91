"""Every registered study: its arms can be made, and its stored file is of these arms."""

import pickle
from dataclasses import asdict

import pytest
import torch

from studies.registry import STUDIES
from studies.results import path_of, read
from studies.runner.estimate import amount

SIZES = [(name, size) for name, study in STUDIES.items() for size in study.sizes]
STORED = [which for which in SIZES if path_of(*which).exists()]


def parts(content):
    """Every comparison of a file, however the file is arranged."""
    if isinstance(content, dict):
        if "budget" in content and "runs" in content:
            yield content
        for value in content.values():
            yield from parts(value)


@pytest.mark.parametrize("name, size", SIZES)
def test_every_arm_has_a_name_of_its_own_and_three_seeds(name, size):
    arms = STUDIES[name].arms(size)
    assert len({(arm.part, arm.name) for arm in arms}) == len(arms) > 0
    for arm in arms:
        assert len(set(arm.seeds)) >= 3 and callable(arm.build), arm.name
        assert amount(arm)[0] >= len(arm.seeds)


@pytest.mark.parametrize("name, size", SIZES)
def test_the_arms_of_a_comparison_have_the_same_search_budget_and_seeds(name, size):
    by_part = {}
    for arm in STUDIES[name].arms(size):
        shared = (arm.task, arm.budget, arm.rates, arm.seeds, arm.search_steps, arm.search_seeds)
        assert by_part.setdefault(arm.part, shared) == shared, arm.name


@pytest.mark.parametrize("name", STUDIES)
def test_an_arm_is_a_value_that_another_process_can_be_handed(name):
    for arm in STUDIES[name].arms("cpu"):
        again = pickle.loads(pickle.dumps(arm))
        assert (again.part, again.name, again.task, again.budget) == (
            arm.part, arm.name, arm.task, arm.budget)
    torch.manual_seed(0)
    one = dict(arm.build().named_parameters())
    torch.manual_seed(0)
    assert all(torch.equal(one[key], p) for key, p in again.build().named_parameters())


@pytest.mark.parametrize("name, size", STORED)
def test_the_stored_file_is_of_these_arms(name, size):
    stored, arms = list(parts(read(path_of(name, size)))), STUDIES[name].arms(size)
    names = {arm.part for arm in arms}
    for part in names:
        of_part = [arm for arm in arms if arm.part == part]
        first = of_part[0]
        parameters = {arm.name: sum(p.numel() for p in arm.build().parameters())
                      for arm in of_part}
        runs = {(arm.name, seed) for arm in of_part for seed in arm.seeds}

        def is_it(one, first=first, parameters=parameters, runs=runs):
            settings = asdict(first.budget) | {"lr": one["budget"]["lr"]}
            if len(stored) < len(names):  # all comparisons in one list, which differ in the batch
                settings["batch"] = one["budget"]["batch"]
            return (one["parameters"].items() >= parameters.items()
                    and one["budget"] == settings and one["seeds"] == list(first.seeds)
                    and {(run["model"], run["seed"]) for run in one["runs"]} >= runs)
        assert any(map(is_it, stored)), part


def test_another_size_or_seed_is_seen():
    stored = next(parts(read(path_of("delta", "cpu"))))
    text = STUDIES["delta"].arms("cpu")[0]
    assert stored["budget"]["steps"] == text.budget.steps == 200
    assert stored["seeds"] != [0, 1, 3]
