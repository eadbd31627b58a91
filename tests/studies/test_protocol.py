"""The protocol: a search that ends inside of what it tried, on seeds that report nothing."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as some

from geolab.training import Budget
from studies.protocol import WARMUPS, Protocol, Setting, at, neighbours

RATES = [float(f"{digit}e{power}") for power in range(-5, 0) for digit in (1, 2, 5)]


def bowl(lr, warmup):
    """A loss with one lowest setting."""
    def loss(setting):
        apart = WARMUPS.index(setting.warmup) - WARMUPS.index(warmup)
        return abs(math.log(setting.lr / lr)) + abs(apart)
    return loss


@given(some.sampled_from(RATES), some.sampled_from(WARMUPS))
def test_a_search_ends_where_no_neighbour_is_better_and_all_were_tried(lr, warmup):
    tried = Protocol().search(bowl(lr, warmup))
    best = next(iter(tried))
    assert best == Setting(lr, warmup)
    assert set(neighbours(best)) <= set(tried) and set(Protocol().grid()) <= set(tried)
    assert list(tried.values()) == sorted(tried.values())


def test_a_model_that_diverges_at_the_grid_is_tried_at_lower_rates():
    found = Protocol().search(lambda s: math.inf if s.lr > 3e-4 else -math.log(s.lr))
    assert next(iter(found)).lr == 2e-4


def test_a_search_without_any_finite_loss_ends():
    assert set(Protocol().search(lambda s: math.inf).values()) == {math.inf}


@given(some.sampled_from(RATES), some.sampled_from(WARMUPS))
def test_being_a_neighbour_goes_both_ways(lr, warmup):
    here = Setting(lr, warmup)
    near = neighbours(here)
    assert here not in near and all(here in neighbours(other) for other in near)
    assert {other.warmup for other in near if other.lr != lr} == {warmup}


def test_the_neighbours_of_a_rate_are_the_next_of_one_two_five():
    assert {s.lr for s in neighbours(Setting(1e-2, None))} == {5e-3, 2e-2}
    assert {s.lr for s in neighbours(Setting(2e-3, None))} == {1e-3, 5e-3}


def test_a_budget_at_a_setting_keeps_the_share_of_its_warm_up():
    budget = Budget(steps=300, warmup=30, evaluate_every=50)
    twice = at(Setting(1e-2, 0.3), budget, 2)
    assert (twice.steps, twice.warmup, twice.lr, twice.evaluate_every) == (600, 180, 1e-2, 100)
    assert at(Setting(2e-3, None), budget) == budget
    assert at(Setting(2e-3, None), budget, 0.5).warmup == 15


def test_a_stated_rate_is_not_searched_for():
    stated = Protocol.stated(1.2e-2, (0, 1, 2))
    assert not stated.searches and stated.variations == ()
    assert stated.search(lambda s: 0.0) == {Setting(1.2e-2, None): 0.0}


@pytest.mark.parametrize("wrong, message", [
    ({"seeds": ()}, "seeds must hold at least one number, got ()"),
    ({"rates": ()}, "rates must hold at least one number, got ()"),
    ({"seeds": (0, 0)}, "seeds must differ, got 0, 0"),
    ({"search_seeds": (3, 100)}, "search_seeds must be others than the seeds that report, got 3"),
    ({"rates": (3e-3, 1e-2)}, "rates must be 1, 2 or 5 times a power of ten, for a search that "
                              "widens, got 0.003"),
    ({"warmups": (0.2,)}, "warmups must be among 0.03, 0.1, 0.3, 0.6, 1.0, got 0.2"),
    ({"variations": ("thrice",)}, "variations must be among next best, half the steps")])
def test_a_rule_that_can_not_be_followed_is_refused(wrong, message):
    with pytest.raises(ValueError) as refused:
        Protocol(**wrong)
    assert message in str(refused.value)
