"""Every residual has right second derivatives, by each way of asking."""

import pytest
import torch
from shared import ANYWHERE, normal, shaken
from torch.testing import assert_close

from geolab.residuals import make_residual


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("name", ANYWHERE)
def test_a_residual_has_the_same_second_derivatives_by_each_way(name):
    residual = shaken(make_residual(name, 8, 0, 1).double())
    state = residual.expand(normal(1, 3, residual.outer, seed=1)).detach()
    # where all streams are equal, H X = X, whatever H is
    state = state + normal(*state.shape, seed=3)
    along = normal(*state.shape, seed=2)

    def loss(state):
        return residual(state, torch.tanh).sin().sum()

    def gradient(state):
        return torch.autograd.grad(loss(state), state, create_graph=True)[0]

    ahead, behind = (gradient((state + sign * 1e-5 * along).requires_grad_()) for sign in (1, -1))
    wanted, leaf = (ahead - behind).detach() / 2e-5, state.clone().requires_grad_()
    ways = {"twice": torch.autograd.grad((gradient(leaf) * along).sum(), leaf)[0],
            "forward over reverse": torch.func.jvp(torch.func.grad(loss), (state,), (along,))[1],
            "reverse twice": torch.func.vjp(torch.func.grad(loss), state)[1](along)[0]}
    for way, found in ways.items():
        assert_close(found, wanted, rtol=1e-6, atol=1e-6, msg=lambda text, way=way: way + text)
