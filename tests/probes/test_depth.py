"""States, gradients and lengths through depth."""

import pytest
import torch
from shared import normal
from torch import nn
from torch.testing import assert_close

from geolab.probes import gradient_norms, norm_by_depth, norm_drift, states


class Map(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, x):
        return self.f(x)


def stack():
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()


def test_states_are_the_input_and_every_output_in_order():
    model, x = stack(), normal(5, 3)
    expected = [x]
    for layer in model:
        expected.append(layer(expected[-1]))
    seen = states(model, model, x)
    for got, want in zip(seen, expected, strict=True):
        assert_close(got, want, rtol=0, atol=0)
        assert not got.requires_grad
    assert_close(states(model, iter(model[1:]), x), seen[1:], rtol=0, atol=0)


def test_no_hook_stays_not_even_after_an_error():
    model = stack()
    states(model, model, normal(5, 3))
    with pytest.raises(RuntimeError):
        states(model, model, normal(5, 7))
    assert not any(layer._forward_hooks or layer._forward_pre_hooks for layer in model)


def test_gradient_norms_are_those_of_backward():
    model = stack()
    loss = model(normal(5, 3)).square().mean()
    measured = gradient_norms(loss, (p for p in model.parameters() if p.ndim == 2))
    assert all(p.grad is None for p in model.parameters())
    loss.backward()  # the graph is kept
    assert_close(measured, torch.stack([model[0].weight.grad.norm(), model[2].weight.grad.norm()]))


def test_norm_by_depth_is_the_mean_length():
    first = torch.tensor([[[3.0, 4.0], [0.0, 1.0]]], dtype=torch.float64)
    wide = torch.full((1, 2, 3, 4), 0.5, dtype=torch.float64, requires_grad=True)
    lengths = norm_by_depth([first, wide, 2 * first])
    assert_close(lengths, torch.tensor([3.0, 1.0, 6.0], dtype=torch.float64))
    assert not lengths.requires_grad


IN_TURN = torch.tensor([0.5, 1.5]).repeat(5)


@pytest.mark.parametrize("f, drift", [
    *((lambda x, scale=scale: scale * x, abs(abs(scale) - 1)) for scale in (0.0, 0.5, -1.0, 3.0)),
    # the mean over sequences comes before the absolute value, and positions don't cancel
    (lambda x: x * IN_TURN[:, None, None], 0.0), (lambda x: x * IN_TURN[:, None], 0.5)])
def test_a_drift_by_hand(f, drift):
    assert norm_drift(Map(f), dim=8, length=10, sequences=10) == pytest.approx(drift, abs=1e-6)


def test_the_seed_decides():
    torch.manual_seed(0)
    model = nn.Linear(8, 8)
    drift = norm_drift(model, dim=8, seed=1)
    torch.manual_seed(99)
    assert norm_drift(model, dim=8, seed=1) == drift != norm_drift(model, dim=8, seed=2)
