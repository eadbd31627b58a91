"""`make book` builds every page, executes only what changed, and ends with what raised."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import yaml

import book
from executor import Failure, Outcome
from studies.engine import closure

ROOT = Path(__file__).resolve().parents[2]
GOOD, BAD = "print(6 * 7)", "print('before')\nassert 1 + 1 == 3, 'arithmetic holds here'"


def notebook(title: str, *sources: str):
    cells = [nbformat.v4.new_markdown_cell(f"# {title}"), *map(nbformat.v4.new_code_cell, sources)]
    metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return nbformat.v4.new_notebook(cells=cells, metadata=metadata)


def build(root: Path, *arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, root / "tools/book.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False,
                          env=os.environ | {"PYTHONPATH": str(root)})


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A book of a good page, one whose reference leads nowhere, and one that raises; its build."""
    root = tmp_path_factory.mktemp("book")
    shutil.copytree(ROOT / "tools", root / "tools")
    for name in ("book/_ext", "book/_static"):
        shutil.copytree(ROOT / name, root / name)
    (root / "studies/engine").mkdir(parents=True)
    for name in ("_config.yml", "requirements.txt", "pyproject.toml", "book/references.bib",
                 "CITATION.cff", "studies/__init__.py",
                 "studies/engine/__init__.py", "studies/engine/closure.py"):
        shutil.copy(ROOT / name, root / name)
    (root / "_toc.yml").write_text("format: jb-book\nroot: book/intro\nchapters:\n"
                                   "- file: notebooks/01_good\n- file: notebooks/02_bad\n")
    (root / "notebooks").mkdir()
    (root / "book/intro.md").write_text("# Front\n\nSee {prf:ref}`nowhere`.\n")
    nbformat.write(notebook("Good", GOOD), root / "notebooks/01_good.ipynb")
    nbformat.write(notebook("Bad", GOOD, BAD, "print('after')"), root / "notebooks/02_bad.ipynb")
    return root, build(root, "--jobs", "1")


@pytest.mark.parametrize("raised, made, status", [
    (False, True, 0), (True, True, 1), (False, False, 1), (True, False, 1)])
def test_a_raising_cell_and_a_warning_each_end_with_status_1(
        tmp_path, monkeypatch, capsys, raised, made, status):
    failures = {"notebooks/02_bad.ipynb": [Failure(2, "assert False", "AssertionError: no")]}
    monkeypatch.setattr(book, "BUILD", tmp_path)
    monkeypatch.setattr(book, "executed", lambda jobs, times: failures if raised else {})
    monkeypatch.setattr(book, "site", lambda whole, times: made)
    monkeypatch.setattr(sys, "argv", ["book.py"])
    assert book.main() == status
    said = capsys.readouterr().out
    assert ("1 cell raised an error, on 1 page." in said) == raised
    assert ("Sphinx warned or failed" in said) == (not made)


def test_a_raising_cell_leaves_a_site_a_mark_a_status_and_a_report(small):
    root, first = small
    assert first.returncode == 1, first.stdout + first.stderr
    assert "✗ notebooks/02_bad.ipynb, cell 2: print('before')" in first.stdout
    assert "AssertionError: arithmetic holds here" in first.stdout
    assert "1 cell raised an error, on 1 page." in first.stdout
    assert "Sphinx warned or failed" in first.stdout
    assert "nowhere" in first.stderr + first.stdout
    table = first.stdout.partition("Where the time went")[2]
    assert "2 notebooks, 1 at once" in table and "site" in table and "in all" in table
    page = (root / "_build/html/notebooks/02_bad.html").read_text()
    assert "cells ended with an error" in page and "cell 2: " in page
    assert "arithmetic holds here" in page and "after" in page
    assert "ended with an error" not in (root / "_build/html/notebooks/01_good.html").read_text()


@pytest.mark.parametrize("path, text, stale", [
    ("geolab/deep.py", "x = 2", "a"), ("geolab/deep.py", "x = 1  # why", ""),
    ("geolab/deep.py", '''"One."\nx = 1''', ""), ("geolab/other.py", "y = 2", "b"),
    ("geolab/__init__.py", "z = 2", "ab"), ("geolab/new.py", "x = 2", ""),
    ("geolab/show/sliders.js", "2", "ab"), ("results/order.cpu.json", "2", "ab"),
    ("results/live/02.json", "2", "b"), ("requirements.txt", "2", "ab"),
    ("tools/whole_notebooks.py", "2", "ab"), ("geolab/README.md", "2", "")])
