"""A study that trains nothing keeps what it has measured, and refuses what other code measured."""

import json

import pytest

from studies.engine.measurement import Measurement, measure
from studies.engine.refusal import Refused


def study(parts):
    return Measurement("toy", "What?", parts, lambda found: {"all": found}, __file__)


def growing(found):
    """Two measurements, and a third that asks for the second."""
    return {f"a/{i}": lambda i=i: {"x": i} for i in range(3 if "a/1" in found else 2)}


def test_what_is_measured_is_kept_and_not_measured_again(tmp_path):
    calls = []

    def part():
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return {"x": len(calls)}

    both = study(lambda _: {"a/1": part, "a/2": part})
    with pytest.raises(KeyboardInterrupt):
        measure(both, tmp_path)
    assert measure(both, tmp_path)["all"] == {"a/1": {"x": 1}, "a/2": {"x": 3}}
    assert json.loads((tmp_path / "toy" / "a.2.json").read_text()) == {"x": 3} and len(calls) == 3


def test_what_is_found_so_far_is_written_and_another_machine_goes_on(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    nothing = measure(study(growing), here, so_far=True)
    assert nothing["unfinished"] == 2 and nothing["found"] == {}
    (here / "toy" / "a.1.json").write_text('{"x": 10}')
    begun = measure(study(growing), here, so_far=True)
    assert begun["unfinished"] == 2 and begun["found"] == {"a/1": {"x": 10}}
    whole = measure(study(growing), there, earlier=begun)
    assert whole["all"] == {"a/0": {"x": 0}, "a/1": {"x": 10}, "a/2": {"x": 2}}
    with pytest.raises(Refused, match="other code"):
        measure(study(growing), there, earlier=begun | {"measured by": "other"})


def test_measurements_of_other_code_are_refused_without_a_reason(tmp_path):
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "sources").write_text("other")
    with pytest.raises(Refused, match="that other code made"):
        measure(study(growing), tmp_path)
    assert measure(study(growing), tmp_path, "only a name changed")["forced"]["reason"]
