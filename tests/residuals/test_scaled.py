"""Residuals with one stream whose summands are scaled, by constants or by learned numbers."""

import pytest
import torch
import torch.nn.functional as F
from shared import CLOSE, WIDTH, normal, shaken, sublayer
from torch.testing import assert_close

from geolab.models import Transformer, TransformerConfig
from geolab.residuals import NormPreserving, Scaled, make_residual
from geolab.residuals.scaled import LEARNED


def unit(x):
    return F.rms_norm(x, x.shape[-1:], eps=0)


@pytest.mark.parametrize("learned", [(), *((name,) for name in LEARNED), LEARNED])
def test_what_isn_t_learned_is_a_constant(learned):
    residual = shaken(Scaled(WIDTH, state=0.9, update=0.3, learned=learned).double())
    assert set(dict(residual.named_parameters())) == set(learned)
    s, c, t, d = (getattr(residual, name) if name in learned else constant
                  for name, constant in zip(LEARNED, (0.9, 0, 0.3, 0), strict=True))
    x, f = normal(2, 3, WIDTH), sublayer()
    assert_close(residual(x, f), s * (x + c) + t * (f(x) + d), **CLOSE)


@pytest.mark.parametrize("options", [{"share": "depth"}, *(
    {"share": "learned", "start": w} for w in (-30.0, -1.0, 0.0, 1.0, 30.0))], ids=str)
def test_the_squares_of_the_weights_sum_to_one(options):
    """Above the floor; there the state keeps at least that share of its square."""
    residual = NormPreserving(WIDTH, 3, 8, **options).double()
    alpha, beta = residual.scales(torch.float64)
    total = torch.as_tensor(alpha ** 2 + beta ** 2)
    floored = options.get("start") == 30
    assert_close(total, torch.full_like(total, 1 + 1e-3 * floored), rtol=0, atol=1e-6)


def test_by_depth_the_state_is_the_plain_sum_over_the_root_of_its_summands():
    x, f = normal(2, 3, WIDTH), sublayer()
    ours, plain = x, x
    for index in range(6):
        residual = make_residual("norm-preserving", WIDTH, index, 6, share="depth", eps=0.0)
        ours = residual.double()(ours, lambda x: f(unit(x)))
        plain = plain + unit(f(unit(plain)))
        assert_close(ours * (index + 2) ** 0.5, plain, **CLOSE)


def test_rezero_starts_as_the_identity_and_each_number_scales_a_sublayer():
    f, x = sublayer(), normal(2, 3, WIDTH)
    residual = make_residual("rezero", WIDTH).double()
    assert torch.equal(residual(x, f), x)
    assert_close(shaken(residual)(x, f), x + residual.alpha.item() * f(x), **CLOSE)


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
    f, x = sublayer(), normal(2, 3, WIDTH)
    residual = shaken(make_residual("laurel", WIDTH, rank=2).double())
    A, B, alpha = residual.down.weight, residual.up.weight, residual.alpha.item()
    assert_close(residual(x, f), alpha * f(x) + x @ (torch.eye(WIDTH) + B @ A).T, **CLOSE)
    assert torch.linalg.matrix_rank(B @ A) == 2
