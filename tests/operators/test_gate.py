import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from geolab.operators import (blend, cayley_rank2, cayley_skew4, gated_matrix, gated_mix, geodesic, householder_matrix, midpoint_penalty,
                              reflect, skew, unit_direction)

CLOSE = dict(rtol=0, atol=1e-12)
gates = st.floats(0, 1)


@st.composite
def rotations_and_reflections(draw):
    """Q in SO(n), H a reflection."""
    generator, n = torch.Generator().manual_seed(draw(st.integers(0, 2**16))), draw(st.integers(2, 6))
    u, v, k = torch.randn(3, n, dtype=torch.float64, generator=generator)
    q = cayley_rank2(u, v, draw(st.floats(-1e3, 1e3)))
    if n == 4:
        q = q @ cayley_skew4(skew(torch.randn(4, 4, dtype=torch.float64, generator=generator)))
    return q, householder_matrix(unit_direction(k))


@given(rotations_and_reflections(), gates)
def test_singular_values_lie_between_the_gate_and_one(pair, gate):
    sigma = torch.linalg.svdvals(blend(*pair, gate))
    assert sigma.min().item() == pytest.approx(abs(2 * gate - 1), abs=1e-12)
    assert sigma.max() <= 1 + 1e-12


@given(rotations_and_reflections(), gates)
def test_every_singular_value_from_the_angles_between_the_two(pair, gate):
    # σ² = 1 − 4γ(1 − γ) sin²(φ/2) at the eigenvalues exp(iφ) of QᵀH
    q, h = pair
    phases = torch.linalg.eigvals(q.T @ h).angle()
    expected = (1 - 4 * gate * (1 - gate) * (phases / 2).sin().square()).clamp(min=0).sqrt().sort(descending=True).values
    assert_close(torch.linalg.svdvals(blend(q, h, gate)), expected, rtol=0, atol=1e-7)  # the root of a rounding near 0


@given(rotations_and_reflections(), gates.filter(lambda g: abs(2 * g - 1) > 1e-3))
def test_the_determinant_has_the_sign_of_the_nearer_end(pair, gate):
    sigma = torch.linalg.svdvals(blend(*pair, gate))
    det = torch.linalg.det(blend(*pair, gate)).item()
    assert det == pytest.approx(np.sign(2 * gate - 1) * sigma.prod().item(), abs=1e-12)


@given(rotations_and_reflections())
def test_half_way_it_is_singular_and_the_ends_are_the_two(pair):
    q, h = pair
    assert torch.linalg.svdvals(blend(q, h, 0.5)).min() < 1e-12
    assert_close(blend(q, h, 1.0), q, rtol=0, atol=0)
    assert_close(blend(q, h, 0.0), h, rtol=0, atol=0)


