import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from shared import CLOSE, WIDTH, normal, shaken
from torch import nn
from torch.testing import assert_close

from geolab.residuals import MGT

ABLATIONS = {"standard": dict(gate=False, erase=False), "gate": dict(erase=False),
             "erase": dict(gate=False), "full": {}}


def residual(width=WIDTH, **options):
    torch.manual_seed(3)
    return MGT(width, **options).double()


def sublayer(width=WIDTH):
    torch.manual_seed(4)
    return nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.Tanh()).double()


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


OTHER = {"beta_scale": 1.5, "beta_offset": 0.25, "beta_init": 0.5, "alpha_init": 0.3}


@pytest.mark.parametrize("ablation, options", [
    *((name, {}) for name in ABLATIONS),
    *((name, OTHER) for name, parts in ABLATIONS.items() if parts.get("erase", True))])
def test_forward_is_the_algorithm_written_out(ablation, options):
    r, mix, x = shaken(residual(**ABLATIONS[ablation], **options)), sublayer(), normal(2, 6, WIDTH)
    step, h = r(x, mix), mix(x).detach()
    for b, t in np.ndindex(2, 6):
        assert_close(step[b, t], torch.from_numpy(by_hand(r, x[b, t].numpy(), h[b, t].numpy())),
                     **CLOSE)


@given(st.floats(0.1, 3), st.floats(-2, 2), st.floats(0.05, 0.95))
def test_alpha_and_beta_start_where_they_are_told_and_beta_stays_in_its_range(scale, offset, share):
    start = offset - scale + 2 * scale * share
    r = residual(beta_scale=scale, beta_offset=offset, beta_init=start, alpha_init=share)
    x = normal(2, 6, WIDTH)
    _, beta, alpha = r.coefficients(x)
    assert_close(beta, torch.full_like(x, start), rtol=1e-5, atol=1e-5)
    assert alpha.item() == pytest.approx(share)
    beta = shaken(r).coefficients(10 * x)[1]
    assert (beta >= offset - scale).all() and (beta <= offset + scale).all() and beta.std() > 0


# ---------------------------------------------------------------- step 0

@pytest.mark.parametrize("ablation", ["gate", "full"])
def test_with_the_gate_step_0_is_the_plain_block_with_its_update_scaled_by_085(ablation):
    # G = σ(2 + z) with z of variance 1: mean 0.85, standard deviation 0.12; no feature of the
    # update changes its sign
    width = 256
    x, mix = normal(2, 6, width), sublayer(width)
    change = (residual(width, **ABLATIONS[ablation])(x, mix) - x) / mix(x)
    assert_close(change, residual(width, **ABLATIONS[ablation]).coefficients(x)[0], rtol=0,
                 atol=1e-9)
    assert change.mean().item() == pytest.approx(0.85, abs=0.01)
    assert change.std().item() == pytest.approx(0.12, abs=0.01)
    assert change.min() > 0 and change.max() < 1
