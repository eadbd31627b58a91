"""The E-MHC-Geo benchmark and its controls.

At the paper's size its models are the paper's, and the control without an operator has none.
"""

import json
import math

import pytest
import torch
from shared_studies import arm_of, tasks_of

from geolab.probes import future_influence
from geolab.probes.shortcut import operators_by_layer
from geolab.tasks import Echo
from geolab.training import Budget, fit
from studies.claims import CONFIGURATIONS, repeats
from studies.experiments import emhc
from studies.experiments.registry import STUDIES

CONFIGURATION = {"GPT": "emhc-gpt", "DDL": "emhc-ddl", "mHC": "emhc-mhc", "JPmHC": "emhc-jpmhc",
                 "E-MHC-Geo": "emhc-hybrid"}


def test_at_the_papers_size_the_tables_models_are_the_papers():
    models = {arm.name: arm.build for arm in STUDIES["emhc_echo"].arms("paper")}
    with torch.device("meta"):
        for column, arm in emhc.TABLE_MODELS.items():
            assert repr(models[arm]().trunk) == repr(CONFIGURATIONS[CONFIGURATION[column]].trunk())


# ---------------------------------------------------------------- matched and causal

# GPT at the hybrid's depth is small on purpose. JPmHC has 13 % less with 2 blocks at the CPU's
# size, and with 3 it would have a third more.
SMALLER = {"additive, 3 blocks": 0.65, "jpmhc": 0.87}


@pytest.mark.parametrize("size", ["cpu", "paper"])
@pytest.mark.parametrize("name", ["echo", "gyroscope", "near_pi_single", "near_pi_multi"])
def test_parameters_match_the_hybrids_within_a_tenth(name, size):
    with torch.device("meta"):
        counts = {arm.name: sum(p.numel() for p in arm.build().parameters())
                  for arm in STUDIES[f"emhc_{name}"].arms(size)}
    shares = {arm: count / counts["hybrid, free"] for arm, count in counts.items()}
    if size == "cpu":
        for arm, share in SMALLER.items():
            assert shares.pop(arm) == pytest.approx(share, abs=0.01)
    assert 0.9 <= min(shares.values()) <= max(shares.values()) <= 1.1, shares


def test_gpt_at_the_hybrids_depth_has_its_blocks():
    for name in ("additive, 3 blocks", "hybrid"):
        assert len(arm_of(STUDIES["emhc_echo"], "echo", name).build().trunk.layers) == 6


def test_only_the_arms_that_say_so_read_the_future():
    for arm in STUDIES["emhc_echo"].arms("cpu"):
        ahead = future_influence(arm.build(), torch.randn(2, 6, 16))
        assert (ahead > 1e-6 if arm.name.endswith(", leak") else ahead == 0), arm.name


# ---------------------------------------------------------------- what operators do

def test_what_operators_do_at_the_start_is_measured():
    found = {arm.name: arm.untrained(arm.model(0)) for arm in STUDIES["emhc_echo"].arms("cpu")}
    assert found["additive"] == {} and len(found["delta, own form"]["beta"]) == 10
    # u and v start near zero
    assert max(found["cayley"]["|G - I|"]) < 1e-3 and max(found["hybrid"]["widest"]) < 0.5
    assert set(found["maps only"]["|G - I|"]) == {0.0}
    # at γ = ½ the reflection is taken: |2 k kᵀ| = 2
    assert all(abs(size - 2) < 1e-2 for size in found["hybrid, hard"]["|G - I|"])
    # and softly half of it
    assert all(abs(size - 1) < 1e-2 for size in found["hybrid"]["|G - I|"])
    assert found["hybrid"]["gate"] == found["hybrid, hard"]["gate"] == [0.5] * 6
    assert found["hybrid"]["gate between"] == [1.0] * 6
    assert found["hybrid"]["angle"] == pytest.approx(found["hybrid"]["widest"], abs=0.5)


@pytest.mark.parametrize("degrees", [0.0, 30.0, 90.0, 179.0])
def test_the_angle_is_that_of_one_plane(degrees):
    theta = math.radians(degrees)
    turn = torch.eye(5, dtype=torch.float64)
    turn[:2, :2] = torch.tensor([[math.cos(theta), -math.sin(theta)],
                                 [math.sin(theta), math.cos(theta)]], dtype=torch.float64)
    basis = torch.linalg.qr(torch.randn(5, 5, dtype=torch.float64)).Q
    turned = basis @ turn @ basis.T
    assert emhc.angle(turned).item() == pytest.approx(degrees, abs=1e-5)
    assert (emhc.from_identity(turned).item()
            == pytest.approx(8**0.5 * math.sin(theta / 2), abs=1e-6))


def test_maps_only_is_the_block_with_the_identity_in_the_operators_place_and_keeps_it():
    torch.manual_seed(0)
    model = arm_of(STUDIES["emhc_echo"], "echo", "maps only").build()
    task = Echo(dim=16, length=8, noise=0.1, train=16, validation=16)
    fit(model, task, Budget(steps=5, warmup=1), progress=False)
    for operator in operators_by_layer(model, task.sample("validation").inputs):
        assert (operator.mix - torch.eye(4)).abs().max() < 1e-6


# ---------------------------------------------------------------- the paper's tables

def content(name, arms):
    tasks = tasks_of(STUDIES[name].arms("cpu"))
    runs = [{"model": arm, "seed": seed, "validation_loss": [1.0, 0.5],
             "measured": {"norm_drift": len(arm)}}
            for arm in arms for seed in (0, 1)]
    [part] = tasks
    found = {part: {"runs": runs, "budget": {"steps": 300, "batch": 16}, "seeds": [0, 1],
                    "parameters": dict.fromkeys(arms, 1)}}
    return STUDIES[name].arrange(found, tasks, "cpu") | {"device": "cpu"}


def test_echo_repeats_its_row_and_the_norm_deviation(tmp_path):
    (tmp_path / "echo.json").write_text(json.dumps(content("emhc_echo", list(emhc.MODELS))))
    losses, norms = repeats(tmp_path)
    assert (losses.table, losses.ours["GPT"]) == ("emhc-table-6-stability", {"ours": (0.5, 0.0)})
    assert norms.table == "emhc-table-18"
    assert norms.ours["deviation"]["E-MHC-Geo"] == (len("hybrid, leak"), 0.0)
    assert losses.floor and norms.floor is None and not norms.baselines


@pytest.mark.parametrize("name, arms, reported", [
    ("emhc_near_pi_multi", ["additive", "jpmhc", "maps only"], [{"GPT", "JPmHC"}]),
    ("emhc_echo", ["maps only"], []), ("emhc_echo", ["hybrid", "delta"], [])])
def test_another_task_repeats_its_row_alone_and_controls_repeat_nothing(name, arms, reported,
                                                                        tmp_path):
    (tmp_path / "run.json").write_text(json.dumps(content(name, arms)))
    assert [repeat.reported.keys() for repeat in repeats(tmp_path)] == reported
