import math

import pytest
import torch
from shared import CLOSE, normal
from torch import nn
from torch.testing import assert_close

from geolab.operators import delta_matrix, delta_shortcut
from geolab.residuals import BenchmarkDelta
from geolab.residuals.benchmark import EPS, erase_everywhere
from geolab.residuals.pooling import POOLS, pool

every_pool = pytest.mark.parametrize("how", POOLS)


def residual(how, width=8):
    torch.manual_seed(3)
    return BenchmarkDelta(width, pool=how).double()


def two_layers(made, x, rows, head):
    hidden = x @ made.hidden.down.weight[rows].T + made.hidden.down.bias[rows]
    return (hidden * (1 + torch.erf(hidden / math.sqrt(2))) / 2) @ head.weight.T + head.bias


@every_pool
def test_forward_is_the_equation_written_out(how):
    made, x = residual(how), normal(2, 5, 8)
    for p in made.parameters():
        nn.init.normal_(p)
    pooled = pool(x, how).expand_as(x)
    step = made(x, torch.cos)
    for b in range(2):
        for t in range(5):
            k = two_layers(made, pooled[b, t], slice(0, 2), made.direction_head)
            k = k / k.norm()
            beta = 2 / (1 + (-two_layers(made, pooled[b, t], slice(2, 4), made.beta_head)).exp())
            z = x[b, t] - beta * k * (k @ x[b, t])
            assert_close(step[b, t], z + torch.cos(z), **CLOSE)


def test_one_erasure_for_all_positions_is_the_delta_shortcut():
    x, h, beta = normal(2, 5, 8), torch.randn(2, 1, 8).double(), torch.rand(2, 1).double()
    k = h / (h.square().sum(-1, keepdim=True) + EPS**2).sqrt()
    assert_close(erase_everywhere(x, k, beta), delta_shortcut(x, h, beta, eps=EPS), **CLOSE)


@every_pool
def test_a_direction_of_length_0_erases_nothing_and_has_a_gradient(how):
    made, x = residual(how), normal(2, 5, 8)
    for p in made.direction_head.parameters():
        nn.init.zeros_(p)
    z = made(x, torch.zeros_like)
    assert torch.equal(z, x)
    z.sum().backward()
    assert all(p.grad.isfinite().all() for p in made.parameters())


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-5), (torch.bfloat16, 0.1)])
def test_an_erasure_keeps_the_dtype_of_the_state_and_leaves_autocast(dtype, tolerance):
    x, k = normal(2, 5, 8), torch.nn.functional.normalize(torch.randn(2, 1, 8).double(), dim=-1)
    exact = erase_everywhere(x, k, torch.ones(2, 1))
    with torch.autocast("cpu", torch.bfloat16):
        z = erase_everywhere(x.to(dtype), k.float(), torch.ones(2, 1))
    assert z.dtype == dtype and (z.double() - exact).abs().max() < tolerance


@every_pool
def test_starts_next_to_a_projection_not_to_the_identity(how):
    k, beta = residual(how, width=128).coefficients(normal(2, 5, 128))
    assert (beta - 1).abs().max() < 0.03
    values = torch.linalg.svdvals(delta_matrix(k, beta))
    assert values[..., -1].max() < 0.03 and values[..., -2].min() > 1 - 1e-12
