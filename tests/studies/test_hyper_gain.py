"""The gain that is noted while a model trains."""

import pytest
import torch

from geolab.tasks import Copy
from geolab.training import Budget, fit
from studies.experiments import hyper_gain
from studies.experiments.hyper_gain import gain

TASK = Copy(half=4, alphabet=5, train=40, validation=12)
BUDGET = Budget(steps=6, evaluate_every=2, lr=0.1, warmup=1)


def trained(name: str):
    torch.manual_seed(0)
    model = hyper_gain.build(8, TASK, BUDGET, name, 1)
    fit(model, TASK, BUDGET, progress=False)
    return model


def test_the_additive_stream_has_gain_one_and_grows_all_the_same():
    noted = gain(trained("additive"))
    assert noted.pop("length")[-1] != 1
    assert noted == {name: [1.0] * 3 for name in ("forward", "backward", "single", "met")}


@pytest.mark.parametrize("row, met", [((2, -1), 1), ((2, 1), 3)])
def test_copies_meet_the_sum_of_a_row_and_lanes_are_as_long_as_they_are(row, met):
    """Two sublayers write nothing, and mix the first two streams by the rows `row` and (0, 1). The
    second one sees what the first one made."""
    model = trained("hyper")
    table = torch.zeros(hyper_gain.STREAMS, 2 + hyper_gain.STREAMS)  # write, read, Hᵀ
    table[:, 2:] = torch.eye(hyper_gain.STREAMS)
    table[:2, 2] = torch.tensor(row)
    with torch.no_grad():
        for layer in model.trunk.layers:
            for parameter in layer.residual.parameters():
                parameter.zero_()
            layer.residual.static.copy_(table.flatten())
    found = hyper_gain.gains(model, TASK.sample("validation").inputs)
    noted = dict(zip(hyper_gain.MEASURED, found.tolist(), strict=True))
    assert noted.pop("backward") > 1
    assert noted == pytest.approx({"forward": 7, "single": 3, "met": met, "length": met})


def test_a_model_has_room_for_each_of_its_evaluations():
    for budget in ("cpu", "gpu"):
        for arm in hyper_gain.STUDY.arms(budget):
            if arm.name.startswith("additive"):
                assert len(arm.build().seen) * arm.budget.evaluate_every == arm.budget.steps
