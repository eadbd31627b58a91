import math
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from shared import shaken
from torch import nn
from torch.testing import assert_close

from geolab.models import ContinuousModel, Transformer, TransformerConfig
from geolab.probes import future_influence
from geolab.residuals import MGT, Additive

WIDTH = 8
CLOSE = dict(rtol=1e-10, atol=1e-10)
ABLATIONS = {"standard": dict(gate=False, erase=False), "gate": dict(erase=False),
             "erase": dict(gate=False), "full": {}}
every_ablation = pytest.mark.parametrize("ablation", ABLATIONS)


def residual(width=WIDTH, **options):
    torch.manual_seed(3)
    return MGT(width, **options).double()


def sublayer(width=WIDTH):
    torch.manual_seed(4)
    return nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.Tanh()).double()


def vectors(width=WIDTH, seed=0):
    return torch.randn(2, 6, width, dtype=torch.float64,
                       generator=torch.Generator().manual_seed(seed))


def network(ablation, backbone=TransformerConfig.benchmark):
    torch.manual_seed(0)
    trunk = Transformer(backbone(width=16, layers=2, heads=2), "mgt", **ABLATIONS[ablation])
    return ContinuousModel(trunk, 6).double()


def by_hand(r, x, h):
    """One token, from the parameters and plain formulas (algorithm 1)."""
    w = {name: p.detach().numpy() for name, p in r.named_parameters()}
    update = h
    if r.gate:
        scores = w["logits.weight"][:len(x)] @ x
        normed = (scores - scores.mean()) / np.sqrt(scores.var() + 1e-5)
        update = update / (1 + np.exp(-(w["gate_norm.weight"] * normed + w["gate_norm.bias"])))
    if not r.erase:
        return x + update
    beta = r.beta_scale * np.tanh(w["logits.weight"][-len(x):] @ x + w["beta_bias"]) + r.beta_offset
    return x + beta * (update - w["alpha"] * x)


@every_ablation
@pytest.mark.parametrize("options",
                         [{}, {"beta_scale": 1.5, "beta_offset": 0.25, "beta_init": 0.5,
                               "alpha_init": 0.3}], ids=["plain", "other"])
def test_forward_is_the_algorithm_written_out(ablation, options):
    r, mix, x = shaken(residual(**ABLATIONS[ablation], **options)), sublayer(), vectors()
    step, h = r(x, mix), mix(x).detach()
    for b, t in np.ndindex(2, 6):
        assert_close(step[b, t], torch.from_numpy(by_hand(r, x[b, t].numpy(), h[b, t].numpy())),
                     **CLOSE)


def test_the_gates_own_norm_reads_the_state_through_its_map():
    # its mean and variance are those of X W_gate: X's scale doesn't matter, and a shift moves it
    r, x = shaken(residual()), vectors()
    assert_close(r.coefficients(1e3 * x)[0], r.coefficients(3e3 * x)[0], rtol=0, atol=1e-9)
    assert (r.coefficients(1e3 * x)[0] - r.coefficients(1e3 * (x + 1))[0]).abs().max() > 1e-2


def test_at_fixed_gates_the_shortcut_is_diagonal_and_free():
    # the delta operator has D − 1 eigenvalues that are exactly 1; here every one is 1 − α β_i
    r, x = shaken(residual()), vectors()[0, 0]
    beta = r.coefficients(x)[1].detach()
    shortcut = torch.autograd.functional.jacobian(lambda x: x
                                                  + beta * (torch.ones(WIDTH) - r.alpha * x), x)
    eigenvalues = 1 - r.alpha.detach() * beta
    assert_close(shortcut, eigenvalues.diag(), **CLOSE)
    assert (eigenvalues - 1).abs().min() > 1e-3


@given(st.floats(0.1, 3), st.floats(-2, 2), st.floats(0.05, 0.95))
def test_beta_stays_in_its_range_and_starts_where_it_is_told(scale, offset, share):
    start = offset - scale + 2 * scale * share
    r = residual(beta_scale=scale, beta_offset=offset, beta_init=start)
    assert_close(r.coefficients(vectors())[1],
                 torch.full((2, 6, WIDTH), start, dtype=torch.float64), rtol=1e-5, atol=1e-5)
    beta = shaken(r).coefficients(10 * vectors())[1]
    assert (beta >= offset - scale).all() and (beta <= offset + scale).all() and beta.std() > 0


