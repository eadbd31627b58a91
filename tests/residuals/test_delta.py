import itertools
import math
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch import nn
from torch.testing import assert_close

from geolab.operators import delta_matrix
from geolab.residuals import Delta
from geolab.residuals.delta import VALUES

WIDTH = 8
CLOSE = dict(rtol=1e-10, atol=1e-10)
FORMS = [form for form in itertools.product(("k", "v"), VALUES, ("linear", "mlp"))
         if form[:2] not in (("v", "constant"), ("v", "normed-linear"))]
every_form = pytest.mark.parametrize("map, value, gate", FORMS)


def delta(**options):
    torch.manual_seed(3)
    return Delta(WIDTH, **options).double()


def sublayer():
    torch.manual_seed(4)
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()).double()


def some_state(seed=0):
    return torch.randn(2, 5, WIDTH, dtype=torch.float64,
                       generator=torch.Generator().manual_seed(seed))


def by_hand(residual, x, h):
    """x + β (v − kᵀx) k at one token, from the parameters, in numpy and plain formulas."""
    w = {name: p.detach().numpy() for name, p in residual.named_parameters()}
    x, h = x.detach().numpy(), h.detach().numpy()
    normed = x / np.sqrt(np.mean(x**2))

    if residual.map == "k":
        direction, source = h, normed if residual.value == "normed-linear" else x
    else:
        hidden = w["direction_head.0.weight"] @ normed
        hidden = np.array([u * (1 + math.erf(u / math.sqrt(2))) / 2 for u in hidden])
        direction, source = w["direction_head.2.weight"] @ hidden, h
    k = direction / np.sqrt(direction @ direction + residual.eps**2)

    if residual.value == "constant":
        v = 2.0
    else:
        logit = (w["value_head.weight"] @ source + w["value_head.bias"])[0]
        v = {"sigmoid": 1 / (1 + math.exp(-logit)), "sigmoid4": 4 / (1 + math.exp(-logit)),
             "linear": logit, "normed-linear": logit}[residual.value]

    if "beta_head.weight" in w:
        logit = (w["beta_head.weight"] @ normed + w["beta_head.bias"])[0]
    else:
        logit = (w["beta_head.2.weight"] @ np.tanh(w["beta_head.0.weight"] @ normed)
                 + w["beta_head.2.bias"])[0]
    beta = 2 / (1 + math.exp(-logit))
    return x + beta * (v - (k @ x if residual.erase else 0)) * k


@pytest.mark.parametrize("erase", [True, False])
@every_form
def test_forward_is_the_equation_written_out(map, value, gate, erase):
    residual, mix, x = delta(map=map, value=value, gate=gate, beta_init=0.7,
                             erase=erase), sublayer(), some_state()
    step, h = residual(x, mix), mix(x)
    for b, t in np.ndindex(2, 5):
        expected = torch.from_numpy(by_hand(residual, x[b, t], h[b, t]))
        assert_close(step[b, t], expected, **CLOSE)


@every_form
def test_forward_is_the_operator_at_its_own_coefficients(map, value, gate):
    residual, mix, x = delta(map=map, value=value, gate=gate, eps=0.0), sublayer(), some_state()
    k, v, beta = residual.coefficients(x, mix)
    assert k.shape == x.shape and v.shape == beta.shape == x.shape[:2]
    a_x = (delta_matrix(k, beta) @ x.unsqueeze(-1)).squeeze(-1)
    assert_close(residual(x, mix), a_x + (beta * v).unsqueeze(-1) * k, **CLOSE)


def test_write_only_has_the_parameters_of_the_whole_rule_and_keeps_what_that_erases():
    whole, write, mix, x = delta(), delta(erase=False), sublayer(), some_state()
    write.load_state_dict(whole.state_dict())
    k, _, beta = whole.coefficients(x, mix)
    erased = (beta * (k * x).sum(-1)).unsqueeze(-1) * k
    assert_close(write(x, mix) - erased, whole(x, mix), **CLOSE)
    assert erased.abs().max() > 1e-2


# ---------------------------------------------------------------- the gate

@pytest.mark.parametrize("gate", ["linear", "mlp"])
@pytest.mark.parametrize("beta_init", [0.01, 0.5, 1.0, 1.9])
def test_beta_at_a_zero_state_is_beta_init(gate, beta_init):
    # the bias alone speaks there; elsewhere the random weight adds to the logit
    x = torch.zeros(1, 3, WIDTH, dtype=torch.float64)
    beta = delta(gate=gate, beta_init=beta_init).coefficients(x, torch.cos)[2]
    # a float32 bias
    assert_close(beta, torch.full((1, 3), beta_init, dtype=torch.float64), rtol=1e-6, atol=0)


def test_beta_at_initialisation_scatters_about_beta_init():
    # logit = bias + wᵀ(x/rms x) with w ~ N(0, 1/(4D)) and ‖x/rms x‖² = D: normal, standard
    # deviation 1/2
    torch.manual_seed(0)
    draws = 2000
    x = torch.randn(draws, WIDTH, dtype=torch.float64)
    made = [Delta(WIDTH, beta_init=0.5).double() for _ in x]
    beta = torch.stack([residual.coefficients(row.view(1, 1, -1), torch.cos).beta.squeeze()
                        for residual, row in zip(made, x, strict=True)])
    logit = torch.log(beta / (2 - beta)).detach()
    assert abs(logit.mean().item() - math.log(0.5 / 1.5)) < 4 * 0.5 / math.sqrt(draws)
    assert abs(logit.std().item() - 0.5) < 4 * 0.5 / math.sqrt(2 * draws)


