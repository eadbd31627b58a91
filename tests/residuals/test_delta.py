"""The delta residuals, token by token in float64, and what their published code has."""

import math
import pickle
from copy import deepcopy
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from shared import CLOSE, WIDTH, networks, normal, shaken, sublayer
from torch import nn
from torch.testing import assert_close

from geolab.operators import delta_update
from geolab.residuals import Delta, DeltaMatrix, Normed, make_residual
from geolab.residuals.delta import VALUES
from geolab.residuals.delta_matrix import COMPRESSORS, EXPANSIONS, causal_convolution
from geolab.residuals.delta_pool import POOLS

LENGTH = 6


def delta(**options):
    torch.manual_seed(3)
    return shaken(Delta(WIDTH, **options).double())


def matrix(**options):
    torch.manual_seed(3)
    return shaken(DeltaMatrix(WIDTH, **options).double())


def some_state(channels=4, length=LENGTH):
    return normal(2, length, WIDTH, channels, seed=1)


# ---------------------------------------------------------------- the equation, by hand

def compressed(w, prefix, X, t):
    """x_t (D,) from the states up to t, X (T, D, d_v), in sums of single numbers."""
    D, channels = X.shape[1:]
    kernel, x = w[f"{prefix}.kernel"], torch.zeros(D).double()
    if len(kernel) == D * channels:  # over positions
        taps = kernel.shape[1]
        for i, j, s in np.ndindex(D, channels, min(taps, t + 1)):
            weight = w[f"{prefix}.read"][j] * kernel[i * channels + j, taps - 1 - s]
            x[i] += weight * X[t - s, i, j]
    elif f"{prefix}.read" not in w:  # the paper's weights of each feature
        x += (kernel * X[t]).sum(1)
    else:  # the code's kernel over the channels, then the sum
        left = (channels - 1) // 2
        for i, out, s in np.ndindex(D, channels, channels):
            if 0 <= out + s - left < channels:
                x[i] += w[f"{prefix}.read"][out] * kernel[i, s] * X[t, i, out + s - left]
    return x


def pooled(w, prefix, how, X):
    """Pool(X) of one token (D, d_v)."""
    if how == "flatten":
        return X.flatten()
    scores = torch.zeros(X.shape[1]).double()
    if how == "attention":
        scores = w[f"{prefix}.query"] @ X
    return X @ scores.softmax(0)


def step_by_hand(r, X, x, f):
    """X + β k (vᵀ − kᵀX) at one token, from the parameters and plain formulas."""
    w, rule = {name: p.detach() for name, p in r.named_parameters()}, r.rule
    eps = torch.finfo(torch.float64).eps if rule.norm_eps is None else rule.norm_eps
    context = x / (x.square().mean() + eps).sqrt()
    how = getattr(r, "how", {})
    h = f(x)
    if rule.map == "k":
        k, source = h, context if rule.value == "normed-linear" else x
    else:
        reads = how.get("direction")
        seen = {None: context, "input": x}.get(reads)
        seen = pooled(w, "direction_pool", reads, X) if seen is None else seen
        inner = w["direction_head.0.weight"] @ seen
        inner = inner * (1 + torch.erf(inner / math.sqrt(2))) / 2
        k, source = w["direction_head.2.weight"] @ inner, h
    k = k / (k @ k + rule.eps**2).sqrt() if r.normalize else k
    if rule.value == "constant":
        v = torch.full((X.shape[1],), 2.0).double()
    else:
        logit = w["value_head.weight"] @ source + w["value_head.bias"]
        v = {"sigmoid": logit.sigmoid(), "sigmoid4": 4 * logit.sigmoid()}.get(rule.value, logit)
    beta = rule.beta_fixed
    if beta is None:
        reads = how.get("beta", "context")
        seen = context if reads == "context" else pooled(w, "beta_pool", reads, X)
        last = "beta_head"
        if "beta_head.2.weight" in w:
            seen, last = (w["beta_head.0.weight"] @ seen).tanh(), "beta_head.2"
        beta = 2 * (w[f"{last}.weight"] @ seen + w[f"{last}.bias"]).sigmoid()
    return X + beta * torch.outer(k, v - (k @ X if rule.erase else 0))


FORMS = [*({"value": value, "gate": gate, "erase": erase} for value, gate, erase in product(
             VALUES, ("linear", "mlp"), (True, False))),
         *({"map": "v", "value": value} for value in ("sigmoid", "sigmoid4", "linear")),
         {"beta_fixed": 0.5}, {"norm_eps": 0.1}]
WIDE = [*({"compress": compress} for compress in COMPRESSORS),
        *({"value": value} for value in VALUES), {"channels": 2}, {"kernel": 7}, {"erase": False},
        {"erase": False, "normalize": False, "beta_fixed": 1.0},
        *({"beta_reads": how, "gate": gate} for how in POOLS for gate in ("linear", "mlp")),
        *({"map": "v", "value": "linear", "direction_reads": how} for how in ("input", *POOLS))]


