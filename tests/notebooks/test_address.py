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
NAMED = ("_config.yml", "_toc.yml", "README.md", "CITATION.cff")
HERS = "https://github.com/a-reader/her-copy"


def run(root: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")}
    command = [sys.executable, root / "tools/address.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False,
                          env=clean | environment)


def texts(root: Path) -> dict[str, str]:
    files = [root / name for name in NAMED] + [*root.glob("*/*.ipynb")]
    return {path.relative_to(root).as_posix(): path.read_text() for path in files}


def code(text: str) -> list[dict]:
    return [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]


def require_address(root: Path, url: str, branch: str) -> None:
    """Assert that every place names the address, and that --check agrees."""
    assert run(root, "--check").returncode == 0
    after = texts(root)
    repository = yaml.safe_load(after["_config.yml"])["repository"]
    assert (repository["url"], repository["branch"]) == (url, branch)
    assert f'repository-code: "{url}"\n' in after["CITATION.cff"]
    name = url.removeprefix("https://github.com/")
    for path, text in after.items():
        if path.endswith(".ipynb"):
            assert f'"--branch", "{branch}", "{url}"' in "".join(code(text)[0]["source"])
            link = f"https://colab.research.google.com/github/{name}/blob/{branch}/{path}"
            assert f"({link})\n" in after["README.md"]


@pytest.fixture
def copy(tmp_path) -> Path:
    """What the tool reads and writes."""
    root = tmp_path / "copy"
    for folder, wanted in (("notebooks", "*.ipynb"), ("book", "*.ipynb"), ("tools", "address.py")):
        (root / folder).mkdir(parents=True)
        for path in (ROOT / folder).glob(wanted):
            shutil.copy(path, root / folder)
    for name in NAMED:
        shutil.copy(ROOT / name, root)
    return root


def test_every_place_has_the_address_of_the_configuration():
    checked = run(ROOT, "--check")
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("remote", [
    "https://github.com/some-one/b.k.git", "git@github.com:some-one/b.k.git",
    "ssh://git@github.com/some-one/b.k", "https://token@github.com/some-one/b.k/"])
def test_a_remote_in_any_form_is_understood_and_one_elsewhere_is_not(remote):
    assert tool.on_github(remote) == "https://github.com/some-one/b.k"
    assert tool.on_github(remote.replace("github.com", "example.org")) == ""
    assert tool.on_github(remote.replace("/b.k", "")) == ""


def test_it_is_taken_from_git_from_github_or_by_hand_and_replaces_the_one_before(copy):
    subprocess.run(["git", "init", "-q", copy], check=True)
    remote = "git@github.com:a-reader/her-copy.git"
    subprocess.run(["git", "-C", copy, "remote", "add", "origin", remote], check=True)
    path = copy / "notebooks/01_residual_stream.ipynb"
    before = json.loads(path.read_text())
    setup, *others = code(path.read_text())
    before["cells"].remove(setup)
    path.write_text(json.dumps(before))
    assert run(copy).returncode == 0
    require_address(copy, HERS, "main")
    # a notebook without a setup cell got one, and lost nothing
    added, *after = code(path.read_text())
    assert added["metadata"]["tags"] == ["remove-cell"] and after == others
    # on GitHub, it is that of the repository that runs
    running = {"GITHUB_REPOSITORY": "the/parent", "GITHUB_REF_NAME": "spring"}
    assert run(copy, **running).returncode == 0
    require_address(copy, "https://github.com/the/parent", "spring")
    assert run(copy, "--url", HERS, "--branch", "summer").returncode == 0
    require_address(copy, HERS, "summer")
    kept = texts(copy)
    assert not [path for path, text in kept.items() if "the/parent" in text]
    # one that Colab can't open is refused, and nothing is changed
    refused = run(copy, "--url", "https://example.org/a/book")
    assert refused.returncode == 2
    assert "--url must be https://github.com/OWNER/NAME" in refused.stderr
    assert texts(copy) == kept


def test_check_names_what_is_out_of_date_and_an_unknown_address_is_a_sentence_and_no_link(copy):
    assert run(copy, "--url", HERS).returncode == 0
    config = copy / "_config.yml"
    config.write_text(config.read_text().replace(HERS, ""))
    before = texts(copy)
    checked = run(copy, "--check")
    named = {line.split(":")[0] for line in checked.stdout.splitlines()[:-1]}
    assert checked.returncode == 1 and named == before.keys() - {"_config.yml", "_toc.yml"}
    assert texts(copy) == before

    assert run(copy).returncode == 0
    after = texts(copy)
    assert "no public address yet" in after["README.md"]
    assert "repository-code" not in after["CITATION.cff"]
    links = re.search("<!-- colab -->(.*)<!-- /colab -->", after["README.md"], re.S)[1]
    cells = [text for path, text in after.items() if path.endswith(".ipynb")]
    assert not [text for text in [links, *("".join(code(text)[0]["source"]) for text in cells)]
                if "github.com/" in text]


@pytest.mark.parametrize("place", ["Colab", "Kaggle", "elsewhere"])
def test_the_setup_cell_clones_once_and_sets_the_path_each_time(monkeypatch, place):
    calls, clones = [], int(place != "elsewhere")
    if place == "Colab":
        monkeypatch.setitem(sys.modules, "google.colab", object())
        with pytest.raises(RuntimeError, match="make address"):
            exec(tool.SETUP_UNKNOWN, {})
    elif place == "Kaggle":
        monkeypatch.setenv("KAGGLE_KERNEL_RUN_TYPE", "Interactive")
    monkeypatch.setattr(subprocess, "run", lambda command, check: calls.append(command))
    monkeypatch.setattr(os.path, "exists", lambda path: bool(calls))
    for _ in range(2):
        monkeypatch.setattr(sys, "path", [])
        exec(tool.SETUP.format(url=HERS, branch="main"), {})
        assert len(calls) == clones and sys.path == ["/content/book"] * clones


@pytest.mark.parametrize("change", [
    lambda text: text.replace("<!-- /colab -->", ""), lambda text: text + text])
def test_a_place_that_cannot_hold_the_address_is_named(copy, change):
    readme = copy / "README.md"
    readme.write_text(change(readme.read_text()))
    refused = run(copy, "--url", HERS)
    assert refused.returncode and "must have one place" in refused.stderr
