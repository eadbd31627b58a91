"""Every registered study: its arms can be made, and its stored file is of these arms."""

import json
import pickle
from dataclasses import asdict
from itertools import product

import pytest
import torch

from studies.engine.arm import EQUAL
from studies.engine.earlier import budget_of, key_of
from studies.engine.estimate import amount
from studies.engine.results import path_of, read
from studies.experiments.registry import STUDIES

SIZES = [(name, size) for name, study in STUDIES.items() for size in study.sizes]


@pytest.mark.parametrize("name, size", SIZES)
def test_arms_have_names_and_seeds_and_share_the_settings_of_their_comparison(name, size):
    arms, by_part = STUDIES[name].arms(size), {}
    assert len({(arm.part, arm.name) for arm in arms}) == len(arms) > 0
    for arm in arms:
        protocol = arm.protocol
        enough = 8 if protocol.searches and protocol.widen else 3 if STUDIES[name].compares else 1
        assert len(set(protocol.seeds)) >= enough and callable(arm.build), arm.name
        assert not protocol.variations or len(set(protocol.few)) >= 2, arm.name
        assert amount(arm)[0] >= len(protocol.seeds)
        shared = (arm.task, arm.budget, protocol, arm.engine)
        assert by_part.setdefault(arm.part, shared) == shared, arm.name


@pytest.mark.parametrize("name", STUDIES)
def test_an_arm_is_a_value_that_another_process_can_be_handed(name):
    study = STUDIES[name]
    for arm in study.arms(next(iter(study.sizes))):
        again = pickle.loads(pickle.dumps(arm))
        assert (again.part, again.name, again.task, again.budget, again.protocol) == (
            arm.part, arm.name, arm.task, arm.budget, arm.protocol)
    torch.manual_seed(0)
    one = dict(arm.build().named_parameters())
    torch.manual_seed(0)
    assert all(torch.equal(one[key], p) for key, p in again.build().named_parameters())


# ---------------------------------------------------------------- stored files

def comparisons(content):
    """Every comparison of a file that names its protocol, however the file is arranged."""
    if isinstance(content, dict):
        if "protocol" in content and "runs" in content:
            yield content
        for value in content.values():
            yield from comparisons(value)


def of(runs):
    return {(run["model"], run["seed"]) for run in runs}


def is_of(one, arms, finished):
    """Whether a stored comparison is of these arms, and complete for the finished ones."""
    protocol, pace = arms[0].protocol, one["pace"]
    slower = {arm.name for arm in arms if abs(pace.get(arm.name, 1.0) - 1) > EQUAL}

    def complete(runs, seeds, names):
        return set(product(names & finished, seeds)) <= of(runs) <= set(product(names, seeds))

    names = {arm.name for arm in arms}
    counts = {arm.name: sum(p.numel() for p in arm.build().parameters())
              for arm in arms if arm.name in finished}
    return (one["task"] == repr(arms[0].task) and one["budget"] == budget_of(arms[0])
            and one["protocol"] == json.loads(json.dumps(asdict(protocol)))
            and one["seeds"] == list(protocol.seeds)
            and counts == {name: one["parameters"].get(name) for name in counts}
            and complete(one["runs"], protocol.seeds, names)
            and one["sensitivity"].keys() == {*protocol.variations}
            and all(complete(runs, protocol.few, slower if name == "equal time" else names)
                    for name, runs in one["sensitivity"].items()))


@pytest.mark.parametrize("name, size", [which for which in SIZES if path_of(*which).exists()])
def test_the_stored_file_is_of_these_arms(name, size):
    content, by_part = read(path_of(name, size)), {}
    for arm in STUDIES[name].arms(size):
        by_part.setdefault(arm.part, []).append(arm)
    for part, arms in by_part.items():
        if name == "reflection" and part != "searched":
            continue  # which has the numbers of all other parts in one list
        finished = {arm.name for arm in arms if key_of(arm) not in content["unfinished"]}
        assert not finished or any(is_of(one, arms, finished) for one in comparisons(content)), part
