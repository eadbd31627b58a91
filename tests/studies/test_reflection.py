"""The negation study: held branches, a path that survives in the checkpoint, and the file."""

import json
import math
from dataclasses import replace

import torch
from shared_studies import count, tasks_of

from geolab.tasks import Negation
from geolab.training import fit
from studies.engine.results import stored
from studies.experiments import reflection

SMALL = Negation(dim=8, train=500, validation=10)
ARMS = reflection.small()


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

def as_trained(run):
    """A run of the file as it was before the study arranged it."""
    own = ("model", "seed", "train_loss", "gradient_norm", "seconds_not_quoted")
    arranged = {"train", "validation_loss", "validation_losses", *own}
    return {key: run[key] for key in own} | {
        "lr": 1e-3, "warmup": None, "evaluated_at": [], "validation_loss": run["validation_losses"],
        "measured": {key: value for key, value in run.items() if key not in arranged}}


def test_the_stored_file_is_what_the_study_makes_of_each_arm_s_runs_on_each_of_its_seeds():
    """Runs of all sizes are one list, measurements stand beside losses, searched runs apart."""
    content = stored("reflection")
    runs = {(run["model"], run["train"], run["seed"]): as_trained(run) for run in content["runs"]}
    found = {"searched": content["searched"]}
    for arm in ARMS:
        seeds, train = arm.protocol.seeds, arm.task.train
        if arm.part != "searched":
            part = found.setdefault(arm.part, {"seeds": [*seeds], "parameters": {}, "runs": []})
            part["parameters"][arm.name] = count(arm.build())
            part["runs"] += [runs[arm.name, train, seed] for seed in seeds]
    arranged = reflection.arrange(found, tasks_of(ARMS), "cpu")
    assert json.loads(json.dumps(arranged)) == {key: content[key] for key in arranged}
    assert {"reproduces", "searched"} <= arranged.keys()


def test_a_run_that_diverged_has_no_losses_and_stands_in_no_table():
    run = {"model": "delta", "seed": 42, "diverged": True}
    parts = {"500 inputs": {"seeds": [42], "parameters": {}, "runs": [run | {"lr": 1e-3}]}}
    content = reflection.arrange(parts, {"500 inputs": Negation()}, "cpu")
    assert content["runs"] == [run | {"train": 500}]
    assert not {"reproduces", "searched"} & content.keys()