# ---------------------------------------------------------------- step 0

@pytest.mark.parametrize("ablation", ["standard", "erase"])
def test_without_the_gate_step_0_is_the_plain_block(ablation):
    x, mix = vectors(), sublayer()
    assert_close(residual(**ABLATIONS[ablation])(x, mix), Additive(WIDTH)(x, mix), **CLOSE)


@pytest.mark.parametrize("ablation", ["gate", "full"])
def test_with_the_gate_step_0_is_the_plain_block_with_its_update_scaled_by_085(ablation):
    # G = σ(2 + z) with z of variance 1: mean 0.85, standard deviation 0.12; no feature of the
    # update changes its sign
    width = 256
    x, mix = vectors(width), sublayer(width)
    change = (residual(width, **ABLATIONS[ablation])(x, mix) - x) / mix(x)
    assert_close(change, residual(width, **ABLATIONS[ablation]).coefficients(x)[0], rtol=0,
                 atol=1e-9)
    assert change.mean().item() == pytest.approx(0.85, abs=0.01)
    assert change.std().item() == pytest.approx(0.12, abs=0.01)
    assert change.min() > 0 and change.max() < 1


def test_neither_gate_nor_erasure_has_parameters_of_its_own():
    assert not list(residual(gate=False, erase=False).parameters())


def test_the_maps_add_a_third_to_the_weights_of_a_block():
    # 2 D² per sublayer, on 12 D² of attention and MLP; the paper's 25 % is the share of the new
    # total
    trunk = Transformer(TransformerConfig.benchmark(width=64, layers=3), "mgt")
    matrices = sum(p.numel() for p in trunk.layers.parameters() if p.ndim == 2)
    added = sum(p.numel() for name, p in trunk.layers.named_parameters()
                if "residual.logits" in name)
    assert added / (matrices - added) == pytest.approx(1 / 3)
    assert added / matrices == pytest.approx(1 / 4)


# ---------------------------------------------------------------- training, causality, state

@every_ablation
@pytest.mark.parametrize("backbone", [TransformerConfig.benchmark, TransformerConfig.ddl],
                         ids=["benchmark", "ddl"])
def test_gradients_reach_every_parameter_at_initialisation(ablation, backbone):
    model = network(ablation, backbone)
    model(vectors(6)).square().sum().backward()
    for name, p in model.named_parameters():
        assert p.grad is not None and p.grad.abs().max() > 0, name


@every_ablation
def test_it_is_causal(ablation):
    assert future_influence(network(ablation), vectors(6)) == 0
    assert future_influence(shaken(network(ablation)), vectors(6)) == 0


@every_ablation
def test_gradients_are_right(ablation):
    r, mix = shaken(residual(**ABLATIONS[ablation])), sublayer()
    assert torch.autograd.gradcheck(lambda x: r(x, mix), vectors()[:1, :2].requires_grad_())


@every_ablation
def test_a_batch_leaves_nothing_behind(ablation):
    model = network(ablation)
    before = pickle.dumps(model)
    model(vectors(6))
    assert pickle.dumps(model) == before and not list(model.buffers())


# ---------------------------------------------------------------- errors

@pytest.mark.parametrize("options, message", [
    ({"beta_scale": 0.0}, "beta_scale must be positive, got 0.0"),
    ({"beta_scale": math.nan}, "beta_scale must be a finite number, got nan"),
    ({"alpha_init": math.inf}, "alpha_init must be a finite number, got inf"),
    ({"gate": "soft"}, "gate must be one of True, False, got 'soft'"),
    ({"erase": None}, "erase must be one of True, False, got None"),
    ({"beta_init": 2.0},
     "beta_init must lie strictly between beta_offset ± beta_scale = 0 and 2, got 2.0"),
    ({"beta_offset": 0.0},
     "beta_init must lie strictly between beta_offset ± beta_scale = -1 and 1, got 1.0"),
])
def test_a_bad_option_is_named(options, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        MGT(WIDTH, **options)
