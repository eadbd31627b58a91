"""CONTRIBUTING's samples, added to a copy of the project by its words alone, pass all its checks.

    "with `IMPORT` and `LINE` in `FILE`": IMPORT goes where it is sorted in, LINE opens the list

The guide has no sample of an operator and its kernel. Those of Sinkhorn are added again under
another name.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SAMPLES = dict(re.findall(r"```python\n# (\S+\.py)\n(.*?)```", GUIDE, re.DOTALL))
ADDED = re.findall(r"with `([^`]+)` and\s+`([^`]+)` in\s+`([^`]+\.py)`", GUIDE)
CASE = re.search(r"one case in `(\S+\.py)`,\s+`([^`]+)`", GUIDE)
# the three files of a kernel, and the lines that name it and test it
SHELF = ("geolab/operators", "geolab/kernels", "benchmarks/cases")
NAMED = ("from geolab.operators.balanced import balanced", '"balanced",',
         "geolab/operators/__init__.py")
TESTED = (
    ('"balanced": Example(lambda n, draw: (draw(N, n, n),), [(1,)], noisy=True),',
     "tests/operators/test_every_operator.py"),
    ('"balanced": sinkhorn,', "tests/operators/test_formulas.py"))
# the head of the list that a line is added to
OPENS = re.compile(r"^(REGISTRY|TASKS|__all__|STUDIES|CASES|EXAMPLES|FORMULAS)\b.*[\[({](  #.*)?"
                   r"(?=\n|\")", re.M)
NAMES = ("admin or sorting or stable_rank or tiny or balanced or has_a_case or has_an_example "
         "or is_registered or in_no_circle")
TESTS = ("residuals", "models/test_backbone.py", "probes/test_every_probe.py",
         "probes/test_stable.py", "tasks/test_registry.py", "studies/test_studies.py",
         "operators/test_every_operator.py", "operators/test_formulas.py",
         "kernels/test_every_kernel.py", "benchmarks/test_traffic.py", "test_house.py")
LAWS = ("test_no_token_reads_the_future[admin", "test_every_public_probe_has_a_case",
        "test_every_probe_measures_a_model_with_this_residual[admin",
        "test_a_half_state_keeps_its_dtype_beside_weights_of_float32[admin",
        "test_no_baseline_is_below_the_floor[sorting", "test_the_stored_file_is_of_these_arms[tiny",
        "test_stable_rank_of_a_diagonal_matrix", "test_every_operator_has_an_example",
        "test_an_operator_is_its_equation[balanced", "test_it_is_the_operator[cpu-balanced",
        "test_a_pass_is_one_launch_at_its_floor_but_for_few_numbers[balanced")
# what a reader adds of their own: a probe's "number found by hand"
BY_HAND = """import torch

from geolab.probes import stable_rank


def test_stable_rank_of_a_diagonal_matrix():
    assert stable_rank(torch.diag(torch.tensor([2.0, 1.0]))) == 1.25
"""


def opened(text: str, line: str) -> str:
    """The text of a file with a line more at the head of its list."""
    before, head, after = text.partition(OPENS.search(text)[0])
    return f"{before}{head}\n    {line}{'' if after.startswith(chr(10)) else chr(10)}{after}"


def imported(text: str, line: str) -> str:
    """The text of a file with an import more, after the last one that comes before it."""
    kind, indent = (r"^from geolab\..*", "") if line.startswith("from") else (r"^    \w+,$", "    ")
    before = max(found for found in re.findall(kind, text, re.MULTILINE) if found.strip() < line)
    return text.replace(f"{before}\n", f"{before}\n{indent}{line}\n", 1)


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the project with the samples in it."""
    root = tmp_path_factory.mktemp("copy")
    for room in ("geolab", "studies", "benchmarks", "tools", "tests", "book/_ext"):
        shutil.copytree(ROOT / room, root / room, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "CONTRIBUTING.md"):
        shutil.copy(ROOT / name, root)
    (root / "results").mkdir()
    for path in (ROOT / "results").iterdir():
        (root / "results" / path.name).symlink_to(path)
    for name, source in SAMPLES.items():
        (root / name).write_text(source, encoding="utf-8")
    for folder in SHELF:
        source = (ROOT / folder / "birkhoff.py").read_text(encoding="utf-8")
        (root / folder / "balanced.py").write_text(source.replace("sinkhorn", "balanced"))
    for first, line, name in (*ADDED, NAMED):
        text = (root / name).read_text(encoding="utf-8")
        (root / name).write_text(opened(imported(text, first), line), encoding="utf-8")
    for line, name in ((CASE[2], CASE[1]), *TESTED):
        text = (root / name).read_text(encoding="utf-8")
        (root / name).write_text(opened(text, line), encoding="utf-8")
    (root / "tests/probes/test_stable.py").write_text(BY_HAND)
    return root


def said(copy, *command: str) -> str:
    """What a command of this environment prints in the copy. It must succeed."""
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=copy, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}, timeout=600)
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-2000:]}"
    return done.stdout


def test_style_and_types_are_right(copy):
    assert sorted(str(Path(name).parent) for name in SAMPLES) == [
        "geolab/probes", "geolab/residuals", "geolab/tasks", "studies/experiments"]
    said(copy, "ruff", "check", "--no-cache")
    changed = {*SAMPLES, *(name for *_, name in ADDED)}
    said(copy, "pyrefly", "check", "--python-interpreter-path", sys.executable, *sorted(changed))


def test_the_study_makes_its_file_and_every_law_holds_for_the_samples(copy):
    said(copy, "studies", "tiny")
    assert (copy / "results/tiny.cpu.json").is_file()
    said(copy, "studies", "tiny", "--check")
    done = said(copy, "pytest", "-v", "-n", "0", "-k", NAMES, *(f"tests/{name}" for name in TESTS))
    for law in LAWS:
        assert re.search(rf"{re.escape(law)}\S* PASSED", done), law
