"""Every residual has right second derivatives, by each way of asking."""

import pytest
import torch
from shared import ANYWHERE, normal, shaken
from torch.autograd import functional
from torch.testing import assert_close

from geolab.residuals import make_residual


def residual_step(name):
    """A residual's step as a function of its state, and a state; no parameter is at its start.

    The streams differ: where they are equal, H X = X, whatever H is.
    """
    torch.manual_seed(0)
    residual = shaken(make_residual(name, 8, 0, 1).double())
    state = residual.expand(normal(1, 3, residual.outer, seed=1)).detach()
    return lambda state: residual(state, torch.tanh), state + normal(*state.shape, seed=3)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("name", ANYWHERE)
def test_a_residual_has_the_same_second_derivatives_by_each_way(name):
    step, state = residual_step(name)
    along = normal(*state.shape, seed=2)

    def loss(state):
        return step(state).sin().sum()

    def gradient(state):
        return torch.autograd.grad(loss(state), state, create_graph=True)[0]

    ahead, behind = (gradient((state + sign * 1e-5 * along).requires_grad_()) for sign in (1, -1))
    wanted = (ahead - behind).detach() / 2e-5
    leaf = state.detach().clone().requires_grad_()
    ways = {"twice": torch.autograd.grad((gradient(leaf) * along).sum(), leaf)[0],
            "hvp": functional.hvp(loss, state, along)[1],
            "vhp": functional.vhp(loss, state, along)[1],
            "functional.jvp": functional.jvp(gradient, state, along)[1],
            "torch.func": torch.func.jvp(torch.func.grad(loss), (state,), (along,))[1],
            "reverse twice": torch.func.vjp(torch.func.grad(loss), state)[1](along)[0]}
    for way, found in ways.items():
        assert_close(found, wanted, rtol=1e-6, atol=1e-6, msg=lambda text, way=way: way + text)