def test_a_notebook_is_stale_after_a_change_of_what_it_imports_or_reads(
        tmp_path, monkeypatch, path, text, stale):
    files = {"geolab/__init__.py": "", "geolab/deep.py": "x = 1", "geolab/other.py": "y = 1",
             "geolab/near.py": "def f():\n    from geolab import deep"}
    for name, source in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(source)
    paths = {"a": tmp_path / "a.ipynb", "b": tmp_path / "b.ipynb"}
    nbformat.write(notebook("A", "from geolab.near import f"), paths["a"])
    nbformat.write(notebook("B", "import geolab.other\nlive('02/loss')"), paths["b"])

    def keys():
        closure.imported.cache_clear()
        return book.keys(paths)

    for module in (book, closure):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    before = keys()
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text(text)
    after = keys()
    assert "".join(name for name in paths if after[name] != before[name]) == stale


def test_only_what_changed_or_failed_is_made_again(small):
    root, _ = small
    kept = (root / "_executed/notebooks/01_good.ipynb").stat().st_mtime_ns
    nbformat.write(notebook("Bad", GOOD), root / "notebooks/02_bad.ipynb")
    (root / "book/intro.md").write_text("# Front\n")
    mended = build(root)
    assert mended.returncode == 0 and "1 notebook, 1 at once" in mended.stdout, mended.stdout
    assert "ended with an error" not in (root / "_build/html/notebooks/02_bad.html").read_text()
    assert (root / "_executed/notebooks/01_good.ipynb").stat().st_mtime_ns == kept
    assert build(root).stdout.startswith("The book is in")           # there is nothing to do
    (root / "book/intro.md").write_text("# The front\n")
    assert "1 page of the site" in build(root).stdout
    assert json.loads((root / "_build/site.json").read_text())["whole"] is False


def test_a_notebook_that_raised_is_executed_again(tmp_path, monkeypatch):
    ran = []

    def execute(copies, *_):
        ran.append([copy.stem for copy in copies])
        return [Outcome(1.0, [])] * len(copies)

    for name, value in {"ROOT": tmp_path, "EXECUTED": tmp_path / "e", "STATE": tmp_path / "state",
                        "execute": execute, "keys": lambda paths: dict.fromkeys(paths, "key"),
                        "outcome": lambda copy: known.get(copy.stem)}.items():
        monkeypatch.setattr(book, name, value)
    (tmp_path / "notebooks").mkdir()
    for name in "abc":
        nbformat.write(notebook(name, GOOD), tmp_path / f"notebooks/{name}.ipynb")
    known = {}
    book.executed(1, {})
    raised = Outcome(3.0, [Failure(1, GOOD, "Error: no")])
    known = {"a": Outcome(1.0, []), "b": Outcome(2.0, []), "c": raised}
    book.executed(1, {})
    known = {"a": Outcome(1.0, []), "b": None, "c": raised}
    book.executed(1, {})
    assert sorted(ran[0]) == ["a", "b", "c"] and ran[1:] == [["c"], ["c", "b"]]


@pytest.mark.parametrize("word", ["auto", "'off'", "cache", "force  # by nobody"])
def test_sphinx_executes_nothing_whatever_the_configuration_says(word):
    text = (ROOT / "_config.yml").read_text()
    read, said = yaml.safe_load(text), re.sub("(execute_notebooks:).*", rf"\1 {word}", text)
    assert read["execute"]["execute_notebooks"] == "force"
    read["execute"]["execute_notebooks"] = "off"
    assert yaml.safe_load(book.unexecuted(said)) == read
    with pytest.raises(KeyError, match="execute"):
        book.unexecuted(text.replace("execute:", "run:"))


@pytest.mark.parametrize("before, whole, made", [
    (False, False, 0), (False, True, 1), (True, True, 0)])
def test_all_pages_are_made_again_unless_they_were_made_at_once(
        tmp_path, monkeypatch, before, whole, made):
    ran = []

    def run(command, check):
        ran.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(book.subprocess, "run", run)
    for name, value in {"ROOT": tmp_path, "EXECUTED": tmp_path / "e", "BUILD": tmp_path / "b",
                        "SITE": tmp_path / "site"}.items():
        monkeypatch.setattr(book, name, value)
    (tmp_path / "book").mkdir()
    (tmp_path / "book/intro.md").write_text("# Front")
    (tmp_path / "_toc.yml").write_text("")
    (tmp_path / "_config.yml").write_text("execute:\n  execute_notebooks: force\n")
    assert book.site(False, {}) and len(ran) == 1
    state = json.loads((tmp_path / "site").read_text())
    (tmp_path / "site").write_text(json.dumps(state | {"whole": before}))
    assert book.site(whole, {}) and len(ran) == 1 + made
