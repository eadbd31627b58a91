import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch.testing import assert_close

from geolab.operators import householder_matrix, reflect, unit_direction

coordinates = st.floats(-1, 1)
magnitudes = st.floats(-6, 6).map(lambda power: 10**power)
dtypes = st.sampled_from([torch.float32, torch.float64])


def near(k, size=1.0):
    """Tolerance for rounding.

    k is unit to a few eps, and every law here is a sum of d products of its numbers, times `size`.
    """
    return dict(rtol=0, atol=8 * len(k) * torch.finfo(k.dtype).eps * size)


@st.composite
def vectors(draw, d):
    """(d,) in float64, not zero. The largest number has a size from 1e-6 to 1e6."""
    h = draw(arrays(np.float64, d, elements=coordinates).filter(np.any))
    return torch.from_numpy(h / np.abs(h).max() * draw(magnitudes))


@st.composite
def directions(draw, most=8):
    """k of unit length, in 1 to `most` dimensions, from any vector that is not zero."""
    return unit_direction(draw(vectors(draw(st.integers(1, most)))).to(draw(dtypes)))


@given(directions())
def test_it_is_the_identity_minus_twice_a_projection(k):
    h, wide = householder_matrix(k), k.double()
    assert h.dtype == k.dtype
    assert_close(h, h.T, rtol=0, atol=0)
    assert_close(h, torch.eye(len(k)) - 2 * torch.outer(wide, wide), **near(k), check_dtype=False)


@given(directions(), st.data())
def test_reflect_is_the_matrix_and_keeps_lengths(k, data):
    x = data.draw(vectors(len(k))).to(k.dtype)
    reflected, length = reflect(x, k), x.norm().item()
    assert reflected.dtype == k.dtype
    assert_close(reflected, householder_matrix(k) @ x, **near(k, length))
    assert reflected.norm().item() == pytest.approx(length, rel=near(k)["atol"])
