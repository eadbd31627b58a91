"""The gate study: gates start where the bias says, and the tables take the runs that are there."""

import json
import math

import pytest
import torch
from shared_studies import arm_of, tasks_of

from studies import emhc_gates
from studies.papers import repeats
from studies.registry import STUDIES
from studies.runner.run import Part

GATES = STUDIES["emhc_gates"]


@pytest.mark.parametrize("arm, bias", emhc_gates.BIASES.items())
def test_gates_start_where_the_bias_says(arm, bias):
    torch.manual_seed(0)
    gates = arm_of(GATES, "near_pi_single", arm)
    found = gates.untrained(gates.build())
    assert len(found["gate mean"]) == 6
    assert all(math.isclose(gate, 1 / (1 + math.exp(-bias)), abs_tol=1e-4)
               for gate in found["gate mean"])
    assert found["gate between"] == [float(bias == 0)] * 6


def test_the_paper_size_has_each_arm_in_causal_form_too():
    arms = GATES.arms("paper")
    names = {(arm.part, arm.name) for arm in arms}
    leaking = {(part, name) for part, name in names if not name.endswith(", causal")}
    assert {(part, f"{name}, causal") for part, name in leaking} == names - leaking
    for arm in arms:
        assert arm.build().trunk.layers[0].residual.leaks == ((arm.part, arm.name) in leaking)


def content(arms):
    chosen = Part(arms).of(GATES, "cpu")
    gates = {"gate mean": [0.0, 1.0], "gate between": [0.0, 0.0]}
    run = {"validation_loss": [1.0, 0.25], "measured": gates, "untrained": gates}
    found = {}
    for arm in chosen:
        empty = {"budget": {"steps": 300, "batch": 16}, "seeds": [0, 1], "runs": []}
        found.setdefault(arm.part, empty)["runs"] += [
            {"model": arm.name, "seed": seed, **run} for seed in (0, 1)]
    return GATES.arrange(found, tasks_of(chosen), "cpu") | {"device": "cpu"}


def test_tables_8_and_9_take_what_is_there(tmp_path):
    (tmp_path / "gates.json").write_text(json.dumps(content(None)))
    eight, nine = repeats(tmp_path)
    assert (eight.table, nine.table) == ("emhc-table-8", "emhc-table-9")
    assert (eight.ours.keys() == eight.reported.keys() and len(eight.ours) == 6
            and len(nine.ours) == 4)
    mean, deviation = eight.ours["multi, -1.5"]["γ at end"]
    # over two sublayers of two seeds
    assert mean == 0.5 and math.isclose(deviation, 3 ** -0.5)
    assert nine.ours["0.1"] == {"MSE": (0.25, 0.0), "lowest γ": (0.0, 0.0), "highest γ": (1.0, 0.0)}
    assert nine.floor > eight.floor == 0


@pytest.mark.parametrize("arms, tables",
                         [(["bias +3"], []), (["bias 0"], ["emhc-table-8"]),
                          (["penalty 0.2"], ["emhc-table-9"])])
def test_a_part_makes_the_tables_that_it_has_rows_of(arms, tables, tmp_path):
    (tmp_path / "gates.json").write_text(json.dumps(content(arms)))
    assert [repeat.table for repeat in repeats(tmp_path)] == tables
