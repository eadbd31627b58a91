"""Residuals with one stream whose summands are scaled, by constants or by learned numbers."""

import pytest
import torch
import torch.nn.functional as F
from shared import CLOSE, WIDTH, normal, shaken, sublayer
from torch.testing import assert_close

from geolab.residuals import Additive, NormPreserving, Scaled, make_residual
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


def test_the_default_starts_as_the_plain_residual():
    x, f = normal(2, 3, WIDTH), sublayer()
    assert torch.equal(Scaled(WIDTH).double()(x, f), Additive(WIDTH)(x, f))


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


@pytest.mark.parametrize("make, message", [
    (lambda: Scaled(8, learned=("scale",)), "learned must be one of 'state'.*got 'scale'"),
    (lambda: Scaled(8, learned="state"), "learned must be one of 'state'.*got 's'"),
    (lambda: Scaled(8, update=float("nan")), "update must be a finite number, got nan"),
    (lambda: NormPreserving(8, share="half"), "share must be one of .*'depth', got 'half'"),
    (lambda: NormPreserving(8, temperature=0), "temperature must be positive, got 0"),
    (lambda: NormPreserving(8, floor=2), "floor must be from 0 to 1, got 2"),
    (lambda: NormPreserving(8, eps=-1), "eps must be at least 0, got -1")])
def test_a_wrong_option_is_refused_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        make()
