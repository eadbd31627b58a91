import math
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch.testing import assert_close

from geolab.operators import (
    delta_matrix,
    delta_shortcut,
    delta_update,
    diagonal_update,
    householder_matrix,
    unit_direction,
)

CLOSE = dict(rtol=0, atol=1e-12)
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
def directions(draw, most=8):
    """k of unit length, in 1 to `most` dimensions."""
    return unit_direction(draw(tensors(draw(st.integers(1, most)), dtype=draw(dtypes), least=1e-3)))


@st.composite
def updates(draw, channels):
    """A state X, its direction k, value v and β, with up to two leading axes.

    The state is a vector where channels is 0.
    """
    lead = draw(st.sampled_from([(), (2,), (2, 3)]))
    d, dtype = draw(st.integers(1, 5)), draw(dtypes)
    inner = (draw(st.integers(1, channels)),) if channels else ()
    beta = torch.as_tensor(draw(arrays(np.float64, lead, elements=betas))).to(dtype)
    return (draw(tensors(*lead, d, *inner, dtype=dtype)),
            unit_direction(draw(tensors(*lead, d, dtype=dtype, least=1e-3))),
            draw(tensors(*lead, *inner, dtype=dtype)), beta)


def rounding(case):
    """Tolerance for an update.

    k is unit and |β| is at most 3, so no term exceeds a few times the largest number in X and v.
    """
    x, k, v, _ = case
    return near(k, largest(x) + largest(v))


def wide(case):
    return [t.double() for t in case]


# ---------------------------------------------------------------- unit_direction

@given(dtypes.flatmap(lambda dtype: tensors(3, 5, dtype=dtype, least=1e-3)), magnitudes)
def test_without_a_guard_a_direction_has_unit_length_and_the_scale_of_h_cancels(h, scale):
    k = unit_direction(h)
    assert_close(k.norm(dim=-1), torch.ones(3), **near(k))
    assert_close(unit_direction(scale * h), k, **near(k))
    assert (k * h).sum(-1).min() > 0  # it points where h points


@given(dtypes.flatmap(lambda dtype: tensors(5, dtype=dtype)), st.floats(1e-5, 1))
def test_unit_direction_with_a_guard_is_the_stated_formula(h, eps):
    k, exact = unit_direction(h, eps), h.double()
    assert_close(k, exact / math.sqrt((exact @ exact).item() + eps**2), **near(k))
    assert k.norm() < 1 + 4 * torch.finfo(k.dtype).eps


def test_the_guard_keeps_value_and_gradient_finite_at_zero():
    h = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    k = unit_direction(h, eps=1e-5)
    k.sum().backward()
    assert_close(k.detach(), torch.zeros(3, dtype=torch.float64), rtol=0, atol=0)
    assert_close(h.grad, torch.full((3,), 1e5, dtype=torch.float64))


# ---------------------------------------------------------------- the matrix

@given(directions(), betas)
def test_the_matrix_is_the_identity_minus_a_share_of_the_projection(k, beta):
    a, wide = delta_matrix(k, beta), k.double()
    assert a.dtype == k.dtype
    assert_close(a, torch.eye(len(k)) - beta * torch.outer(wide, wide), **near(k))
    assert_close(delta_matrix(k, 2), householder_matrix(k), rtol=0, atol=0)


# ---------------------------------------------------------------- the update

@given(updates(channels=0))
def test_update_of_a_vector_state_is_a_x_plus_beta_v_k(case):
    x, k, v, beta = case
    kept = (delta_matrix(k, beta).double() @ x.double().unsqueeze(-1)).squeeze(-1)
    updated = delta_update(x, k, v, beta)
    assert (updated.shape, updated.dtype) == (x.shape, x.dtype)
    assert_close(updated, kept + (beta * v).double().unsqueeze(-1) * k.double(), **rounding(case))
    assert_close(delta_shortcut(x, k, beta), kept, **rounding(case))


@given(updates(channels=4))
def test_update_of_a_matrix_state_is_a_x_plus_beta_k_v(case):
    x, k, v, beta = case
    kept = delta_matrix(k, beta).double() @ x.double()
    write = torch.einsum("...,...i,...j->...ij", *wide((beta, k, v)))
    updated = delta_update(x, k, v, beta)
    assert (updated.shape, updated.dtype) == (x.shape, x.dtype)
    assert_close(updated, kept + write, **rounding(case))
    assert_close(delta_shortcut(x, k, beta), kept, **rounding(case))


