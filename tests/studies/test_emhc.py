"""The E-MHC-Geo benchmark.

At the paper's size its models are the paper's, and the control without an operator has none.
"""

import json

import pytest
import torch
from shared_studies import arm_of, tasks_of

from geolab.probes.shortcut import operators_by_layer
from geolab.tasks import Pairs
from geolab.training import Budget, fit
from studies import emhc
from studies.papers import CONFIGURATIONS, repeats
from studies.registry import STUDIES

CONFIGURATION = {"GPT": "emhc-gpt", "DDL": "emhc-ddl", "mHC": "emhc-mhc", "JPmHC": "emhc-jpmhc",
                 "E-MHC-Geo": "emhc-hybrid"}


def test_at_the_papers_size_the_tables_models_are_the_papers():
    models = {arm.name: arm.build for arm in STUDIES["emhc_echo"].arms("paper")}
    with torch.device("meta"):
        for column, arm in emhc.TABLE_MODELS.items():
            assert repr(models[arm]().trunk) == repr(CONFIGURATIONS[CONFIGURATION[column]].trunk())


class Few:
    def sample(self, split):
        x = torch.randn(16, 8, 16, generator=torch.Generator().manual_seed(0))
        return Pairs(x[:, :-1], x[:, 1:])

    def loss(self, prediction, target):
        return (prediction - target).square().mean()


def test_maps_only_is_the_block_with_the_identity_in_the_operators_place_and_keeps_it():
    torch.manual_seed(0)
    model = arm_of(STUDIES["emhc_echo"], "echo", "maps only").build()
    fit(model, Few(), Budget(steps=5, warmup=1), progress=False)
    for operator in operators_by_layer(model, Few().sample("validation").inputs):
        assert (operator.mix - torch.eye(4)).abs().max() < 1e-6


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
    assert (losses.table == "emhc-table-6-stability" and losses.ours["GPT"] == {"ours": (0.5, 0.0)}
            and losses.floor)
    assert (norms.table == "emhc-table-18"
            and norms.ours["deviation"]["E-MHC-Geo"] == (len("hybrid, leak"), 0.0))
    assert norms.floor is None and not norms.baselines


def test_another_task_repeats_its_row_alone(tmp_path):
    (tmp_path / "multi.json").write_text(json.dumps(content("emhc_near_pi_multi",
                                                            ["additive", "jpmhc", "maps only"])))
    [losses] = repeats(tmp_path)
    assert losses.reported.keys() == {"GPT", "JPmHC"}


@pytest.mark.parametrize("arms", [["maps only"], ["hybrid", "delta"]])
def test_controls_alone_repeat_nothing(arms, tmp_path):
    (tmp_path / "echo.json").write_text(json.dumps(content("emhc_echo", arms)))
    assert repeats(tmp_path) == []
