"""Autocast doesn't change what happens inside an operator.

A matrix that an operator makes stays on its manifold, and a state keeps its dtype.
"""

import pytest
import torch
from torch.testing import assert_close

from geolab.operators import (
    blend,
    cayley_iterated,
    cayley_rank2,
    cayley_skew4,
    delta_shortcut,
    delta_update,
    diagonal_update,
    gated_matrix,
    gated_mix,
    geodesic,
    rms_linear,
    sinkhorn,
    skew,
    stream_mix,
    stream_mix_write,
    stream_read,
    unit_direction,
)

HALF, NARROW = torch.bfloat16, (torch.bfloat16, torch.float16)
TIGHT = dict(rtol=0, atol=1e-6)


def normal(*shape, seed=0, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def half():
    return torch.autocast("cpu", HALF)


def rotations(dtype):
    u, v = normal(50, 4, dtype=dtype), normal(50, 4, seed=1, dtype=dtype)
    w = skew(normal(50, 4, 4, dtype=dtype))
    beta = torch.ones(50, dtype=dtype)
    gate = normal(50, seed=2).sigmoid().to(dtype)
    return {"rank 2, n = 4": lambda: cayley_rank2(u, v, beta),
            "rank 2, n = 3": lambda: cayley_rank2(u[:, :3], v[:, :3], beta),
            "skew 4": lambda: cayley_skew4(w), "iterated": lambda: cayley_iterated(w / 30),
            "geodesic": lambda: geodesic(cayley_skew4(w), unit_direction(u), gate)}


@pytest.mark.parametrize("dtype", [torch.float32, *NARROW])
@pytest.mark.parametrize("name", list(rotations(HALF)))
def test_a_rotation_is_orthogonal_under_autocast(name, dtype):
    with half():
        q = rotations(dtype)[name]()
    assert q.dtype == torch.float32
    # a product of two rotations rounds twice
    assert_close(q.mT @ q, torch.eye(q.shape[-1]).expand_as(q), rtol=0, atol=2e-6)


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


def applications(state_dtype, dtype):
    x, vector = normal(3, 4, 8, dtype=state_dtype), normal(3, 8, dtype=state_dtype)
    matrix, weights = normal(3, 4, 4, dtype=dtype), normal(3, 4, seed=1, dtype=dtype)
    k, beta = normal(3, 8, seed=2, dtype=dtype), normal(3, seed=3, dtype=dtype)
    matrix_state = normal(3, 8, 4, dtype=state_dtype)
    return {"read": lambda: stream_read(x, weights), "mix": lambda: stream_mix(x, matrix),
            "mix and write": lambda: stream_mix_write(x, matrix, weights, k),
            "delta": lambda: delta_update(vector, k, beta, beta),
            "shortcut": lambda: delta_shortcut(vector, k, beta),
            "one for all": lambda: delta_shortcut(vector, k[:1], beta[:1]),
            "diagonal": lambda: diagonal_update(vector, k, k, beta[0]),
            "matrix delta": lambda: delta_update(matrix_state, k, value=weights, beta=beta)}


@pytest.mark.parametrize("dtype", [torch.float32, HALF])
@pytest.mark.parametrize("name", list(applications(HALF, HALF)))
def test_a_state_keeps_its_dtype_and_precision_under_autocast(name, dtype):
    exact = applications(torch.float32, dtype)[name]()
    with half():
        # all arithmetic is in float32
        assert_close(applications(torch.float32, dtype)[name](), exact, rtol=0, atol=0)
        assert applications(HALF, dtype)[name]().dtype == HALF
    assert exact.dtype == torch.float32


def test_gradients_have_the_dtype_of_their_inputs():
    w = normal(5, 4, 4, dtype=HALF).requires_grad_()
    with half():
        loss = (cayley_skew4(skew(w)) * normal(5, 4, 4)).sum()
    loss.backward()
    wide = w.detach().float().requires_grad_()
    (cayley_skew4(skew(wide)) * normal(5, 4, 4)).sum().backward()
    assert w.grad.dtype == HALF
    assert_close(w.grad.float(), wide.grad, rtol=0.05, atol=0.05)


def test_operators_take_tensors_without_data():
    assert sinkhorn(torch.empty(2, 4, 4, device="meta")).shape == (2, 4, 4)
    assert stream_mix(torch.empty(2, 4, 8, device="meta"),
                      torch.empty(4, 4, device="meta")).device.type == "meta"


def test_every_operator_compiles_in_one_process():
    # torch.compile limits recompilations per code object. Operators that share a wrapper would
    # exceed the limit.
    k, q = unit_direction(normal(3, 4)), cayley_skew4(normal(3, 4, 4))
    gate = normal(3, seed=2).sigmoid()
    x, h = normal(3, 4, 8), normal(3, 8)
    calls = [(unit_direction, h), (delta_shortcut, h, h, gate), (delta_update, h, h, gate, gate),
             (diagonal_update, h, h, h, gate[0]), (blend, q, -q, gate), (gated_matrix, q, k, gate),
             (gated_mix, x, k, k + 1, gate, k, gate), (geodesic, q, k, gate), (sinkhorn, q),
             (cayley_rank2, k, k + 1, gate), (cayley_skew4, q), (cayley_iterated, q),
             (rms_linear, h, h, 1e-6), (stream_read, x, k), (stream_mix, x, q),
             (stream_mix_write, x, q, k, h)]
    torch.compiler.reset()
    # a second compilation of the same code raises
    with torch._dynamo.config.patch(recompile_limit=1):
        for operator, *given in calls:
            compiled = torch.compile(operator, fullgraph=True, backend="eager")
            assert_close(compiled(*given), operator(*given), **TIGHT)
