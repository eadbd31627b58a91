import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from shared import CLOSE, normal
from torch import nn
from torch.testing import assert_close

from geolab.probes.shortcut import shortcut_matrix
from geolab.residuals import Mixer

WIDTH, N, T = 6, 4, 3


def make(lively=False, **options):
    torch.manual_seed(3)
    residual = Mixer(WIDTH, hidden=8, **options).double()
    if lively:
        for p in residual.parameters():
            nn.init.normal_(p, std=0.7)
    return residual


def some_state(seed=0):
    return normal(2, T, N, WIDTH, seed=seed)


def sublayer(x):
    return torch.tanh(x.flip(-1))


@pytest.mark.parametrize("options", [
    {}, {"norm_eps": 0.1}, {"norm": "layer"}, {"norm": "layer", "norm_eps": 0.1},
    {"router_reads": "mixed"}, {"router_reads": "mixed", "norm": "layer"}], ids=str)
def test_forward_is_the_equation_written_out(options):
    residual, x = make(lively=True, **options), some_state()
    layer = residual.norm == "layer"
    eps = options.get("norm_eps", 1e-5 if layer else torch.finfo(torch.float64).eps)

    def norm(flat):
        flat = flat - flat.mean() if layer else flat
        return flat / (flat.square().mean() + eps).sqrt()

    step = residual(x, sublayer)
    for b in range(2):
        for t in range(T):
            flat = x[b, t].flatten()
            down, up = residual.generator[0].down, residual.generator[1]
            inner = down.weight @ norm(flat) + down.bias
            r = up.weight @ (inner * (1 + torch.erf(inner / math.sqrt(2))) / 2) + up.bias
            u, v, beta, k, gate = r[:4], r[4:8], r[8], r[9:-1], r[-1]
            half = torch.log1p(beta.exp()) / 2 * (torch.outer(u, v) - torch.outer(v, u))
            one = torch.eye(N).double()
            rotation, k = torch.linalg.solve(one + half, one - half), k / k.norm()
            gate = 1 / (1 + (-gate).exp())
            z = gate * rotation @ x[b, t] + (1 - gate) * (flat - 2 * (k @ flat) * k).view(N, WIDTH)
            read = z.flatten() if residual.router_reads == "mixed" else flat
            logits = residual.router.weight @ norm(read) + residual.router.bias
            pre, post = logits.view(2, N, N)
            y = sublayer((pre.softmax(dim=1) @ z).mean(0))
            assert_close(step[b, t], z + post.softmax(dim=0) @ y.expand(N, -1), **CLOSE)


@given(seed=st.integers(0, 2**31), scale=st.floats(1e-2, 30))
def test_the_smallest_singular_value_is_the_distance_of_the_gate_from_one_half(seed, scale):
    found = make(lively=True).coefficients(scale * some_state(seed))
    values = torch.linalg.svdvals(shortcut_matrix(found))
    assert_close(values[..., -1], (2 * found.gate - 1).abs(), rtol=0, atol=1e-10)
    assert values.max() < 1 + 1e-12


def test_it_starts_near_the_identity_or_as_published_where_it_is_singular():
    assert_close(make().coefficients(some_state()).gate,
                 torch.full((2, T), 1 / (1 + math.exp(-3)), dtype=torch.float64), rtol=0, atol=1e-6)
    published = make(start="published").coefficients(some_state())
    assert torch.linalg.svdvals(published.shortcut)[..., -1].max() < 0.02
