"""Proved assertions hold for other draws than the page's, with a factor of ten to spare.

Each version of the notebooks tries another draw, of another quarter of them: `make margins` tries
fifty draws of all.
"""

import json
import re
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted(ROOT.glob("notebooks/*.ipynb"))
MEASURE = """
import json, sys
from pathlib import Path
import margins
paths, shifts, first = json.load(sys.stdin)
print(margins.measure(list(map(Path, paths)), shifts=shifts, first=first), "in all")
"""
START = """import torch
torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
x = torch.randn(8)
"""
CELLS = {
    "held": ("assert torch.allclose(x + 1 - 1, x, atol=1e-12)", None),
    "tight": ("assert (x + 1e-9 - x).abs().max() < 2e-9", "error / tolerance 5"),
    "tight against a bound": ("y = x + 1e-9\nassert (y <= x + 2e-9).all()", "error / tolerance 5"),
    "a small gap": ("y = x + 3e-9\nassert (y > x + 2e-9).all()", "error / tolerance"),
    "a close rank": ("assert torch.linalg.matrix_rank(torch.diag(torch.tensor([1, 1e-15]))) == 2",
                     "error / tolerance 4"),
    "told apart": ("assert not torch.allclose(x, x + 3e-9, rtol=0, atol=2e-9)",
                   "error / tolerance 6"),
    "reasoned": ("assert (x + 1e-9 - x).abs().max() < 2e-9  # exact: this is a sum of two", None),
    "by chance": ("assert x.mean() < 0.7", "by chance"),
    "far from chance": ("assert x.mean().abs() < 99.5", None),
    "wrong": ("assert x.mean() > 5", "failed in 5 draws"),
    "in a helper": ("def close(a, b):\n    return torch.allclose(a, b, rtol=0, atol=2e-9)\n"
                    "assert close(x + 1e-9, x)", "error / tolerance 5"),
    "trained": ("from geolab.training import fit\nloss = fit(x)\nassert loss < 0", None),
}


def measured(paths, shifts, first=0) -> str:
    """What `make margins` prints, in a process of its own."""
    code = f"import sys\nsys.path[:0] = [{str(ROOT / 'tools')!r}, {str(ROOT)!r}]\n{MEASURE}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          input=json.dumps([list(map(str, paths)), shifts, first]), timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_proved_assertions_hold_for_another_draw():
    version = zlib.crc32(b"".join(path.read_bytes() for path in NOTEBOOKS))
    report = measured(NOTEBOOKS[version % 4::4], shifts=1, first=1 + version % 997)
    assert report.endswith("\n0 in all\n"), report


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("notebooks")
    for name, (source, _) in CELLS.items():
        cells = [{"cell_type": "code", "source": [text]} for text in (START, source)]
        (folder / f"{name}.ipynb").write_text(json.dumps({"cells": cells}))
    return measured([folder / f"{name}.ipynb" for name in CELLS], shifts=5)


@pytest.mark.parametrize("name", CELLS)
def test_a_fault_is_named(report, name):
    _, fault = CELLS[name]
    told, = re.findall(rf"^{name}  .*\n((?: .*\n)*)", report, re.M)
    assert fault in told if fault else not told
