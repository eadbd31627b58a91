import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from geolab.models.reflectors import (
    AdditiveReflector,
    DeltaReflector,
    HybridReflector,
    JPmHCReflector,
    MHCReflector,
    StreamHybridReflector,
)
from geolab.operators import delta_matrix
from geolab.penalties import collect_penalties
from geolab.probes import jacobian

CLOSE = dict(rtol=0, atol=1e-12)


def inputs(dim=5):
    return torch.randn(20, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


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


REFLECTORS = [AdditiveReflector, DeltaReflector, HybridReflector, JPmHCReflector, MHCReflector,
              StreamHybridReflector]
every_reflector = pytest.mark.parametrize("reflector", REFLECTORS)


@every_reflector
def test_examples_do_not_mix(reflector):
    torch.manual_seed(0)
    blocks = jacobian(reflector(8).double(), inputs(8)[:3]).view(3, 8, 3, 8)
    assert all((blocks[i, :, j] == 0).all() == (i != j) for i in range(3) for j in range(3))


@every_reflector
def test_every_weight_learns(reflector):
    torch.manual_seed(0)
    model = reflector(8).double()
    (model(inputs(8)) + inputs(8)).square().mean().backward()
    assert all(p.grad.abs().max() > 0 for p in model.parameters())


@pytest.mark.parametrize("reflector", [MHCReflector, StreamHybridReflector])
def test_slices_must_be_equal(reflector):
    with pytest.raises(ValueError, match="^dim must be divisible by 4, got 6$"):
        reflector(6)


# ---------------------------------------------------------------- the hybrid

def test_hybrid_by_hand():
    torch.manual_seed(0)
    model, x = HybridReflector(8).double(), inputs(8)
    nn.init.normal_(model.gate.weight)
    y, identity = model(x), torch.eye(8, dtype=torch.float64)
    for i in range(20):
        u = model.u(x[i]) / model.u(x[i]).norm()
        v = model.v(x[i]) / model.v(x[i]).norm()
        v = v - (u @ v) * u
        v, k = v / v.norm(), model.direction(x[i]) / model.direction(x[i]).norm()
        m = torch.log1p(model.beta(x[i]).exp()) / 2 * (torch.outer(u, v) - torch.outer(v, u))
        turned = torch.linalg.solve(identity + m, (identity - m) @ x[i])
        gate = 1 / (1 + (-model.gate(x[i])).exp())
        assert_close(y[i], gate * turned + (1 - gate) * (x[i] - 2 * (k @ x[i]) * k), **CLOSE)


@pytest.mark.parametrize("reflector", [HybridReflector, StreamHybridReflector])
@pytest.mark.parametrize("bias", [-1.5, 0.0, 3.0])
def test_the_gate_starts_at_its_bias_and_adds_the_penalty(reflector, bias):
    torch.manual_seed(0)
    model, gate = reflector(8, gate_bias=bias).double(), 1 / (1 + math.exp(-bias))
    with collect_penalties() as penalties:
        model(inputs(8))
    assert_close(model.coefficients(inputs(8))[2], torch.full((20,), gate, dtype=torch.float64),
                 **CLOSE)
    assert len(penalties) == 1
    assert_close(penalties[0].item(), 0.5 * 4 * gate * (1 - gate), **CLOSE)
    with collect_penalties() as penalties:
        reflector(8, penalty=0.0)(inputs(8).float())
    assert penalties == []


class Normal(nn.Module):
    """A unit vector orthogonal to x, by turning the pairs of features."""

    def forward(self, x):
        return torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)


def test_hybrid_negates_by_its_reflection_or_by_a_rotation_whose_plane_holds_x():
    torch.manual_seed(0)
    model, x = HybridReflector(8).double(), inputs(8)
    model.direction = model.u = nn.Identity()
    model.v = Normal()
    nn.init.zeros_(model.beta[-1].weight)
    nn.init.constant_(model.gate.bias, -40.0)                  # γ = 0: the reflection along x
    assert_close(model(x), -x, **CLOSE)
    # γ = 1: the rotation, by 2 atan(β/2) in a plane with x
    nn.init.constant_(model.gate.bias, 40.0)
    for beta, cosine in ((20.0, 0.980), (100.0, 0.9992)):
        nn.init.constant_(model.beta[-1].bias, beta)
        reached = torch.cosine_similarity(model(x), -x)
        assert_close(reached, torch.full((20,), -math.cos(2 * math.atan(beta / 2)),
                                         dtype=torch.float64), rtol=0, atol=1e-8)
        assert reached[0].item() == pytest.approx(cosine, abs=5e-4)


