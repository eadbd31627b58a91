"""The negation study.

Branches are held for good, a path survives in the checkpoint, and runs of all sizes are one list.
"""

import math
from dataclasses import replace

import pytest
import torch
from shared_studies import count

from geolab.tasks import Negation
from geolab.training import fit
from studies.engine.results import stored
from studies.experiments import reflection

SMALL = Negation(dim=8, train=500, validation=10)
ARMS = reflection.small()
SEARCHED = [arm for arm in ARMS if arm.part == "searched"]


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


# ---------------------------------------------------------------- the file

DIVERGED = {"model": "delta", "seed": 42, "lr": 1e-3, "diverged": True}


def run(seed):
    return {"model": "delta", "seed": seed, "lr": 1e-3, "evaluated_at": [50],
            "validation_loss": [0.5], "measured": {"alignment": 0.9, "beta": 1.5}}


def arranged(seeds, runs, parts):
    found = {part: {"seeds": list(seeds), "parameters": {"delta": 7}, "runs": runs}
             for part in parts}
    tasks = {part: Negation(train=10 if part == "10 inputs" else 500) for part in parts}
    return reflection.arrange(found, tasks, "cpu")


@pytest.mark.parametrize("seeds, deviation", [((42,), None), ((42, 123), 0.0)])
def test_runs_of_all_sizes_lie_in_one_list(seeds, deviation):
    content = arranged(seeds, [run(seed) for seed in seeds], ["500 inputs", "10 inputs"])
    in_order = [(size, seed) for size in (500, 10) for seed in seeds]
    assert [(r["train"], r["seed"]) for r in content["runs"]] == in_order
    assert content["runs"][0]["validation_loss"] == 0.5 and content["runs"][0]["beta"] == 1.5
    rows = content["reproduces"]["rows"]
    assert rows.keys() == {"DDL beta", "DDL alignment"}
    assert rows["DDL beta"]["10"] == (1.5, deviation)


def test_searched_runs_stand_apart_and_those_that_diverged_are_in_no_table():
    content = arranged([42], [DIVERGED], ["500 inputs", "searched"])
    assert content["runs"] == [{"model": "delta", "train": 500, "seed": 42, "diverged": True}]
    assert content["searched"]["runs"] == [DIVERGED] and "reproduces" not in content


def test_the_stored_runs_are_of_each_arm_on_each_of_its_seeds():
    arms = [arm for arm in ARMS if arm not in SEARCHED]
    content = stored("reflection")
    assert {(r["model"], r["train"], r["seed"]) for r in content["runs"]} == {
        (arm.name, arm.task.train, seed) for arm in arms for seed in arm.protocol.seeds}
    assert content["parameters"] == {arm.name: count(arm.build()) for arm in arms}
