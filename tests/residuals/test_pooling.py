import torch
from shared import normal
from torch.testing import assert_close

from geolab.residuals.pooling import pool


def test_a_pool_is_the_mean_so_far_the_state_itself_or_one_mean_for_all():
    x = normal(2, 7, 6)
    so_far = torch.stack([x[:, :t + 1].mean(1) for t in range(7)], dim=1)
    for how, wanted in (("causal", so_far), ("token", x), ("sequence", x.mean(1)[:, None])):
        assert_close(pool(x, how), wanted, rtol=1e-12, atol=1e-12)


def test_half_precision_adds_up_in_float():
    x = torch.full((1, 3000, 1), 1.0, dtype=torch.bfloat16)
    assert pool(x, "causal").dtype == torch.bfloat16
    assert (pool(x, "causal") == 1).all()  # a sum in bfloat16 stands still at 256
