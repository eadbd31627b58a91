"""The residuals that MGT's paper speaks of, and the baseline of its gate."""

from shared import CLOSE, WIDTH, normal, shaken, sublayer
from torch.testing import assert_close

from geolab.operators import unit_direction
from geolab.residuals import MGT, MHC
from geolab.residuals.layer_scale import LayerScale
from geolab.residuals.mgt_forms import MHCDelta, Projected, TokenRate


def some_state(*streams):
    return normal(2, 5, *streams, WIDTH)


def test_layer_scale_has_a_number_per_feature_which_starts_at_a_tenth():
    x, f, residual = some_state(), sublayer(), LayerScale(WIDTH).double()
    assert_close(residual(x, f), x + 0.1 * f(x), rtol=0, atol=1e-8)
    assert_close(shaken(residual)(x, f), x + f(x) @ residual.scale.diag(), **CLOSE)


def test_a_token_rate_is_one_number_per_token_and_the_mean_of_mgts():
    x, ours, whole = some_state(), shaken(TokenRate(WIDTH).double()), MGT(WIDTH).double()
    whole.load_state_dict(ours.state_dict())
    beta = ours.coefficients(x).beta
    assert (beta == beta[..., :1]).all() and beta.shape == x.shape
    assert beta[..., 0].unique().numel() == 10
    assert_close(beta[..., 0], whole.coefficients(x).beta.mean(-1), **CLOSE)
    gate, _, alpha = ours.coefficients(x)
    f = sublayer()
    assert_close(ours(x, f), x + beta * (gate * f(x) - alpha * x), **CLOSE)


def test_projected_at_its_start_and_without_a_gate_is_the_papers_equation():
    x, f, residual = some_state(), sublayer(), Projected(WIDTH, gate=False).double()
    _, beta, alpha = residual.coefficients(x)
    assert (beta == 1).all() and alpha == 1
    v = f(x)
    k = unit_direction(v, 1e-5)
    along = (k.unsqueeze(-1) @ k.unsqueeze(-2) @ x.unsqueeze(-1)).squeeze(-1)
    assert_close(residual(x, f), x + v - along, **CLOSE)


def test_projected_erases_along_what_it_writes_alone():
    x, f, residual = some_state(), sublayer(), shaken(Projected(WIDTH).double())
    gate, beta, alpha = residual.coefficients(x)
    v = gate * f(x)
    erased = v - (residual(x, f) - x) / beta
    k = unit_direction(v, 1e-5)
    assert_close(erased, alpha * (k * x).sum(-1, keepdim=True) * k, **CLOSE)


def test_a_delta_write_changes_each_mixed_stream_along_one_direction():
    state, f, residual = some_state(4), sublayer(), shaken(MHCDelta(WIDTH).double())
    read, _, mix = MHC.coefficients(residual, state)
    mixed = mix @ state
    moved = residual(state, f) - mixed
    k = unit_direction(f((read.unsqueeze(-1) * state).sum(-2))).unsqueeze(-2)
    assert_close(moved, (moved * k).sum(-1, keepdim=True) * k, **CLOSE)
    assert moved.norm(dim=-1).min() > 1e-3
    # mHC without a sublayer
    assert_close(residual(state, lambda x: 0 * x), mixed, **CLOSE)


def test_on_copies_it_starts_as_the_delta_residual():
    x, f, residual = some_state(), sublayer(), MHCDelta(WIDTH).double()
    step = residual(residual.expand(x), f)
    assert_close(step, residual.delta(x, f).unsqueeze(-2).expand_as(step), rtol=0, atol=1e-6)


def test_its_rate_adds_mhcs_write_to_deltas_logit():
    state, f, residual = some_state(4), sublayer(), shaken(MHCDelta(WIDTH).double())
    read, write, mix = MHC.coefficients(residual, state)
    x = (read.unsqueeze(-1) * state).sum(-2)
    k, v, beta = residual.delta.coefficients(x, f)
    logit = (beta / (2 - beta)).log().unsqueeze(-1) + (write / (2 - write)).log()
    rate, mixed, step = 2 / (1 + (-logit).exp()), mix @ state, residual(state, f)
    for i in range(4):
        expected = v - (k * mixed[..., i, :]).sum(-1)
        assert_close(step[..., i, :],
                     mixed[..., i, :] + (rate[..., i] * expected).unsqueeze(-1) * k, **CLOSE)
    shortcut = residual.coefficients(state, f).shortcut @ state.flatten(-2).unsqueeze(-1)
    write = (rate * v.unsqueeze(-1)).unsqueeze(-1) * k.unsqueeze(-2)
    assert_close(step, shortcut.view_as(step) + write, **CLOSE)
