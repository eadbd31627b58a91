"""All arms at one setting of the reader's own, beside what the ledger's rows say."""

from functools import partial

import pytest
from torch import nn

from geolab.tasks import Negation
from geolab.training import Budget
from studies import __main__ as command
from studies import findings, ledger
from studies.claims.hypothesis import HYPOTHESES, Hypothesis
from studies.engine.arm import comparison
from studies.engine.judge import Claim
from studies.engine.protocol import Protocol, Setting
from studies.engine.results import read
from studies.engine.run import Part, Study
from studies.experiments.registry import STUDIES


def arms():
    builds = {"biased": partial(nn.Linear, 4, 4), "linear": partial(nn.Linear, 4, 4, bias=False)}
    return comparison("negation", builds, Negation(dim=4, train=32, validation=16),
                      Budget(steps=10, evaluate_every=5), Protocol(seeds=(0, 1, 2), few=(0,)))


TOY = Study("toy", "Does it need a bias?", {"cpu": arms})


def test_a_setting_takes_the_place_of_the_search():
    for arm in Part(setting=Setting(7e-3, 0.4)).of(TOY, "cpu"):
        assert (arm.budget.lr, arm.budget.warmup) == (7e-3, 4)
        assert not arm.protocol.searches and arm.protocol.variations == ()
        assert arm.protocol.seeds == (0, 1, 2)
    own = Part(setting=Setting(7e-3, None)).of(TOY, "cpu")
    assert {arm.budget.warmup for arm in own} == {arms()[0].budget.warmup}


def test_the_command_says_what_the_rows_would_say(tmp_path, monkeypatch, capsys):
    row = Hypothesis("toy-bias", "this book", "", "A bias helps.", "11_mgt", "toy", "negation",
                     claim=Claim({"linear": 1, "biased": -1}))
    monkeypatch.setitem(STUDIES, "toy", TOY)
    for module in (ledger, findings):
        monkeypatch.setattr(module, "HYPOTHESES", [*HYPOTHESES, row])
    out = tmp_path / "mine.json"
    asked = ["toy", "--lr", "7e-3", "--warmup", "0.4", "--out", str(out), "--folder",
             str(tmp_path / "runs")]
    assert command.main(asked) == 0
    assert "--lr 0.007 --warmup 0.4" in read(out)["command"]
    assert "toy-bias: " in capsys.readouterr().out


@pytest.mark.parametrize("asked, message", [
    (["--warmup", "0.4"], "--warmup needs --lr"),
    (["--lr", "-1"], "--lr must be positive, got -1"),
    (["--lr", "0.1", "--warmup", "2"], "--warmup must be a share of the steps, from 0 to 1, got 2"),
    (["--lr", "0.1", "--out", ""], "--out")])
def test_a_setting_that_can_not_be_is_refused(asked, message, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(STUDIES, "toy", TOY)
    with pytest.raises(SystemExit):
        command.main(["toy", "--out", str(tmp_path / "mine.json"), *asked])
    assert message in capsys.readouterr().err
