import pytest
import torch
from torch import nn
from torch.testing import assert_close

from geolab.probes import norm_by_depth, norm_drift


class Map(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, x):
        return self.f(x)


def test_norm_by_depth_is_the_mean_length():
    first = torch.tensor([[[3.0, 4.0], [0.0, 1.0]]], dtype=torch.float64)
    wide = torch.full((1, 2, 3, 4), 0.5, dtype=torch.float64, requires_grad=True)
    lengths = norm_by_depth([first, wide, 2 * first])
    assert_close(lengths, torch.tensor([3.0, 1.0, 6.0], dtype=torch.float64))
    assert not lengths.requires_grad


@pytest.mark.parametrize("scale", [0.0, 0.5, -1.0, 3.0])
def test_a_scaling_drifts_by_its_excess(scale):
    drift = norm_drift(Map(lambda x: scale * x), dim=16)
    assert drift == pytest.approx(abs(abs(scale) - 1), abs=1e-6)


def test_the_mean_over_sequences_comes_before_the_absolute_value():
    def longer_and_shorter(x):  # by 1/2, in turn: no drift on average
        return x * torch.tensor([0.5, 1.5]).repeat(len(x) // 2).view(-1, 1, 1)

    assert norm_drift(Map(longer_and_shorter), dim=8, sequences=10) < 1e-6


def test_positions_do_not_cancel():
    def longer_and_shorter(x):
        return x * torch.tensor([0.5, 1.5]).repeat(x.shape[1] // 2).view(1, -1, 1)

    assert norm_drift(Map(longer_and_shorter), dim=8, length=10) == pytest.approx(0.5, abs=1e-6)


def test_the_seed_decides():
    torch.manual_seed(0)
    model = nn.Linear(8, 8)
    drift = norm_drift(model, dim=8, seed=1)
    torch.manual_seed(99)
    assert norm_drift(model, dim=8, seed=1) == drift != norm_drift(model, dim=8, seed=2)
