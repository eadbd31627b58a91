"""Under autocast sublayers and generators run in bfloat16; operators stay what they are."""

import pytest
import torch
from shared import shaken
from torch.testing import assert_close

from geolab.models import Transformer, TransformerConfig

ORTHOGONAL = {"emhc-cayley": {}, "emhc-hybrid": {"gate": "hard"}, "emhc-geodesic": {},
              "emhc-exact": {}, "emhc-stream": {"gate": "hard"}, "jpmhc": {"retraction": "exact"},
              "benchmark-jpmhc": {"retraction": "exact"}}
STOCHASTIC = {"mhc": -1, "benchmark-mhc": -2}  # the axis whose sums are exact
TIGHT = dict(rtol=0, atol=1e-6)


def coefficients(name, **options):
    """What the second sublayer's residual computes under autocast."""
    torch.manual_seed(0)
    config = TransformerConfig.benchmark(width=16, layers=1, heads=2, max_length=8)
    network = shaken(Transformer(config, name, **options))
    state = network.layers[0].residual.expand(torch.randn(3, 7, 16))
    with torch.autocast("cpu", torch.bfloat16):
        first, second = network.layers
        return second.residual.observe(first(state), second.sublayer)


@pytest.mark.parametrize("name", ORTHOGONAL)
def test_the_operator_is_orthogonal(name):
    g = coefficients(name, **ORTHOGONAL[name]).mix
    assert_close(g.mT @ g, torch.eye(g.shape[-1]).expand_as(g), **TIGHT)


def test_a_gate_with_a_head_of_its_own_leaves_in_single_precision_too():
    assert coefficients("emhc-hybrid", gate_head="linear").gate.dtype == torch.float32


@pytest.mark.parametrize("name", STOCHASTIC)
def test_the_operator_is_stochastic(name):
    h = coefficients(name).mix
    assert (h >= 0).all()
    assert_close(h.sum(STOCHASTIC[name]), torch.ones_like(h[..., 0]), **TIGHT)


@pytest.mark.parametrize("name, eps", [("delta", 1e-5), ("benchmark-delta", 0)])
def test_the_direction_has_unit_length(name, eps):
    k = coefficients(name).direction
    assert_close(torch.linalg.vector_norm(k, dim=-1), torch.ones_like(k[..., 0]), **TIGHT)
