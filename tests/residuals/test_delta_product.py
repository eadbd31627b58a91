"""Delta residuals in a row: how many of them reach an orthogonal matrix."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from shared import CLOSE, WIDTH, normal, shaken, sublayer
from torch.linalg import matrix_norm, svdvals
from torch.testing import assert_close

from geolab.operators import delta_matrix, delta_update, unit_direction
from geolab.residuals import make_residual
from geolab.residuals.delta_product import ProductCoefficients

SEEDS = st.integers(0, 10_000)


def product(directions, betas):
    """A_m ⋯ A_1, as a residual's coefficients have it."""
    return ProductCoefficients(directions, torch.zeros_like(betas), betas).shortcut


def mirrors(Q, accuracy=1e-9):
    """Directions (m, D) whose mirrors, the first one first, make the orthogonal Q.

    While Q moves some e, the mirror along Qe − e takes Qe back to e, and leaves what Q leaves.
    """
    found = []
    while (moved := (Q - torch.eye(len(Q))).norm(dim=0)).max() > accuracy:
        e = int(moved.argmax())
        k = unit_direction(Q[:, e] - torch.eye(len(Q))[e])
        found.append(k)
        Q = delta_matrix(k, 2.0).to(Q) @ Q
    return torch.stack(found[::-1]) if found else Q.new_zeros(0, len(Q))


@given(SEEDS, st.integers(2, 5), st.integers(1, 4))
def test_every_orthogonal_matrix_needs_so_many_factors(seed, size, m):
    """Cartan–Dieudonné: as many as the rank of I − Q."""
    Q = torch.linalg.qr(normal(size, size, seed=seed))[0]
    made = mirrors(Q)
    assert len(made) == torch.linalg.matrix_rank(torch.eye(size) - Q, tol=1e-9)
    assert_close(product(made, torch.full((len(made),), 2.0).double()), Q, rtol=0, atol=1e-9)
    # m factors of any strength are at least the other singular values of I − Q away
    k, beta = unit_direction(normal(m, size, seed=seed + 1)), 2 * normal(m, seed=seed).sigmoid()
    beyond = svdvals(torch.eye(size) - Q)[m:]
    assert matrix_norm(Q - product(k, beta)) >= beyond.norm() - 1e-12


@given(SEEDS, st.integers(1, 4))
def test_between_the_components_a_factor_passes_the_eraser(seed, m):
    """The determinant is Π (1 − β): a sign for each component, and 0 on every way between."""
    k, beta = unit_direction(normal(m, 5, seed=seed)), 2 * normal(m, seed=seed + 1).sigmoid()
    A = product(k, beta)
    assert_close(torch.linalg.det(A), (1 - beta).prod(), rtol=0, atol=1e-12)
    assert svdvals(A)[0] <= 1 + 1e-12
    beta[seed % m] = 1.0
    assert svdvals(product(k, beta))[-1] < 1e-12


# ---------------------------------------------------------------- the residual

def test_one_factor_is_the_delta_residual():
    x, F = normal(2, 3, WIDTH), sublayer()
    one = shaken(make_residual("delta", WIDTH).double())
    row = make_residual("delta-product", WIDTH, factors=1).double()
    row.load_state_dict(one.state_dict())
    assert_close(row(x, F), one(x, F), **CLOSE)


def test_the_factors_act_one_after_the_other_on_coefficients_of_the_first_state():
    x, F = normal(2, 3, WIDTH), sublayer()
    row = shaken(make_residual("delta-product", WIDTH, factors=3).double())
    made, state = row.coefficients(x, F), x
    for j in range(3):
        state = delta_update(state, made.directions[..., j, :], made.values[..., j],
                             made.betas[..., j])
    assert_close(row(x, F), state, **CLOSE)
    assert made.betas.gt(0).all() and made.betas.lt(2).all()


@pytest.mark.parametrize("angle", [2.0, math.pi])  # half a turn is what no Cayley rotation makes
def test_its_own_weights_reach_a_given_rotation(angle):
    """Two mirrors half the angle apart: the second direction is a linear map of the first."""
    u, v = torch.linalg.qr(normal(WIDTH, 2))[0].T
    c, s = math.cos(angle) - 1, math.sin(angle)
    Q = (torch.eye(WIDTH) + c * (torch.outer(u, u) + torch.outer(v, v))
         + s * (torch.outer(v, u) - torch.outer(u, v)))
    row = make_residual("delta-product", WIDTH, beta_fixed=2.0, eps=0.0).double()
    with torch.no_grad():
        half = math.cos(angle / 2) * u + math.sin(angle / 2) * v
        row.direction_heads.weight.copy_(torch.outer(half, u))
    made = row.coefficients(normal(2, 3, WIDTH), lambda x: u.expand_as(x))
    assert_close(made.shortcut, Q.expand(2, 3, -1, -1), rtol=0, atol=1e-12)
