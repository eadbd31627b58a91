"""The repository's address stands in _config.yml; tools/address.py carries it to every other place."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
IGNORED = [".git", *(line.strip("/") for line in (ROOT / ".gitignore").read_text().split())]
OLD = yaml.safe_load((ROOT / "_config.yml").read_text())["repository"]
NEW = {"url": "https://github.com/a-reader/her-copy", "branch": "spring"}


def address(root: Path, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, root / "tools/address.py", *arguments], capture_output=True, text=True, check=False)


def colab(repository: dict) -> str:
    owner_and_name = repository["url"].removeprefix("https://github.com/")
    return f"https://colab.research.google.com/github/{owner_and_name}/blob/{repository['branch']}/notebooks/01_residual_stream.ipynb"


def texts(root: Path) -> dict[Path, str]:
    files = [path for path in root.rglob("*") if path.is_file()]
    return {path.relative_to(root): path.read_bytes().decode(errors="replace") for path in files}


@pytest.fixture
def moved(tmp_path) -> Path:
    """A copy of the repository whose address was just set anew; its README links and its citation file are the old ones."""
    root = tmp_path / "copy"
    shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns(*IGNORED))
    with (root / "README.md").open("a") as readme:
        readme.write(f"\n[Open]({colab(OLD)})\n\n    git clone --depth 1 {OLD['url']} book\n\nSee https://github.com/other/code.\n")
    (root / "CITATION.cff").write_text(f'title: The book\nrepository-code: "{OLD["url"]}"\n')
    config = root / "_config.yml"
    config.write_text(config.read_text().replace(OLD["url"], NEW["url"]).replace(
        f"branch: {OLD['branch']}\n", f"branch: {NEW['branch']}\n"))
    assert yaml.safe_load(config.read_text())["repository"].items() >= NEW.items()
    return root


def test_the_address_is_one_that_colab_can_open():
    assert re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+(?<!\.git)", OLD["url"])


def test_every_place_has_the_address_of_the_configuration():
    checked = address(ROOT, "--check")
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_check_names_what_is_out_of_date_and_changes_nothing(moved):
    before = texts(moved)
    checked = address(moved, "--check")
    assert checked.returncode == 1
    named = {line.split(":")[0] for line in checked.stdout.splitlines()}
    assert named == {str(path) for path in before if path.suffix == ".ipynb"} | {"README.md", "CITATION.cff"}
    assert texts(moved) == before


def test_a_new_address_reaches_every_place(moved):
    assert address(moved).returncode == 0
    assert address(moved, "--check").returncode == 0
    after = texts(moved)
    for path, text in after.items():
        if path.suffix == ".ipynb":
            setup = next(cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code")
            assert f'"--branch", "{NEW["branch"]}", "{NEW["url"]}"' in "".join(setup["source"])
            assert setup["metadata"]["tags"] == ["remove-cell"]
    readme = after[Path("README.md")]
    assert f"({colab(NEW)})\n" in readme and f"git clone --depth 1 {NEW['url']} book\n" in readme
    assert "https://github.com/other/code." in readme
    assert f'repository-code: "{NEW["url"]}"\n' in after[Path("CITATION.cff")]


def test_the_address_stands_by_hand_nowhere_else(moved):
    assert address(moved).returncode == 0
    owner_and_name = OLD["url"].removeprefix("https://github.com/")
    left = [str(path) for path, text in texts(moved).items() if owner_and_name in text]
    assert not left, f"these name {owner_and_name} where tools/address.py does not reach"


def test_setup_is_the_first_code_cell_and_leaves_the_page(notebook):
    first = notebook.code[0]
    assert first["source"].startswith("# On Colab") and OLD["url"] in first["source"]
    assert first["metadata"]["tags"] == ["remove-cell"]
    assert [cell for cell in notebook.code if "google.colab" in cell["source"]] == [first]


def test_a_notebook_without_the_setup_cell_gets_one_and_loses_nothing(moved):
    path = moved / "notebooks" / "01_residual_stream.ipynb"
    notebook = json.loads(path.read_text())
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    notebook["cells"].remove(code[0])
    path.write_text(json.dumps(notebook))
    assert address(moved).returncode == 0
    after = [cell["source"] for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    assert "".join(after[0]).startswith("# On Colab") and after[1:] == [cell["source"] for cell in code[1:]]
