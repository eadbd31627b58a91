"""JPmHC's iteration towards the Cayley transform, and how far from orthogonal its result is."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from shared import normal
from torch.testing import assert_close

from geolab.operators import cayley_iterated, skew

dtypes = st.sampled_from([torch.float32, torch.float64])


def eye(n):
    return torch.eye(n, dtype=torch.float64)


@st.composite
def generators(draw):
    """A skew n × n matrix with entries of a size from 1e-6 to 1e6."""
    n, size = draw(st.integers(2, 6)), 10.0 ** draw(st.integers(-6, 6))
    return size * skew(normal(n, n, seed=draw(st.integers(0, 2**16)), dtype=draw(dtypes)))


def turn(z, alpha=0.1, dtype=torch.float64):
    """A skew 2 × 2 matrix W with the eigenvalues ±iz/α."""
    return torch.tensor([[0.0, -z / alpha], [z / alpha, 0.0]], dtype=dtype)


def eigenvalue(y):
    """The eigenvalue of a polynomial in such a matrix."""
    return complex(y[0, 0].item(), y[1, 0].item())


@given(st.one_of(st.floats(-6, 6), st.floats(-1e6, 1e6)), dtypes)
def test_the_curve_of_its_eigenvalues(z, dtype):
    shifted, identity = (eigenvalue(cayley_iterated(turn(z, dtype=dtype), start=start))
                         for start in ("shifted", "identity"))
    eps = torch.finfo(dtype).eps  # each term, of size zᵏ, is rounded a few times
    cubic, square = (16 * eps * (1 + abs(z)) ** degree for degree in (3, 2))
    assert shifted == pytest.approx(1 + 1j * z - z**2 / 2 - 1j * z**3 / 4, rel=0, abs=cubic)
    assert identity == pytest.approx(1 + 1j * z - z**2 / 2, rel=0, abs=square)


@given(generators(), st.floats(0.01, 2))
def test_the_defect_after_one_and_two_steps_and_one_step_later_from_the_identity(w, alpha):
    k = alpha / 2 * w.double()
    n, norm, fourth = len(k), torch.linalg.matrix_norm(k, 2).item(), torch.linalg.matrix_power(k, 4)
    for steps, expected in ((1, 4 * fourth), (2, -4 * fourth @ (eye(n) + k @ k))):
        y = cayley_iterated(w, steps, alpha)
        later = cayley_iterated(w, steps + 1, alpha, start="identity")
        assert y.dtype == w.dtype
        assert_close(later, y, rtol=0, atol=8 * torch.finfo(w.dtype).eps * y.abs().max().item())
        y = y.double()
        # Y is a polynomial of degree steps + 1 in K
        rounding = n * torch.finfo(w.dtype).eps * (1 + norm) ** (2 * steps + 2)
        assert_close(y.T @ y - eye(n), expected, rtol=0, atol=8 * rounding)
