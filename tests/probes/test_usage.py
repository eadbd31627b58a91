"""How a network uses its streams, against networks whose use of them is known."""

import pytest
import torch
from test_hearing import trunk
from torch.testing import assert_close

from geolab.probes import stream_usage


def test_weights_are_the_static_coefficients_and_norms_those_of_the_state():
    model, x = trunk("hyper", dynamic=False)
    usage = stream_usage(model, x)
    state = model.layers[0].residual.expand(x)
    for layer, step in zip(model.layers, usage, strict=True):
        read, write, _ = layer.residual.coefficients(state)
        assert_close(step.read, read[0, 0].abs())
        assert_close(step.write, write[0, 0].abs())
        assert_close(step.norm, state.norm(dim=-1).mean((0, 1)))
        state = layer(state)


@pytest.mark.parametrize("loss", [None, lambda y: y.square().mean()])
def test_a_change_is_that_of_the_network_with_the_mean_in_the_streams_place(loss):
    model, x = trunk("hyper")
    layers = model.layers

    def through(changed=None, stream=None):
        state = layers[0].residual.expand(x)
        for k, layer in enumerate(layers):
            if k == changed:
                others = [j for j in range(4) if j != stream]
                state = state.index_copy(-2, torch.tensor([stream]),
                                         state[..., others, :].mean(-2, keepdim=True))
            state = layer(state)
        head = layers[-1].residual.reduce(state)
        return loss(model.norm(head)) if loss else head

    before = through()
    for k, step in enumerate(stream_usage(model, x, loss)):
        for stream, change in enumerate(step.change):
            after = through(k, stream)
            assert_close(change, after - before if loss else
                         (after - before).norm() / before.norm())