@pytest.mark.parametrize("options", FORMS, ids=str)
def test_a_step_of_one_channel_is_the_equation(options):
    r, f, x = delta(**options), sublayer(), normal(2, LENGTH, WIDTH)
    step = r(x, f)
    for b, t in np.ndindex(2, LENGTH):
        wanted = step_by_hand(r, x[b, t].unsqueeze(-1), x[b, t], f)
        assert_close(step[b, t], wanted.squeeze(-1), **CLOSE)


@pytest.mark.parametrize("options", WIDE, ids=str)
def test_a_step_of_several_channels_is_the_equation(options):
    r, f = matrix(**options), sublayer()
    r.how = {"beta": options.get("beta_reads", "context"),
             "direction": options.get("direction_reads", "input")}
    X = some_state(channels=r.channels)
    w = {name: p.detach() for name, p in r.named_parameters()}
    step, out = r(X, f), r.reduce(X)
    for b, t in np.ndindex(2, LENGTH):
        x = compressed(w, "compressor", X[b], t)
        assert_close(step[b, t], step_by_hand(r, X[b, t], x, f), **CLOSE)
        assert_close(out[b, t], compressed(w, "readout", X[b], t), **CLOSE)


@given(seed=st.integers(0, 2**31), length=st.integers(1, 9), taps=st.integers(1, 5),
       outputs=st.integers(1, 3))
