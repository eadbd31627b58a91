"""The lecture's regimes: what reaches a prediction. What the published ones compute is in
tests/parity.
"""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from geolab.models.regimes import REGIMES, RegimeModel
from geolab.probes import influence

CLOSE = dict(rtol=0, atol=1e-12)
VOCABULARY, LENGTH = 11, 9

every_regime = pytest.mark.parametrize("name", REGIMES)


def build(name, layers=2, **options):
    torch.manual_seed(0)
    return RegimeModel(name, VOCABULARY, **{"width": 16, "layers": layers, "max_length": LENGTH}
                       | options).double().eval()


def tokens(batch=4):
    return torch.randint(VOCABULARY, (batch, LENGTH), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("layers", [1, 2, 3])
@every_regime
def test_all_of_the_past_is_read_and_a_leak_reaches_one_position_ahead_a_layer(name, layers):
    model = build(name, layers)
    reads = influence(model, tokens()) > 0
    ahead = torch.arange(LENGTH) - torch.arange(LENGTH)[:, None]
    furthest = 1 if name == "AR+FutureHint" else layers  # which looks once, before the output
    assert model.leaks == REGIMES[name].reads_future
    assert (reads == (ahead <= (furthest if model.leaks else 0))).all()


def test_a_regime_can_be_given_with_another_temperature_or_share():
    warm = build(replace(REGIMES["GT-PredictiveHint"], temperature=4.0))
    h = warm.embedding(tokens())
    assert_close(warm.hint(h), (warm.output(h) / 4).softmax(-1) @ warm.embedding.weight, **CLOSE)
    base, half = build("AR-Base"), build(replace(REGIMES["AR+FutureHint"], next_share=0.5))
    base.output = half.output = nn.Identity()
    h = base(tokens())
    assert_close(half(tokens())[:, :-1], h[:, :-1] + h[:, 1:] / 2, **CLOSE)


@every_regime
def test_every_weight_learns_from_the_first_batch_and_a_hint_teaches_nothing(name):
    model = build(name)
    loss = nn.functional.cross_entropy(model(tokens(32)).flatten(0, 1), tokens(32).flatten())
    loss.backward()
    largest = max(p.grad.abs().max() for p in model.parameters())
    assert all(p.grad.abs().max() > 1e-10 * largest for p in model.parameters())
    assert not model.hint(model.embedding(tokens())).requires_grad
