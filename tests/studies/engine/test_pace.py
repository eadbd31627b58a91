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
from studies.engine.pace import paced
from studies.engine.protocol import Protocol

PROTOCOL = replace(Protocol.stated(1e-2, (0, 1)), few=(0,), variations=("equal time",))


class Slow(nn.Linear):
    def forward(self, x):
        time.sleep(0.02)
        return super().forward(x)


def arms(part="one", protocol=PROTOCOL):
    first, slow = small_arms(protocol, part)
    return [replace(first, name="first"), replace(slow, name="slow", build=partial(Slow, 4, 4))]


@pytest.fixture
def measured(monkeypatch):
    """Seconds of a step by arm, in place of a clock; its value has a list of what was timed."""
    seconds, timed = {"first": 2.0, "slow": 5.0, "fast": 1.0}, []
    monkeypatch.setattr(pace, "_step", lambda arm, device: (arm.part, arm.name))

    def taken(step):
        timed.append(step)
        return seconds[step[1]]

    monkeypatch.setattr(pace, "_seconds", taken)
    return timed


def paces(arms):
    return {(arm.part, arm.name): arm.pace for arm in arms}


def test_a_slower_model_has_a_higher_pace():
    found = pace.measure(arms(), "cpu")
    assert found["first"] == 1.0 and found["slow"] > 1.5
    assert all(value == float(f"{value:.3g}") for value in found.values())


def test_a_pace_is_that_of_the_fastest_steps_whatever_else_the_machine_does(monkeypatch, measured):
    taken = {"first": cycle([9.0, 1.0, 3.0]), "slow": cycle([7.0, 1.2346, 1.2344, 2.0])}
    monkeypatch.setattr(pace, "_seconds", lambda step: next(taken[step[1]]))
    assert pace.measure(arms(), "cpu") == {"first": 1.0, "slow": 1.23}


def test_paces_are_relative_to_the_first_arm_of_each_comparison(measured, tmp_path):
    whole = arms() + [replace(arm, name="fast") if arm.name == "first" else arm
                      for arm in arms("two")]
    assert paces(paced(whole, whole, tmp_path, "cpu")) == {
        ("one", "first"): 1.0, ("one", "slow"): 2.5, ("two", "fast"): 1.0, ("two", "slow"): 5.0}


def test_they_are_kept_and_not_measured_again(measured, monkeypatch, tmp_path):
    whole = arms()
    found = paced(whole[1:], whole, tmp_path, "cpu")  # by the first arm of the whole
    assert paces(found) == {("one", "slow"): 2.5}
    # in turns, after a few rounds that don't count
    assert measured == [("one", "first"), ("one", "slow")] * (pace.BEFORE + pace.ROUNDS)
    assert json.loads((tmp_path / "paces.json").read_text()) == {"one": {"first": 1.0, "slow": 2.5}}
    monkeypatch.setattr(pace, "measure", lambda *_: pytest.fail("measured again"))
    assert paces(paced(whole[1:], whole, tmp_path, "cpu")) == paces(found)


def test_another_comparison_is_added_to_those_that_are_kept(measured, tmp_path):
    whole = arms() + arms("two")
    paced(whole[:2], whole, tmp_path, "cpu")
    del measured[:]
    assert paces(paced(whole, whole, tmp_path, "cpu"))["one", "slow"] == 2.5
    assert {part for part, _ in measured} == {"two"}
    assert json.loads((tmp_path / "paces.json").read_text()).keys() == {"one", "two"}


def test_arms_without_equal_time_are_not_measured_and_keep_pace_one(measured, tmp_path):
    whole = arms(protocol=replace(PROTOCOL, variations=("half the steps",)))
    assert set(paces(paced(whole, whole, tmp_path, "cpu")).values()) == {1.0}
    assert measured == []


def test_an_arm_that_is_not_among_the_kept_ones_has_its_comparison_measured_again(measured,
                                                                                  tmp_path):
    whole = arms()
    (tmp_path / "paces.json").write_text('{"one": {"first": 1.0}}')
    assert paces(paced(whole, whole, tmp_path, "cpu"))["one", "slow"] == 2.5
