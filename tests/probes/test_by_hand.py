"""Probes of states, matrices and writes, each against numbers found by hand or another way."""

import math
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from shared import normal
from torch import nn
from torch.testing import assert_close

from geolab import probes
from geolab.operators import delta_update, sinkhorn, unit_direction

SEEDS = st.integers(0, 10_000)


def double(*rows):
    return torch.tensor(rows, dtype=torch.float64)


# ---------------------------------------------------------------- states and gradients

def stack():
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()


def test_states_are_the_input_and_every_output_in_order_and_no_hook_stays():
    model, x = stack(), normal(5, 3)
    expected = [x]
    for layer in model:
        expected.append(layer(expected[-1]))
    seen = probes.states(model, model, x)
    assert_close(seen, [state.detach() for state in expected], rtol=0, atol=0)
    assert_close(probes.states(model, iter(model[1:]), x), seen[1:], rtol=0, atol=0)
    assert not any(state.requires_grad for state in seen)
    with pytest.raises(RuntimeError):
        probes.states(model, model, normal(5, 7))
    assert not any(layer._forward_hooks or layer._forward_pre_hooks for layer in model)


def test_gradient_norms_are_those_of_backward():
    model = stack()
    loss = model(normal(5, 3)).square().mean()
    measured = probes.gradient_norms(loss, (p for p in model.parameters() if p.ndim == 2))
    assert all(p.grad is None for p in model.parameters())
    loss.backward()  # the graph is kept
    assert_close(measured, torch.stack([model[0].weight.grad.norm(), model[2].weight.grad.norm()]))


def test_norm_by_depth_is_the_mean_length():
    wide = torch.full((1, 2, 3, 4), 0.5, dtype=torch.float64, requires_grad=True)
    first = double([[3.0, 4.0], [0.0, 1.0]])
    lengths = probes.norm_by_depth([first, wide, 2 * first])
    assert lengths.tolist() == [3, 1, 6] and not lengths.requires_grad


