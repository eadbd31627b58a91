"""Every operator and every residual has right second derivatives, by each way of asking.

The ways: autograd twice, torch.func, torch.autograd.functional, forward mode, batched gradients.
"""

import pytest
import torch
from shared import ANYWHERE, normal, shaken
from torch.autograd import functional, gradcheck, gradgradcheck
from torch.testing import assert_close

from geolab import operators
from geolab.residuals import make_residual

HELPERS = {"outside_autocast", "recomputed", "widened"}  # contexts and casts


def generated(numbers):
    """Of 8 numbers per token the coefficients of 2 streams: a, b and H."""
    read, write, mix = numbers.split((2, 2, 4), dim=-1)
    return read.sigmoid(), write.sigmoid(), operators.sinkhorn(mix.unflatten(-1, (2, 2)), 3)


def read(found):
    """What a sublayer hears of a generated state, and all its coefficients."""
    a, *others = generated(found.numbers)
    return found.state, operators.stream_read(found.state, a, found.ports), a, *others


X, H, A, U = normal(3, 2, 3), normal(3, 2, 2, seed=1), normal(3, 2, seed=2), normal(3, 3, seed=3)
K, BETA = normal(3, 3, seed=4), normal(3, seed=5).sigmoid()
SKEW, VECTOR = operators.skew(normal(2, 4, 4, seed=6)), normal(2, 4, seed=7)
GATE, W = BETA[:2], normal(8, 6, seed=8) / 3
CASES = {  # an operator, and its differentiable inputs
    "blend": (operators.blend, SKEW, VECTOR[:, None] * VECTOR[..., None], GATE),
    "cayley_iterated": (operators.cayley_iterated, SKEW),
    "cayley_rank2": (operators.cayley_rank2, VECTOR, normal(2, 4, seed=9), GATE),
    "cayley_skew4": (operators.cayley_skew4, SKEW),
    "circulant_mixture": (operators.circulant_mixture, A),
    "delta_matrix": (lambda k, b: operators.delta_matrix(operators.unit_direction(k), b), K, BETA),
    "delta_shortcut": (operators.delta_shortcut, U, K, BETA),
    "delta_update": (operators.delta_update, U, K, BETA, BETA),
    "delta_update, guarded": (
        lambda *given: operators.delta_update(*given, eps=0.1), H, A, A + 1, BETA),
    "delta_update, written alone": (
        lambda *given: operators.delta_update(*given, erase=False), H, A, A + 1, BETA),
    "diagonal_update": (operators.diagonal_update, U, K, U + 1, BETA[0]),
    "gated_matrix": (operators.gated_matrix, SKEW, VECTOR, GATE),
    "gated_mix": (operators.gated_mix, X, A, A + 1, BETA, A, BETA),
    "gated_mix, rotating": (operators.gated_mix, X, A, A + 1, BETA),
    "geodesic": (operators.geodesic, SKEW, VECTOR, GATE),
    "householder_matrix": (
        lambda k: operators.householder_matrix(operators.unit_direction(k)), VECTOR),
    "kronecker_mixture": (operators.kronecker_mixture, H),
    "midpoint_penalty": (operators.midpoint_penalty, GATE),
    "orthostochastic": (lambda z: operators.orthostochastic(z, 2), normal(3, 6, seed=10)),
    "permutation_mixture": (lambda z: operators.permutation_mixture(z, 3), normal(3, 6, seed=10)),
    "reflect": (lambda x, k: operators.reflect(x, operators.unit_direction(k)), U, K),
    "rms_linear": (lambda x, w: operators.rms_linear(x, w, 1e-6), X.flatten(1), W),
    "sinkhorn": (lambda x: operators.sinkhorn(x, 4), H),
    "sinkhorn, guarded": (lambda x: operators.sinkhorn(x, 4, eps=0.1), H),
    "skew": (operators.skew, H),
    "stream_generate": (lambda x, w: read(operators.stream_generate(x, w, 1e-6)), X, W),
    "stream_join": (
        lambda *given: read(operators.stream_join(*given, 1e-6)), X, H, A, U, W),
    "stream_mix": (operators.stream_mix, X, H),
    "stream_mix_write": (operators.stream_mix_write, X, H, A, U),
    "stream_read": (operators.stream_read, X, A),
    "unit_direction": (operators.unit_direction, K),
}


def leaves(tensors):
    return tuple(t.detach().clone().requires_grad_() for t in tensors)


def test_every_operator_has_a_case():
    assert {name.split(",")[0] for name in CASES} == set(operators.__all__) - HELPERS


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("name", CASES)
def test_an_operator_has_second_derivatives(name):
    function, *given = CASES[name]
    inputs = leaves(given)
    assert gradcheck(function, inputs, fast_mode=True, check_forward_ad=True,
                     check_batched_grad=True)
    # the fast mode passes a backward of Sinkhorn that takes f and g for constants
    assert gradgradcheck(function, inputs)
    assert gradgradcheck(function, inputs, fast_mode=True, check_batched_grad=True,
                         check_fwd_over_rev=True)


@pytest.mark.parametrize("name", CASES)
def test_vmap_of_second_derivatives_is_a_stack_of_them(name):
    function, *given = CASES[name]

    def total(*inputs):
        found = function(*inputs)
        return sum(x.sin().sum() for x in (found if isinstance(found, tuple) else (found,)))

    def response(*inputs):
        """The gradient's derivative along the inputs themselves."""
        gradient = torch.func.grad(total, argnums=tuple(range(len(inputs))))
        return torch.func.jvp(gradient, inputs, inputs)[1]

    batch = [torch.stack([x, x / 2, 2 * x]) for x in given]
    found = torch.func.vmap(response)(*batch)
    for number, alone in enumerate(zip(*batch, strict=True)):
        assert_close(tuple(x[number] for x in found), response(*alone))


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
    leaf, = leaves([state])
    ways = {"twice": torch.autograd.grad((gradient(leaf) * along).sum(), leaf)[0],
            "hvp": functional.hvp(loss, state, along)[1],
            "vhp": functional.vhp(loss, state, along)[1],
            "functional.jvp": functional.jvp(gradient, state, along)[1],
            "torch.func": torch.func.jvp(torch.func.grad(loss), (state,), (along,))[1],
            "reverse twice": torch.func.vjp(torch.func.grad(loss), state)[1](along)[0]}
    for way, found in ways.items():
        assert_close(found, wanted, rtol=1e-6, atol=1e-6, msg=lambda text, way=way: way + text)
