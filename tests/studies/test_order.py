"""Measurements on networks whose sublayers are put in another order."""

import torch

from studies.experiments import order
from studies.experiments.order import backbone, geometric, reordering, sublayers

INPUTS, TARGETS = (t[:2] for t in order.TASK.sample("validation"))


def built(build, *arguments):
    torch.manual_seed(0)
    return build(*arguments).double().eval()


def test_the_loss_as_built_is_the_models_own():
    for model in (built(backbone, "hyper"), built(geometric, "lite", "post")):
        with torch.no_grad():
            own = order.TASK.loss(model(INPUTS), TARGETS).item()
        assert abs(reordering(model, INPUTS, TARGETS)["loss"] - own) < 1e-12


def test_sublayers_that_write_nothing_change_places_for_nothing():
    model = built(backbone)
    for layer in sublayers(model):
        torch.nn.init.zeros_(layer.mix.out.weight)
    found = reordering(model, INPUTS, TARGETS)
    assert set(found["swapped"] + found["left out"] + found["blocks swapped"]) == {0.0}
    torch.nn.init.normal_(sublayers(model)[0].mix.out.weight)
    torch.nn.init.normal_(sublayers(model)[1].mix.out.weight)
    found = reordering(model, INPUTS, TARGETS)
    assert found["swapped"][0] != 0 and found["swapped"][3] == 0
    assert len(found["swapped"]) == 5 and len(found["blocks swapped"]) == 2


def test_what_is_not_defined_is_none():
    assert order.rounded({"a": [float("nan"), 1.23456]}) == {"a": [None, 1.235]}
