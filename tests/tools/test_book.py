"""`make book` builds every page, executes only what changed, and ends with what raised."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import yaml

import book
from executor import Failure
from studies.engine import closure

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("tools", "book/_ext", "book/_static", "_config.yml", "requirements.txt",
          "pyproject.toml", "book/references.bib", "CITATION.cff", "studies/__init__.py",
          "studies/engine/__init__.py", "studies/engine/closure.py")
GOOD = "print(6 * 7)"
BAD = "print('before')\nfrom pathlib import Path\nassert Path('{}').exists(), 'it is there'"


def notebook(title: str, *sources: str):
    cells = [nbformat.v4.new_markdown_cell(f"# {title}"), *map(nbformat.v4.new_code_cell, sources)]
    metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return nbformat.v4.new_notebook(cells=cells, metadata=metadata)


def build(root: Path, *arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, root / "tools/book.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False,
                          env=os.environ | {"PYTHONPATH": str(root)})


# ---------------------------------------------------------------- what is made again

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


@pytest.mark.parametrize("raised, made, status", [
    (False, True, 0), (True, True, 1), (False, False, 1)])
def test_a_raising_cell_and_a_warning_each_end_with_status_1(
        tmp_path, monkeypatch, raised, made, status):
    failures = {"a.ipynb": [Failure(2, "assert False", "AssertionError: no")]} if raised else {}
    monkeypatch.setattr(book, "BUILD", tmp_path)
    monkeypatch.setattr(book, "executed", lambda jobs, times: failures)
    monkeypatch.setattr(book, "site", lambda whole, times: made)
    monkeypatch.setattr(sys, "argv", ["book.py"])
    assert book.main() == status


def test_sphinx_executes_nothing():
    text = (ROOT / "_config.yml").read_text()
    read = yaml.safe_load(text)
    read["execute"]["execute_notebooks"] = "off"
    assert yaml.safe_load(book.unexecuted(text)) == read


# ---------------------------------------------------------------- a small book

@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A book of a good page, one whose reference leads nowhere, and one that raises; its build."""
    root = tmp_path_factory.mktemp("book")
    for name in COPIED:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, root / name)
    (root / "_toc.yml").write_text("format: jb-book\nroot: book/intro\nchapters:\n"
                                   "- file: notebooks/01_good\n- file: notebooks/02_bad\n")
    (root / "notebooks").mkdir()
    (root / "book/intro.md").write_text("# Front\n\nSee {prf:ref}`nowhere`.\n")
    bad = notebook("Bad", GOOD, BAD.format(root / "there"), "print('after')")
    nbformat.write(bad, root / "notebooks/02_bad.ipynb")
    nbformat.write(notebook("Good", GOOD), root / "notebooks/01_good.ipynb")
    return root, build(root, "--jobs", "1")


def test_a_raising_cell_leaves_a_site_a_mark_a_status_and_a_report(small):
    root, first = small
    assert first.returncode == 1, first.stdout + first.stderr
    assert "✗ notebooks/02_bad.ipynb, cell 2: print('before')" in first.stdout
    assert "AssertionError: it is there" in first.stdout
    assert "1 cell raised an error, on 1 page." in first.stdout
    assert "Sphinx warned or failed" in first.stdout
    assert "nowhere" in first.stderr + first.stdout
    table = first.stdout.partition("Where the time went")[2]
    assert "2 notebooks, 1 at once" in table and "site" in table and "in all" in table
    page = (root / "_build/html/notebooks/02_bad.html").read_text()
    assert "cells ended with an error" in page and "cell 2: " in page
    assert "it is there" in page and "after" in page
    assert "ended with an error" not in (root / "_build/html/notebooks/01_good.html").read_text()


def test_only_what_changed_or_failed_is_made_again(small):
    root, _ = small
    executed, front = root / "_executed/notebooks/01_good.ipynb", root / "book/intro.md"
    kept = executed.stat().st_mtime_ns
    front.write_text("# Front\n")
    (root / "there").touch()  # so that the notebook that raised passes, as it is
    mended = build(root)
    assert mended.returncode == 0 and "1 notebook, 1 at once" in mended.stdout, mended.stdout
    assert "ended with an error" not in (root / "_build/html/notebooks/02_bad.html").read_text()
    assert executed.stat().st_mtime_ns == kept
    assert build(root, "--whole").stdout.startswith("The book is in")  # there is nothing to do
    # a copy without outputs, as an interrupted run leaves it, is executed too
    shutil.copy(root / "notebooks/01_good.ipynb", executed)
    front.write_text("# The front\n")
    again = build(root).stdout
    assert "1 notebook, 1 at once" in again and "page of the site" in again
    assert json.loads((root / "_build/site.json").read_text())["whole"] is False
    assert "  site" in build(root, "--whole").stdout
