"""The rules of the house: what a room may import, how long a file is, what an import changes."""

import ast
import graphlib
import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FILE_LINES = 350    # in any file; most have fewer than 300
WIDGETS = {"matplotlib", "IPython", "ipywidgets"}
INSIDES = {"__globals__", "__code__", "__file__", "getsource"}

# Every room of geolab, and the rooms that it may import. Each of these has a line further up,
# so arrows between rooms can't make a circle.
ROOMS = {
    "checks": "",
    "files": "",
    "penalties": "",
    "kernels": "checks",
    "operators": "checks kernels",
    "show": "checks operators",
    "tasks": "checks",
    "probes": "checks kernels operators",
    "residuals": "checks penalties operators",
    "graft": "checks files residuals",
    "checkpoints": "checks files operators residuals probes",
    "models": "checks penalties operators residuals",
    "consistency": "checks penalties",
    "distributed": "checks penalties models",
    "training": "checks files penalties residuals models tasks distributed",
}

# and those of studies, which may import all of geolab
STUDIES = {
    "engine": "",
    "claims": "engine",
    "experiments": "engine claims",
    "parity": "claims",
    "findings": "engine claims experiments",
    "ledger": "engine claims findings",
    "__main__": "engine experiments ledger",
}


def modules(*folders: str) -> dict[str, Path]:
    """Every module in these folders by its dotted name. A package has the name of its folder."""
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
            for path in paths}


HOUSE = modules("geolab", "studies", "benchmarks")


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imports(name: str) -> set[str]:
    """The other modules of the house that a module imports, also where a function does so."""
    found = set()
    for node in ast.walk(parsed(HOUSE[name])):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.module and not node.level, f"{name} has a relative import"
            for member in (f"{node.module}.{alias.name}" for alias in node.names):
                found.add(member if member in HOUSE else node.module)
    return found & set(HOUSE) - {name}


# what is executed in a process of its own, and prints JSON
MODULES = "print(json.dumps(sorted(sys.modules)))"
FRESH = {name: f"import {name}\n{MODULES}" for name in (
    "geolab.operators", "geolab.graft", "studies.engine.results", "studies.engine.live")} | {
    "all": f"""
import importlib, matplotlib
before = dict(matplotlib.rcParams)
for name in {[name for name in modules("geolab", "studies")
              if not name.startswith("geolab.kernels") and not name.endswith("__main__")]}:
    importlib.import_module(name)
print(json.dumps([key for key, value in matplotlib.rcParams.items() if value != before[key]]))
""", "bare": """
sys.modules |= dict.fromkeys(("IPython", "ipywidgets", "matplotlib"))  # importing them fails
import benchmarks.kernels, benchmarks.steps
from geolab import kernels, operators
assert operators.stream_read(torch.ones(2, 4, 3), torch.ones(4)).eq(4).all() and not kernels.TWINS
try:
    with kernels.use("always"): pass
except RuntimeError as error:
    print(json.dumps(str(error)))
"""}
FORKS = """import json, os, sys, torch
for code in json.load(sys.stdin):
    if not os.fork():
        exec(code)
        sys.stdout.flush()
        os._exit(0)
    assert not os.wait()[1], code
"""


@pytest.fixture(scope="module")
def fresh() -> dict[str, list[str] | str]:
    """What the codes of FRESH print.

    Their processes come from one that has loaded PyTorch and nothing else, on a machine without a
    GPU and without Triton's interpreter.
    """
    bare = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, "-c", FORKS], cwd=ROOT, capture_output=True, text=True,
                          check=False, input=json.dumps(list(FRESH.values())),
                          env=bare | {"CUDA_VISIBLE_DEVICES": ""})
    assert done.returncode == 0, done.stderr
    return dict(zip(FRESH, map(json.loads, done.stdout.splitlines()), strict=True))


# ---------------------------------------------------------------- arrows

@pytest.mark.parametrize("name", [name for name in HOUSE
                                  if name.startswith(("geolab.", "studies."))])
def test_a_module_imports_only_from_the_rooms_below(name):
    house, room, *_ = name.split(".")
    rooms = {"geolab": ROOMS, "studies": STUDIES}[house]
    assert room in rooms, f"test_house.py must say what {house}.{room} may import"
    allowed = {house, *(f"{house}.{other}" for other in (room, *rooms[room].split()))}
    below = {"geolab"} if house == "studies" else set()
    assert {".".join(other.split(".")[:2]) for other in imports(name)
            if other.split(".")[0] not in below} <= allowed


@pytest.mark.parametrize("rooms", [ROOMS, STUDIES], ids=["geolab", "studies"])
def test_no_room_stands_above_one_that_imports_it(rooms):
    names = list(rooms)
    for k, room in enumerate(names):
        assert set(rooms[room].split()) <= set(names[:k]), room


def test_modules_import_each_other_in_no_circle():
    graphlib.TopologicalSorter({name: imports(name) for name in HOUSE}).prepare()


def test_the_map_in_the_readme_has_every_room():
    layout = (ROOT / "README.md").read_text().partition("## Layout")[2].partition("###")[0]
    assert not [room for room in (*ROOMS, *STUDIES) if not re.search(rf"\b{room}\b", layout)
                and room != "__main__"]


# ---------------------------------------------------------------- what an import loads

@pytest.mark.parametrize("name, kept_out", [
    ("geolab.operators", (*WIDGETS, *(f"geolab.{room}" for room in ROOMS if room not in (
        "operators", *ROOMS["operators"].split())))),
    ("geolab.graft", ("transformers", "timm", "torchvision", "matplotlib", "torch._dynamo")),
    ("studies.engine.results", ("geolab.models",)), ("studies.engine.live", ("geolab.models",))])
def test_an_import_leaves_out_what_is_loaded_later_or_never(fresh, name, kept_out):
    assert not [other for other in fresh[name] if other.startswith(kept_out)]


def test_no_import_changes_the_style_of_matplotlib(fresh):
    assert fresh["all"] == []


def test_a_bare_machine_without_widgets_has_the_reference_and_a_clear_refusal(fresh):
    assert "TRITON_INTERPRET=1 in the environment before geolab is imported" in fresh["bare"]


# ---------------------------------------------------------------- size

def test_a_file_fits_a_readers_head():
    lengths = {name: len(path.read_text().splitlines())
               for name, path in modules("geolab", "studies", "benchmarks", "tools").items()}
    assert not {name: length for name, length in lengths.items() if length > FILE_LINES}


# ---------------------------------------------------------------- tests

def test_no_test_looks_into_a_function_or_at_the_source_of_a_module():
    used = {name: {node.attr for node in ast.walk(parsed(path)) if isinstance(node, ast.Attribute)}
            for name, path in modules("tests").items()}
    assert not {name: found for name in used if (found := used[name] & INSIDES)}