@given(st.sampled_from([0, 4]).flatmap(lambda channels: updates(channels=channels)))
def test_without_erasing_only_the_value_is_written(case):
    x, k, v, beta = case
    nothing = torch.zeros_like(x)
    assert_close(delta_update(x, k, v, beta, erase=False), x + delta_update(nothing, k, v, beta),
                 **rounding(case))


@given(st.sampled_from([0, 4]).flatmap(lambda channels: updates(channels=channels)), magnitudes,
       st.floats(0, 1))
def test_with_a_guard_the_direction_is_normalised_on_the_way(case, length, eps):
    x, k, v, beta = case
    assert_close(delta_update(x, length * k, v, beta, eps=eps),
                 delta_update(x, unit_direction(length * k, eps), v, beta), **rounding(case))


@given(updates(channels=3), magnitudes)
def test_the_law_holds_for_a_direction_of_any_length(case, length):
    x, k, v, beta = case
    k = length * k
    size = largest(x) * (1 + length**2) + largest(v) * length
    exact = wide((x, k, v, beta))
    erased = exact[2] - torch.einsum("...i,...ij->...j", exact[1], exact[0])
    change = torch.einsum("...,...i,...j->...ij", exact[3], exact[1], erased)
    assert_close(delta_update(x, k, v, beta), exact[0] + change, **near(k, size))


@given(dtypes.flatmap(lambda dtype: st.tuples(tensors(2, 1, 4, 3, dtype=dtype),
                                              tensors(2, 1, 1, 3, dtype=dtype, least=1e-3))), betas)
def test_one_direction_for_all_positions_is_that_direction_at_each(case, beta):
    x, k = case[0], unit_direction(case[1])
    beta = torch.full((2, 1, 1), beta, dtype=x.dtype)
    each = delta_shortcut(x, k.expand(2, 1, 4, 3), beta.expand(2, 1, 4))
    assert_close(delta_shortcut(x, k, beta), each, **near(k, largest(x)))


def test_directions_broadcast_over_states():
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(1, 5, 3, generator=generator)
    k = unit_direction(torch.randn(2, 1, 3, generator=generator))
    each = delta_shortcut(x.expand(2, 5, 3), k.expand(2, 5, 3), 0.5)
    assert_close(delta_shortcut(x, k, 0.5), each)


@pytest.mark.parametrize("inner", [(), (3,)])
def test_numbers_stand_for_tensors(inner):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 5, *inner, dtype=torch.float64, generator=generator)
    k = unit_direction(torch.randn(2, 5, dtype=torch.float64, generator=generator))
    full = delta_update(x, k, torch.full((2, *inner), 0.3, dtype=torch.float64),
                        torch.full((2,), 1.7, dtype=torch.float64))
    assert_close(delta_update(x, k, 0.3, 1.7), full, rtol=0, atol=0)
    assert_close(delta_matrix(k, 1.7), delta_matrix(k, torch.full((2,), 1.7, dtype=torch.float64)),
                 rtol=0, atol=0)


# ---------------------------------------------------------------- one rate per feature

def diagonal_case(seed):
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(shape, dtype=torch.float64, generator=generator)
                 for shape in [(2, 3, 4)] * 3 + [()])


@given(st.integers(0, 2**16), dtypes, magnitudes, magnitudes)
def test_the_diagonal_update_scales_each_feature_and_adds_its_share(seed, dtype, size, share):
    x, update, beta, alpha = (t.to(dtype) for t in diagonal_case(seed))
    case = size * x, share * update, beta, alpha
    x, update, beta, alpha = wide(case)
    updated, shortcut = diagonal_update(*case), torch.diag_embed(1 - alpha * beta)
    error = updated - (shortcut @ x.unsqueeze(-1)).squeeze(-1) - beta * update
    # the sum of all terms, each of which is rounded a few times
    terms = (1 + (alpha * beta).abs()) * x.abs() + (beta * update).abs()
    assert updated.dtype == dtype
    assert (error.abs() <= 4 * torch.finfo(dtype).eps * terms).all()


def test_a_shared_direction_is_normalised_like_any_other():
    x, h = (torch.randn(2, m, 3, dtype=torch.float64) for m in (5, 1))
    beta = torch.rand(2, 1, dtype=torch.float64)
    for eps in (0.0, 1e-12, 0.5):
        wanted = delta_shortcut(x, unit_direction(h, eps), beta)
        assert_close(delta_shortcut(x, h, beta, eps=eps), wanted, **CLOSE)
        x, h, beta = (t.requires_grad_() for t in (x, h, beta))
        assert torch.autograd.gradcheck(partial(delta_shortcut, eps=eps), (x, h, beta))
