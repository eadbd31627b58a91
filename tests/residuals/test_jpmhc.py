import numpy as np
import pytest
import torch
from shared import CLOSE, STREAMS, WIDTH, shaken, sublayer, vectors
from torch.testing import assert_close

from geolab.residuals import JPmHC, make_residual
from geolab.residuals.mixing import mixes

every_retraction = pytest.mark.parametrize("retraction", ["iterated", "exact"])


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def by_hand(residual, x, mix):
    """One token, n streams: the paper's equations in numpy; the exact retraction by a solve."""
    n, w = len(x), {name: p.detach().numpy() for name, p in residual.named_parameters()}
    flat = x.reshape(-1)
    if "norm.weight" in w:
        flat = (flat - flat.mean()) / np.sqrt(flat.var() + 1e-5)
        normed = w["norm.weight"] * flat + w["norm.bias"]
    else:
        normed = flat / np.sqrt(np.mean(flat**2) + 1e-5)
    read, write, res = (w["generate.weight"] @ normed + w["generate.bias"]).reshape(3, n, n)
    skew, eye, alpha = res - res.T, np.eye(n), residual.turn.alpha
    if residual.retraction == "exact":
        y = np.linalg.solve(eye - alpha / 2 * skew, eye + alpha / 2 * skew)
    else:
        y = eye + alpha * skew
        for _ in range(residual.turn.steps):
            y = eye + alpha / 2 * skew @ (eye + y)
    h_pre = softmax(read / residual.turn.temperature, 1)
    h_post = softmax(write / residual.turn.temperature, 0)
    h = mix(torch.from_numpy((h_pre @ x).mean(0))).detach().numpy()
    return y @ x + w.get("scale", 1.0) * np.outer(h_post.sum(1), h)


@pytest.mark.parametrize("options",
                         [{}, {"streams": 3, "steps": 4, "alpha": 0.5, "temperature": 2.0},
                          {"retraction": "exact"}, {"retraction": "exact", "alpha": 3.0},
                          {"norm": "rms"}, {"ends": "split", "write_scale": False}])
def test_forward_is_the_equation_written_out(options):
    residual = shaken(JPmHC(WIDTH, 2, 6, **options).double())
    mix, x = sublayer(), vectors(2, 5, residual.streams, WIDTH)
    step = residual(x, mix)
    for b, t in np.ndindex(2, 5):
        assert_close(step[b, t], torch.from_numpy(by_hand(residual, x[b, t].numpy(), mix)),
                     rtol=1e-12, atol=1e-12)


@every_retraction
def test_coefficients_at_step_zero(retraction):
    residual = JPmHC(WIDTH, retraction=retraction)
    read, write, mix = residual.coefficients(torch.randn(2, 3, STREAMS, WIDTH))
    assert_close(read, torch.full((2, 3, STREAMS), 1 / STREAMS), rtol=0, atol=0)
    assert_close(write, torch.ones(2, 3, STREAMS), rtol=0, atol=0)
    assert_close(mix, torch.eye(STREAMS).expand(2, 3, -1, -1), rtol=0, atol=0)


def test_an_entry_scales_copies_and_an_exit_sums_the_streams():
    alone, x = shaken(JPmHC(WIDTH).double()), vectors(2, 5, WIDTH)
    assert_close(alone.expand(x), torch.stack([x * e for e in alone.entry()], dim=-2), **CLOSE)
    state = vectors(2, 5, STREAMS, WIDTH)
    left = sum(state[..., i, :] * weight for i, weight in enumerate(alone.exit()))
    assert_close(alone.reduce(state), left, **CLOSE)


# ---------------------------------------------------------------- another mix than the paper's

@pytest.mark.parametrize("mix", mixes())
def test_another_mix_is_doubly_stochastic_and_starts_near_the_identity(mix):
    residual = JPmHC(WIDTH, 2, 6, mix=mix).double()
    state = vectors(2, 5, STREAMS, WIDTH)
    near = residual.coefficients(state).mix
    assert_close(near, torch.eye(STREAMS).to(near).expand_as(near), rtol=0, atol=1e-2)
    matrix = shaken(residual).coefficients(state).mix
    for axis in (-2, -1):  # Sinkhorn's columns are exact in the limit only
        assert_close(matrix.sum(axis), torch.ones(2, 5, STREAMS).double(), rtol=0,
                     atol=0.05 if mix == "sinkhorn" else 1e-10)
    spectral = torch.linalg.matrix_norm(matrix, 2)
    assert spectral.max() < 1.05  # it never lengthens, and shortens where Y would not
    assert torch.linalg.svdvals(matrix)[..., -1].min() < 0.99


@pytest.mark.parametrize("name", ["jpmhc", "benchmark-jpmhc"])
def test_a_mix_keeps_its_start(name):
    residual = make_residual(name, WIDTH, mix="permutations")
    assert residual.generate.bias[-24:].tolist() == [8.0, *[0.0] * 23]
    residual.reset_parameters()
    assert residual.generate.bias[-24:].tolist() == [8.0, *[0.0] * 23]
