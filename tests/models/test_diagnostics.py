import torch
from torch import nn
from torch.testing import assert_close

from geolab.models import AdditiveReflector, DeltaReflector
from geolab.operators import delta_matrix
from geolab.probes import jacobian

CLOSE = dict(rtol=0, atol=1e-12)


def inputs():
    return torch.randn(20, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_additive_is_x_plus_its_branch():
    torch.manual_seed(0)
    model, x = AdditiveReflector(5).double(), inputs()
    assert_close(model(x), x + model.branch(x), rtol=0, atol=0)


def test_delta_is_its_operator_applied():
    torch.manual_seed(0)
    model, x = DeltaReflector(5).double(), inputs()
    k, beta = model.coefficients(x)
    assert k.shape == x.shape and beta.shape == (20,)
    assert ((beta > 0) & (beta < 2)).all()
    k = k / k.norm(dim=-1, keepdim=True)  # the guard shortens k by less than rounding shows
    assert_close(model(x), (delta_matrix(k, beta) @ x.unsqueeze(-1)).squeeze(-1), **CLOSE)


def test_delta_never_lengthens_and_reaches_the_reflection():
    torch.manual_seed(0)
    model, x = DeltaReflector(5).double(), inputs()
    assert (model(x).norm(dim=-1) <= x.norm(dim=-1) + 1e-12).all()
    model.direction = nn.Identity()                  # k along x …
    nn.init.zeros_(model.beta[-1].weight)
    nn.init.constant_(model.beta[-1].bias, 40.0)     # … and β = 2: exactly the negation
    assert_close(model(x), -x, **CLOSE)


def test_examples_do_not_mix():
    torch.manual_seed(0)
    for model in (AdditiveReflector(5).double(), DeltaReflector(5).double()):
        blocks = jacobian(model, inputs()[:3]).view(3, 5, 3, 5)
        assert all((blocks[i, :, j] == 0).all() == (i != j) for i in range(3) for j in range(3))


def test_every_weight_learns():
    torch.manual_seed(0)
    for model in (AdditiveReflector(5).double(), DeltaReflector(5).double()):
        (model(inputs()) + inputs()).square().mean().backward()
        assert all(p.grad.abs().max() > 0 for p in model.parameters())