def test_causal_convolution_is_its_sum_at_every_length(seed, length, taps, outputs):
    x, kernel = normal(2, length, 3, seed=seed), normal(3 * outputs, taps, seed=seed + 1)
    expected = torch.zeros(2, length, 3 * outputs, dtype=torch.float64)
    for t, c, s in np.ndindex(length, 3 * outputs, taps):
        if t - s >= 0:
            expected[:, t, c] += kernel[c, taps - 1 - s] * x[:, t - s, c // outputs]
    assert_close(causal_convolution(x, kernel), expected, **CLOSE)


@pytest.mark.parametrize("options", [{}, {"kernel": 2}, {"compress": "channel"},
                                     {"compress": "channel-conv"},
                                     {"compress": "channel", "expand": "conv"}], ids=str)
def test_its_reach_is_how_many_positions_its_convolutions_read(options):
    def positions(read, x):
        slope = torch.autograd.functional.jacobian(lambda x: read(x)[:, -1].sum(), x)
        return (slope.flatten(2).abs().amax((0, 2)) > 0).sum().item()

    r = matrix(**options)
    assert r.reach == max(positions(r.compressor, some_state(length=9)),
                          positions(r.expand, normal(2, 9, WIDTH)))


@pytest.mark.parametrize("factors", [1, 3])
def test_the_factors_of_a_product_act_one_after_the_other(factors):
    """On coefficients of the first state; with one factor it is the delta residual."""
    x, f = normal(2, 3, WIDTH), sublayer()
    row = shaken(make_residual("delta-product", WIDTH, factors=factors).double())
    made, state = row.coefficients(x, f), x
    for k, v, beta in zip(*(part.unbind(2) for part in made), strict=True):
        state = delta_update(state, k, v, beta)
    assert_close(row(x, f), state, **CLOSE)
    if factors == 1:
        one = Delta(WIDTH).double()
        one.load_state_dict(row.state_dict())
        assert_close(row(x, f), one(x, f), **CLOSE)


# ---------------------------------------------------------------- step 0

@pytest.mark.parametrize("name", ["delta", "delta-product"])
@pytest.mark.parametrize("beta_init", [0.01, 0.5, 1.0, 1.9])
def test_beta_starts_about_beta_init(name, beta_init):
    """At a zero state the bias alone speaks; of wᵀ(x/rms x) the standard deviation is 1/2."""
    torch.manual_seed(0)
    residual = make_residual(name, 4096, beta_init=beta_init)
    found = residual.coefficients(torch.zeros(1, 1, 4096), torch.cos)
    beta = found.beta if name == "delta" else found.betas
    assert_close(beta, torch.full_like(beta, beta_init), rtol=1e-6, atol=0)
    assert residual.beta_head.weight.std().item() == pytest.approx(0.5 / 64, rel=0.05)


@pytest.mark.parametrize("compress", COMPRESSORS)
@pytest.mark.parametrize("expand", EXPANSIONS)
@pytest.mark.parametrize("channels", [2, 4, 5])
def test_at_identity_kernels_the_first_sublayer_reads_the_input(compress, expand, channels):
    r = DeltaMatrix(WIDTH, compress=compress, expand=expand, channels=channels).double()
    x = normal(2, LENGTH, WIDTH)
    state = r.expand(x)
    assert_close(state, x.unsqueeze(-1).repeat(1, 1, 1, channels), rtol=0, atol=0)
    assert_close(r.compressor(state), x, rtol=1e-7, atol=1e-12)  # 1/d_v starts in float32
    assert_close(r.reduce(state), x, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("compress", COMPRESSORS)
def test_published_kernels_have_the_published_spread(compress):
    torch.manual_seed(0)
    kernel = DeltaMatrix(2048, compress=compress, kernel_init="published").compressor.kernel
    assert kernel.std().item() == pytest.approx(0.5 / math.sqrt(2048),
                                                rel=4 / math.sqrt(2 * kernel.numel()))


# ---------------------------------------------------------------- β through the sublayer's norm

@pytest.mark.parametrize("name, options", [
    ("delta", {}), ("delta", {"map": "v"}), ("delta", {"value": "normed-linear"}),
    ("delta-matrix", {}), ("delta-matrix", {"map": "v"}), ("delta-matrix", {"gate": "mlp"})],
    ids=str)
def test_a_context_with_a_weight_is_one_without_whose_linear_maps_have_the_weight(name, options):
    theirs = shaken(make_residual(name, WIDTH, context="sublayer", **options).double())
    ours = make_residual(name, WIDTH, norm_eps=1e-5, **options).double()
    ours.load_state_dict(theirs.state_dict())
    norm = shaken(nn.RMSNorm(WIDTH, eps=1e-5).double())
    reads = {"beta_head"}
    if name == "delta":  # the matrix form's branch for k reads x itself
        reads.add("direction_head")
    if options.get("value") == "normed-linear":
        reads.add("value_head")
    with torch.no_grad():
        for path, layer in ours.named_modules():
            if (path.split(".")[0] in reads and isinstance(layer, nn.Linear)
                    and layer.in_features == WIDTH):
                layer.weight.mul_(norm.weight)
    state, around = ours.expand(normal(2, 5, WIDTH)), Normed(sublayer(), norm)
    assert_close(theirs(state, around), ours(state, around), **CLOSE)


@pytest.mark.parametrize("context", ["own", "sublayer"])
@pytest.mark.parametrize("name", ["delta", "delta-matrix"])
def test_the_sublayer_s_norm_learns_through_beta_where_beta_reads_it(name, context):
    residual = make_residual(name, WIDTH, context=context).double()
    norm = nn.RMSNorm(WIDTH).double()
    beta = residual.coefficients(normal(2, 5, WIDTH), Normed(sublayer(), norm)).beta
    slope, = torch.autograd.grad(beta.sum(), norm.weight, allow_unused=True)
    assert slope is None if context == "own" else (slope != 0).all()


@pytest.mark.parametrize("gate", ["linear", "mlp"])
def test_beta_is_single_under_autocast_and_its_logit_where_it_is_asked_for(gate):
    x = 3 * normal(2, 50, WIDTH).float()
    half, single = (shaken(Delta(WIDTH, gate=gate, gate_logits=logits), seed=2)
                    for logits in ("half", "single"))
    single.load_state_dict(half.state_dict())
    exact = single.coefficients(x, torch.cos).beta
    assert torch.equal(half.coefficients(x, torch.cos).beta, exact)  # without autocast
    with torch.autocast("cpu", torch.bfloat16):
        rounded, beta = (made.coefficients(x, torch.cos).beta for made in (half, single))
    assert rounded.dtype == beta.dtype == torch.float32
    assert_close(beta, exact, rtol=0, atol=1e-6)
    assert 1e-4 < (rounded - exact).abs().max() < 0.05


# ---------------------------------------------------------------- one compressor per block

@pytest.mark.parametrize("compress", COMPRESSORS)
def test_tied_compressors_are_stored_once_and_are_two_equal_ones_whose_gradients_add_up(compress):
    options = {"compress": compress, "expand": "conv"}
    tied = shaken(networks("delta-matrix", tied=True, **options)[0])
    apart, x = networks("delta-matrix", **options)[0], normal(2, LENGTH, WIDTH)
    second = ("layers.1.residual.compressor", "layers.3.residual.compressor")
    own = tied.state_dict()
    assert set(own) == {name for name in apart.state_dict() if not name.startswith(second)}
    for name in apart.state_dict().keys() - own.keys():
        own[name] = own[name.replace("1.residual", "0.residual").replace("3.res", "2.res")]
    apart.load_state_dict(own)
    assert_close(tied(x), apart(x), **CLOSE)
    for model in (tied, apart):
        model(x).cos().sum().backward()
    for name, p in tied.layers[0].residual.compressor.named_parameters():
        both = sum(apart.layers[i].residual.compressor.get_parameter(name).grad for i in (0, 1))
        assert_close(p.grad, both, **CLOSE)


@pytest.mark.parametrize("copy", [deepcopy, lambda model: pickle.loads(pickle.dumps(model))],
                         ids=["copied", "pickled"])
def test_what_is_tied_stays_tied_in_a_copy_and_apart_from_the_original(copy):
    model, x = networks("delta-matrix", tied=True)[0], normal(2, LENGTH, WIDTH)
    other, before = copy(model), model(x)
    first, second = (layer.residual.compressor for layer in other.layers[:2])
    assert second is first and torch.equal(other(x), before)
    shaken(other)
    assert torch.equal(model(x), before)
