import pytest
import torch
from torch import nn
from torch.testing import assert_close

from geolab.probes import gradient_norms, states


def stack():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()


def inputs():
    return torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_states_are_the_input_and_every_output_in_order():
    model, x = stack(), inputs()
    expected = [x]
    for layer in model:
        expected.append(layer(expected[-1]))
    seen = states(model, model, x)
    assert len(seen) == 4
    for got, want in zip(seen, expected):
        assert_close(got, want, rtol=0, atol=0)
        assert not got.requires_grad


def test_states_of_some_layers_only():
    model, x = stack(), inputs()
    seen = states(model, iter(model[1:]), x)
    assert_close(seen[0], model[0](x), rtol=0, atol=0)
    assert len(seen) == 3


def test_no_hook_stays_not_even_after_an_error():
    model = stack()
    states(model, model, inputs())
    with pytest.raises(RuntimeError):
        states(model, model, torch.zeros(5, 7, dtype=torch.float64))
    assert not any(layer._forward_hooks or layer._forward_pre_hooks for layer in model)


def test_gradient_norms_are_those_of_backward():
    model = stack()
    loss = model(inputs()).square().mean()
    measured = gradient_norms(loss, (p for p in model.parameters() if p.ndim == 2))
    assert all(p.grad is None for p in model.parameters())
    loss.backward()  # the graph is kept
    assert_close(measured, torch.stack([model[0].weight.grad.norm(), model[2].weight.grad.norm()]))
