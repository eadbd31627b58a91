"""A study that trains nothing keeps what it has measured, and refuses what other code measured."""

import json

import pytest

from studies.engine.measurement import Measurement, measure
from studies.engine.refusal import Refused
from studies.experiments.registry import MEASUREMENTS, STUDIES


def study(parts, file=__file__):
    return Measurement("toy", "What?", lambda _: parts, lambda found: {"found": found}, file)


def test_what_is_measured_is_kept_and_not_measured_again(tmp_path):
    calls = []

    def part():
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return {"x": len(calls)}

    with pytest.raises(KeyboardInterrupt):
        measure(study({"a/1": part, "a/2": part}), tmp_path)
    found = measure(study({"a/1": part, "a/2": part}), tmp_path)
    assert found["found"] == {"a/1": {"x": 1}, "a/2": {"x": 3}} and len(calls) == 3
    assert json.loads((tmp_path / "toy" / "a.2.json").read_text()) == {"x": 3}


def test_a_measurement_may_ask_for_others(tmp_path):
    def parts(found):
        more = [len(found)] if 0 < len(found) < 3 else []
        return {f"a/{i}": lambda i=i: {"x": i} for i in [0, *range(1, len(found)), *more]}

    after = Measurement("toy", "What?", parts, dict, __file__)
    assert [key for key in measure(after, tmp_path) if "/" in key] == ["a/0", "a/1", "a/2"]


def test_what_is_found_so_far_is_written_and_another_machine_goes_on(tmp_path):
    def parts(found):
        return {f"a/{i}": lambda i=i: {"x": i} for i in range(3 if "a/1" in found else 2)}

    toy = Measurement("toy", "What?", parts, lambda found: {"all": found}, __file__)
    nothing = measure(toy, tmp_path / "here", so_far=True)
    assert nothing["unfinished"] == 2 and nothing["found"] == {}
    (tmp_path / "here" / "toy" / "a.1.json").write_text('{"x": 10}')
    begun = measure(toy, tmp_path / "here", so_far=True)
    assert begun["unfinished"] == 2 and begun["found"] == {"a/1": {"x": 10}}
    whole = measure(toy, tmp_path / "there", earlier=begun)
    assert whole["all"] == {"a/0": {"x": 0}, "a/1": {"x": 10}, "a/2": {"x": 2}}
    with pytest.raises(Refused, match="other code"):
        measure(toy, tmp_path / "there", earlier=begun | {"measured by": "other"})


def test_measurements_of_other_code_are_refused(tmp_path):
    place = tmp_path / "toy"
    place.mkdir()
    (place / "sources").write_text("other")
    with pytest.raises(Refused, match="that other code made"):
        measure(study({}), tmp_path)
    assert measure(study({}), tmp_path, "only a name changed")["forced"]["reason"]


def test_no_name_is_taken_twice():
    assert not set(STUDIES) & set(MEASUREMENTS)
    assert all(study.name == name for name, study in (STUDIES | MEASUREMENTS).items())
