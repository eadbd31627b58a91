"""What is finished of a long study can be written before the rest is."""

from functools import partial

import pytest
from torch import nn

from geolab.tasks import Negation
from geolab.training import Budget
from studies import __main__ as command
from studies.engine.arm import comparison, train
from studies.engine.protocol import Protocol
from studies.engine.results import read
from studies.engine.run import Study, run_study
from studies.experiments.registry import STUDIES

STATED = Protocol.stated(1e-2, (0, 1, 2))


def arms(protocol=STATED):
    builds = {"biased": partial(nn.Linear, 4, 4), "linear": partial(nn.Linear, 4, 4, bias=False)}
    return comparison("negation", builds, Negation(dim=4, train=32, validation=16),
                      Budget(steps=6, evaluate_every=3, warmup=1), protocol)


TOY = Study("toy", "Is it finished?", {"cpu": arms})


def some(folder):
    """One arm with two of its three seeds."""
    train(arms(Protocol.stated(1e-2, (0, 1)))[0], folder / "toy.cpu.cpu")


def test_finished_runs_are_taken_and_the_others_are_counted(tmp_path):
    some(tmp_path)
    found = run_study(TOY, folder=tmp_path, reason="made by this test", so_far=True)
    assert [run["seed"] for run in found["negation"]["runs"]] == [0, 1]
    assert found["unfinished"] == {"negation: biased": 1, "negation: linear": 3}
    whole = run_study(TOY, folder=tmp_path, reason="made by this test")
    assert whole["unfinished"] == {}
    assert whole["negation"]["runs"][:2] == found["negation"]["runs"]


def test_a_search_that_is_not_finished_leaves_its_arm_out(tmp_path):
    some(tmp_path)
    searched = Study("toy", "?", {"cpu": partial(arms, Protocol(variations=()))})
    with pytest.raises(ValueError, match="has no finished run yet"):
        run_study(searched, folder=tmp_path, reason="made by this test", so_far=True)


def test_a_file_that_lacks_runs_may_grow_and_a_whole_one_may_not(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(STUDIES, "toy", TOY)
    folder, out = tmp_path / "runs", tmp_path / "toy.json"
    some(folder)
    (folder / "toy.cpu.cpu" / "sources").write_text("other")
    asked = ["toy", "--out", str(out), "--folder", str(folder), "--so-far"]
    assert command.main([*asked, "--force", "made by this test"]) == 0
    train(arms()[0], folder / "toy.cpu.cpu")
    assert command.main([*asked, "--force", "made by this test"]) == 0
    assert read(out)["unfinished"] == {"negation: linear": 3}
    train(arms()[1], folder / "toy.cpu.cpu")
    (folder / "toy.cpu.cpu" / "sources").unlink()
    marked = command.main([*asked, "--force", "made by this test"])
    assert marked == 0 and read(out)["unfinished"] == {}
    with pytest.raises(SystemExit):
        command.main(asked)
    assert "is there, and is not overwritten" in capsys.readouterr().err
