"""Spectra, ranks, gains and statistics of matrices, against numbers found by hand."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from shared import normal
from torch.testing import assert_close

from geolab.operators import sinkhorn
from geolab.probes import (
    composite_gain,
    effective_rank,
    jacobian,
    spectrum,
    statistics_by_layer,
    stream_consensus,
)


@given(st.floats(-math.pi, math.pi))
def test_spectrum_of_a_rotation(angle):
    c, s = math.cos(angle), math.sin(angle)
    found = spectrum(torch.tensor([[c, -s], [s, c]], dtype=torch.float64))
    assert_close(found.eigenvalues.real, torch.full((2,), c, dtype=torch.float64))
    assert_close(found.eigenvalues.imag.sort().values,
                 torch.tensor([-abs(s), abs(s)], dtype=torch.float64))
    assert_close(found.singular_values, torch.ones(2, dtype=torch.float64))
    assert found.determinant.item() == pytest.approx(1)


@pytest.mark.parametrize("probe", [spectrum, stream_consensus, effective_rank])
def test_float32_matrices_are_measured_one_by_one_in_float64_and_without_a_graph(probe):
    matrices = normal(2, 3, 4, 4, dtype=torch.float32).requires_grad_()
    every, some = (found if isinstance(found, tuple) else (found,)
                   for found in (probe(matrices), probe(matrices[:, 2:].double())))
    for numbers, others in zip(every, some, strict=True):
        assert numbers.dtype in (torch.float64, torch.complex128) and not numbers.requires_grad
        assert numbers.shape[:2] == (2, 3)
        assert_close(numbers[:, 2:], others)


def test_jacobian_against_finite_differences():
    matrix, x = normal(6, 6), normal(2, 3, seed=1).requires_grad_()

    def f(x):
        return torch.sin(matrix @ x.flatten()) * x.square().sum()

    step = 1e-6 * torch.eye(6, dtype=torch.float64).view(6, 2, 3)
    differences = torch.stack([(f(x + e) - f(x - e)) / 2e-6 for e in step], dim=1)
    found = jacobian(f, x)
    assert_close(found, differences, rtol=0, atol=1e-8)
    assert not found.requires_grad and x.grad is None
    assert jacobian(lambda x: x.sum(0, keepdim=True).expand(5, 3), x).shape == (15, 6)


# ---------------------------------------------------------------- rank

@given(st.integers(1, 12), st.integers(1, 12))
def test_rank_one_uses_one_direction(rows, columns):
    x = torch.outer(1 + torch.arange(rows).double(), 1 + torch.arange(columns).double())
    assert effective_rank(x).item() == pytest.approx(1 / min(rows, columns), rel=1e-9)


def test_two_unequal_directions_by_hand():
    # singular values 3 and 1, in shares of ¾ and ¼
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert effective_rank(torch.diag(torch.tensor([3.0, 1.0]))).item() == pytest.approx(
        math.exp(entropy) / 2, rel=1e-12)


def test_a_common_mean_looks_like_a_collapse_unless_centred():
    x = normal(64, 64)
    shifted = x + 100 * normal(64, seed=1)
    assert effective_rank(x) > 0.75
    assert effective_rank(shifted) < 0.2
    assert_close(effective_rank(shifted, center=True), effective_rank(x, center=True))


# ---------------------------------------------------------------- stacks of mixing matrices

def test_gain_is_that_of_the_product_from_a_layer_to_the_end_averaged_over_tokens():
    h = normal(3, 5, 4, 4)
    products = [h[2] @ h[1] @ h[0], h[2] @ h[1], h[2]]
    gain = composite_gain(h)
    for found, axis in ((gain.forward, -1), (gain.backward, -2)):
        assert_close(found, torch.stack([p.abs().sum(axis).amax(-1).mean() for p in products]))
    gain = composite_gain(torch.tensor([[[1.0, 0.0], [1.0, 0.0]]]))
    assert gain.forward.tolist() == [1.0] and gain.backward.tolist() == [2.0]


def test_consensus_is_the_second_singular_value_of_the_product():
    h = sinkhorn(normal(5, 2, 4, 4), iterations=500)
    found, product = stream_consensus(h), torch.eye(4, dtype=torch.float64)
    for layer, matrix in enumerate(h):
        product = matrix @ product
        assert_close(found[layer], torch.linalg.svdvals(product)[:, 1], rtol=0, atol=1e-9)


def test_what_goes_into_the_mean_does_not_count():
    # the difference (1, −1) becomes the common vector (2, 2)
    to_all = torch.tensor([[2.0, 0.0], [2.0, 0.0]])
    assert stream_consensus(to_all[None]).item() == 0
    assert stream_consensus(torch.tensor([[[3.0, 0.0], [0.0, 3.0]]])).item() == pytest.approx(3)


# ---------------------------------------------------------------- statistics

def test_statistics_by_hand_of_layers_of_any_shape():
    layers = [torch.tensor([[-1.0, 3.0], [1.0, 1.0]]), torch.tensor([0.5], requires_grad=True)]
    found = statistics_by_layer((layer for layer in layers), threshold=1.0)
    assert found.mean.tolist() == [1.0, 0.5]
    assert found.std.tolist() == [2**0.5, 0.0]
    assert found.smallest.tolist() == [-1.0, 0.5] and found.largest.tolist() == [3.0, 0.5]
    assert found.below.tolist() == [0.25, 1.0]
    assert not found.mean.requires_grad
