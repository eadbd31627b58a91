"""The gate study: gates start where the bias says, and the tables take the runs that are there."""

import json
import math

import pytest
import torch
from shared_studies import arm_of, tasks_of

from studies.claims import repeats
from studies.claims.configurations import EMHC_PUBLISHED
from studies.engine.run import Part
from studies.experiments import emhc_gates
from studies.experiments.registry import STUDIES

GATES = STUDIES["emhc_gates"]


@pytest.mark.parametrize("arm, bias", emhc_gates.BIASES.items())
def test_gates_start_where_the_bias_says(arm, bias):
    torch.manual_seed(0)
    gates = arm_of(GATES, "near_pi_multi", arm)
    found = gates.untrained(gates.build())
    assert len(found["gate"]) == 6
    assert all(math.isclose(gate, 1 / (1 + math.exp(-bias)), abs_tol=1e-4)
               for gate in found["gate"])
    assert found["gate between"] == [float(bias == 0)] * 6


@pytest.mark.parametrize("size", ["cpu", "paper"])
def test_the_models_are_as_published_and_read_the_future(size):
    """Near π the penalty weighs half, and on the gyroscope what the name says."""
    for arm in GATES.arms(size):
        residual = arm.build().trunk.layers[0].residual
        assert residual.leaks and residual.gate_head is not None, arm.name
        weight = emhc_gates.WEIGHTS[arm.name] if arm.part == "gyroscope" else 0.5
        assert residual.penalty == weight, arm.name


def test_at_the_paper_s_size_one_study_has_the_public_code_s_four_nets():
    nets = EMHC_PUBLISHED["emhc-hybrid-published"].options["nets"]
    for arm, own in zip(STUDIES["emhc_gates_published"].arms("paper"), GATES.arms("paper")):
        assert (arm.part, arm.name, arm.task, arm.budget) == (own.part, own.name, own.task,
                                                              own.budget)
        assert arm.build().trunk.layers[0].residual.options["nets"] == nets
        assert own.build().trunk.layers[0].residual.options.get("nets") != nets


def content(arms, size="paper"):
    chosen = Part(arms).of(GATES, size)
    gates = {"gate": [0.0, 1.0], "gate between": [0.0, 0.0]}
    run = {"validation_loss": [1.0, 0.25], "measured": gates, "untrained": gates}
    found = {}
    for arm in chosen:
        empty = {"budget": {"steps": 300, "batch": 16}, "seeds": [0, 1], "runs": []}
        found.setdefault(arm.part, empty)["runs"] += [
            {"model": arm.name, "seed": seed, **run} for seed in (0, 1)]
    return GATES.arrange(found, tasks_of(chosen), size) | {"device": "cpu"}


@pytest.fixture
def repeated(tmp_path):
    """A function that gives what a file of these arms repeats."""
    def of(arms, size="paper"):
        (tmp_path / "gates.json").write_text(json.dumps(content(arms, size)))
        return repeats(tmp_path)
    return of


def test_tables_8_and_9_take_what_is_there(repeated):
    eight, nine = repeated(None)
    assert (eight.table, nine.table) == ("emhc-table-8", "emhc-table-9")
    assert eight.ours.keys() == eight.reported.keys()
    assert (len(eight.ours), len(nine.ours)) == (6, 4)
    # over two sublayers of two seeds
    assert eight.ours["multi, -1.5"]["γ at end"] == pytest.approx((0.5, 3 ** -0.5))
    assert nine.ours["0.1"] == {"MSE": (0.25, 0.0), "lowest γ": (0.0, 0.0), "highest γ": (1.0, 0.0)}
    assert nine.floor > eight.floor == 0


@pytest.mark.parametrize("arms, size, tables", [
    (["bias 0"], "paper", ["emhc-table-8"]), (["penalty 0.2"], "paper", ["emhc-table-9"]),
    (["bias +3"], "cpu", []), (None, "cpu", ["emhc-table-8"])])
def test_a_part_makes_the_tables_that_it_has_rows_of(arms, size, tables, repeated):
    found = repeated(arms, size)
    assert [repeat.table for repeat in found] == tables
    if arms is None:  # small, it has many planes alone
        assert list(found[0].ours) == ["multi, +1.5", "multi, 0", "multi, -1.5"]
