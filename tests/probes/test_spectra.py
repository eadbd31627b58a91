import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from geolab.probes import jacobian, spectrum


@given(st.floats(-math.pi, math.pi))
def test_spectrum_of_a_rotation(angle):
    c, s = math.cos(angle), math.sin(angle)
    found = spectrum(torch.tensor([[c, -s], [s, c]], dtype=torch.float64))
    assert_close(found.eigenvalues.real, torch.full((2,), c, dtype=torch.float64))
    assert_close(found.eigenvalues.imag.sort().values,
                 torch.tensor([-abs(s), abs(s)], dtype=torch.float64))
    assert_close(found.singular_values, torch.ones(2, dtype=torch.float64))
    assert found.determinant.item() == pytest.approx(1)


def test_batches_and_precision():
    matrix = torch.randn(2, 3, 4, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    found = spectrum(matrix)
    assert found.eigenvalues.shape == found.singular_values.shape == (2, 3, 4)
    assert found.determinant.shape == (2, 3)
    assert found.determinant.dtype == torch.float64 and not found.determinant.requires_grad
    assert_close(found.determinant[1, 2], spectrum(matrix[1, 2]).determinant)


def test_jacobian_against_finite_differences():
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(6, 6, dtype=torch.float64, generator=generator)
    x = torch.randn(2, 3, dtype=torch.float64, generator=generator)

    def f(x):
        return torch.sin(matrix @ x.flatten()) * x.square().sum()

    step = 1e-6 * torch.eye(6, dtype=torch.float64).view(6, 2, 3)
    differences = torch.stack([(f(x + e) - f(x - e)) / 2e-6 for e in step], dim=1)
    assert_close(jacobian(f, x), differences, rtol=0, atol=1e-8)


def test_jacobian_is_flattened_and_detached():
    x = torch.ones(2, 3, requires_grad=True)
    j = jacobian(lambda x: x.sum(0, keepdim=True).expand(5, 3), x)
    assert j.shape == (15, 6) and not j.requires_grad and x.grad is None
