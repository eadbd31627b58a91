"""A file depends on what it imports, and a checkpoint on the code that trains it."""

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from shared_studies import small_arms

from studies.engine import sources
from studies.engine.closure import ROOT, closure, code, imported
from studies.engine.protocol import Protocol
from studies.experiments.registry import STUDIES

ARM = small_arms(Protocol.stated(1e-2, (5,)))[0]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A function that writes files, {name: text}, into a folder that stands for the project."""
    monkeypatch.setattr("studies.engine.closure.ROOT", tmp_path)
    monkeypatch.setattr("studies.engine.sources.ROOT", tmp_path)

    def write(files):
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        imported.cache_clear()
        return tmp_path

    yield write
    imported.cache_clear()


def test_it_holds_all_that_python_loads():
    """A module that imports half of the project loads nothing that is not in its closure."""
    found = closure([ROOT / "studies/experiments/registry.py"])
    loaded = {Path(module.__spec__.origin) for name, module in list(sys.modules.items())
              if name.startswith("geolab.models")}
    assert loaded and all(path.is_relative_to(ROOT) for path in found) and loaded <= found


def test_comments_docstrings_and_layout_are_no_code():
    told = '"""One."""\ndef f(x):\n    """Add one."""\n    return (x +\n            1)  # one\n'
    plain = "def f(x):\n\n    return x + 1"
    assert code(told) == code(plain) != code(plain.replace("1", "2"))


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_is_stale_by_what_trains_it_and_by_nothing_that_reads(name):
    found = sources.files(STUDIES[name].arms(next(iter(STUDIES[name].sizes))))
    names = {path.relative_to(ROOT).as_posix() for path in found if path.is_relative_to(ROOT)}
    assert {"studies/engine/arm.py", "geolab/training.py", "geolab/models/backbone.py"} <= names
    assert not {path for path in names if path.startswith(("geolab/show", "geolab/probes"))}
    assert not names & {f"studies/{reader}.py" for reader in (
        "ledger", "findings", "__main__", "engine/results", "engine/live", "engine/run",
        "engine/judge", "experiments/registry")}


PROJECT = {  # with imports by a package's name, from above, in a function, and by a name in quotes
    "geolab/__init__.py": "", "geolab/training.py": "rate = 1",
    "geolab/tasks/__init__.py": "from geolab.tasks.own import Own",
    "geolab/tasks/own.py": "class Own: pass", "geolab/residuals/own.py": "scale = 1",
    "geolab/models/__init__.py": "from .net import Net",
    "geolab/models/net.py": "from ..residuals import own\nclass Net: pass",
    "geolab/probes/own.py": "def measure(): pass", "geolab/late.py": "x = 1",
    "geolab/named.py": "x = 1",
    "studies/nets.py": "import torch\nfrom geolab import models\nclass Net: pass",
    "studies/build.py": "import geolab.probes.own\nfrom importlib import import_module\n"
                        "import_module('geolab.named')\n"
                        "def make(net):\n    import geolab.late\n    return net()"}


@pytest.mark.parametrize("file, text, stale", [
    ("studies/nets.py", f'"""Networks."""\n{PROJECT["studies/nets.py"]}  # so', False),
    ("geolab/residuals/other.py", "scale = 2", False),
    ("geolab/probes/own.py", "def measure(): return 1", False),
    ("studies/build.py", "def make(net):\n    return net().double()", True),
    *((file, "other = 2", True) for file in (
        "studies/nets.py", "geolab/models/__init__.py", "geolab/models/net.py", "geolab/late.py",
        "geolab/residuals/own.py", "geolab/named.py", "geolab/tasks/own.py",
        "geolab/training.py"))])
def test_code_is_other_code_when_what_trains_has_changed(file, text, stale, project, monkeypatch):
    """A comment, a file that nothing imports, and a probe change no weights."""
    root = project(PROJECT)

    def made(name, file):
        """A class of one of these files."""
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(__file__=str(root / file)))
        return type(name, (), {"__module__": name})

    build = partial(made("Make", "studies/build.py"), made("Net", "studies/nets.py"))
    arms = [replace(ARM, build=build, task=made("Own", "geolab/tasks/own.py")())]
    before = sources.of(arms)
    project({file: text})
    assert (sources.of(arms) != before) is stale
