"""The delta operator and its updates against their equations, at any size of the numbers."""

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from shared import normal
from torch.testing import assert_close

from geolab.operators import (
    delta_matrix,
    delta_shortcut,
    delta_update,
    diagonal_update,
    householder_matrix,
    reflect,
    unit_direction,
)

coordinates = st.floats(-1, 1)
betas = st.floats(-1, 3)  # the papers use [0, 2] only
magnitudes = st.floats(-6, 6).map(lambda power: 10**power)
dtypes = st.sampled_from([torch.float32, torch.float64])


def near(k, size=1.0):
    """Tolerance for rounding: every law here is a sum of d products, with terms up to `size`.

    Numbers below `tiny` have fewer digits.
    """
    info = torch.finfo(k.dtype)
    return dict(rtol=0, atol=16 * (k.shape[-1] + 1) * (info.eps * float(size) + info.tiny),
                check_dtype=False)


def largest(tensor):
    return tensor.abs().max().item()


@st.composite
def tensors(draw, *shape, dtype=torch.float64, least=0.0):
    """Numbers up to a size from 1e-6 to 1e6.

    Along the last axis they are vectors, each longer than `least` times that size.
    """
    numbers = arrays(np.float64, shape, elements=coordinates).map(torch.as_tensor)
    numbers = draw(numbers.filter(lambda h: not least or (h.norm(dim=-1) > least).all()))
    return (draw(magnitudes) * numbers).to(dtype)


@st.composite
def updates(draw):
    """A state X, its direction k, value v and β, with up to two leading axes.

    The state is a vector or a matrix, and k has any length.
    """
    lead = draw(st.sampled_from([(), (2,), (2, 3)]))
    d, dtype = draw(st.integers(1, 5)), draw(dtypes)
    inner = draw(st.sampled_from([(), (1,), (4,)]))
    beta = torch.as_tensor(draw(arrays(np.float64, lead, elements=betas))).to(dtype)
    return (draw(tensors(*lead, d, *inner, dtype=dtype)),
            draw(tensors(*lead, d, dtype=dtype, least=1e-3)),
            draw(tensors(*lead, *inner, dtype=dtype)), beta)


def update(x, k, v, beta, erase=True, eps=None):
    """The definition in float64: X + β k (vᵀ − kᵀX)."""
    x, k, v, beta = (t.double() for t in (x, k, v, beta))
    if eps is not None:
        k = k / (k.square().sum(-1, keepdim=True) + eps**2).sqrt()
    matrix = x if x.ndim > k.ndim else x.unsqueeze(-1)
    v = v if x.ndim > k.ndim else v.unsqueeze(-1)
    if erase:
        v = v - torch.einsum("...i,...ij->...j", k, matrix)
    updated = matrix + torch.einsum("...,...i,...j->...ij", beta, k, v)
    return updated if x.ndim > k.ndim else updated.squeeze(-1)


@given(dtypes.flatmap(lambda dtype: tensors(3, 5, dtype=dtype, least=1e-3)),
       st.one_of(st.just(0.0), st.floats(1e-5, 1)))
def test_a_direction_is_divided_by_its_guarded_length(h, eps):
    k, wide = unit_direction(h, eps), h.double()
    assert_close(k, wide / (wide.square().sum(-1, keepdim=True) + eps**2).sqrt(), **near(k))


def test_the_guard_keeps_value_and_gradient_finite_at_zero():
    h = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    k = unit_direction(h, eps=1e-5)
    k.sum().backward()
    assert_close(k.detach(), torch.zeros(3, dtype=torch.float64), rtol=0, atol=0)
    assert_close(h.grad, torch.full((3,), 1e5, dtype=torch.float64))


@given(dtypes.flatmap(lambda dtype: tensors(2, 5, dtype=dtype, least=1e-3)), betas, magnitudes)
def test_the_matrix_is_the_identity_minus_a_share_of_the_projection(h, beta, size):
    k = unit_direction(h[0])
    wide, x = k.double(), size * h[1]
    a = delta_matrix(k, beta)
    assert a.dtype == k.dtype
    assert_close(a, torch.eye(5) - beta * torch.outer(wide, wide), **near(k))
    assert_close(delta_matrix(k, 2), householder_matrix(k), rtol=0, atol=0)
    assert_close(reflect(x, k), x.double() - 2 * (wide @ x.double()) * wide, **near(k, x.norm()))


@given(updates(), st.booleans(), st.one_of(st.none(), st.floats(0, 1)))
def test_an_update_is_its_equation(case, erase, eps):
    x, k, v, _ = case
    length = 1.0 if eps is not None else k.norm(dim=-1).max().item()
    size = largest(x) * (1 + length**2) + largest(v) * length
    updated = delta_update(*case, erase, eps)
    assert (updated.shape, updated.dtype) == (x.shape, x.dtype)
    assert_close(updated, update(*case, erase, eps), **near(k, size))


@pytest.mark.parametrize("eps", [None, 0.0, 1e-12, 0.5])
@pytest.mark.parametrize("states, directions", [
    ((2, 5, 3), (2, 1, 3)), ((1, 5, 3), (2, 1, 3)), ((2, 1, 4, 3), (2, 1, 1, 3))])
def test_directions_broadcast_over_states(states, directions, eps):
    x, k, beta = normal(*states), normal(*directions, seed=1), normal(*directions[:-1], seed=2)
    erase_alone = partial(delta_shortcut, eps=eps)
    assert_close(erase_alone(x, k, beta), update(x, k, torch.zeros(()).double(), beta, eps=eps))
    leaves = [t.requires_grad_() for t in (x, k, beta)]
    assert torch.autograd.gradcheck(erase_alone, leaves)


@pytest.mark.parametrize("inner", [(), (3,)])
def test_numbers_stand_for_tensors(inner):
    x, k = normal(2, 5, *inner), unit_direction(normal(2, 5, seed=1))
    value = torch.full((2, *inner), 0.3, dtype=torch.float64)
    beta = torch.full((2,), 1.7, dtype=torch.float64)
    assert_close(delta_update(x, k, 0.3, 1.7), delta_update(x, k, value, beta), rtol=0, atol=0)
    assert_close(delta_matrix(k, 1.7), delta_matrix(k, beta), rtol=0, atol=0)


@given(st.integers(0, 2**16), dtypes, magnitudes, magnitudes)
def test_the_diagonal_update_scales_each_feature_and_adds_its_share(seed, dtype, size, share):
    x, h, beta = (normal(2, 3, 4, seed=seed + k, dtype=dtype) for k in range(3))
    case = size * x, share * h, beta, normal(seed=seed + 3, dtype=dtype)
    updated = diagonal_update(*case)
    x, h, beta, alpha = (t.double() for t in case)
    # the sum of all terms, each of which is rounded a few times
    terms = (1 + (alpha * beta).abs()) * x.abs() + (beta * h).abs()
    assert updated.dtype == dtype
    error = updated - ((1 - alpha * beta) * x + beta * h)
    assert (error.abs() <= 4 * torch.finfo(dtype).eps * terms).all()
