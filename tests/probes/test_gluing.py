import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from geolab.probes import cech_residual, dirichlet_energy

CLOSE = dict(rtol=0, atol=1e-12)
SEEDS = st.integers(0, 10_000)


def gaussian(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def positions(count):
    return torch.arange(count, dtype=torch.float64)[:, None]


# Dirichlet


def test_a_constant_sequence_has_no_energy_and_an_alternating_one_nearly_the_most():
    v = gaussian(1, 5)
    assert dirichlet_energy(v.expand(12, 5)) == 0
    assert float(dirichlet_energy((-1) ** positions(12) * v)) == pytest.approx(4 * 11 / 12)


def test_independent_vectors_have_energy_2_without_a_mean_and_less_with_one():
    h = gaussian(50, 64, 16)
    assert float(dirichlet_energy(h)) == pytest.approx(2 * 63 / 64, abs=0.02)
    assert dirichlet_energy(h + 3) < 0.25


@given(SEEDS, st.integers(2, 9))
def test_path_energy_lies_between_0_and_the_largest_eigenvalue_which_is_attained(seed, length):
    most = 2 + 2 * math.cos(math.pi / length)
    laplacian = torch.diag(torch.tensor([1.0] + [2.0] * (length - 2) + [1.0], dtype=torch.float64))
    laplacian -= torch.diag(torch.ones(length - 1), 1) + torch.diag(torch.ones(length - 1), -1)
    top = torch.linalg.eigh(laplacian).eigenvectors[:, -1:]
    assert 0 <= dirichlet_energy(gaussian(length, 3, seed=seed)) <= most + 1e-12
    assert float(dirichlet_energy(top)) == pytest.approx(most)


@given(SEEDS, st.floats(-3, 3))
def test_scale_and_rotation_of_features_change_nothing(seed, exponent):
    h = gaussian(2, 6, 4, seed=seed)
    turned = 10**exponent * h @ torch.linalg.qr(gaussian(4, 4, seed=seed + 1)).Q
    for measure in (dirichlet_energy, lambda h: cech_residual(h, window=4, stride=2)):
        assert_close(measure(turned), measure(h), rtol=1e-9, atol=0)


def test_an_energy_by_hand():
    assert float(dirichlet_energy(torch.tensor([[1.0], [2.0], [4.0]]))) == pytest.approx(5 / 21)


def test_the_mean_is_over_sequences_and_not_of_their_sums():
    batch = torch.stack([torch.tensor([[1.0], [1.0]]), torch.tensor([[0.1], [-0.1]])])
    assert float(dirichlet_energy(batch)) == pytest.approx((0 + 2) / 2)


def test_it_refuses_wrong_shapes_and_zeros():
    h = gaussian(4, 3)
    with pytest.raises(ValueError, match="h must be"):
        dirichlet_energy(h[0])
    with pytest.raises(ValueError, match="h must not be zero"):
        dirichlet_energy(torch.stack([h, 0 * h]))


# Čech


@given(SEEDS, st.integers(3, 9), st.integers(1, 7))
def test_one_affine_predictor_for_all_windows_leaves_no_residual(seed, window, stride):
    stride = min(stride, window - 2)
    h = gaussian(1, 5, seed=seed) + positions(24) * gaussian(1, 5, seed=seed + 1)
    assert cech_residual(h, window, stride) < 1e-10
    h[12] += 1
    assert cech_residual(h, window, stride) > 1e-3


def test_it_is_blind_to_what_is_orthogonal_to_every_fit():
    pattern = torch.tensor([1.0, -1, -1, 1]).repeat(6)[:, None] * gaussian(1, 3)
    assert cech_residual(1 + positions(24) + pattern, 8, 4) < 1e-10
    assert cech_residual(1 + positions(24) + pattern, 7, 4) > 1e-3
    with pytest.raises(ValueError, match="h must not be orthogonal to every fit"):
        cech_residual(pattern, 8, 4)


def test_residual_by_hand():
    # fits 0, 0, 0 and −1/6, 1/3, 5/6; they differ by −1/6 and 1/3
    h = torch.tensor([[0.0], [0.0], [0.0], [1.0]])
    residual = float(cech_residual(h, window=3, stride=1))
    assert residual == pytest.approx(math.sqrt((1 + 4) / (1 + 4 + 25)))


@given(SEEDS, st.integers(3, 9), st.integers(1, 7))
def test_residual_is_at_most_2(seed, window, stride):
    assert 0 < cech_residual(gaussian(20, 2, seed=seed), window, min(stride, window - 2)) <= 2


def test_smooth_curves_glue_better_than_rough_ones():
    t = positions(128)
    slow, fast = (torch.cos(2 * math.pi * t / period) for period in (64, 16))
    noise = gaussian(128, 1)
    assert cech_residual(slow) < 0.1 < cech_residual(fast) < cech_residual(noise)
    assert float(cech_residual(gaussian(20, 128, 64))) == pytest.approx(0.54, abs=0.01)


def test_it_refuses_windows_that_do_not_fit():
    h = gaussian(12, 3)
    with pytest.raises(ValueError, match="window must be from 3 to the 12 positions of h, got 2"):
        cech_residual(h, window=2)
    with pytest.raises(ValueError, match="window must be from 3 to the 12 positions of h, got 13"):
        cech_residual(h, window=13)
    with pytest.raises(ValueError, match="stride must be from 1 to window − 2 = 6, got 7"):
        cech_residual(h, window=8, stride=7)
    with pytest.raises(ValueError, match="room for two windows, 14 positions, got 12"):
        cech_residual(h, window=8, stride=6)
