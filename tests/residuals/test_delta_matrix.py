import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from shared import CLOSE, WIDTH, normal, shaken, sublayer
from torch.testing import assert_close

from geolab.residuals import DeltaMatrix
from geolab.residuals.delta import VALUES
from geolab.residuals.delta_matrix import COMPRESSORS, EXPANSIONS, causal_convolution

CONTROLS = {"delta": {}, "write-only": {"erase": False}, "overwrite": {"beta_fixed": 1.0},
            "additive": {"erase": False, "normalize": False, "beta_fixed": 1.0}}
every_compressor = pytest.mark.parametrize("compress", COMPRESSORS)


def residual(**options):
    torch.manual_seed(3)
    return DeltaMatrix(WIDTH, **options).double()


def some_state(channels=4, length=6):
    return normal(2, length, WIDTH, channels, seed=1)


# ---------------------------------------------------------------- the equation, by hand

def compressed_by_hand(w, prefix, X, t):
    """x_t (D,) from the states up to t, X (T, D, d_v), in sums of single numbers."""
    D, channels = X.shape[1:]
    kernel = w[f"{prefix}.kernel"]
    x = np.zeros(D)
    if len(kernel) == D * channels:                                  # over positions
        taps = kernel.shape[1]
        for i, j, s in np.ndindex(D, channels, taps):
            if t - s >= 0:
                weight = w[f"{prefix}.read"][j] * kernel[i * channels + j, taps - 1 - s]
                x[i] += weight * X[t - s, i, j]
    elif f"{prefix}.read" not in w:  # the paper's weights of each feature
        for i, j in np.ndindex(D, channels):
            x[i] += kernel[i, j] * X[t, i, j]
    else:  # the code's kernel over the channels, then the sum
        left = (channels - 1) // 2
        for i, out, s in np.ndindex(D, channels, channels):
            if 0 <= out + s - left < channels:
                x[i] += w[f"{prefix}.read"][out] * kernel[i, s] * X[t, i, out + s - left]
    return x


def step_by_hand(r, X, x, h):
    """One token: X + β k (vᵀ − kᵀX), from the parameters and plain formulas, k-Map, linear gate."""
    w = {name: p.detach().numpy() for name, p in r.named_parameters()}
    c = x / np.sqrt(np.mean(x**2) + 1e-5)
    k = h / np.sqrt(h @ h + r.eps**2) if r.normalize else h
    if r.value == "constant":
        v = np.full(r.channels, 2.0)
    else:
        logit = w["value_head.weight"] @ (c if r.value == "normed-linear"
                                          else x) + w["value_head.bias"]
        sigmoid = 1 / (1 + np.exp(-logit))
        v = {"sigmoid": sigmoid, "sigmoid4": 4 * sigmoid}.get(r.value, logit)
    beta = r.beta_fixed if r.beta_fixed is not None else \
        2 / (1 + math.exp(-(w["beta_head.weight"] @ c + w["beta_head.bias"])[0]))
    return X + beta * np.outer(k, v - (k @ X if r.erase else 0))


@pytest.mark.parametrize("options", [*({"compress": compress} for compress in COMPRESSORS),
                                     *CONTROLS.values(), *({"value": value} for value in VALUES),
                                     {"channels": 2}, {"kernel": 7}], ids=str)
def test_forward_is_the_equation_written_out(options):
    r, mix = shaken(residual(**options)), sublayer()
    X = some_state(channels=r.channels)
    w = {name: p.detach().numpy() for name, p in r.named_parameters()}
    step, out = r(X, mix), r.reduce(X)
    for b, t in np.ndindex(2, 6):
        x = compressed_by_hand(w, "compressor", X[b].numpy(), t)
        h = mix(torch.from_numpy(x)).detach().numpy()
        assert_close(step[b, t], torch.from_numpy(step_by_hand(r, X[b, t].numpy(), x, h)), **CLOSE)
        assert_close(out[b, t], torch.from_numpy(compressed_by_hand(w, "readout", X[b].numpy(), t)),
                     **CLOSE)


def test_the_v_map_writes_what_the_sublayer_gives_along_a_direction_from_the_input():
    r, mix, x = shaken(residual(map="v", value="linear", eps=0.0)), sublayer(), normal(2, 6, WIDTH)
    k, v, beta = r.coefficients(x, mix)
    assert_close(v, mix(x) @ r.value_head.weight.T + r.value_head.bias, **CLOSE)
    assert_close(k, F.normalize(r.direction_head(x), dim=-1), **CLOSE)
    context = F.rms_norm(x, (WIDTH,), eps=1e-5)
    assert_close(beta, 2 * torch.sigmoid(r.beta_head(context)).squeeze(-1), **CLOSE)


# ---------------------------------------------------------------- convolutions

@given(seed=st.integers(0, 2**31), length=st.integers(1, 9), taps=st.integers(1, 5),
       outputs=st.integers(1, 3))
def test_causal_convolution_is_its_sum_at_every_length(seed, length, taps, outputs):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(2, length, 3, dtype=torch.float64, generator=generator)
    kernel = torch.randn(3 * outputs, taps, dtype=torch.float64, generator=generator)
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

    r = shaken(residual(**options))
    assert r.reach == max(positions(r.compressor, some_state(length=9)),
                          positions(r.expand, normal(2, 9, WIDTH)))


# ---------------------------------------------------------------- step 0

@every_compressor
@pytest.mark.parametrize("expand", EXPANSIONS)
@pytest.mark.parametrize("channels", [2, 4, 5])
def test_at_identity_kernels_the_first_sublayer_reads_the_input(compress, expand, channels):
    r, x = residual(compress=compress, expand=expand, channels=channels), normal(2, 6, WIDTH)
    state = r.expand(x)
    assert_close(state, x.unsqueeze(-1).repeat(1, 1, 1, channels), rtol=0, atol=0)
    assert_close(r.compressor(state), x, rtol=1e-7, atol=1e-12)  # 1/d_v starts in float32
    assert_close(r.reduce(state), x, rtol=1e-7, atol=1e-12)


@every_compressor
def test_published_kernels_have_the_published_spread(compress):
    torch.manual_seed(0)
    kernel = DeltaMatrix(2048, compress=compress, kernel_init="published").compressor.kernel
    assert kernel.std().item() == pytest.approx(0.5 / math.sqrt(2048),
                                                rel=4 / math.sqrt(2 * kernel.numel()))
