"""A residual is right at every size of its state that float32 can hold, or says NaN or infinity."""

import pytest
import torch
from shared import FORMS, shaken, stack

# their norm is PyTorch's, which gives 0 where float32 can't hold a square
OF_PYTORCH = {"delta", "delta-matrix", "delta-product", "emhc-mixer"}


def at_scale(made, scale, dtype):
    """A network's output around sublayers with a constant output: no norm but the residuals'."""
    first, second = torch.Generator().manual_seed(0), torch.Generator().manual_seed(1)
    state = made[0].expand(scale * torch.randn(2, 5, made[0].outer, generator=first).to(dtype))
    state = state + scale * torch.randn(state.shape, generator=second).to(dtype)
    for residual in made:
        state = residual(state, lambda u: torch.linspace(-1, 1, u.shape[-1]).to(u).expand_as(u))
    return made[-1].reduce(state)


@torch.no_grad()
@pytest.mark.parametrize("name, options", FORMS)
def test_a_state_of_any_size_gives_what_float64_gives_or_no_number(name, options):
    made = shaken(stack(name, 16, **options))
    of_pytorch = name in OF_PYTORCH or options.get("norm") == "rms"
    scales = (1.0, 1e10, 1e18, *([] if of_pytorch else [1e25, 1e30]))
    found = [at_scale(made, scale, torch.float32) for scale in scales]
    made.double()
    for scale, ours in zip(scales, found, strict=True):
        wanted = at_scale(made, scale, torch.float64)
        loud = scale > 1e18 and not ours.isfinite().all()
        assert loud or (ours - wanted).norm() <= 1e-4 * wanted.norm(), scale
