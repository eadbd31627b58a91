"""The causal regimes: what is noted of them, and a hint that is changed in what it says."""

from functools import partial

import pytest
import torch

from geolab.models.regimes import RegimeModel
from geolab.tasks import RandomTokens
from studies.experiments.regimes import COLUMNS, HINT, Hinted, profile, watched

TASK = RandomTokens(vocabulary=8, length=6, train=16, validation=32)
TOKENS = TASK.sample("validation").inputs


def seeded(build):
    torch.manual_seed(0)
    return build()


def test_a_profile_has_a_value_for_each_look():
    model = seeded(lambda: watched(HINT, TASK, evaluations=2))
    for training in (True, False, True, False, False):   # the last look has no place
        model.train(training)(TOKENS)
    found = profile(model)
    assert tuple(found) == COLUMNS and all(len(values) == 3 for values in found.values())
    assert found["read in hint"][0] > 0.5 > found["own weight"][0]


@pytest.mark.parametrize("frozen", [True, False])
def test_a_frozen_hint_does_not_follow_the_weights(frozen):
    h, model = torch.randn(2, 6, 64), Hinted(HINT, 8, max_length=6, frozen=frozen)
    before = model.hint(h)
    with torch.no_grad():
        model.output.weight.mul_(3)
        model.embedding.weight.add_(1)
    assert torch.equal(model.hint(h), before) == frozen


def test_a_scaled_hint_is_the_hint_times_the_scale():
    h, hinted = torch.randn(2, 6, 64), partial(Hinted, HINT, 8, max_length=6)
    plain = seeded(lambda: RegimeModel(HINT, 8, max_length=6)).hint(h)
    assert torch.allclose(seeded(partial(hinted, scale=4.0)).hint(h), 4 * plain)
