"""The gains that are noted while a model trains, of mixes that are known."""

import pytest
import torch

from geolab.tasks import Copy
from geolab.training import Budget
from studies.experiments import hyper_gain

TASK = Copy(half=4, alphabet=5, train=40, validation=12)


@pytest.mark.parametrize("row, met", [((2, -1), 1), ((2, 1), 3)])
def test_copies_meet_the_sum_of_a_row_and_streams_are_as_long_as_they_are(row, met):
    """Two sublayers write nothing, and mix the first two streams by the rows `row` and (0, 1). The
    second one sees what the first one made."""
    model = hyper_gain.build(8, TASK, Budget(steps=6), "hyper", 1)
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
