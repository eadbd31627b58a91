"""ReZero, DeepNorm and LAuReL, by hand."""

import pytest
import torch
from shared import CLOSE, WIDTH, normal, shaken, sublayer
from torch.testing import assert_close

from geolab.models import Transformer, TransformerConfig
from geolab.residuals import make_residual


def test_rezero_starts_as_the_identity_and_each_number_scales_a_sublayer():
    F, x = sublayer(), normal(2, 3, WIDTH)
    residual = make_residual("rezero", WIDTH).double()
    assert torch.equal(residual(x, F), x)
    assert_close(shaken(residual)(x, F), x + residual.alpha.item() * F(x), **CLOSE)


@pytest.mark.parametrize("count", [1, 2, 12])
def test_deepnorm_s_alpha_is_that_of_the_paper(count):
    """(2N)^(1/4) for N layers of two sublayers."""
    residual, x = make_residual("deepnorm", WIDTH, 0, count), normal(2, 3, WIDTH)
    assert_close(residual(x, torch.tanh), count ** 0.25 * x + x.tanh(), **CLOSE)


def test_deepnorm_is_complete_where_the_backbone_puts_its_norm_after_the_sum():
    config = TransformerConfig.benchmark(WIDTH, 2, heads=2, max_length=8, norm_at="post")
    torch.manual_seed(0)
    trunk, x = Transformer(config, "deepnorm").double(), normal(2, 5, WIDTH)
    state = x + trunk.position[:, :5]
    for layer in trunk.layers:
        state = layer.norm(4 ** 0.25 * state + layer.mix(state))
    assert_close(trunk(x), state, **CLOSE)


def test_laurel_adds_a_matrix_of_low_rank_to_the_shortcut():
    F, x = sublayer(), normal(2, 3, WIDTH)
    residual = shaken(make_residual("laurel", WIDTH, rank=2).double())
    A, B, alpha = residual.down.weight, residual.up.weight, residual.alpha.item()
    assert_close(residual(x, F), alpha * F(x) + x @ (torch.eye(WIDTH) + B @ A).T, **CLOSE)
    assert torch.linalg.matrix_rank(B @ A) == 2
