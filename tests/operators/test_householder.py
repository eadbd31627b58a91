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


@st.composite
def directions(draw, most=8):
    """k of unit length, in 1 to `most` dimensions."""
    h = draw(arrays(np.float64, draw(st.integers(1, most)), elements=coordinates).filter(
        lambda h: np.linalg.norm(h) > 0.01))
    return unit_direction(torch.from_numpy(h))


@given(directions())
def test_symmetric_orthogonal_and_its_own_inverse(k):
    h, identity = householder_matrix(k), torch.eye(len(k), dtype=torch.float64)
    assert_close(h, h.T, rtol=0, atol=0)
    assert_close(h @ h.T, identity, **CLOSE)
    assert_close(h @ h, identity, **CLOSE)


@given(directions())
def test_determinant_is_minus_one(k):
    assert torch.linalg.det(householder_matrix(k)).item() == pytest.approx(-1, abs=1e-13)


@given(directions(), st.data())
def test_flips_its_direction_and_fixes_the_complement(k, data):
    x = torch.from_numpy(data.draw(arrays(np.float64, len(k), elements=coordinates)))
    h = householder_matrix(k)
    assert_close(h @ k, -k, **CLOSE)
    across = x - (k @ x) * k
    assert_close(h @ across, across, **CLOSE)


@given(directions(), st.data())
def test_reflect_is_the_matrix_and_keeps_lengths(k, data):
    x = torch.from_numpy(data.draw(arrays(np.float64, len(k), elements=coordinates)))
    assert_close(reflect(x, k), householder_matrix(k) @ x, **CLOSE)
    assert reflect(x, k).norm().item() == pytest.approx(x.norm().item(), abs=1e-13)


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
    h, x = (torch.randn(2, 4, dtype=torch.float64, generator=generator, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(lambda h: householder_matrix(unit_direction(h)), h)
    assert torch.autograd.gradcheck(lambda x, h: reflect(x, unit_direction(h)), (x, h))


@pytest.mark.parametrize("call", [householder_matrix, lambda k: reflect(torch.ones(2), k)])
def test_a_direction_of_another_length_is_refused(call):
    with pytest.raises(ValueError, match=r"direction must have unit length .*got length 5;"):
        call(torch.tensor([3.0, 4.0]))


def test_a_direction_of_another_width_is_refused():
    with pytest.raises(ValueError, match=r"direction must have 4 features .*got shape \(1,\)"):
        reflect(torch.ones(4), torch.ones(1))
