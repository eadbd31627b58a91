"""Autocast doesn't reach into an operator: what it makes stays on its manifold, and a state keeps its dtype."""

import pytest
import torch
from torch.testing import assert_close

from geolab.operators import (blend, cayley_iterated, cayley_rank2, cayley_skew4, delta_shortcut, delta_update, diagonal_update, full_precision,
                              geodesic, in_state_dtype, outer, sinkhorn, skew, stream_mix, stream_mix_write, stream_read, unit_direction)

HALF, NARROW = torch.bfloat16, (torch.bfloat16, torch.float16)
TIGHT = dict(rtol=0, atol=1e-6)


def normal(*shape, seed=0, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def half():
    return torch.autocast("cpu", HALF)


def rotations(dtype):
    u, v, w = normal(50, 4, dtype=dtype), normal(50, 4, seed=1, dtype=dtype), skew(normal(50, 4, 4, dtype=dtype))
    beta = torch.ones(50, dtype=dtype)
    return {"rank 2, n = 4": lambda: cayley_rank2(u, v, beta), "rank 2, n = 3": lambda: cayley_rank2(u[:, :3], v[:, :3], beta),
            "skew 4": lambda: cayley_skew4(w), "iterated": lambda: cayley_iterated(w / 30),
            "geodesic": lambda: geodesic(cayley_skew4(w), unit_direction(u), normal(50, seed=2).sigmoid().to(dtype))}


@pytest.mark.parametrize("dtype", [torch.float32, *NARROW])
@pytest.mark.parametrize("name", list(rotations(HALF)))
def test_a_rotation_is_orthogonal_under_autocast(name, dtype):
    with half():
        q = rotations(dtype)[name]()
    assert q.dtype == torch.float32
    assert_close(q.mT @ q, torch.eye(q.shape[-1]).expand_as(q), rtol=0, atol=2e-6)  # a product of two rotations rounds twice


@pytest.mark.parametrize("dtype", [torch.float32, *NARROW])
@pytest.mark.parametrize("form", ["dual", "log"])
def test_sinkhorn_is_doubly_stochastic_under_autocast(dtype, form):
    with half():
        p = sinkhorn(normal(50, 4, 4, dtype=dtype), 100, form=form)
    assert p.dtype == torch.float32
    for axis in (-1, -2):
        assert_close(p.sum(axis), torch.ones(50, 4), **TIGHT)


@pytest.mark.parametrize("dtype", [torch.float32, *NARROW])
def test_a_direction_has_unit_length_under_autocast(dtype):
    with half():
        k = unit_direction(normal(50, 64, dtype=dtype))
    assert_close(torch.linalg.vector_norm(k, dim=-1), torch.ones(50), **TIGHT)


@pytest.mark.parametrize("dtype", [torch.float32, *NARROW])
def test_a_blend_of_rotations_takes_a_narrow_gate(dtype):
    with half():
        q, gate = cayley_skew4(skew(normal(50, 4, 4))), torch.ones(50, dtype=dtype)
        assert_close(blend(q, -q, gate), q, **TIGHT)


def test_an_outer_product_keeps_its_precision_under_autocast():
    a, b = normal(50, 4), normal(50, 4, seed=1)
    with half():
        assert_close(outer(a, b), torch.einsum("ti,tj->tij", a, b).flatten(-2), rtol=0, atol=0)


def applications(state_dtype, dtype):
    x, matrix, weights = normal(3, 4, 8, dtype=state_dtype), normal(3, 4, 4, dtype=dtype), normal(3, 4, seed=1, dtype=dtype)
    vector, k, beta = normal(3, 8, dtype=state_dtype), normal(3, 8, seed=2, dtype=dtype), normal(3, seed=3, dtype=dtype)
    matrix_state = normal(3, 8, 4, dtype=state_dtype)
    return {"read": lambda: stream_read(x, weights), "mix": lambda: stream_mix(x, matrix),
            "mix and write": lambda: stream_mix_write(x, matrix, weights, k), "delta": lambda: delta_update(vector, k, beta, beta),
            "shortcut": lambda: delta_shortcut(vector, k, beta), "one for all": lambda: delta_shortcut(vector, k[:1], beta[:1]),
            "diagonal": lambda: diagonal_update(vector, k, k, beta[0]),
            "matrix delta": lambda: delta_update(matrix_state, k, value=weights, beta=beta)}


@pytest.mark.parametrize("dtype", [torch.float32, HALF])
@pytest.mark.parametrize("name", list(applications(HALF, HALF)))
def test_a_state_keeps_its_dtype_and_precision_under_autocast(name, dtype):
    exact = applications(torch.float32, dtype)[name]()
    with half():
        assert_close(applications(torch.float32, dtype)[name](), exact, rtol=0, atol=0)  # float32 throughout
        assert applications(HALF, dtype)[name]().dtype == HALF
    assert exact.dtype == torch.float32


def test_gradients_come_back_in_the_dtype_of_what_they_belong_to():
    w = normal(5, 4, 4, dtype=HALF).requires_grad_()
    with half():
        loss = (cayley_skew4(skew(w)) * normal(5, 4, 4)).sum()
    loss.backward()
    wide = w.detach().float().requires_grad_()
    (cayley_skew4(skew(wide)) * normal(5, 4, 4)).sum().backward()
    assert w.grad.dtype == HALF
    assert_close(w.grad.float(), wide.grad, rtol=0.05, atol=0.05)


def test_a_tensor_without_data_passes():
    assert sinkhorn(torch.empty(2, 4, 4, device="meta")).shape == (2, 4, 4)
    assert stream_mix(torch.empty(2, 4, 8, device="meta"), torch.empty(4, 4, device="meta")).device.type == "meta"


@pytest.mark.parametrize("wrapper", [full_precision, in_state_dtype])
def test_no_two_operators_share_the_code_that_recompilations_are_counted_by(wrapper):
    def one(x): return x
    def other(x): return x
    assert wrapper(one).__code__ != wrapper(other).__code__