@given(rotations_and_reflections(), gates)
def test_the_penalty_is_the_largest_share_of_energy_that_is_lost(pair, gate):
    g = blend(*pair, gate)
    worst = torch.linalg.svd(g).Vh[-1]
    penalty = midpoint_penalty(torch.tensor(gate, dtype=torch.float64)).item()
    assert 1 - (g @ worst).square().sum().item() == pytest.approx(penalty, abs=1e-12)
    x = torch.randn(len(g), 100, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert (1 - (g @ x).square().sum(0) / x.square().sum(0) <= penalty + 1e-12).all()


def test_leading_axes_are_one_gate_each():
    generator = torch.Generator().manual_seed(0)
    q, h = torch.randn(2, 2, 3, 4, 4, dtype=torch.float64, generator=generator)
    gate = torch.rand(2, 3, dtype=torch.float64, generator=generator)
    together = blend(q, h, gate)
    for i in range(2):
        for j in range(3):
            assert_close(together[i, j], gate[i, j] * q[i, j] + (1 - gate[i, j]) * h[i, j], **CLOSE)
    assert_close(blend(q, h, 0.3), blend(q, h, torch.full((2, 3), 0.3, dtype=torch.float64)), rtol=0, atol=0)


def test_gradients():
    generator = torch.Generator().manual_seed(1)
    q, h = (torch.randn(2, 3, 3, dtype=torch.float64, generator=generator, requires_grad=True) for _ in range(2))
    gate = torch.rand(2, dtype=torch.float64, generator=generator, requires_grad=True)
    assert torch.autograd.gradcheck(blend, (q, h, gate))
    assert torch.autograd.gradcheck(midpoint_penalty, gate)
    half = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.grad(midpoint_penalty(half), half)[0] == 0  # it doesn't push a gate that sits half way


# ---------------------------------------------------------------- applied to streams

def streams_and_numbers(*lead, n=4, d=5, seed=0):
    """x, u, v, β, k and γ."""
    generator = torch.Generator().manual_seed(seed)
    x, u, v, beta, k = (torch.randn(*lead, *own, dtype=torch.float64, generator=generator) for own in ((n, d), (n,), (n,), (), (n,)))
    return x, u, v, beta, unit_direction(k), torch.rand(lead, dtype=torch.float64, generator=generator)


@given(st.integers(0, 2**16), st.integers(2, 6))
def test_the_mix_is_the_blend_of_a_rotated_and_a_reflected_state(seed, n):
    x, u, v, beta, k, gate = streams_and_numbers(3, 2, n=n, seed=seed)
    rotated, reflected = cayley_rank2(u, v, beta) @ x, reflect(x.mT, k.unsqueeze(-2)).mT
    share = gate[..., None, None]
    assert_close(gated_mix(x, u, v, beta, k, gate), share * rotated + (1 - share) * reflected, **CLOSE)


def test_its_ends_are_the_two_and_without_a_gate_it_rotates():
    x, u, v, beta, k, _ = streams_and_numbers(3)
    assert_close(gated_mix(x, u, v, beta, k, 0.0), householder_matrix(k) @ x, **CLOSE)
    assert_close(gated_mix(x, u, v, beta, k, 1.0), gated_mix(x, u, v, beta), **CLOSE)
    assert_close(gated_mix(x, u, v, beta), cayley_rank2(u, v, beta) @ x, **CLOSE)


def test_leading_axes_of_the_numbers_may_be_fewer():
    x, *numbers = streams_and_numbers(3, 2)
    by_row, one = gated_mix(x, *(t[:, :1] for t in numbers)), gated_mix(x, *(t[0, 0] for t in numbers))
    for i in range(3):
        for j in range(2):
            assert_close(by_row[i, j], gated_mix(x[i, j], *(t[i, 0] for t in numbers)), **CLOSE)
            assert_close(one[i, j], gated_mix(x[i, j], *(t[0, 0] for t in numbers)), **CLOSE)


@given(rotations_and_reflections(), gates)
def test_the_gated_matrix_is_the_blend_with_a_reflection(pair, gate):
    q, h = pair
    k = torch.linalg.eigh(h).eigenvectors[:, 0]  # the eigenvalue −1
    assert_close(gated_matrix(q, k, gate), blend(q, h, gate), **CLOSE)


def test_gradients_of_the_mix():
    leaves = [t.requires_grad_() for t in streams_and_numbers(2, 3, d=2)]
    assert torch.autograd.gradcheck(gated_mix, leaves)
    assert torch.autograd.gradcheck(gated_mix, leaves[:4])


def test_a_half_precision_state_stays_so_and_the_numbers_need_not_be():
    x, *numbers = streams_and_numbers(3)
    mixed = gated_mix(x.bfloat16(), *(t.float() for t in numbers))
    assert mixed.dtype == torch.bfloat16
    assert_close(mixed.double(), gated_mix(x, *numbers), rtol=0, atol=0.1)


def test_direction_and_gate_come_together():
    x, u, v, beta, k, gate = streams_and_numbers(3)
    with pytest.raises(ValueError, match="^gate must be given with direction, got None$"):
        gated_mix(x, u, v, beta, k)
    with pytest.raises(ValueError, match="^direction must be given with gate, got None$"):
        gated_mix(x, u, v, beta, gate=gate)


# ---------------------------------------------------------------- the geodesic

@st.composite
def rotations_and_directions(draw):
    generator, n = torch.Generator().manual_seed(draw(st.integers(0, 2**16))), draw(st.integers(2, 5))
    u, v, k = torch.randn(3, 7, n, dtype=torch.float64, generator=generator)
    return cayley_rank2(u, v, draw(st.floats(-1e3, 1e3))), unit_direction(k)


@given(rotations_and_directions(), gates)
def test_the_geodesic_is_orthogonal_with_determinant_one_at_every_gate(pair, gate):
    g = geodesic(*pair, torch.full((7,), gate, dtype=torch.float64))
    assert_close(g.mT @ g, torch.eye(g.shape[-1], dtype=torch.float64).expand_as(g), **CLOSE)
    assert_close(torch.linalg.det(g), torch.ones(7, dtype=torch.float64), **CLOSE)


@given(rotations_and_directions(), gates)
def test_the_geodesic_is_a_complex_power_of_the_reflection(pair, gate):
    q, k = pair
    n = q.shape[-1]
    power = torch.eye(n) + (np.exp(1j * np.pi * (1 - gate)) - 1) * k.unsqueeze(-1) * k.unsqueeze(-2)
    halves = torch.view_as_complex(torch.randn(7, 2 * n, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).view(7, n, 2))
    turned = torch.view_as_real(((q.to(power.dtype) @ power) @ halves.unsqueeze(-1)).squeeze(-1)).flatten(-2)
    g = geodesic(q, k, torch.full((7,), gate, dtype=torch.float64))
    assert_close((g @ torch.view_as_real(halves).flatten(-2).unsqueeze(-1)).squeeze(-1), turned, **CLOSE)
