"""Residuals with one stream, or of MGT's paper: what scales or erases the plain sum."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from shared import CLOSE, WIDTH, networks, normal, shaken, stack, sublayer
from torch.testing import assert_close

from geolab.models import Transformer, TransformerConfig
from geolab.operators import unit_direction
from geolab.residuals import MGT, MHC, MHCDelta, Normed, NormPreserving, Scaled, make_residual
from geolab.residuals.scaled import LEARNED

X, UPDATE = normal(2, 5, WIDTH), sublayer()


def made(name, **options):
    torch.manual_seed(3)
    return make_residual(name, WIDTH, **options).double()


# ---------------------------------------------------------------- scaled summands

@pytest.mark.parametrize("learned", [(), *((name,) for name in LEARNED), LEARNED])
def test_what_isn_t_learned_is_a_constant(learned):
    residual = shaken(Scaled(WIDTH, state=0.9, update=0.3, learned=learned).double())
    s, c, t, d = (getattr(residual, name) if name in learned else constant
                  for name, constant in zip(LEARNED, (0.9, 0, 0.3, 0), strict=True))
    assert_close(residual(X, UPDATE), s * (X + c) + t * (UPDATE(X) + d), **CLOSE)


@pytest.mark.parametrize("start", [-30.0, -1.0, 0.0, 1.0, 30.0])
def test_the_squares_of_learned_weights_sum_to_one_and_the_state_keeps_its_floor(start):
    alpha, beta = NormPreserving(WIDTH, start=start, floor=1e-3).scales(torch.float64)
    total = alpha ** 2 + beta ** 2
    assert_close(total, torch.full_like(total, 1.001 if start == 30 else 1.0), rtol=0, atol=1e-6)


def test_rezero_starts_as_the_identity_and_layer_scale_at_a_tenth():
    for name, weight, start in (("rezero", "alpha", 0.0), ("layer-scale", "scale", 0.1)):
        residual = made(name)
        assert_close(residual(X, UPDATE), X + start * UPDATE(X), rtol=0, atol=1e-8)
        scale = shaken(residual).get_parameter(weight)
        assert_close(residual(X, UPDATE), X + scale * UPDATE(X), **CLOSE)


def test_deepnorm_has_the_paper_s_alpha_and_its_norm_after_the_sum():
    """α = (2N)^(1/4) for N layers of two sublayers."""
    config = TransformerConfig.benchmark(WIDTH, 3, heads=2, max_length=8, norm_at="post")
    trunk = Transformer(config, "deepnorm").double()
    state = X + trunk.position[:, :5]
    for layer in trunk.layers:
        state = layer.norm(6 ** 0.25 * state + layer.mix(state))
    assert_close(trunk(X), state, **CLOSE)


def test_laurel_adds_a_matrix_of_low_rank_to_the_shortcut():
    residual = shaken(made("laurel", rank=2))
    low = residual.up.weight @ residual.down.weight
    assert_close(residual(X, UPDATE), residual.alpha * UPDATE(X) + X + X @ low.T, **CLOSE)
    assert torch.linalg.matrix_rank(low) == 2


# ---------------------------------------------------------------- MGT

def mgt_by_hand(r, x, h):
    """One token, from the parameters and plain formulas (algorithm 1)."""
    w = {name: p.detach() for name, p in r.named_parameters()}
    update = h
    if r.gate:
        scores = w["logits.weight"][:len(x)] @ x
        normed = (scores - scores.mean()) / (scores.var(correction=0) + 1e-5).sqrt()
        update = update * (w["gate_norm.weight"] * normed + w["gate_norm.bias"]).sigmoid()
    if not r.erase:
        return x + update
    rate = (w["logits.weight"][-len(x):] @ x + w["beta_bias"]).tanh()
    return x + (r.beta_scale * rate + r.beta_offset) * (update - w["alpha"] * x)


RANGE = {"beta_scale": 1.5, "beta_offset": 0.25, "beta_init": 0.5, "alpha_init": 0.3}


@pytest.mark.parametrize("options", [{}, RANGE, {"gate": False}, RANGE | {"gate": False},
                                     {"erase": False}, {"gate": False, "erase": False}], ids=str)
def test_mgt_and_its_ablations_are_the_algorithm_written_out(options):
    r = shaken(made("mgt", **options))
    step, h = r(X, UPDATE), UPDATE(X)
    for b in range(2):
        for t in range(5):
            assert_close(step[b, t], mgt_by_hand(r, X[b, t], h[b, t]), **CLOSE)


@given(st.floats(0.1, 3), st.floats(-2, 2), st.floats(0.05, 0.95))
def test_alpha_and_beta_start_where_they_are_told_and_beta_stays_in_its_range(scale, offset, share):
    start = offset - scale + 2 * scale * share
    r = made("mgt", beta_scale=scale, beta_offset=offset, beta_init=start, alpha_init=share)
    _, beta, alpha = r.coefficients(X)
    assert_close(beta, torch.full_like(X, start), rtol=1e-5, atol=1e-5)
    assert alpha.item() == pytest.approx(share)
    beta = shaken(r).coefficients(10 * X).beta
    assert (beta >= offset - scale).all() and (beta <= offset + scale).all() and beta.std() > 0


def test_mgt_s_gate_starts_with_the_mean_085_and_the_deviation_012():
    """G = σ(2 + z) with z of variance 1."""
    gate = MGT(256).double().coefficients(normal(2, 6, 256)).gate
    assert gate.mean().item() == pytest.approx(0.85, abs=0.01)
    assert gate.std().item() == pytest.approx(0.12, abs=0.01)


def test_a_token_rate_is_the_mean_of_mgt_s_over_the_features():
    ours, whole = shaken(made("mgt-token")), made("mgt")
    whole.load_state_dict(ours.state_dict())
    gate, beta, alpha = ours.coefficients(X)
    mean = whole.coefficients(X).beta.mean(-1, keepdim=True)
    assert_close(beta, mean.expand_as(X), **CLOSE)
    assert_close(ours(X, UPDATE), X + beta * (gate * UPDATE(X) - alpha * X), **CLOSE)


@pytest.mark.parametrize("gate", [True, False])
def test_projected_erases_along_what_it_writes_alone(gate):
    """At its start and without a gate this is the paper's equation."""
    residual = made("mgt-projected", gate=gate)
    _, beta, alpha = residual.coefficients(X)
    assert (beta == 1).all() and alpha == 1
    found, beta, alpha = shaken(residual).coefficients(X)
    v = UPDATE(X) if found is None else found * UPDATE(X)
    k = unit_direction(v, 1e-5)
    along = alpha * (k * X).sum(-1, keepdim=True) * k
    assert_close(residual(X, UPDATE), X + beta * (v - along), **CLOSE)


