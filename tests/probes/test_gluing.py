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


def test_residual_by_hand():
    # fits 0, 0, 0 and −1/6, 1/3, 5/6; they differ by −1/6 and 1/3
    h = torch.tensor([[0.0], [0.0], [0.0], [1.0]])
    residual = float(cech_residual(h, window=3, stride=1))
    assert residual == pytest.approx(math.sqrt((1 + 4) / (1 + 4 + 25)))
