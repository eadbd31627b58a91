"""`make address` carries the repository's address to every place.

It comes from git, from GitHub or from the command line. Where none is known, a sentence says so.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import address as tool

ROOT = Path(__file__).resolve().parents[2]
IGNORED = [".git", *(line.strip("/") for line in (ROOT / ".gitignore").read_text().split()),
           ".ruff_cache", "results", "geolab", "studies", "benchmarks", "tests"]
HERS = "https://github.com/a-reader/her-copy"
LINK = re.compile(r"https://(?:colab\.research\.google\.com/)?github(?:\.com)?/[^)\s\"'\\]+")


def address(root: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")}
    command = [sys.executable, root / "tools/address.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False,
                          env=clean | environment)


def texts(root: Path) -> dict[Path, str]:
    files = [path for path in root.rglob("*") if path.is_file() and ".git" not in path.parts]
    return {path.relative_to(root): path.read_bytes().decode(errors="replace") for path in files}


def setup_cell(text: str) -> dict:
    return next(cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code")


def require_address(root: Path, url: str, branch: str) -> None:
    """Assert that every place names the address, and that --check agrees."""
    assert address(root, "--check").returncode == 0
    after = texts(root)
    repository = yaml.safe_load(after[Path("_config.yml")])["repository"]
    assert (repository["url"], repository["branch"]) == (url, branch)
    name = url.removeprefix("https://github.com/")
    for path, text in after.items():
        if path.suffix == ".ipynb":
            cell = setup_cell(text)
            assert f'"--branch", "{branch}", "{url}"' in "".join(cell["source"])
            assert cell["metadata"]["tags"] == ["remove-cell"]
            link = f"https://colab.research.google.com/github/{name}/blob/{branch}/{path}"
            assert f"({link})\n" in after[Path("README.md")]
    assert f'repository-code: "{url}"\n' in after[Path("CITATION.cff")]


@pytest.fixture
def copy(tmp_path) -> Path:
    """The repository, without its history."""
    root = tmp_path / "copy"
    shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns(*IGNORED))
    return root


def test_every_place_has_the_address_of_the_configuration():
    checked = address(ROOT, "--check")
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("remote, url", [
    ("https://github.com/someone/book.git", "https://github.com/someone/book"),
    ("git@github.com:someone/book.git", "https://github.com/someone/book"),
    ("ssh://git@github.com/someone/book", "https://github.com/someone/book"),
    ("https://token@github.com/some-one/b.k/", "https://github.com/some-one/b.k"),
    ("/srv/git/book", ""), ("https://example.org/someone/book", ""),
    ("https://github.com/someone", ""), ("", "")])
def test_a_remote_in_any_form_is_understood(remote, url):
    assert tool.on_github(remote) == url


def test_it_is_taken_from_git_from_github_or_by_hand_and_replaces_the_one_before(copy):
    subprocess.run(["git", "init", "-q", copy], check=True)
    remote = "git@github.com:a-reader/her-copy.git"
    subprocess.run(["git", "-C", copy, "remote", "add", "origin", remote], check=True)
    assert address(copy).returncode == 0
    require_address(copy, HERS, "main")
    # on GitHub, it is that of the repository that runs
    running = {"GITHUB_REPOSITORY": "the/parent", "GITHUB_REF_NAME": "spring"}
    assert address(copy, **running).returncode == 0
    require_address(copy, "https://github.com/the/parent", "spring")
    assert address(copy, "--url", HERS, "--branch", "summer").returncode == 0
    require_address(copy, HERS, "summer")
    assert not [path for path, text in texts(copy).items() if "the/parent" in text]
    # one that Colab can't open is refused, and nothing is changed
    before = texts(copy)
    refused = address(copy, "--url", "https://example.org/a/book")
    assert refused.returncode == 2
    assert "--url must be https://github.com/OWNER/NAME" in refused.stderr
    assert texts(copy) == before


def test_unknown_it_is_a_sentence_and_no_link(copy):
    config = copy / "_config.yml"
    assert address(copy, "--url", HERS).returncode == 0
    config.write_text(config.read_text().replace(HERS, ""))
    assert address(copy).returncode == 0
    after = texts(copy)
    readme = after[Path("README.md")]
    assert "no public address yet" in readme
    assert "repository-code" not in after[Path("CITATION.cff")]
    assert not LINK.findall(readme.partition("<!-- colab -->")[2].partition("<!-- /colab -->")[0])
    for path, text in after.items():
        if path.suffix == ".ipynb":
            assert not LINK.findall("".join(setup_cell(text)["source"])), path


def test_check_names_what_is_out_of_date_and_changes_nothing(copy):
    config = copy / "_config.yml"
    config.write_text(re.sub(r'url: "[^"]*"', f'url: "{HERS}x"', config.read_text()))
    before = texts(copy)
    checked = address(copy, "--check")
    named = {line.split(":")[0] for line in checked.stdout.splitlines()[:-1]}
    notebooks = {str(path) for path in before if path.suffix == ".ipynb"}
    assert checked.returncode == 1 and named == notebooks | {"README.md", "CITATION.cff"}
    assert texts(copy) == before


@pytest.mark.parametrize("place, clones", [("Colab", 1), ("Kaggle", 1), ("elsewhere", 0)])
def test_the_setup_cell_clones_once_and_sets_the_path_each_time(monkeypatch, place, clones):
    calls = []
    monkeypatch.delenv("KAGGLE_KERNEL_RUN_TYPE", raising=False)
    if place == "Colab":
        monkeypatch.setitem(sys.modules, "google.colab", object())
        with pytest.raises(RuntimeError, match="make address"):
            exec(tool.SETUP_UNKNOWN, {})
    if place == "Kaggle":
        monkeypatch.setenv("KAGGLE_KERNEL_RUN_TYPE", "Interactive")
    monkeypatch.setattr(subprocess, "run", lambda command, check: calls.append(command))
    monkeypatch.setattr(os.path, "exists", lambda path: bool(calls))
    for _ in range(2):
        monkeypatch.setattr(sys, "path", [])
        exec(tool.SETUP.format(url=HERS, branch="main"), {})
        assert len(calls) == clones and sys.path == ["/content/book"] * clones


def test_setup_is_the_first_code_cell_and_leaves_the_page(notebook):
    first = notebook.code[0]
    assert first["source"].startswith("# On Colab") and first["metadata"]["tags"] == ["remove-cell"]
    assert [cell for cell in notebook.code if "google.colab" in cell["source"]] == [first]


def test_a_notebook_without_the_setup_cell_gets_one_and_loses_nothing(copy):
    path = copy / "notebooks" / "01_residual_stream.ipynb"
    notebook = json.loads(path.read_text())
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    notebook["cells"].remove(code[0])
    path.write_text(json.dumps(notebook))
    assert address(copy).returncode == 0
    cells = json.loads(path.read_text())["cells"]
    after = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
    assert "".join(after[0]).startswith("# On Colab")
    assert after[1:] == [cell["source"] for cell in code[1:]]
