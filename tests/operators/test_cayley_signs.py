"""The Cayley transform times signs, without a matrix, and its derivative.

Each test names the label of the statement's directive in chapter 8.
"""

from itertools import product

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from geolab.operators import cayley_rank2, cayley_skew4, householder_matrix, skew, unit_direction

seeds = st.integers(0, 2**16)
sizes = st.integers(2, 6)


def normal(*shape, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def eye(n):
    return torch.eye(n, dtype=torch.float64)


def transform(m):
    return torch.linalg.solve(eye(len(m)) + m, eye(len(m)) - m)


@given(st.data(), sizes)
def test_signs_reach_every_orthogonal_matrix_with_entries_of_at_most_1(data, n):
    """cayley-scaled, parts 1 and 2."""
    # signed permutations have many eigenvalues −1, which a random matrix hasn't
    r = torch.linalg.qr(normal(n, n, seed=data.draw(seeds))).Q
    if data.draw(st.booleans()):
        order = data.draw(st.permutations(range(n)))
        r = eye(n)[order] * torch.tensor(data.draw(st.tuples(*n * [st.sampled_from((-1, 1))])))
    every = torch.tensor(list(product((-1.0, 1.0), repeat=n)), dtype=torch.float64)
    found = torch.linalg.det(eye(n) + r * every.unsqueeze(1))
    assert_close(found.mean(), torch.ones((), dtype=torch.float64), rtol=0, atol=1e-10)
    signs = every[found.argmax()]
    m = (eye(n) - r * signs) @ torch.linalg.inv(eye(n) + r * signs)
    assert_close(m, -m.T, rtol=0, atol=1e-9)
    assert m.abs().max() < 1 + 1e-9
    assert_close(transform(m) * signs, r, rtol=0, atol=1e-9)
    assert_close(signs.prod(), torch.linalg.det(r), rtol=0, atol=1e-9)


@given(seeds, sizes)
def test_one_sign_makes_a_reflection_a_turn_of_one_plane(seed, n):
    """cayley-scaled, part 3."""
    k = unit_direction(normal(n, seed=seed))
    i = k.abs().argmax()
    e = eye(n)[i]
    area = (1 - k[i].square()).clamp(min=0).sqrt()
    turn = cayley_rank2(k, e, 2 * k[i].sign() / k[i].abs())      # s = area / |k_i|
    assert area / k[i].abs() <= (n - 1) ** 0.5 + 1e-12
    mirror = householder_matrix(k)
    signs = 1 - 2 * e
    assert min((turn * signs - mirror).abs().max(), (turn.T * signs - mirror).abs().max()) < 1e-10


@given(seeds, sizes, st.floats(-20, 20))
def test_the_rank_2_operator_acts_without_a_matrix(seed, n, beta):
    """cayley-cost."""
    u, v = normal(2, n, seed=seed)
    x, h = normal(n, 3, seed=seed + 1), beta / 2
    a, b, uv = u @ x, v @ x, u @ v
    c = 2 * h / (1 + h**2 * (u @ u * (v @ v) - uv**2))
    p = c * (h * (uv * b - v @ v * a) - b)
    q = c * (h * (uv * a - u @ u * b) + a)
    applied = x + torch.outer(u, p) + torch.outer(v, q)
    assert_close(applied, cayley_rank2(u, v, beta) @ x, rtol=0, atol=1e-8)


@given(seeds, st.floats(-3, 3).map(lambda power: 10**power))
def test_a_derivative_at_most_doubles(seed, size):
    """cayley-gradient."""
    m, direction = (skew(normal(4, 4, seed=seed + k)) for k in range(2))
    m = size * m
    moved = torch.autograd.functional.jvp(cayley_skew4, m, direction)[1]
    inverse = torch.linalg.inv(eye(4) + m)
    assert_close(moved, -2 * inverse @ direction @ inverse, rtol=0, atol=1e-9)
    assert moved.norm() <= 2 * direction.norm() + 1e-9
