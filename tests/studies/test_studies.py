"""Every registered study: its arms can be made, and its stored file is of these arms."""

import json
import pickle
from dataclasses import asdict

import pytest
import torch

from studies.engine.arm import EQUAL
from studies.engine.estimate import amount
from studies.engine.results import path_of, read
from studies.experiments.registry import STUDIES

SIZES = [(name, size) for name, study in STUDIES.items() for size in study.sizes]


def parts(content):
    """Every comparison of a file, however the file is arranged."""
    if isinstance(content, dict):
        if "budget" in content and "runs" in content:
            yield content
        for value in content.values():
            yield from parts(value)


def under_a_protocol(which):
    path = path_of(*which)
    return path.exists() and any("protocol" in one for one in parts(read(path)))


# files from before the protocol are being made again
STORED = [which for which in SIZES if under_a_protocol(which)]


@pytest.mark.parametrize("name, size", SIZES)
def test_every_arm_has_a_name_of_its_own_and_seeds_enough(name, size):
    arms = STUDIES[name].arms(size)
    assert len({(arm.part, arm.name) for arm in arms}) == len(arms) > 0
    for arm in arms:
        protocol = arm.protocol
        enough = 8 if protocol.searches and protocol.widen else 3 if STUDIES[name].compares else 1
        assert len(set(protocol.seeds)) >= enough and callable(arm.build), arm.name
        assert not protocol.variations or len(set(protocol.few)) >= 2, arm.name
        assert amount(arm)[0] >= len(protocol.seeds)


@pytest.mark.parametrize("name, size", SIZES)
def test_the_arms_of_a_comparison_have_the_same_task_budget_and_protocol(name, size):
    by_part = {}
    for arm in STUDIES[name].arms(size):
        shared = (arm.task, arm.budget, arm.protocol, arm.engine)
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

def plain(value):
    return json.loads(json.dumps(value))


def of(runs, task):
    """(model, seed) of runs; where all comparisons are in one list, of those of a task."""
    inputs = getattr(task, "train", None)  # reflection has all its numbers of inputs in one list
    return {(run["model"], run["seed"]) for run in runs if run.get("train", inputs) == inputs}


def is_of(one, arms, unfinished, listed):
    """Whether a stored comparison is of these arms.

    Arguments:
        unfinished: the arms that lack runs.
        listed: whether comparisons that differ in the batch alone are in one list.
    """
    task, budget, protocol = arms[0].task, asdict(arms[0].budget), arms[0].protocol
    done = [arm for arm in arms if f"{arm.part}: {arm.name}" not in unfinished]

    def expected(seeds, arms):
        return {(arm.name, seed) for arm in arms for seed in seeds}

    def complete(runs, seeds, arms=arms):
        some = expected(seeds, [arm for arm in arms if arm in done])
        return some <= of(runs, task) <= expected(seeds, arms)

    if "protocol" in one:
        if one["protocol"] != plain(asdict(protocol)):
            return False
        for name, runs in one["sensitivity"].items():
            slower = [arm for arm in arms if name != "equal time"
                      or abs(one["pace"].get(arm.name, 1.0) - 1) > EQUAL]
            if not complete(runs, protocol.few, slower):
                return False
        if set(one["sensitivity"]) != set(protocol.variations):
            return False
    elif protocol.searches or protocol.variations:
        return False
    budget |= {"lr": "by search"} if protocol.searches else {"lr": protocol.rates[0]}
    if protocol.warmups:
        budget["warmup"] = "by search"
    if listed and "protocol" not in one:
        budget["batch"] = one["budget"]["batch"]
    counts = {arm.name: sum(p.numel() for p in arm.build().parameters()) for arm in arms}
    stored = {name: one["parameters"].get(name) for name in counts}
    return (all(stored[arm.name] == counts[arm.name] for arm in done)
            and one["budget"] == budget and one["seeds"] == list(protocol.seeds)
            and complete(one["runs"], protocol.seeds))


def missing(content, arms):
    """The comparisons that a file should have, and that none of its entries is."""
    stored, names = list(parts(content)), list(dict.fromkeys(arm.part for arm in arms))
    found, unfinished = [], content.get("unfinished", {})
    for part in names:
        of_part = [arm for arm in arms if arm.part == part]
        if not (all(f"{part}: {arm.name}" in unfinished for arm in of_part)
                or any(is_of(one, of_part, unfinished, len(stored) < len(names))
                       for one in stored)):
            found.append(part)
    return found


@pytest.mark.parametrize("name, size", STORED)
def test_the_stored_file_is_of_these_arms(name, size):
    assert missing(read(path_of(name, size)), STUDIES[name].arms(size)) == []
