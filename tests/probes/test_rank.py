import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from shared import normal
from torch.testing import assert_close

from geolab.probes import effective_rank


@given(st.integers(1, 12), st.integers(1, 12))
def test_rank_one_uses_one_direction(rows, columns):
    x = torch.outer(1 + torch.arange(rows).double(), 1 + torch.arange(columns).double())
    assert effective_rank(x).item() == pytest.approx(1 / min(rows, columns), rel=1e-9)


def test_two_unequal_directions_by_hand():
    p = np.array([3, 1]) / 4
    assert effective_rank(torch.diag(torch.tensor([3.0, 1.0]))).item() == pytest.approx(
        math.exp(-(p * np.log(p)).sum()) / 2, rel=1e-12)


def test_a_common_mean_looks_like_a_collapse_unless_centred():
    x = normal(64, 64)
    shifted = x + 100 * normal(64, seed=1)
    assert effective_rank(x) > 0.75
    assert effective_rank(shifted) < 0.2
    assert_close(effective_rank(shifted, center=True), effective_rank(x, center=True))


def test_leading_axes_are_one_measurement_each():
    x = normal(2, 3, 5, 4)
    together = effective_rank(x)
    assert together.shape == (2, 3)
    assert_close(together[1, 2], effective_rank(x[1, 2]))


def test_leaves_no_gradient_behind():
    assert not effective_rank(normal(4, 4).requires_grad_()).requires_grad
