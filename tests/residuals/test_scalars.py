"""ReZero, DeepNorm and LAuReL, by hand."""

import pytest
import torch
from shared import CLOSE, WIDTH, networks, normal, shaken, sublayer, vectors
from torch.testing import assert_close

from geolab.graft import distance_from_plain
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
    with pytest.raises(ValueError, match="^alpha must be "):
        make_residual("deepnorm", WIDTH, alpha=-1.0)


def test_deepnorm_is_complete_where_the_backbone_puts_its_norm_after_the_sum():
    config = TransformerConfig.benchmark(WIDTH, 2, heads=2, max_length=8, norm_at="post")
    torch.manual_seed(0)
    trunk, x = Transformer(config, "deepnorm").double(), vectors(2, 5, WIDTH)
    state = x + trunk.position[:, :5]
    for layer in trunk.layers:
        state = layer.norm(4 ** 0.25 * state + layer.mix(state))
    assert_close(trunk(x), state, **CLOSE)


def test_laurel_adds_a_matrix_of_low_rank_to_the_shortcut():
    network, plain = networks("laurel", rank=2)
    assert torch.equal(network(vectors(2, 5, WIDTH)), plain(vectors(2, 5, WIDTH)))
    F, x = sublayer(), normal(2, 3, WIDTH)
    residual = shaken(make_residual("laurel", WIDTH, rank=2).double())
    A, B, alpha = residual.down.weight, residual.up.weight, residual.alpha.item()
    assert_close(residual(x, F), alpha * F(x) + x @ (torch.eye(WIDTH) + B @ A).T, **CLOSE)
    assert torch.linalg.matrix_rank(B @ A) == 2
    with pytest.raises(ValueError, match="^rank must be "):
        make_residual("laurel", WIDTH, rank=0)


def test_which_of_them_start_plain():
    starts = {name: distance_from_plain(name, WIDTH) < 1e-12
              for name in ("rezero", "deepnorm", "laurel")}
    assert starts == {"rezero": False, "deepnorm": False, "laurel": True}
