import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from shared import normal
from torch.testing import assert_close

from geolab.operators import (
    blend,
    cayley_rank2,
    cayley_skew4,
    gated_matrix,
    gated_mix,
    geodesic,
    householder_matrix,
    midpoint_penalty,
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
    n, dtype, seed = draw(st.integers(2, most)), draw(dtypes), draw(st.integers(0, 2**16))
    u, v, h = (draw(magnitudes) * normal(*lead, n, seed=seed + k, dtype=dtype) for k in range(3))
    q = cayley_rank2(u, v, draw(st.sampled_from([-1, 1])) * draw(magnitudes))
    if n == 4:
        w = normal(*lead, 4, 4, seed=seed + 3, dtype=dtype)
        q = q @ cayley_skew4(skew(draw(magnitudes) * w))
    return q, unit_direction(h)


@st.composite
def mixes(draw):
    """The arguments of a mix, with x, u, v and β of sizes from 1e-6 to 1e6.

    All but x have all leading axes of x, or a last one of size 1, or none.
    """
    dtype, n, seed = draw(dtypes), draw(st.integers(2, 6)), draw(st.integers(0, 2**16))
    lead = draw(st.sampled_from([(3, 2), (3, 1), ()]))
    shapes = ((3, 2, n, 5), (*lead, n), (*lead, n), lead, (*lead, n), lead)
    x, u, v, beta, k, gate = (normal(*shape, seed=seed + place, dtype=dtype)
                              for place, shape in enumerate(shapes))
    x, u, v, beta = (draw(magnitudes) * t for t in (x, u, v, beta))
    return x, u, v, beta, unit_direction(k), gate.sigmoid()


def test_the_blend_is_a_weighted_mean_whose_ends_are_exact():
    q, h = normal(2, 2, 3, 4, 4)
    gate = normal(2, 3).sigmoid()
    share = gate[..., None, None]
    assert_close(blend(q, h, gate), share * q + (1 - share) * h, **CLOSE)
    for number in (0.0, 0.3, 1.0):
        assert_close(blend(q, h, number), blend(q, h, torch.full_like(gate, number)), rtol=0,
                     atol=0)
    assert torch.equal(blend(q, h, 1.0), q) and torch.equal(blend(q, h, 0.0), h)


@given(mixes(), gates)
def test_the_mix_is_the_blend_of_a_rotated_and_a_reflected_state(case, number):
    x, u, v, beta, k, gate = case
    rotated, reflected = cayley_rank2(u, v, beta) @ x, reflect(x.mT, k.unsqueeze(-2)).mT
    tolerance = near(u, x.abs().max().item())
    for given_gate, share in ((gate, gate[..., None, None]), (number, number)):
        mixed = gated_mix(x, u, v, beta, k, given_gate)
        assert mixed.dtype == x.dtype
        assert_close(mixed, share * rotated + (1 - share) * reflected, **tolerance)
    assert_close(gated_mix(x, u, v, beta), rotated, **tolerance)


@given(rotations_and_directions(), gates)
def test_the_gated_matrix_is_the_blend_with_a_reflection(pair, gate):
    q, k = pair
    assert_close(gated_matrix(q, k, gate), blend(q, householder_matrix(k), gate), **near(q))


@given(rotations_and_directions(7, most=5), gates)
def test_the_geodesic_is_a_complex_power_of_the_reflection(pair, gate):
    q, k = (t.double() for t in pair)
    n = q.shape[-1]
    power = torch.eye(n) + (np.exp(1j * np.pi * (1 - gate)) - 1) * k.unsqueeze(-1) * k.unsqueeze(-2)
    x = normal(7, 2 * n)
    halves = torch.view_as_complex(x.view(7, n, 2))
    turned = ((q.to(power.dtype) @ power) @ halves.unsqueeze(-1)).squeeze(-1)
    g = geodesic(*pair, torch.full((7,), gate, dtype=pair[0].dtype)).double()
    assert_close((g @ x.unsqueeze(-1)).squeeze(-1), torch.view_as_real(turned).flatten(-2),
                 **near(pair[0], halves.abs().max().item()))


def test_the_penalty_is_1_half_way_and_0_at_either_end():
    assert midpoint_penalty(torch.tensor([0.0, 0.25, 0.5, 1.0])).tolist() == [0.0, 0.75, 1.0, 0.0]
