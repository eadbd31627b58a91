"""What a file depends on is what it imports, and nothing else."""

import sys
from pathlib import Path

import pytest

import studies.experiments.registry  # noqa: F401, what it loads is looked at
from studies.engine.closure import ROOT, closure, code

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
def test_all_that_is_imported_counts(tmp_path, monkeypatch, source, expected):
    monkeypatch.setattr("studies.engine.closure.ROOT", tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "script.py").write_text(source)
    found = closure([tmp_path / "script.py"])
    expected = expected | {"script.py"}
    if any("geolab" in name for name in expected):
        expected |= {"geolab/__init__.py"}
    assert {str(path.relative_to(tmp_path)) for path in found} == expected


def test_it_holds_all_that_python_loads():
    """A module that imports half of the project loads nothing that is not in its closure."""
    found = closure([ROOT / "studies/experiments/registry.py"])
    loaded = {Path(module.__spec__.origin) for name, module in list(sys.modules.items())
              if name.startswith("geolab.models")}
    assert loaded and all(path.is_relative_to(ROOT) for path in found) and loaded <= found


def test_comments_docstrings_and_layout_are_no_code():
    assert code('"""One."""\ndef f():\n    """Two."""\n    return  1  # three') == code(
        "def f():\n\n    return 1")
    assert code("x = 1") != code("x = 2")