class Times(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return self.factor * x


IN_TURN = torch.tensor([0.5, 1.5]).repeat(5)


@pytest.mark.parametrize("factor, drift", [
    (0.0, 1.0), (0.5, 0.5), (-1.0, 0.0), (3.0, 2.0),
    # the mean over sequences comes before the absolute value, and positions don't cancel
    (IN_TURN[:, None, None], 0.0), (IN_TURN[:, None], 0.5)])
def test_a_drift_is_the_distance_of_the_mean_length_from_one(factor, drift):
    found = probes.norm_drift(Times(factor), dim=8, length=10, sequences=10)
    assert found == pytest.approx(drift, abs=1e-6)


# ---------------------------------------------------------------- matrices

@given(st.floats(-math.pi, math.pi))
def test_spectrum_of_a_rotation(angle):
    c, s = math.cos(angle), math.sin(angle)
    found = probes.spectrum(double([c, -s], [s, c]))
    assert_close(found.eigenvalues.real, double(c, c))
    assert_close(found.eigenvalues.imag.sort().values, double(-abs(s), abs(s)))
    assert_close(found.singular_values, double(1, 1))
    assert found.determinant.item() == pytest.approx(1)


@pytest.mark.parametrize("probe", [probes.spectrum, probes.stream_consensus,
                                   probes.effective_rank])
def test_float32_matrices_are_measured_one_by_one_in_float64_and_without_a_graph(probe):
    matrices = normal(2, 3, 4, 4, dtype=torch.float32).requires_grad_()
    every, some = (found if isinstance(found, tuple) else (found,)
                   for found in (probe(matrices), probe(matrices[:, 2:].double())))
    for numbers, others in zip(every, some, strict=True):
        assert numbers.dtype in (torch.float64, torch.complex128) and not numbers.requires_grad
        assert numbers.shape[:2] == (2, 3)
        assert_close(numbers[:, 2:], others)


def test_jacobians_are_those_of_finite_differences():
    matrix, x = normal(6, 6), normal(1, 2, 3, seed=1).requires_grad_()

    def f(x):
        return torch.sin(x.flatten() @ matrix).view(x.shape) * x.square().sum()

    step = 1e-6 * torch.eye(6, dtype=torch.float64).view(6, 1, 2, 3)
    differences = torch.stack([((f(x + e) - f(x - e)) / 2e-6).flatten() for e in step], dim=1)
    found = probes.jacobian(f, x)
    assert_close(found, differences.detach(), rtol=0, atol=1e-8)
    assert not found.requires_grad and x.grad is None
    assert probes.jacobian(lambda x: x.sum(0).expand(5, 2, 3), x).shape == (30, 6)
    for position in (1, -1, -2):
        own = found.view(2, 3, 2, 3)[position, :, position]
        assert_close(probes.token_jacobian(f, x, position), own)


def test_rank_is_the_exponential_of_the_entropy_of_the_singular_values():
    # singular values 3 and 1, in shares of ¾ and ¼
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    found = probes.effective_rank(torch.diag(double(3, 1)))
    assert found.item() == pytest.approx(math.exp(entropy) / 2, rel=1e-12)
    x = normal(64, 32)
    shifted = x + 100 * normal(32, seed=1)  # a common mean looks like a collapse
    assert probes.effective_rank(shifted) < 0.2 < 0.75 < probes.effective_rank(x)
    centred = probes.effective_rank(shifted, center=True)
    assert_close(centred, probes.effective_rank(x, center=True))


def test_gain_is_that_of_the_product_from_a_layer_to_the_end_averaged_over_tokens():
    h = normal(3, 5, 4, 4)
    products = [h[2] @ h[1] @ h[0], h[2] @ h[1], h[2]]
    gain = probes.composite_gain(h)
    for found, axis in ((gain.forward, -1), (gain.backward, -2)):
        assert_close(found, torch.stack([p.abs().sum(axis).amax(-1).mean() for p in products]))


def test_consensus_is_the_second_singular_value_of_the_product_without_its_mean():
    h = sinkhorn(normal(5, 2, 4, 4), iterations=500)
    found, product = probes.stream_consensus(h), torch.eye(4, dtype=torch.float64)
    for layer, matrix in enumerate(h):
        product = matrix @ product
        assert_close(found[layer], torch.linalg.svdvals(product)[:, 1], rtol=0, atol=1e-9)
    # the difference (1, −1) becomes the common vector (2, 2)
    assert probes.stream_consensus(double([[2, 0], [2, 0]])).item() == 0


def test_statistics_of_layers_of_any_shape():
    layers = [torch.tensor([[-1.0, 3.0], [1.0, 1.0]]), torch.tensor([0.5], requires_grad=True)]
    found = probes.statistics_by_layer((layer for layer in layers), threshold=1.0)
    assert [field.tolist() for field in found] == [
        [1.0, 0.5], [2**0.5, 0.0], [-1.0, 0.5], [3.0, 0.5], [0.25, 1.0]]
    assert not found.mean.requires_grad


# ---------------------------------------------------------------- writes

@given(SEEDS, st.floats(-1, 3))
def test_a_delta_step_has_its_rate_and_any_write_is_one_along_itself(seed, beta):
    x, k = normal(4, 8, seed=seed), unit_direction(normal(4, 8, seed=seed + 1))
    new = delta_update(x[..., None], k, torch.zeros(4, 1, dtype=x.dtype),
                       torch.full((4,), beta, dtype=x.dtype))[..., 0]
    assert_close(probes.delta_rate(x, new - x, k), torch.full((4,), beta).double())
    rate, write = probes.delta_rate(x, 3 * k), 3 * k
    assert_close(x + write, x - (rate * (k * x).sum(-1))[..., None] * k)
    assert_close(probes.share_along(x, beta * x), torch.full((4,), beta).double())


def test_who_takes_away_what_another_wrote_has_a_negative_cosine():
    first, second = normal(2, 25, 8, seed=0), normal(2, 25, 8, seed=1)
    found = probes.between_writes([first, second, -second], center=False)
    assert found.cosine[2, 1] == pytest.approx(-1) and found.negative[2, 1] == 1
    assert found.cosine[1, 0] == pytest.approx(-found.cosine[2, 0])
    assert found.cosine[0, 1].isnan() and found.cosine[0, 0].isnan()
    moved = [first + 100, second - 100]  # what is written everywhere doesn't count when centred
    assert_close(probes.between_writes(moved).cosine,
                 probes.between_writes([first, second]).cosine, equal_nan=True)
    assert probes.between_writes(moved, center=False).cosine[1, 0] < -0.9


# ---------------------------------------------------------------- along a sequence

def test_a_dirichlet_energy_is_a_mean_over_sequences():
    assert probes.dirichlet_energy(double([1], [2], [4])).item() == pytest.approx(5 / 21)
    batch = double([[1], [1]], [[0.1], [-0.1]])
    assert probes.dirichlet_energy(batch).item() == pytest.approx((0 + 2) / 2)


@given(SEEDS, st.integers(3, 9), st.integers(1, 7))
def test_one_affine_predictor_for_all_windows_leaves_no_residual(seed, window, stride):
    stride = min(stride, window - 2)
    positions = torch.arange(24, dtype=torch.float64)[:, None]
    h = normal(1, 5, seed=seed) + positions * normal(1, 5, seed=seed + 1)
    assert probes.cech_residual(h, window, stride) < 1e-10
    h[12] += 1
    assert probes.cech_residual(h, window, stride) > 1e-3


def test_a_cech_residual_by_hand():
    # fits 0, 0, 0 and −1/6, 1/3, 5/6; they differ by −1/6 and 1/3
    residual = probes.cech_residual(double([0], [0], [0], [1]), window=3, stride=1)
    assert residual.item() == pytest.approx(math.sqrt((1 + 4) / (1 + 4 + 25)))


# ---------------------------------------------------------------- read-out

LABELS = torch.randint(10, (4000,), generator=torch.Generator().manual_seed(0))


def test_a_code_is_read_wherever_it_lies_from_labels_of_the_first_half_alone():
    code, noise = normal(10, 16)[LABELS] + 5, normal(4000, 16, seed=1)
    assert probes.linear_readout(code, LABELS) == 1
    assert abs(probes.linear_readout(noise, LABELS) - 0.1) < 0.03
    x = code + noise
    assert probes.linear_readout(x, LABELS) == probes.linear_readout(1e-3 * x + 7, LABELS) < 1
    other = torch.where(torch.arange(4000) < 2000, LABELS, (LABELS + 3) % 10)
    assert probes.linear_readout(code, other) == 0


# ---------------------------------------------------------------- topology

def polygon(count):
    angles = 2 * math.pi * torch.arange(count, dtype=torch.float64) / count
    return torch.stack([angles.cos(), angles.sin()], dim=1)


@pytest.mark.parametrize("count", [4, 7, 40])
def test_a_polygon_has_one_loop_born_at_its_side_and_dead_at_the_chord_over_a_third(count):
    points = polygon(count)
    bars = probes.persistence(points) * torch.pdist(points).quantile(0.5)
    chord = [2 * math.sin(math.pi * k / count) for k in (1, math.ceil(count / 3))]
    assert_close(bars, double(chord), rtol=0, atol=1e-12)


def test_components_of_a_line_live_as_long_as_its_gaps():
    # distances 1 2 3 4 6 7, median 3.5
    bars = probes.persistence(double([0], [1], [3], [7]), dimension=0)
    assert_close(bars, double([0, 4], [0, 2], [0, 1]) / 3.5)
    assert probes.total_persistence(bars).item() == pytest.approx(7 / 3.5)


def test_without_the_library_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "gudhi", None)
    with pytest.raises(ImportError, match=r'pip install "geolab\[topology\]"'):
        probes.persistence(polygon(5))
