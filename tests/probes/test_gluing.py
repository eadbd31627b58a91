import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from shared import normal

from geolab.probes import cech_residual, dirichlet_energy

SEEDS = st.integers(0, 10_000)


def positions(count):
    return torch.arange(count, dtype=torch.float64)[:, None]


# Dirichlet


def test_an_energy_by_hand():
    assert float(dirichlet_energy(torch.tensor([[1.0], [2.0], [4.0]]))) == pytest.approx(5 / 21)


def test_the_mean_is_over_sequences_and_not_of_their_sums():
    batch = torch.stack([torch.tensor([[1.0], [1.0]]), torch.tensor([[0.1], [-0.1]])])
    assert float(dirichlet_energy(batch)) == pytest.approx((0 + 2) / 2)


def test_it_refuses_wrong_shapes_and_zeros():
    h = normal(4, 3)
    with pytest.raises(ValueError, match="h must be"):
        dirichlet_energy(h[0])
    with pytest.raises(ValueError, match="h must not be zero"):
        dirichlet_energy(torch.stack([h, 0 * h]))


# Čech


@given(SEEDS, st.integers(3, 9), st.integers(1, 7))
def test_one_affine_predictor_for_all_windows_leaves_no_residual(seed, window, stride):
    stride = min(stride, window - 2)
    h = normal(1, 5, seed=seed) + positions(24) * normal(1, 5, seed=seed + 1)
    assert cech_residual(h, window, stride) < 1e-10
    h[12] += 1
    assert cech_residual(h, window, stride) > 1e-3


def test_it_is_blind_to_what_is_orthogonal_to_every_fit():
    pattern = torch.tensor([1.0, -1, -1, 1]).repeat(6)[:, None] * normal(1, 3)
    assert cech_residual(1 + positions(24) + pattern, 8, 4) < 1e-10
    assert cech_residual(1 + positions(24) + pattern, 7, 4) > 1e-3
    with pytest.raises(ValueError, match="h must not be orthogonal to every fit"):
        cech_residual(pattern, 8, 4)


def test_residual_by_hand():
    # fits 0, 0, 0 and −1/6, 1/3, 5/6; they differ by −1/6 and 1/3
    h = torch.tensor([[0.0], [0.0], [0.0], [1.0]])
    residual = float(cech_residual(h, window=3, stride=1))
    assert residual == pytest.approx(math.sqrt((1 + 4) / (1 + 4 + 25)))


def test_it_refuses_windows_that_do_not_fit():
    h = normal(12, 3)
    with pytest.raises(ValueError, match="window must be from 3 to the 12 positions of h, got 2"):
        cech_residual(h, window=2)
    with pytest.raises(ValueError, match="window must be from 3 to the 12 positions of h, got 13"):
        cech_residual(h, window=13)
    with pytest.raises(ValueError, match="stride must be from 1 to window − 2 = 6, got 7"):
        cech_residual(h, window=8, stride=7)
    with pytest.raises(ValueError, match="room for two windows, 14 positions, got 12"):
        cech_residual(h, window=8, stride=6)
