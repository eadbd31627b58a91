"""Measurements on networks whose sublayers are put in another order."""

import pytest
import torch

from studies.experiments import order
from studies.experiments.order import (
    backbone,
    geometric,
    interference,
    reordering,
    sublayers,
    within_blocks,
)

INPUTS, TARGETS = (t[:2] for t in order.TASK.sample("validation"))


def built(build, *arguments):
    torch.manual_seed(0)
    return build(*arguments).double().eval()


def test_the_loss_as_built_is_the_models_own():
    for model in (built(backbone, "hyper"), built(backbone), built(geometric, "lite", "post")):
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


def test_interference_gives_the_parameters_back():
    model = built(geometric, "transformer", "pre")
    before = [p.clone() for p in model.parameters()]
    found = interference(model, INPUTS, TARGETS)
    assert ([list(block) for block in found] == [["AF"]] * order.BLOCKS
            and all(block["AF"] != 0 for block in found))
    torch.testing.assert_close(list(model.parameters()), before, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind, pair", [("lite", "AF"), ("moe", "AM")])
def test_the_energy_on_the_way_is_that_of_attention_and_what_follows_it(kind, pair):
    model = built(geometric, kind, "pre")
    assert model.count == 1 and len(model.seen) == 1 + 300 // 50
    inputs = order.TASK.sample("validation").inputs[:order.WINDOWS]
    with torch.no_grad():
        blocks = within_blocks(model, inputs)["energy"]
    torch.testing.assert_close(model.seen[0].tolist(), [block[pair] for block in blocks],
                               rtol=1e-4, atol=1e-9)


def test_what_is_not_defined_is_none():
    assert order.rounded({"a": [float("nan"), 1.23456]}) == {"a": [None, 1.235]}
