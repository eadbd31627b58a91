"""Every registered study: its arms, what they measure, and its stored file, which is of them."""

import json
import pickle

import pytest
import torch
from shared_studies import arm_of, is_of, tasks_of

from geolab.probes import future_influence
from studies.engine.earlier import grows, key_of
from studies.engine.estimate import amount
from studies.engine.results import path_of, read, stored
from studies.experiments.emhc_gates import BIASES
from studies.experiments.registry import MEASUREMENTS, STUDIES

SIZES = [(name, size) for name, study in STUDIES.items() for size in study.sizes]


def comparisons(content):
    """Every comparison of a file that names its protocol, however the file is arranged."""
    if isinstance(content, dict):
        if "protocol" in content and "runs" in content:
            yield content
        for value in content.values():
            yield from comparisons(value)


def test_every_study_has_a_name_of_its_own():
    assert not set(STUDIES) & set(MEASUREMENTS)
    assert all(study.name == name for name, study in (STUDIES | MEASUREMENTS).items())


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


# a model of delta_medium takes 1.4 GB, and the functions of delta build it
@pytest.mark.parametrize("name", [name for name in STUDIES if name != "delta_medium"])
def test_an_arm_is_a_value_that_another_process_can_be_handed(name):
    study = STUDIES[name]
    for arm in study.arms(next(iter(study.sizes))):
        again = pickle.loads(pickle.dumps(arm))
        assert (again.part, again.name, again.task, again.budget, again.protocol) == (
            arm.part, arm.name, arm.task, arm.budget, arm.protocol)
    one, other = (dict(made.model(0).named_parameters()) for made in (arm, again))
    assert all(torch.equal(one[key], p) for key, p in other.items())


# the studies with models that could read the future, or are published with that leak
READING = ("emhc_echo", "gt_text", "gt_parts", "delta_pools", "jpmhc_exact")
CAUSAL = [pytest.param(name, arm, id=f"{name} {arm.part} {arm.name}") for name in READING
          for arm in STUDIES[name].arms() if (name, arm.part) != ("gt_parts", "copy")]


@pytest.mark.parametrize("name, arm", CAUSAL)
def test_only_an_arm_that_says_so_reads_the_future(name, arm):
    ahead = future_influence(arm.model(0), arm.batch()[0][:2])
    assert ahead > 1e-6 if arm.name.endswith(", leak") else ahead == 0


# ---------------------------------------------------------------- stored files

# what a run gives, before its study arranges it
FOUND = ("task", "selects", "budget", "protocol", "seeds", "parameters", "pace", "search", "runs",
         "sensitivity", "seconds_not_quoted")


def leaves(value):
    """The numbers and words of a file's content, in the order of its names."""
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in (key, *leaves(value[key]))]
    if isinstance(value, list):
        return [leaf for one in value for leaf in leaves(one)]
    return [value]


def differences(found, kept, rel, abs=0.0):
    """Where two contents differ, as they lie in a file."""
    found = json.loads(json.dumps(found))
    return [(one, other) for one, other in zip(leaves(found), leaves(kept), strict=True)
            if str(one) != str(other) and (isinstance(one, str) or one != pytest.approx(
                other, rel=rel, abs=abs))]


@pytest.mark.parametrize("name, size", [which for which in SIZES if path_of(*which).exists()])
def test_the_stored_file_is_of_these_arms(name, size):
    """And its tables, floors and baselines are what the study makes of its runs today."""
    content, by_part, found = read(path_of(name, size)), {}, {}
    for arm in STUDIES[name].arms(size):
        by_part.setdefault(arm.part, []).append(arm)
    assert grows(STUDIES[name].arms(size), content) == bool(content["unfinished"])
    for part, arms in by_part.items():
        if name == "reflection" and part != "searched":
            continue  # which has the numbers of all other parts in one list
        finished = {arm.name for arm in arms if key_of(arm) not in content["unfinished"]}
        same = [one for one in comparisons(content) if is_of(one, arms, finished)]
        assert same or not finished, part
        if same:
            found[part] = {key: same[0][key] for key in FOUND if key in same[0]}
    if name == "reflection":
        return
    as_trained = json.dumps(found).replace('"rank untrained"', '"untrained"')
    tasks = tasks_of([arm for part in found for arm in by_part[part]])
    arranged = STUDIES[name].arrange(json.loads(as_trained), tasks, size)
    assert not differences(arranged, {key: content[key] for key in arranged}, rel=1e-4)


@pytest.mark.parametrize("name, part, model", [
    ("emhc_echo", "echo", "hybrid"), ("emhc_echo", "echo", "delta, own form"),
    *(("emhc_gates", "near_pi_multi", bias) for bias in BIASES),
    ("gt_text", "text", "GT-Full, pre-LN"),
    ("mgt_rank", "rank", "Standard"), ("order", "geometric", "moe, pre"),
    ("order", "residuals", "hyper")])
def test_what_was_measured_before_training_is_measured_again(name, part, model):
    """The stored runs' own numbers are the reference, for a model as their first seed builds it."""
    arm = arm_of(STUDIES[name], part, model)
    run = next(run for one in comparisons(stored(name)) for run in one["runs"]
               if run["model"] == model and {"untrained", "rank untrained"} & run.keys())
    kept = run.get("untrained") or run["rank untrained"]
    found = arm.untrained(arm.model(run["seed"]))
    assert not differences(found, kept, rel=1e-2, abs=1e-3)
