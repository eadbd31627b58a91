"""The negation study.

Branches are held for good, a path survives in the checkpoint, and runs of all sizes are one list.
"""

import math
from dataclasses import replace

import pytest
import torch

from geolab.tasks import Negation
from geolab.training import fit
from studies.engine.results import stored
from studies.experiments import reflection

SMALL = Negation(dim=8, train=500, validation=10)


def test_a_held_gate_leaves_one_branch_to_the_last_bit():
    x = torch.randn(5, 8)
    assert (reflection.rotation_alone(8).coefficients(x)[-1] == 1).all()
    assert (reflection.reflection_alone(8).coefficients(x)[-1] == 2).all()


def test_the_path_ends_with_the_alignment_that_is_measured():
    torch.manual_seed(0)
    model = reflection.build(reflection.EVERY_SIZE["hybrid, bias 0"], SMALL)
    assert model.seen[0, 1] == 0.5
    budget = replace(reflection.PUBLISHED, steps=20, evaluate_every=5)
    fit(model, SMALL, budget, progress=False)
    assert math.isclose(model.seen[4, 0], reflection.measure(SMALL, model)["alignment"],
                        abs_tol=1e-4)


def run(model, seed, **measured):
    return {"model": model, "seed": seed, "lr": 1e-3, "evaluated_at": [50],
            "validation_loss": [0.5],
            "measured": {"alignment": 0.9} | measured}


@pytest.mark.parametrize("seeds", [(42,), (42, 123)])
def test_runs_of_all_sizes_lie_in_one_list(seeds):
    tasks = {f"{size} inputs": Negation(train=size) for size in (500, 10)}
    runs = [run("delta", seed, beta=1.5) for seed in seeds]
    found = {part: {"seeds": list(seeds), "parameters": {"delta": 7}, "runs": runs}
             for part in tasks}
    content = reflection.arrange(found, tasks, "cpu")
    in_order = [(size, seed) for size in (500, 10) for seed in seeds]
    assert [(r["train"], r["seed"]) for r in content["runs"]] == in_order
    assert content["runs"][0]["validation_loss"] == 0.5 and content["runs"][0]["beta"] == 1.5
    assert content["reproduces"]["rows"].keys() == {"DDL beta", "DDL alignment"}
    deviation = None if len(seeds) == 1 else 0.0
    assert content["reproduces"]["rows"]["DDL beta"]["10"] == (1.5, deviation)


def test_runs_that_diverged_are_kept_and_counted_in_no_table():
    tasks = {"500 inputs": Negation(train=500)}
    diverged = {"model": "delta", "seed": 42, "lr": 1e-3, "diverged": True}
    found = {"500 inputs": {"seeds": [42], "parameters": {"delta": 7}, "runs": [diverged]}}
    content = reflection.arrange(found, tasks, "cpu")
    assert content["runs"] == [{"model": "delta", "train": 500, "seed": 42, "diverged": True}]
    assert "reproduces" not in content


def test_every_model_is_searched_for_at_the_largest_size_and_stands_apart():
    arms = reflection.small()
    searched = [arm for arm in arms if arm.part == "searched"]
    largest = {arm.name for arm in arms if arm.part == "500 inputs"}
    assert {arm.name for arm in searched} == largest and len(searched) == 13
    assert all(arm.protocol.searches and arm.task.train == 500 for arm in searched)
    assert all(arm.budget.batch == min(32, arm.task.train) for arm in arms)
    tasks = {"500 inputs": Negation(train=500), "searched": Negation(train=500)}
    found = {part: {"seeds": [42], "parameters": {"delta": 7}, "runs": [run("delta", 42)]}
             for part in tasks}
    content = reflection.arrange(dict(found), tasks, "cpu")
    assert content["searched"] is found["searched"] and len(content["runs"]) == 1


def test_the_stored_runs_are_of_each_arm_on_each_of_its_seeds():
    expected = {(arm.name, arm.task.train, seed) for arm in reflection.small()
                if arm.part != "searched" for seed in arm.protocol.seeds}
    content = stored("reflection")
    assert {(r["model"], r["train"], r["seed"]) for r in content["runs"]} == expected
    for arm in reflection.small():
        count = sum(p.numel() for p in arm.build().parameters())
        assert content["parameters"][arm.name] == count
