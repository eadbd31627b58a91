import itertools
import math

import numpy as np
import pytest
import torch
from shared import CLOSE, WIDTH, normal, sublayer
from torch.testing import assert_close

from geolab.residuals import Delta
from geolab.residuals.delta import VALUES

FORMS = [form for form in itertools.product(("k", "v"), VALUES, ("linear", "mlp"))
         if form[:2] not in (("v", "constant"), ("v", "normed-linear"))]
every_form = pytest.mark.parametrize("map, value, gate", FORMS)


def delta(**options):
    torch.manual_seed(3)
    return Delta(WIDTH, **options).double()


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
                             erase=erase), sublayer(), normal(2, 5, WIDTH)
    step, h = residual(x, mix), mix(x)
    for b, t in np.ndindex(2, 5):
        expected = torch.from_numpy(by_hand(residual, x[b, t], h[b, t]))
        assert_close(step[b, t], expected, **CLOSE)


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
    # of wᵀ(x/rms x) with w ~ N(0, 1/(4D)) the standard deviation is 1/2
    torch.manual_seed(0)
    weight = Delta(4096).beta_head.weight
    assert weight.std().item() == pytest.approx(0.5 / 64, rel=0.05)
    assert abs(weight.mean().item()) < 4 * 0.5 / 64 / 64


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0, 2.0])
def test_a_fixed_beta_has_no_parameters(beta):
    residual = delta(beta_fixed=beta)
    assert not any("beta" in name for name, _ in residual.named_parameters())
    assert (residual.coefficients(normal(2, 5, WIDTH), torch.cos)[2] == beta).all()


@pytest.mark.parametrize("norm_eps, guard", [(1e-5, 1e-5), (None, torch.finfo(torch.float64).eps)])
def test_the_norm_that_beta_reads_through_has_the_guard_it_is_told(norm_eps, guard):
    residual, x = delta(norm_eps=norm_eps), 1e-3 * normal(2, 5, WIDTH)
    context = x / (x.square().mean(-1, keepdim=True) + guard).sqrt()
    beta = 2 * torch.sigmoid(residual.beta_head(context).squeeze(-1))
    assert_close(residual.coefficients(x, torch.cos).beta, beta, **CLOSE)


# ---------------------------------------------------------------- the direction

def test_a_sublayer_that_gives_nothing_leaves_the_state_alone():
    x = normal(2, 5, WIDTH)
    assert_close(delta()(x, torch.zeros_like), x, rtol=0, atol=0)
