"""The causal regimes: watching changes nothing, and a changed hint is changed in what it says."""

from functools import partial

import pytest
import torch

from geolab.models.regimes import REGIMES, RegimeModel
from geolab.tasks import RandomTokens
from studies.experiments.regimes import COLUMNS, HINT, Hinted, profile, watched

TASK = RandomTokens(vocabulary=8, length=6, train=16, validation=32)
TOKENS = TASK.sample("validation").inputs


def seeded(build):
    torch.manual_seed(0)
    return build()


@pytest.mark.parametrize("name", REGIMES)
def test_watching_changes_no_logits(name):
    plain = seeded(lambda: RegimeModel(name, TASK.vocabulary, max_length=TASK.length, dropout=0.0))
    watching = seeded(lambda: watched(name, TASK, evaluations=2))
    with torch.no_grad():
        for training in (True, False):
            same = torch.equal(plain.train(training)(TOKENS), watching.train(training)(TOKENS))
            assert same


def test_a_profile_has_a_value_for_each_look():
    model = seeded(lambda: watched(HINT, TASK, evaluations=2))
    for training in (True, False, True, False, False):   # the last look has no place
        model.train(training)(TOKENS)
    found = profile(model)
    assert tuple(found) == COLUMNS and all(len(values) == 3 for values in found.values())
    assert found["read in hint"][0] > 0.5 > found["own weight"][0]


def test_a_frozen_hint_does_not_follow_the_weights():
    h = torch.randn(2, 6, 64)
    for frozen in (True, False):
        model = seeded(partial(Hinted, HINT, 8, max_length=6, frozen=frozen))
        before = model.hint(h)
        with torch.no_grad():
            model.output.weight.mul_(3), model.embedding.weight.add_(1)
        assert torch.equal(model.hint(h), before) == frozen


def test_a_scaled_hint_is_the_hint_times_the_scale():
    h = torch.randn(2, 6, 64)
    plain = seeded(lambda: RegimeModel(HINT, 8, max_length=6)).hint(h)
    assert torch.allclose(seeded(lambda: Hinted(HINT, 8, max_length=6, scale=4.0)).hint(h),
                          4 * plain)
