"""The protocol: a search that ends inside of what it tried, on seeds that report nothing."""

import json
import math
from dataclasses import asdict

from hypothesis import given
from hypothesis import strategies as some

from geolab.training import Budget
from studies.engine.protocol import WARMUPS, Protocol, Setting, at, beyond

RATES = [float(f"{digit}e{power}") for power in range(-5, 0) for digit in (1, 2, 5)]


def bowl(lr, warmup):
    """A loss with one lowest setting, the same on every seed."""
    def loss(setting, seed):
        apart = WARMUPS.index(setting.warmup) - WARMUPS.index(warmup)
        return abs(math.log(setting.lr / lr)) + abs(apart)
    return loss


def noted(loss):
    """The loss, and a list of what it was asked for."""
    asked = []

    def noting(setting, seed):
        asked.append((setting, seed))
        return loss(setting, seed)
    return noting, asked


@given(some.sampled_from(RATES), some.sampled_from(WARMUPS))
def test_a_search_ends_with_its_best_setting_inside_of_the_grid(lr, warmup):
    loss, asked = noted(bowl(lr, warmup))
    found = Protocol().search(loss)
    assert next(iter(found)) == Setting(lr, warmup)
    assert list(found.values()) == sorted(found.values())
    tried = {setting for setting, _ in asked}
    assert {s.lr for s in tried if s.lr < lr} and {s.lr for s in tried if s.lr > lr}
    shares = {s.warmup for s in tried}
    assert {WARMUPS[i] for k in [WARMUPS.index(warmup)] for i in (k - 1, k + 1)
            if 0 <= i < len(WARMUPS)} <= shares
    assert tried == {Setting(rate, share) for rate in {s.lr for s in tried} for share in shares}


def test_a_grid_is_tried_whole_and_only_its_best_settings_meet_the_second_seed():
    loss, asked = noted(bowl(5e-3, 0.3))
    Protocol().search(loss)
    assert len(asked) == len(set(asked)) == 9 + 3
    assert sum(seed == 101 for _, seed in asked) == 3


def test_a_far_valley_behind_a_ridge_is_found_if_it_is_on_the_grid():
    def loss(setting, seed):
        return {0.1: 1.0, 0.3: 2.0, 0.6: 0.5}.get(setting.warmup, 3.0) + abs(setting.lr - 5e-3)
    assert next(iter(Protocol().search(loss))) == Setting(5e-3, 0.6)


def test_the_second_seed_has_its_say():
    lucky = Setting(5e-3, 0.1)

    def loss(setting, seed):
        if setting == lucky:
            return 0.0 if seed == 100 else 9.0
        return bowl(5e-3, 0.3)(setting, seed)
    assert next(iter(Protocol().search(loss))) == Setting(5e-3, 0.3)


def test_a_model_that_diverges_at_the_grid_is_tried_at_lower_rates_until_the_search_ends():
    found = Protocol().search(lambda s, seed: math.inf if s.lr > 3e-4 else -math.log(s.lr))
    assert next(iter(found)).lr < 3e-4
    assert set(Protocol().search(lambda s, seed: math.inf).values()) == {math.inf}


def test_the_next_rates_are_the_next_of_one_two_five():
    assert beyond(Setting(1e-2, None), (1e-2,), (None,)) == ([5e-3, 2e-2], [])
    assert beyond(Setting(2e-3, None), (1e-3, 2e-3), (None,)) == ([5e-3], [])
    assert beyond(Setting(2e-3, None), (1e-3, 2e-3, 5e-3), (None,)) == ([], [])


def test_a_budget_at_a_setting_keeps_the_share_of_its_warm_up():
    budget = Budget(steps=300, warmup=30, evaluate_every=50)
    twice = at(Setting(1e-2, 0.3), budget, 2)
    assert (twice.steps, twice.warmup, twice.lr, twice.evaluate_every) == (600, 180, 1e-2, 100)
    assert at(Setting(2e-3, None), budget) == budget
    assert at(Setting(2e-3, None), budget, 0.5).warmup == 15


def test_a_stated_rate_is_not_searched_for_and_can_be_written_to_a_file():
    stated = Protocol.stated(1.2e-2, range(3))
    assert not stated.searches and stated.variations == ()
    assert stated.search(lambda s, seed: 0.0) == {Setting(1.2e-2, None): 0.0}
    written = json.loads(json.dumps(asdict(stated)))
    assert written["seeds"] == [0, 1, 2] and written["rates"] == [1.2e-2]
