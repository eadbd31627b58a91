import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from geolab.operators import (
    blend,
    cayley_rank2,
    cayley_skew4,
    gated_matrix,
    gated_mix,
    geodesic,
    householder_matrix,
    reflect,
    skew,
    unit_direction,
)

CLOSE = dict(rtol=0, atol=1e-12)
gates = st.floats(0, 1)
magnitudes = st.floats(-6, 6).map(lambda power: 10**power)
dtypes = st.sampled_from([torch.float32, torch.float64])


def near(q, size=1.0):
    """Tolerance for rounding.

    Q and H are orthogonal to rounding for arguments of any size, and their singular values move by
    no more than the matrices do.
    """
    return dict(rtol=0, atol=16 * q.shape[-1] * torch.finfo(q.dtype).eps * size, check_dtype=False)


@st.composite
def rotations_and_directions(draw, *lead, most=6):
    """Q in SO(n) and k of unit length, from vectors and β of sizes from 1e-6 to 1e6."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    n, dtype = draw(st.integers(2, most)), draw(dtypes)
    u, v, h = (draw(magnitudes) * torch.randn(*lead, n, dtype=torch.float64,
                                              generator=generator).to(dtype) for _ in range(3))
    q = cayley_rank2(u, v, draw(st.sampled_from([-1, 1])) * draw(magnitudes))
    if n == 4:
        w = torch.randn(*lead, 4, 4, dtype=torch.float64, generator=generator)
        q = q @ cayley_skew4(skew(draw(magnitudes) * w.to(dtype)))
    return q, unit_direction(h)


def ends(pair):
    """Q and H."""
    q, k = pair
    return q, householder_matrix(k)


@given(rotations_and_directions())
def test_half_way_the_blend_is_singular_and_its_ends_are_q_and_h(pair):
    q, h = ends(pair)
    assert torch.linalg.svdvals(blend(q, h, 0.5).double()).min() < near(q)["atol"]
    assert_close(blend(q, h, 1.0), q, rtol=0, atol=0)
    assert_close(blend(q, h, 0.0), h, rtol=0, atol=0)


def test_leading_axes_are_one_gate_each():
    generator = torch.Generator().manual_seed(0)
    q, h = torch.randn(2, 2, 3, 4, 4, dtype=torch.float64, generator=generator)
    gate = torch.rand(2, 3, dtype=torch.float64, generator=generator)
    together = blend(q, h, gate)
    for i in range(2):
        for j in range(3):
            assert_close(together[i, j], gate[i, j] * q[i, j] + (1 - gate[i, j]) * h[i, j], **CLOSE)
    assert_close(blend(q, h, 0.3), blend(q, h, torch.full((2, 3), 0.3, dtype=torch.float64)),
                 rtol=0, atol=0)


# ---------------------------------------------------------------- applied to streams

def streams_and_numbers(*lead, n=4, d=5, seed=0):
    """x, u, v, β, k and γ."""
    generator = torch.Generator().manual_seed(seed)
    x, u, v, beta, k = (torch.randn(*lead, *own, dtype=torch.float64, generator=generator)
                        for own in ((n, d), (n,), (n,), (), (n,)))
    return x, u, v, beta, unit_direction(k), torch.rand(lead, dtype=torch.float64,
                                                        generator=generator)


@st.composite
def mixes(draw):
    """The arguments of a mix, with x, u, v and β of sizes from 1e-6 to 1e6."""
    dtype, n, seed = draw(dtypes), draw(st.integers(2, 6)), draw(st.integers(0, 2**16))
    x, u, v, beta, k, gate = (t.to(dtype) for t in streams_and_numbers(3, 2, n=n, seed=seed))
    x, u, v, beta = (draw(magnitudes) * t for t in (x, u, v, beta))
    return x, u, v, beta, unit_direction(k), gate


@given(mixes())
def test_the_mix_is_the_blend_of_a_rotated_and_a_reflected_state(case):
    x, u, v, beta, k, gate = case
    rotated, reflected = cayley_rank2(u, v, beta) @ x, reflect(x.mT, k.unsqueeze(-2)).mT
    share, mixed = gate[..., None, None], gated_mix(*case)
    assert mixed.dtype == x.dtype
    assert_close(mixed, share * rotated + (1 - share) * reflected, **near(u, x.abs().max().item()))


def test_the_ends_of_the_mix_are_q_and_h_and_without_a_gate_it_rotates():
    x, u, v, beta, k, _ = streams_and_numbers(3)
    assert_close(gated_mix(x, u, v, beta, k, 0.0), householder_matrix(k) @ x, **CLOSE)
    assert_close(gated_mix(x, u, v, beta, k, 1.0), gated_mix(x, u, v, beta), **CLOSE)
    assert_close(gated_mix(x, u, v, beta), cayley_rank2(u, v, beta) @ x, **CLOSE)


def test_leading_axes_of_the_numbers_may_be_fewer():
    x, *numbers = streams_and_numbers(3, 2)
    by_row = gated_mix(x, *(t[:, :1] for t in numbers))
    one = gated_mix(x, *(t[0, 0] for t in numbers))
    for i in range(3):
        for j in range(2):
            assert_close(by_row[i, j], gated_mix(x[i, j], *(t[i, 0] for t in numbers)), **CLOSE)
            assert_close(one[i, j], gated_mix(x[i, j], *(t[0, 0] for t in numbers)), **CLOSE)


@given(rotations_and_directions(), gates)
def test_the_gated_matrix_is_the_blend_with_a_reflection(pair, gate):
    assert_close(gated_matrix(*pair, gate), blend(*ends(pair), gate), **near(pair[0]))


def test_a_half_precision_state_keeps_its_dtype_beside_float32_coefficients():
    x, *numbers = streams_and_numbers(3)
    mixed = gated_mix(x.bfloat16(), *(t.float() for t in numbers))
    assert mixed.dtype == torch.bfloat16
    assert_close(mixed.double(), gated_mix(x, *numbers), rtol=0, atol=0.1)


# ---------------------------------------------------------------- the geodesic

def one_gate(pair, gate):
    return torch.full((7,), gate, dtype=pair[0].dtype)


@given(rotations_and_directions(7, most=5), gates)
def test_the_geodesic_is_a_complex_power_of_the_reflection(pair, gate):
    q, k = (t.double() for t in pair)
    n = q.shape[-1]
    power = torch.eye(n) + (np.exp(1j * np.pi * (1 - gate)) - 1) * k.unsqueeze(-1) * k.unsqueeze(-2)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(7, 2 * n, dtype=torch.float64, generator=generator)
    halves = torch.view_as_complex(x.view(7, n, 2))
    turned = ((q.to(power.dtype) @ power) @ halves.unsqueeze(-1)).squeeze(-1)
    g = geodesic(*pair, one_gate(pair, gate)).double()
    assert_close((g @ x.unsqueeze(-1)).squeeze(-1), torch.view_as_real(turned).flatten(-2),
                 **near(pair[0], halves.abs().max().item()))
