"""What is finished of a long study is written before the rest is, and goes on from its file."""

import json
from dataclasses import replace
from functools import partial

import pytest
from shared_studies import small_arms, small_study

from geolab.distributed import Engine
from geolab.tasks import Negation
from geolab.training import Budget
from studies import __main__ as command
from studies.engine.arm import train
from studies.engine.earlier import grows, take
from studies.engine.protocol import Protocol
from studies.engine.results import read
from studies.engine.run import Part, run_study
from studies.experiments.registry import STUDIES

SEARCHED = Protocol(rates=(1e-2, 1e-1), seeds=(0, 1), few=(0,), search_steps=2, widen=False,
                    warmups=(0.1,), search_seeds=(100,), variations=("next best", "equal time"))
arms = partial(small_arms, SEARCHED)
TOY = small_study(arms)


def paced(folder):
    """A folder in which a step of the second arm takes half as long."""
    place = folder / "toy.cpu.cpu"
    place.mkdir(parents=True)
    (place / "paces.json").write_text(json.dumps({"negation": {"biased": 1.0, "linear": 0.5}}))
    return folder


def plain(content):
    return json.loads(json.dumps(content))


@pytest.fixture
def first(tmp_path):
    """The folder of a study whose first arm is finished, after a long night."""
    run_study(TOY, part=Part(["biased"]), folder=paced(tmp_path / "first"))
    return tmp_path / "first"


@pytest.fixture
def begun(first):
    """The file of that study, as it is written."""
    return plain(run_study(TOY, folder=first, so_far=True))


@pytest.fixture
def other(tmp_path):
    return paced(tmp_path / "other")


def without_time(content):
    """What two trainings of the same arms have in common."""
    found = plain(content["negation"] | {"seconds_not_quoted": 0, "pace": None})
    for run in found["runs"]:
        del run["seconds_not_quoted"]
    return found


def test_finished_arms_are_taken_from_the_file_and_the_rest_is_trained(begun, first, other, capsys):
    whole = plain(run_study(TOY, folder=first))
    assert whole["negation"]["budget"]["warmup"] == "by search"
    fewer = whole["negation"]["sensitivity"]["equal time"]
    assert [(run["model"], run["seed"], run["steps"]) for run in fewer] == [("linear", 0, 12)]
    begun["negation"]["pace"]["biased"] = 1.25
    capsys.readouterr()
    found = run_study(TOY, folder=other, earlier=begun)
    said = capsys.readouterr().err
    assert "taken from the file: negation: biased" in said and "biased, seed" not in said
    assert without_time(found) == without_time(whole) and found["unfinished"] == {}
    assert found["earlier"] == [{"arms": ["negation: biased"], "device": "cpu",
                                 "trained by": found["trained by"]}]
    assert found["negation"]["pace"]["biased"] == 1.25  # that it was varied with
    taken, _ = take(arms(), whole, whole["trained by"])
    assert list(taken) == ["negation: biased", "negation: linear"]
    for arm, outcome in taken.values():
        every = [outcome["search"], outcome["runs"], *outcome["sensitivity"].values()]
        assert {run["model"] for runs in every for run in runs} == {arm.name}


def test_an_arm_that_lacks_a_run_is_trained(begun, other, capsys):
    begun["unfinished"]["negation: biased"] = 1
    found = run_study(TOY, folder=other, earlier=begun)
    assert "biased, seed 0" in capsys.readouterr().err and "earlier" not in found


@pytest.mark.parametrize("change", [
    {"task": Negation(dim=4, train=16, validation=16)},
    {"budget": Budget(steps=7, evaluate_every=3, warmup=1)},
    {"protocol": replace(SEARCHED, seeds=(0, 2))}, {"engine": Engine(accumulate=2)}], ids=str)
def test_another_comparison_is_refused(change, begun, other):
    changed = small_study(lambda: [replace(arm, **change) for arm in arms()])
    with pytest.raises(ValueError, match=f"must have the file's {next(iter(change))}"):
        run_study(changed, folder=other, earlier=begun)


