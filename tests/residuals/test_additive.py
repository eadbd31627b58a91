import torch
from torch.testing import assert_close

from geolab.residuals import Additive


def test_the_step_is_x_plus_f_of_x():
    x = torch.randn(2, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    residual = Additive(4)
    assert_close(residual(x, torch.sin), x + torch.sin(x), rtol=0, atol=0)
    assert_close(residual(x, torch.zeros_like), x, rtol=0, atol=0)
    assert not list(residual.parameters())


def test_its_state_is_the_input_itself():
    x, residual = torch.randn(2, 3, 4), Additive(4)
    assert residual.expand(x) is x and residual.reduce(x) is x
