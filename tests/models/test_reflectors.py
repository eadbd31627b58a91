import math

import pytest
import torch
from shared import normal
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

CLOSE = dict(rtol=0, atol=1e-12)


def inputs(dim=5):
    return normal(20, dim)


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


@pytest.mark.parametrize("reflector", [
    AdditiveReflector, DeltaReflector, HybridReflector, JPmHCReflector, MHCReflector,
    StreamHybridReflector])
def test_every_weight_learns(reflector):
    torch.manual_seed(0)
    model = reflector(8).double()
    (model(inputs(8)) + inputs(8)).square().mean().backward()
    assert all(p.grad.abs().max() > 0 for p in model.parameters())


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


def test_mhc_starts_far_from_the_identity():
    torch.manual_seed(0)
    matrix, read, write = MHCReflector(8).double().coefficients(inputs(8))
    diagonal = math.exp(2) / (math.exp(2) + 3)
    assert (matrix.diagonal(dim1=-2, dim2=-1) - diagonal).abs().max() < 0.02
    assert (read - 0.5).abs().max() < 0.02 and (write - 1).abs().max() < 0.02
