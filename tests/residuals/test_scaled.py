"""Residuals with one stream whose summands are scaled, by constants or by learned numbers."""

import pytest
import torch
import torch.nn.functional as F
from shared import CLOSE, WIDTH, normal, shaken, sublayer
from torch.testing import assert_close

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
