"""Paces: the time of a step over that of the comparison's first arm, measured once."""

import json
import time
from dataclasses import replace
from functools import partial
from itertools import cycle

import pytest
from shared_studies import small_arms
from torch import nn

from studies.engine import pace
from studies.engine.protocol import Protocol

PROTOCOL = replace(Protocol.stated(1e-2, (0, 1)), few=(0,), variations=("equal time",))


class Slow(nn.Linear):
    def forward(self, x):
        time.sleep(0.02)
        return super().forward(x)


def arms(part="one", protocol=PROTOCOL, first="first"):
    one, slow = small_arms(protocol, part)
    return [replace(one, name=first), replace(slow, name="slow", build=partial(Slow, 4, 4))]


@pytest.fixture
def timed(monkeypatch):
    """What was timed, by a clock that knows the seconds of each arm's steps."""
    seconds = {"first": cycle([9.0, 2.0, 3.0]), "slow": cycle([7.0, 5.0, 5.2]),
               "fast": cycle([1.0])}
    steps = []

    def taken(step):
        steps.append(step)
        return next(seconds[step[1]])

    monkeypatch.setattr(pace, "_step", lambda arm, device: (arm.part, arm.name))
    monkeypatch.setattr(pace, "_seconds", taken)
    return steps


def paces(arms, whole, folder):
    made = pace.paced(arms, lambda: whole, folder, "cpu")
    return {(arm.part, arm.name): arm.pace for arm in made}


def test_a_slower_model_has_a_higher_pace_of_three_digits():
    found = pace.measure(arms(), "cpu")
    assert found["first"] == 1.0 and found["slow"] > 1.5
    assert all(value == float(f"{value:.3g}") for value in found.values())


def test_a_pace_is_by_the_fastest_steps_of_its_comparison_and_is_not_measured_again(timed,
                                                                                    tmp_path):
    whole = arms() + arms("two", first="fast")
    assert paces(whole[1:2], whole, tmp_path) == {("one", "slow"): 2.5}
    # in turns, after a few rounds that don't count
    assert timed == [("one", "first"), ("one", "slow")] * (pace.BEFORE + pace.ROUNDS)
    assert json.loads((tmp_path / "paces.json").read_text()) == {"one": {"first": 1.0, "slow": 2.5}}
    del timed[:]
    assert paces(whole, whole, tmp_path) == {
        ("one", "first"): 1.0, ("one", "slow"): 2.5, ("two", "fast"): 1.0, ("two", "slow"): 5.0}
    assert {part for part, _ in timed} == {"two"}


def test_an_arm_that_is_not_among_the_kept_ones_has_its_comparison_measured_again(timed, tmp_path):
    (tmp_path / "paces.json").write_text('{"one": {"first": 1.0}}')
    assert paces(arms(), arms(), tmp_path)["one", "slow"] == 2.5


def test_arms_without_equal_time_are_not_measured_and_keep_pace_one(timed, tmp_path):
    whole = arms(protocol=replace(PROTOCOL, variations=("half the steps",)))
    assert set(paces(whole, whole, tmp_path).values()) == {1.0} and timed == []
