"""A file depends on what it imports, and a checkpoint on the code that trains it."""

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from shared_studies import small_arms
from torch import nn

import studies.experiments.registry  # noqa: F401, what it loads is looked at
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


FILES = {
    "geolab/__init__.py": "", "geolab/a.py": "from geolab import b", "geolab/b.py": "x = 1",
    "geolab/room/__init__.py": "from .c import y", "geolab/room/c.py": "from .. import b",
    "studies/late.py": "def f():\n    import geolab.room.c",
    "studies/named.py": "from importlib import import_module\nimport_module('geolab.a')",
    "studies/alone.py": "import torch\nfrom numpy import array",
}


@pytest.mark.parametrize("source, expected", [
    ("from geolab.a import z", {"geolab/a.py", "geolab/b.py"}),
    ("import geolab.b as b", {"geolab/b.py"}),
    ("from geolab.room import c", {"geolab/room/__init__.py", "geolab/room/c.py", "geolab/b.py"}),
    ("import studies.late", {"studies/late.py", "geolab/room/__init__.py", "geolab/room/c.py",
                             "geolab/b.py"}),
    ("from studies import named", {"studies/named.py", "geolab/a.py", "geolab/b.py"}),
    ("import studies.alone", {"studies/alone.py"})])
def test_all_that_is_imported_counts(project, source, expected):
    root = project(FILES | {"script.py": source})
    found = {str(path.relative_to(root)) for path in closure([root / "script.py"])}
    package = {"geolab/__init__.py"} if any("geolab" in name for name in expected) else set()
    assert found == expected | {"script.py"} | package


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


PROJECT = {
    "geolab/__init__.py": "", "geolab/training.py": "rate = 1",
    "geolab/tasks/__init__.py": "from geolab.tasks.own import Own",
    "geolab/tasks/own.py": "class Own: pass", "geolab/residuals/own.py": "scale = 1",
    "geolab/probes/own.py": "def measure(): pass",
    "studies/nets.py": "from geolab.residuals import own\nclass Net: pass",
    "studies/build.py": "import geolab.probes.own\ndef make(net):\n    return net()"}


@pytest.mark.parametrize("file, text, stale", [
    ("studies/build.py", f"{PROJECT['studies/build.py']}  # so", False),
    ("studies/nets.py", f'"""Networks."""\n{PROJECT["studies/nets.py"]}', False),
    ("geolab/tasks/other.py", "class Other: pass", False),
    ("geolab/residuals/other.py", "scale = 2", False),
    ("studies/other.py", "from studies import build", False),
    ("geolab/probes/own.py", "def measure(): return 1", False),
    ("studies/build.py", "def make(net):\n    return net().double()", True),
    ("studies/nets.py", "class Net: width = 2", True),
    ("geolab/residuals/own.py", "scale = 2", True),
    ("geolab/tasks/own.py", "class Own: noise = 1", True),
    ("geolab/training.py", "rate = 2", True)])
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


def test_a_model_that_no_file_builds_is_refused():
    def build():
        return nn.Linear(4, 4)
    build.__module__ = "typed"  # as in a shell, where a module has no file
    with pytest.raises(ValueError, match="must be a function of a file.* got .*build of typed"):
        sources.of([replace(ARM, build=build)])