@given(arrays(np.float64, (1, 2, WIDTH), elements=st.floats(-100, 100)))
def test_beta_lies_between_zero_and_two_and_ignores_the_scale_of_the_state(x):
    x = torch.from_numpy(x)
    residual = delta()
    beta = residual.coefficients(x, torch.cos)[2]
    assert ((beta > 0) & (beta < 2)).all()
    if (x.norm(dim=-1) > 0.1).all():
        assert_close(residual.coefficients(3 * x, torch.cos)[2], beta, **CLOSE)


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0, 2.0])
def test_a_fixed_beta_has_no_parameters(beta):
    residual = delta(beta_fixed=beta)
    assert not any("beta" in name for name, _ in residual.named_parameters())
    assert (residual.coefficients(some_state(), torch.cos)[2] == beta).all()


def test_a_fixed_beta_of_zero_is_the_identity():
    x = some_state()
    assert_close(delta(beta_fixed=0.0)(x, torch.cos), x, rtol=0, atol=0)


@pytest.mark.parametrize("map", ["k", "v"])
def test_a_fixed_beta_of_one_writes_the_value(map):
    residual, x = delta(map=map, beta_fixed=1.0, eps=0.0), some_state()
    k, v, _ = residual.coefficients(x, torch.cos)
    assert_close((k * residual(x, torch.cos)).sum(-1), v, **CLOSE)


@pytest.mark.parametrize("norm_eps, guard", [(1e-5, 1e-5), (None, torch.finfo(torch.float64).eps)])
def test_the_norm_that_beta_reads_through_has_the_guard_it_is_told(norm_eps, guard):
    residual, x = delta(norm_eps=norm_eps), 1e-3 * some_state()
    context = x / (x.square().mean(-1, keepdim=True) + guard).sqrt()
    beta = 2 * torch.sigmoid(residual.beta_head(context).squeeze(-1))
    assert_close(residual.coefficients(x, torch.cos).beta, beta, **CLOSE)


# ---------------------------------------------------------------- the direction

@given(st.floats(1e-2, 1e2))
def test_the_k_map_ignores_the_length_of_the_sublayers_output(scale):
    residual, mix, x = delta(eps=0.0), sublayer(), some_state()
    assert_close(residual(x, lambda x: scale * mix(x)), residual(x, mix), **CLOSE)


def test_with_its_guard_up_to_the_guard():
    residual, mix, x = delta(), sublayer(), some_state()
    shortest = mix(x).norm(dim=-1).min().item()
    change = (residual(x, lambda x: 10 * mix(x)) - residual(x, mix)).abs().max().item()
    assert 0 < change < 100 * (residual.eps / shortest) ** 2


def test_the_v_map_does_not_ignore_it():
    residual, mix, x = delta(map="v"), sublayer(), some_state()
    assert (residual(x, lambda x: 2 * mix(x)) - residual(x, mix)).abs().max() > 1e-3


def test_a_sublayer_that_gives_nothing_leaves_the_state_alone():
    x = some_state()
    assert_close(delta()(x, torch.zeros_like), x, rtol=0, atol=0)


def test_coefficients_depend_on_their_own_token_only():
    x, residual, mix = some_state(), delta(map="v"), sublayer()
    assert_close(residual(x[:, 2:3], mix), residual(x, mix)[:, 2:3], rtol=0, atol=1e-15)


# ---------------------------------------------------------------- training

@every_form
def test_gradients_reach_every_parameter_at_initialisation(map, value, gate):
    residual, mix = delta(map=map, value=value, gate=gate), sublayer()
    residual(some_state(), mix).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in residual.parameters())
    assert all(p.grad.abs().max() > 0 for p in mix.parameters())


@every_form
def test_gradients_are_right(map, value, gate):
    residual, mix = delta(map=map, value=value, gate=gate), sublayer()
    x = some_state()[:1, :2].requires_grad_()
    assert torch.autograd.gradcheck(lambda x: residual(x, mix), x)


@every_form
def test_a_batch_leaves_nothing_behind(map, value, gate):
    residual, mix = delta(map=map, value=value, gate=gate), sublayer()
    before = pickle.dumps(residual)
    residual(some_state(), mix)
    assert pickle.dumps(residual) == before and not list(residual.buffers())


# ---------------------------------------------------------------- errors

@pytest.mark.parametrize("options, message", [
    ({"map": "q"}, "map must be one of 'k', 'v', got 'q'"),
    ({"gate": "big"}, "gate must be one of 'linear', 'mlp', got 'big'"),
    ({"value": "tanh"}, "value must be one of 'sigmoid', 'sigmoid4', 'linear', 'normed-linear', "
                        "'constant', got 'tanh'"),
    ({"map": "v", "value": "constant"}, "value='constant' can't be read .* use 'linear', .*"),
    ({"beta_init": 0.0}, "beta_init must lie strictly between 0 and 2, got 0.0"),
    ({"beta_init": 2.0}, "beta_init must lie strictly between 0 and 2, got 2.0"),
    ({"beta_init": float("nan")}, "beta_init must be a finite number, got nan"),
    ({"map": "v", "value": "normed-linear"}, "value='normed-linear' can't be read .* map='v' .*"),
    ({"beta_fixed": float("nan")}, "beta_fixed must be a finite number, got nan"),
    ({"beta_fixed": -0.5}, "beta_fixed must be from 0 to 2, got -0.5"),
    ({"beta_fixed": 2.5}, "beta_fixed must be from 0 to 2, got 2.5"),
    ({"eps": -1}, "eps must be at least 0, got -1"),
    ({"norm_eps": -1e-5}, "norm_eps must be at least 0, got -1e-05"),
    ({"erase": "no"}, "erase must be one of True, False, got 'no'"),
])
def test_a_bad_option_is_named(options, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        Delta(WIDTH, **options)
