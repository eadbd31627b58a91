"""The negation study.

Branches are held for good, a path survives in the checkpoint, and runs of all sizes are one list.
"""

import math
from dataclasses import replace

import pytest
import torch

from geolab.tasks import Negation
from geolab.training import fit
from studies.experiments import reflection

SMALL = Negation(dim=8, train=500, validation=10)


def test_a_held_gate_leaves_one_branch_to_the_last_bit():
    x = torch.randn(5, 8)
    assert (reflection.rotation_alone(8).coefficients(x)[-1] == 1).all()
    assert (reflection.reflection_alone(8).coefficients(x)[-1] == 2).all()


def test_the_path_is_noted_at_the_start_and_at_each_evaluation_and_comes_back_from_a_checkpoint(
    tmp_path):
    torch.manual_seed(0)
    model = reflection.build(reflection.EVERY_SIZE["hybrid, bias 0"], SMALL)
    assert model.count == 1 and model.seen[0, 1] == 0.5
    budget = replace(reflection.PUBLISHED, steps=20, evaluate_every=5)
    history = fit(model, SMALL, budget, checkpoint=tmp_path / "run.pt", progress=False)
    assert (model.count == 1 + len(history.evaluated_at) and not model.seen[:5].isnan().any()
            and model.seen[5:].isnan().all())
    again = reflection.build(reflection.EVERY_SIZE["hybrid, bias 0"], SMALL)
    again.load_state_dict(torch.load(tmp_path / "run.pt")["model"])
    assert torch.equal(again.seen[:5], model.seen[:5])
    assert math.isclose(again.seen[4, 0], reflection.measure(SMALL, again)["alignment"],
                        abs_tol=1e-4)


def test_a_full_path_takes_no_more():
    model = reflection.build(reflection.EVERY_SIZE["delta"], SMALL)
    model.count.fill_(len(model.seen))
    before = model.seen.clone()
    reflection.measure(SMALL, model)
    assert torch.equal(model.seen.nan_to_num(), before.nan_to_num())


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
    assert ([(r["train"], r["seed"]) for r in content["runs"]]
            == [(size, seed) for size in (500, 10) for seed in seeds])
    assert content["runs"][0]["validation_loss"] == 0.5 and content["runs"][0]["beta"] == 1.5
    assert content["reproduces"]["rows"].keys() == {"DDL beta", "DDL alignment"}
    assert (content["reproduces"]["rows"]["DDL beta"]["10"]
            == (1.5, None if len(seeds) == 1 else 0.0))


def test_runs_that_diverged_are_kept_and_counted_in_no_table():
    tasks = {"500 inputs": Negation(train=500)}
    diverged = {"model": "delta", "seed": 42, "lr": 1e-3, "diverged": True}
    found = {"500 inputs": {"seeds": [42], "parameters": {"delta": 7}, "runs": [diverged]}}
    content = reflection.arrange(found, tasks, "cpu")
    assert (content["runs"] == [{"model": "delta", "train": 500, "seed": 42, "diverged": True}]
            and "reproduces" not in content)


def test_every_model_is_searched_for_at_the_largest_size():
    searched = [arm for arm in reflection.small() if arm.part == "searched"]
    largest = {arm.name for arm in reflection.small() if arm.part == "500 inputs"}
    assert {arm.name for arm in searched} == largest and len(searched) == 13
    assert all(arm.protocol.searches and arm.task.train == 500 for arm in searched)


def test_what_was_searched_for_stands_apart():
    tasks = {"500 inputs": Negation(train=500), "searched": Negation(train=500)}
    found = {part: {"seeds": [42], "parameters": {"delta": 7}, "runs": [run("delta", 42)]}
             for part in tasks}
    searched = found["searched"]
    content = reflection.arrange(found, tasks, "cpu")
    assert content["searched"] is searched and len(content["runs"]) == 1


def test_no_batch_is_larger_than_its_training_set():
    assert all(arm.budget.batch == min(32, arm.task.train) for arm in reflection.small())
