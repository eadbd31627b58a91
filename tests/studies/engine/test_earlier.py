"""A study that was begun elsewhere goes on from its file."""

import json
from dataclasses import replace
from functools import partial

import pytest
from torch import nn

from geolab.distributed import Engine
from geolab.tasks import Negation
from geolab.training import Budget
from studies import __main__ as command
from studies.engine.arm import comparison
from studies.engine.earlier import take
from studies.engine.protocol import Protocol
from studies.engine.results import read
from studies.engine.run import Part, Study, run_study
from studies.experiments.registry import STUDIES

SEARCHED = Protocol(rates=(1e-2, 1e-1), seeds=(0, 1), few=(0,), search_steps=2, widen=False,
                    warmups=None, search_seeds=(100,), variations=("next best", "equal time"))
BUILDS = {"biased": partial(nn.Linear, 4, 4), "linear": partial(nn.Linear, 4, 4, bias=False)}


def arms():
    return comparison("negation", BUILDS, Negation(dim=4, train=32, validation=16),
                      Budget(steps=6, evaluate_every=3, warmup=1), SEARCHED)


TOY = Study("toy", "Does it go on?", {"cpu": arms})


def paced(folder):
    """A folder in which a step of the second arm takes half as long."""
    place = folder / "toy.cpu.cpu"
    place.mkdir(parents=True)
    (place / "paces.json").write_text(json.dumps({"negation": {"biased": 1.0, "linear": 0.5}}))
    return folder


def begun(folder):
    """The file of a study with its first arm alone, as it is written after a long night."""
    run_study(TOY, part=Part(["biased"]), folder=paced(folder))
    return json.loads(json.dumps(run_study(TOY, folder=folder, so_far=True)))


def without_time(content):
    """What two trainings of the same arms have in common."""
    text = json.dumps(content["negation"] | {"seconds_not_quoted": 0, "pace": None})
    found = json.loads(text)
    for run in found["runs"]:
        del run["seconds_not_quoted"]
    return found


def test_finished_arms_are_taken_from_the_file_and_the_rest_is_trained(tmp_path, capsys):
    content = begun(tmp_path / "first")
    whole = run_study(TOY, folder=tmp_path / "first")
    capsys.readouterr()
    found = run_study(TOY, folder=paced(tmp_path / "other"), earlier=content)
    said = capsys.readouterr().err
    assert "taken from the file: negation: biased" in said and "biased, seed" not in said
    assert without_time(found) == without_time(json.loads(json.dumps(whole)))
    assert found["unfinished"] == {}
    assert found["earlier"] == [{"arms": ["negation: biased"], "device": "cpu",
                                 "trained by": found["trained by"]}]


def test_an_arm_keeps_the_pace_that_it_was_varied_with(tmp_path):
    content = begun(tmp_path / "first")
    content["negation"]["pace"]["biased"] = 1.25
    found = run_study(TOY, folder=paced(tmp_path / "other"), earlier=content)
    assert found["negation"]["pace"]["biased"] == 1.25


def test_each_arm_gets_its_own_runs(tmp_path):
    whole = json.loads(json.dumps(run_study(TOY, folder=paced(tmp_path))))
    found, _ = take(arms(), whole, whole["trained by"])
    assert list(found) == ["negation: biased", "negation: linear"]
    for arm, outcome in found.values():
        every = [outcome["search"], outcome["runs"], *outcome["sensitivity"].values()]
        assert {run["model"] for runs in every for run in runs} == {arm.name}
        assert [run["seed"] for run in outcome["runs"]] == [0, 1]


def test_an_arm_that_lacks_a_run_is_trained(tmp_path, capsys):
    content = begun(tmp_path / "first")
    content["unfinished"]["negation: biased"] = 1
    found = run_study(TOY, folder=paced(tmp_path / "other"), earlier=content)
    assert "biased, seed 0" in capsys.readouterr().err and "earlier" not in found


@pytest.mark.parametrize("change, message", [
    ({"task": Negation(dim=4, train=16, validation=16)}, "must have the file's task"),
    ({"budget": Budget(steps=7, evaluate_every=3, warmup=1)}, "must have the file's budget"),
    ({"protocol": replace(SEARCHED, seeds=(0, 2))}, "must have the file's protocol"),
    ({"engine": Engine(accumulate=2)}, "must have the file's engine")])
def test_another_comparison_is_refused(change, message, tmp_path):
    content = begun(tmp_path / "first")
    changed = replace(TOY, sizes={"cpu": lambda: [replace(arm, **change) for arm in arms()]})
    with pytest.raises(ValueError, match=message):
        run_study(changed, folder=paced(tmp_path / "other"), earlier=content)


def test_runs_of_other_code_want_a_reason_and_the_file_keeps_it(tmp_path):
    content = begun(tmp_path / "first") | {"trained by": "0123456789ab"}
    with pytest.raises(ValueError, match="other code made .trained by 0123456789ab"):
        run_study(TOY, folder=paced(tmp_path / "other"), earlier=content)
    found = run_study(TOY, folder=tmp_path / "other", earlier=content, reason="a new message")
    assert found["earlier"][0]["used because"] == "a new message"
    assert found["earlier"][0]["trained by"] == "0123456789ab"


def test_the_command_adds_to_a_file_that_lacks_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(STUDIES, "toy", TOY)
    out = tmp_path / "toy.json"
    first = ["toy", "--out", str(out), "--folder", str(paced(tmp_path / "first"))]
    run_study(TOY, part=Part(["biased"]), folder=tmp_path / "first")
    assert command.main([*first, "--so-far"]) == 0
    assert read(out)["unfinished"] == {"negation: linear": 2}
    again = ["toy", "--out", str(out), "--folder", str(paced(tmp_path / "other"))]
    assert command.main(again) == 0
    whole = read(out)
    assert whole["unfinished"] == {} and whole["earlier"][0]["arms"] == ["negation: biased"]
    assert whole["earlier"][0]["commit"] == whole["commit"]
    with pytest.raises(SystemExit):
        command.main(again)
    assert "is there, and is not overwritten" in capsys.readouterr().err
