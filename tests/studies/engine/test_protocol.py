"""The protocol: a search that ends inside of what it tried, on seeds that report nothing."""

import math

from hypothesis import given
from hypothesis import strategies as some

from geolab.training import Budget
from studies.engine.protocol import WARMUPS, Protocol, Setting, at

RATES = [float(f"{digit}e{power}") for power in range(-5, 0) for digit in (1, 2, 5)]


def bowl(lr, warmup):
    """A loss with one lowest setting, the same on every seed."""
    def loss(setting, seed):
        apart = WARMUPS.index(setting.warmup) - WARMUPS.index(warmup)
        return abs(math.log(setting.lr / lr)) + abs(apart)
    return loss


def searched(loss):
    """What the search finds, and what it asked for, in its order."""
    asked = []

    def noting(setting, seed):
        asked.append((setting, seed))
        return loss(setting, seed)
    return Protocol().search(noting), asked


@given(some.sampled_from(RATES), some.sampled_from(WARMUPS))
def test_a_search_ends_with_its_best_setting_inside_of_the_grid(lr, warmup):
    found, asked = searched(bowl(lr, warmup))
    assert next(iter(found)) == Setting(lr, warmup)
    assert list(found.values()) == sorted(found.values())
    tried = {setting for setting, _ in asked}
    rates, shares = ({setting[i] for setting in tried} for i in (0, 1))
    assert min(rates) < lr < max(rates)
    k = WARMUPS.index(warmup)
    assert set(WARMUPS[max(0, k - 1):k + 2]) <= shares
    assert tried == {Setting(rate, share) for rate in rates for share in shares}


def test_a_grid_is_tried_whole_and_only_its_best_settings_meet_the_second_seed():
    _, asked = searched(bowl(5e-3, 0.3))
    assert len(asked) == len(set(asked)) == 9 + 3
    assert sum(seed == 101 for _, seed in asked) == 3


def test_the_second_seed_has_its_say():
    def loss(setting, seed):
        if setting == Setting(5e-3, 0.1):
            return 0.0 if seed == 100 else 9.0
        return bowl(5e-3, 0.3)(setting, seed)
    assert next(iter(searched(loss)[0])) == Setting(5e-3, 0.3)


def test_a_model_that_diverges_at_the_grid_is_tried_at_lower_rates_until_the_search_ends():
    found, _ = searched(lambda s, seed: math.inf if s.lr > 3e-4 else -math.log(s.lr))
    assert next(iter(found)).lr < 3e-4
    found, _ = searched(lambda s, seed: math.inf)
    assert set(found.values()) == {math.inf}


def test_a_budget_at_a_setting_keeps_the_share_of_its_warm_up():
    budget = Budget(steps=300, warmup=30, evaluate_every=50)
    twice = at(Setting(1e-2, 0.3), budget, 2)
    assert (twice.steps, twice.warmup, twice.lr, twice.evaluate_every) == (600, 180, 1e-2, 100)
    assert at(Setting(2e-3, None), budget) == budget
    assert at(Setting(2e-3, None), budget, 0.5).warmup == 15
