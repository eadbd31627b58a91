"""Where readers work: the files of each place agree with the pins, and Colab's widgets work."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tomllib
from packaging.requirements import Requirement
from packaging.version import Version

import address

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / ".binder/Dockerfile").read_text()
CONTAINER = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text())
# what https://containers.dev/implementors/json_reference says of the entries that we use
ENTRIES = {"name": str, "image": str, "hostRequirements": dict, "postCreateCommand": str,
           "forwardPorts": list, "portsAttributes": dict, "customizations": dict}
MOVED = """
import ipywidgets
from geolab.show import explore, figures

def line(beta):
    '''A line.'''
    figure, axes = figures.subplots()
    axes.plot([0, beta])
    return figure

box = explore(line, beta=[1, 2, 3])
before = box.picture.value
box.sliders["beta"].value = 3
print(ipywidgets.__version__, "svg" in before and box.picture.value != before)
"""


def pins(path: Path) -> dict[str, Version]:
    """The versions that a file of requirements pins."""
    lines = (line.split("#")[0].strip() for line in path.read_text().splitlines())
    found = [Requirement(line) for line in lines if line]
    return {one.name: Version(str(one.specifier).removeprefix("==")) for one in found}


PINS, COLAB = pins(ROOT / "requirements.txt"), pins(ROOT / ".github/colab.txt")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RANGES = {one.name: one.specifier for one in map(Requirement, [
    *PROJECT["dependencies"], *PROJECT["optional-dependencies"]["show"]])}


def instructions(name: str) -> list[str]:
    return [line.removeprefix(f"{name} ") for line in DOCKERFILE.splitlines()
            if line.startswith(f"{name} ")]


@pytest.mark.parametrize("versions", [PINS, COLAB], ids=["ours", "Colab"])
def test_the_package_allows_the_versions_of_a_place(versions):
    assert all(versions[name] in allowed for name, allowed in RANGES.items() if name in versions)


# ---------------------------------------------------------------- Binder and JupyterHub

def test_every_place_has_the_python_of_the_pins_and_the_image_their_jupyterlab():
    python = re.search(r"on Python (3\.\d+)", (ROOT / "requirements.txt").read_text())[1]
    assert instructions("FROM") == [f"python:{python}-slim"]
    assert CONTAINER["image"] == f"python:{python}"
    # a notebook 7.x is that of the same x of JupyterLab 4.x
    assert f"notebook==7.{PINS['jupyterlab'].minor}." in DOCKERFILE


# ---------------------------------------------------------------- dev containers

def test_the_dev_container_is_one():
    assert {name: type(value) for name, value in CONTAINER.items()} == ENTRIES
    assert {int(port) for port in CONTAINER["portsAttributes"]} == set(CONTAINER["forwardPorts"])
    makefile = (ROOT / "Makefile").read_text()
    assert CONTAINER["postCreateCommand"] == "make .venv/ready" and "\n.venv/ready:" in makefile
    assert f"PORT ?= {CONTAINER['forwardPorts'][0]}\n" in makefile
    python = CONTAINER["customizations"]["vscode"]["settings"]["python.defaultInterpreterPath"]
    assert python.endswith("/.venv/bin/python")


# ---------------------------------------------------------------- Colab

def test_a_slider_moves_under_colabs_widgets():
    """With the version of ipywidgets in Colab's image, which `make unit` gets, before ours."""
    path = f"{ROOT / '.venv/colab'}{os.pathsep}{ROOT}"
    here = {name: value for name, value in os.environ.items() if name != "GEOLAB_EXPLORE"}
    done = subprocess.run([sys.executable, "-c", MOVED], capture_output=True, text=True,
                          check=False, env={**here, "PYTHONPATH": path})
    assert done.stdout.split() == [str(COLAB["ipywidgets"]), "True"], done.stdout + done.stderr


@pytest.mark.parametrize("name, place", [
    ("_config.yml", "  url:"), ("_config.yml", "  branch:"), ("README.md", "<!-- colab -->"),
    ("README.md", "<!-- /colab -->")])
def test_a_place_that_cannot_hold_the_address_is_named(tmp_path, monkeypatch, name, place):
    for copied in ("_config.yml", "README.md", "CITATION.cff"):
        (tmp_path / copied).write_text((ROOT / copied).read_text())
    monkeypatch.setattr(address, "ROOT", tmp_path)
    monkeypatch.setattr(address, "notebooks", list)
    known = address.Address("https://github.com/a/book", "main")
    assert len(address.places(known)) == 3
    text = (ROOT / name).read_text()
    for broken in (text.replace(place, "  moved:"), text + text):
        (tmp_path / name).write_text(broken)
        with pytest.raises(ValueError, match="must have one place"):
            address.places(known)