def test_stream_hybrid_by_hand():
    torch.manual_seed(0)
    model, x = StreamHybridReflector(8).double(), inputs(8)
    y, identity = model(x), torch.eye(4, dtype=torch.float64)
    for i in range(20):
        centred = x[i] - x[i].mean()
        r = model.generator(centred / (centred.square().mean() + 1e-5).sqrt())
        u, v, k = r[:4], r[4:8], r[9:17] / r[9:17].norm()
        m = torch.log1p(r[8].exp()) / 2 * (torch.outer(u, v) - torch.outer(v, u))
        turned = (torch.linalg.solve(identity + m, identity - m) @ x[i].view(4, 2)).flatten()
        gate = 1 / (1 + (-r[17]).exp())
        assert_close(y[i], gate * turned + (1 - gate) * (x[i] - 2 * (k @ x[i]) * k), **CLOSE)


# ---------------------------------------------------------------- JPmHC and mHC

def test_jpmhc_by_hand():
    torch.manual_seed(0)
    for start in ("identity", "shifted"):
        model, x = JPmHCReflector(5, start=start).double(), inputs()
        y, identity = model(x), torch.eye(5, dtype=torch.float64)
        for i in range(20):
            w = model.generator(x[i]).view(5, 5)
            w = w - w.T
            step = identity + 0.1 * w if start == "shifted" else identity
            for _ in range(2):
                step = identity + 0.05 * w @ (identity + step)
            assert_close(y[i], step @ x[i], **CLOSE)


def distance_to_negation(start, z):
    """‖Y + I‖ for the generator whose eigenvalues are ±iz/α."""
    model = JPmHCReflector(4, start=start).double()
    quarter = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64)
    nn.init.zeros_(model.generator[-1].weight)
    with torch.no_grad():
        model.generator[-1].bias.copy_(torch.block_diag(quarter, quarter).flatten() * z / 0.2)
    return torch.linalg.matrix_norm(model.coefficients(inputs(4)[:1]) + torch.eye(4), ord=2).item()


def test_jpmhc_negates_exactly_from_the_papers_start_and_never_from_the_diagnostics():
    assert distance_to_negation("shifted", z=2.0) < 1e-7
    sizes = torch.linspace(0, 10, 1001).tolist()
    nearest = min(distance_to_negation("identity", z) for z in sizes)
    assert nearest == pytest.approx(math.sqrt(3), abs=1e-3)


def test_jpmhc_refuses_an_unknown_start():
    with pytest.raises(ValueError,
                       match="^start must be one of 'identity', 'shifted', got 'zero'$"):
        JPmHCReflector(4, start="zero")


def test_mhc_by_hand():
    torch.manual_seed(0)
    model, x = MHCReflector(8).double(), inputs(8)
    nn.init.normal_(model.scales)
    y = model(x)
    for i in range(20):
        a, b, c = model.scales
        matrix = (c * (model.mix.weight @ x[i]).view(4, 4) + model.mix_bias).exp()
        for _ in range(10):
            matrix = matrix / matrix.sum(1, keepdim=True)
            matrix = matrix / matrix.sum(0, keepdim=True)
        slices = x[i].view(4, 2)
        read = 1 / (1 + (-a * model.read.weight @ x[i] - model.read_bias).exp())
        write = 2 / (1 + (-b * model.write.weight @ x[i] - model.write_bias).exp())
        assert_close(y[i].view(4, 2), matrix @ slices
                     + write[:, None] * model.branch(read[:, None] * slices), **CLOSE)


def test_mhc_mixes_doubly_stochastically_and_starts_far_from_the_identity():
    torch.manual_seed(0)
    model = MHCReflector(8).double()
    matrix, read, write = model.coefficients(inputs(8))
    assert_close(matrix.sum(-2), torch.ones(20, 4, dtype=torch.float64), **CLOSE)
    assert_close(matrix.sum(-1), torch.ones(20, 4, dtype=torch.float64), rtol=0, atol=1e-6)
    assert (matrix > 0).all()
    diagonal = math.exp(2) / (math.exp(2) + 3)
    assert_close(matrix.diagonal(dim1=-2, dim2=-1),
                 torch.full((20, 4), diagonal, dtype=torch.float64), rtol=0, atol=0.02)
    assert (read - 0.5).abs().max() < 0.02 and (write - 1).abs().max() < 0.02
