"""The negation diagnostic's models: how they start and learn. What they compute is in tests/parity.
"""

import math

import pytest
import torch
from shared import normal
from torch.testing import assert_close

from geolab.models import reflectors
from geolab.operators.cayley import cayley_iterated, skew
from geolab.penalties import collect_penalties

CLOSE = dict(rtol=0, atol=1e-12)
X = normal(20, 8)


def make(name, **options):
    torch.manual_seed(0)
    return getattr(reflectors, f"{name}Reflector")(8, **options).double()


@pytest.mark.parametrize("name", ["Additive", "Delta", "Hybrid", "JPmHC", "MHC", "StreamHybrid"])
def test_every_weight_learns(name):
    model = make(name)
    (model(X) + X).square().mean().backward()
    assert all(p.grad.abs().max() > 0 for p in model.parameters())


@pytest.mark.parametrize("name", ["Hybrid", "StreamHybrid"])
@pytest.mark.parametrize("bias", [-1.5, 0.0, 3.0])
def test_the_gate_starts_at_its_bias_and_adds_the_penalty(name, bias):
    model, gate = make(name, gate_bias=bias), 1 / (1 + math.exp(-bias))
    with collect_penalties() as penalties:
        model(X)
    found = model.coefficients(X)[2]
    assert_close(found, torch.full_like(found, gate), **CLOSE)
    assert [penalty.item() for penalty in penalties] == pytest.approx([0.5 * 4 * gate * (1 - gate)])
    with collect_penalties() as penalties:
        make(name, penalty=0.0)(X)
    assert penalties == []


def test_the_paper_s_own_iterate_starts_shifted():
    model = make("JPmHC", start="shifted")
    turned = cayley_iterated(skew(model.generator(X).view(-1, 8, 8)), 2, 0.1, start="shifted")
    assert_close(model(X), (turned @ X.unsqueeze(-1)).squeeze(-1), **CLOSE)


def test_mhc_starts_far_from_the_identity():
    matrix, read, write = make("MHC").coefficients(X)
    diagonal = math.exp(2) / (math.exp(2) + 3)
    assert (matrix.diagonal(dim1=-2, dim2=-1) - diagonal).abs().max() < 0.02
    assert (read - 0.5).abs().max() < 0.02 and (write - 1).abs().max() < 0.02
