"""CONTRIBUTING's study runs as it stands there, and passes the checks of the registered ones."""

import importlib
import pickle
import re
from pathlib import Path

import pytest

from studies.__main__ import main
from studies.engine.results import read
from studies.experiments.registry import STUDIES

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def study(tmp_path, monkeypatch):
    """The example of CONTRIBUTING.md, registered."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    source = re.search(r"```python\n(# studies/tiny\.py\n.*?)```", text, re.S)[1]
    (tmp_path / "tiny_of_contributing.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module("tiny_of_contributing")
    monkeypatch.setitem(STUDIES, module.STUDY.name, module.STUDY)
    return module.STUDY


def test_its_arms_are_values_with_a_fair_search(study):
    arms = study.arms()
    assert repr(pickle.loads(pickle.dumps(arms))) == repr(arms)
    assert len({(arm.task, arm.budget, arm.protocol) for arm in arms}) == 1
    assert all(arm.protocol.searches and len(arm.protocol.seeds) == 16 for arm in arms)


def test_the_command_makes_its_file(study):
    assert main(["tiny", "--out", "tiny.json"]) == 0
    kept = read("tiny.json")
    assert kept["experiment"] == study.question and len(kept["negation"]["runs"]) == 2 * 16
    varied = kept["negation"]["sensitivity"]
    assert {name: len(varied[name]) for name in ("next best", "half the steps")} == {
        "next best": 2 * 3, "half the steps": 2 * 3}
    assert main(["tiny", "--check", "--out", "tiny.json"]) == 0