def test_mhc_delta_erases_and_writes_in_each_mixed_stream_along_one_direction():
    """Its rate adds mHC's write to the logit of the delta residual."""
    residual, state = shaken(MHCDelta(WIDTH).double()), normal(2, 5, 4, WIDTH)
    read, write, mix = MHC.coefficients(residual, state)
    k, v, beta = residual.delta.coefficients((read.unsqueeze(-1) * state).sum(-2), UPDATE)
    logit = (beta / (2 - beta)).log().unsqueeze(-1) + (write / (2 - write)).log()
    rate, mixed, step = 2 * logit.sigmoid(), mix @ state, residual(state, UPDATE)
    for i in range(4):
        x = mixed[..., i, :]
        change = rate[..., i] * (v - (k * x).sum(-1))
        assert_close(step[..., i, :], x + change.unsqueeze(-1) * k, **CLOSE)
    on_copies, delta = residual.expand(X), MHCDelta(WIDTH).double()
    wanted = delta.delta(X, UPDATE).unsqueeze(-2).expand_as(on_copies)
    assert_close(delta(on_copies, UPDATE), wanted, rtol=0, atol=1e-6)


# ---------------------------------------------------------------- value residual

def attention_of(number):
    """A causal mean of queries times values, which says how its values are changed."""
    query, value = normal(WIDTH, WIDTH, seed=number), normal(WIDTH, WIDTH, seed=number + 50)

    def run(x, values=lambda own: own):
        own = values(x @ value)
        return (x @ query).tanh() * own.cumsum(1)

    return run, value


@pytest.mark.parametrize("learned", [True, False])
def test_values_are_joined_to_those_of_the_first_attention(learned):
    residuals = shaken(stack("value-residual", WIDTH, 6, first_weight=0.3, own_weight=0.9,
                             learned=learned).double())
    x, state, first = X, residuals[0].expand(X), None
    for index, residual in enumerate(residuals):
        if index % 2:
            state, x = residual(state, torch.sin), x + x.sin()
        else:
            run, value = attention_of(index)
            own = x.tanh() @ value
            if first is None:
                first = read = own
            else:
                of_first, of_own = residual.weights.tolist() if learned else (0.3, 0.9)
                read = of_first * first + of_own * own
            x = x + run(x.tanh(), lambda own, read=read: read)
            state = residual(state, Normed(run, torch.tanh, takes_values=True))
        assert_close(residual.reduce(state), x, **CLOSE)


@pytest.mark.parametrize("learned", [True, False])
def test_at_0_and_1_they_are_the_plain_network_s(learned):
    network, plain = networks("value-residual", first_weight=0.0, own_weight=1.0, learned=learned)
    assert torch.equal(network(X), plain(X))
    assert not torch.equal(networks("value-residual")[0](X), plain(X))