def test_runs_of_other_code_want_a_reason(begun, other):
    begun["trained by"] = "0123456789ab"
    with pytest.raises(ValueError, match="other code made .trained by 0123456789ab"):
        run_study(TOY, folder=other, earlier=begun)
    found = run_study(TOY, folder=other, earlier=begun, reason="a new message")
    assert found["earlier"][0]["used because"] == "a new message"
    assert found["earlier"][0]["trained by"] == "0123456789ab"


def test_finished_runs_are_taken_and_the_others_are_counted(tmp_path):
    stated = partial(small_arms, Protocol.stated(1e-2, (0, 1, 2)))
    train(small_arms(Protocol.stated(1e-2, (0, 1)))[0], tmp_path / "toy.cpu.cpu")
    found = run_study(small_study(stated), folder=tmp_path, so_far=True, reason="made by this test")
    assert [run["seed"] for run in found["negation"]["runs"]] == [0, 1]
    assert found["unfinished"] == {"negation: biased": 1, "negation: linear": 3}
    searched = small_study(partial(small_arms, Protocol(variations=())))
    with pytest.raises(ValueError, match="has no finished run yet"):  # its search isn't finished
        run_study(searched, folder=tmp_path, so_far=True, reason="made by this test")


def test_a_file_that_lacks_runs_may_grow_and_a_whole_one_may_not(first, other, monkeypatch, capsys,
                                                                 tmp_path):
    monkeypatch.setitem(STUDIES, "toy", TOY)
    out = tmp_path / "toy.json"
    asked = ["toy", "--out", str(out), "--folder"]
    for _ in range(2):
        assert command.main([*asked, str(first), "--so-far"]) == 0
        assert read(out)["unfinished"] == {"negation: linear": 2}
    assert command.main([*asked, str(other)]) == 0
    whole = read(out)
    assert whole["unfinished"] == {} and whole["earlier"][0]["arms"] == ["negation: biased"]
    assert whole["earlier"][0]["commit"] == whole["commit"]
    with pytest.raises(SystemExit):
        command.main([*asked, str(other)])
    assert "is there, and is not overwritten" in capsys.readouterr().err


def test_a_study_that_gained_an_arm_goes_on_from_its_whole_file(first, other, monkeypatch, capsys,
                                                                tmp_path):
    monkeypatch.setitem(STUDIES, "toy", TOY)
    out = tmp_path / "toy.json"
    asked = ["toy", "--out", str(out), "--folder"]
    assert command.main([*asked, str(first), "--arm", "biased"]) == 0
    assert read(out)["unfinished"] == {} and "taken" not in capsys.readouterr().err
    for again, said in ((["--arm", "biased"], "is there, and is not overwritten"),
                        (["--arm", "linear"], "which also has negation: biased")):
        with pytest.raises(SystemExit):
            command.main([*asked, str(other), *again])
        assert said in capsys.readouterr().err
    assert command.main([*asked, str(other)]) == 0
    assert "taken from the file: negation: biased" in capsys.readouterr().err
    assert list(read(out)["negation"]["parameters"]) == ["biased", "linear"]
    longer = small_study(lambda: [replace(arm, budget=replace(arm.budget, steps=7), name="longer")
                                  for arm in arms()])
    assert not grows(longer.arms(), read(out))


def test_a_study_that_gained_a_comparison_goes_on_from_its_whole_file(first, other, monkeypatch,
                                                                      capsys, tmp_path):
    out = tmp_path / "toy.json"
    for study, folder in ((TOY, first), (small_study(
            lambda: [*arms(), *(replace(arm, part="again") for arm in arms())]), other)):
        monkeypatch.setitem(STUDIES, "toy", study)
        assert command.main(["toy", "--out", str(out), "--folder", str(folder)]) == 0
    assert "taken from the file: negation: biased; negation: linear" in capsys.readouterr().err
    assert {"negation", "again"} <= read(out).keys()
    assert not grows([replace(arm, part="unlike") for arm in arms()], {"measured": 1.0})
