"""The gate experiment: gates start where the bias says, and the tables take the runs that are there."""

import json
import math

import pytest
import torch

from studies import EXPERIMENTS, emhc_gates
from studies.papers import repeats

GATES = EXPERIMENTS["emhc_gates"]


@pytest.mark.parametrize("arm, bias", emhc_gates.BIASES.items())
def test_gates_start_where_the_bias_says(arm, bias):
    comparison = GATES.plan("cpu")["near_pi_single"]
    torch.manual_seed(0)
    found = comparison.untrained(comparison.models[arm]())
    assert len(found["gate mean"]) == 6
    assert all(math.isclose(gate, 1 / (1 + math.exp(-bias)), abs_tol=1e-4) for gate in found["gate mean"])
    assert found["gate between"] == [float(bias == 0)] * 6


def test_the_paper_size_has_each_arm_in_causal_form_too():
    for part, comparison in GATES.plan("paper").items():
        leaking = [arm for arm in comparison.models if not arm.endswith(", causal")]
        assert {f"{arm}, causal" for arm in leaking} == set(comparison.models) - set(leaking), part
        for arm, build in comparison.models.items():
            assert build().trunk.layers[0].residual.leaks == (arm in leaking)


def content(arms):
    plan = GATES.plan("cpu", arms)
    gates = {"gate mean": [0.0, 1.0], "gate between": [0.0, 0.0]}
    found = {part: {"budget": {"steps": 300, "batch": 16}, "seeds": [0, 1], "runs": [
        {"model": arm, "seed": seed, "validation_loss": [1.0, 0.25], "measured": gates, "untrained": gates}
        for arm in comparison.models for seed in (0, 1)]} for part, comparison in plan.items()}
    return GATES.arrange(found, plan, "cpu") | {"device": "cpu"}


def test_tables_8_and_9_take_what_is_there(tmp_path):
    (tmp_path / "gates.json").write_text(json.dumps(content(None)))
    eight, nine = repeats(tmp_path)
    assert (eight.table, nine.table) == ("emhc-table-8", "emhc-table-9")
    assert eight.ours.keys() == eight.reported.keys() and len(eight.ours) == 6 and len(nine.ours) == 4
    mean, deviation = eight.ours["multi, -1.5"]["γ at end"]
    assert mean == 0.5 and math.isclose(deviation, 3 ** -0.5)              # over two sublayers of two seeds
    assert nine.ours["0.1"] == {"MSE": (0.25, 0.0), "lowest γ": (0.0, 0.0), "highest γ": (1.0, 0.0)}
    assert nine.floor > eight.floor == 0


@pytest.mark.parametrize("arms, tables", [(["bias +3"], []), (["bias 0"], ["emhc-table-8"]), (["penalty 0.2"], ["emhc-table-9"])])
def test_a_part_makes_the_tables_that_it_has_rows_of(arms, tables, tmp_path):
    (tmp_path / "gates.json").write_text(json.dumps(content(arms)))
    assert [repeat.table for repeat in repeats(tmp_path)] == tables
