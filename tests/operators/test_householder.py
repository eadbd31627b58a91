import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch.testing import assert_close

from geolab.operators import householder_matrix, reflect, unit_direction

CLOSE = dict(rtol=0, atol=1e-13)
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
def test_symmetric_orthogonal_and_its_own_inverse(k):
    h, identity = householder_matrix(k), torch.eye(len(k), dtype=k.dtype)
    assert h.dtype == k.dtype
    assert_close(h, h.T, rtol=0, atol=0)
    assert_close(h @ h.T, identity, **near(k))
    assert_close(h @ h, identity, **near(k))


@given(directions())
def test_determinant_is_minus_one(k):
    determinant = torch.linalg.det(householder_matrix(k).double()).item()
    assert determinant == pytest.approx(-1, abs=near(k)["atol"])


@given(directions())
def test_its_eigenvalues_are_minus_one_once_and_one(k):
    expected = torch.tensor([-1.0] + (len(k) - 1) * [1.0], dtype=torch.float64)
    assert_close(torch.linalg.eigvalsh(householder_matrix(k).double()), expected, **near(k))


@given(directions(), st.data())
def test_flips_its_direction_and_fixes_the_complement(k, data):
    x, h = data.draw(vectors(len(k))), householder_matrix(k).double()
    wide = unit_direction(k.double())
    assert_close(h @ wide, -wide, **near(k))
    across = x - (wide @ x) * wide
    assert_close(h @ across, across, **near(k, x.norm().item()))


@given(directions(), st.data())
def test_reflect_is_the_matrix_and_keeps_lengths(k, data):
    x = data.draw(vectors(len(k))).to(k.dtype)
    reflected, length = reflect(x, k), x.norm().item()
    assert reflected.dtype == k.dtype
    assert_close(reflected, householder_matrix(k) @ x, **near(k, length))
    assert reflected.norm().item() == pytest.approx(length, rel=near(k)["atol"])


def test_leading_axes_are_one_reflection_each():
    generator = torch.Generator().manual_seed(0)
    k = unit_direction(torch.randn(2, 3, 5, dtype=torch.float64, generator=generator))
    x = torch.randn(2, 3, 5, dtype=torch.float64, generator=generator)
    matrices, reflected = householder_matrix(k), reflect(x, k)
    assert matrices.shape == (2, 3, 5, 5)
    for i in range(2):
        for j in range(3):
            assert_close(matrices[i, j], householder_matrix(k[i, j]), rtol=0, atol=0)
            assert_close(reflected[i, j], matrices[i, j] @ x[i, j], **CLOSE)


def test_gradients():
    generator = torch.Generator().manual_seed(1)
    h, x = (torch.randn(2, 4, dtype=torch.float64, generator=generator, requires_grad=True)
            for _ in range(2))
    assert torch.autograd.gradcheck(lambda h: householder_matrix(unit_direction(h)), h)
    assert torch.autograd.gradcheck(lambda x, h: reflect(x, unit_direction(h)), (x, h))


@pytest.mark.parametrize("call", [householder_matrix, lambda k: reflect(torch.ones(2), k)])
def test_a_direction_of_another_length_is_refused(call):
    with pytest.raises(ValueError, match=r"direction must have unit length .*got length 5;"):
        call(torch.tensor([3.0, 4.0]))
    with pytest.raises(ValueError, match=r"direction must have unit length .*got length 5;"):
        torch.func.vmap(torch.func.jacrev(call))(torch.tensor([[1.0, 0.0], [3.0, 4.0]]))


def test_a_direction_of_another_width_is_refused():
    with pytest.raises(ValueError, match=r"direction must have 4 features .*got shape \(1,\)"):
        reflect(torch.ones(4), torch.ones(1))
