"""A stand-in changes what it names, and nothing else."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import standin

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / "tools"

PROBE = """
import json, sys
sys.path.insert(0, {tools!r})
import standin
standin.apply()
import numpy as np, torch
torch.manual_seed(0)
weight = torch.nn.Parameter(torch.tensor([1.0, -2.0, 0.0, 3.0] * 8))
torch.optim.AdamW([weight], lr=0.1)
print(json.dumps(dict(
    global_=torch.rand(3).tolist(),
    own=torch.rand(3, generator=torch.Generator().manual_seed(0)).tolist(),
    numpy=np.random.RandomState(0).rand(3).tolist(),
    listed=np.random.RandomState([0, 1]).rand(3).tolist(),
    new=np.random.default_rng(0).random(3).tolist(), weight=weight.tolist(),
    capability=torch.backends.cpu.get_cpu_capability())))
"""
FIT = """
import sys
sys.path.insert(0, {tools!r})
from geolab import training
training.fit = lambda model, task: print("fit") or "history"
import standin
standin.apply()
from geolab.training import fit
class Model:
    def cuda(self): print("cuda"); return self
    def cpu(self): print("cpu")
print(fit(Model(), "task"))
"""
DRAWS = ("global_", "own", "numpy", "listed", "new")


@cache
def probed(name: str, **changes) -> dict:
    """What a process under the stand-in draws, and the weights that it starts from."""
    stand_in = standin.STAND_INS[name]._replace(changes=changes)
    return json.loads(ran(PROBE, stand_in))


def ran(code: str, stand_in) -> str:
    """What the code prints in a process under the stand-in."""
    command = [sys.executable, "-c", code.format(tools=str(TOOLS))]
    return subprocess.run(command, check=True, cwd=ROOT, capture_output=True, text=True,
                          env=standin.environment(stand_in)).stdout


def test_seeds_are_moved_everywhere():
    plain, moved = probed("plain"), probed("plain", seeds=1000)
    assert all(moved[name] != plain[name] for name in DRAWS)
    assert moved["own"] == moved["global_"] and moved["weight"] == plain["weight"]


def test_first_weights_move_by_one_unit_in_the_last_place():
    plain, one, other = probed("plain"), probed("plain", ulp=1), probed("default", ulp=2)
    for moved in (one, other):
        pairs = zip(moved["weight"], plain["weight"])
        assert {round((new / old - 1) / 2.0**-23) for new, old in pairs if old} <= {-1, 0, 1}
        assert moved["weight"] != plain["weight"]
        assert [moved[name] for name in DRAWS] == [plain[name] for name in DRAWS]
    assert one["weight"] != other["weight"]


def test_an_instruction_set_is_taken():
    assert probed("default", ulp=2)["capability"] == "DEFAULT"


def test_there_are_nine_and_stored_runs_differ_in_all_that_matters():
    assert len(standin.STAND_INS) >= 9
    machines = standin.stored_runs(12)
    assert len({machine.changes["seeds"] for machine in machines}) == 12
    assert len({machine.environment.get("ATEN_CPU_CAPABILITY") for machine in machines}) == 3


def test_a_chapter_under_cuda_gets_a_fit_that_trains_on_the_device():
    """Without a device, what stands in for `fit` and for the model notes the calls."""
    assert ran(FIT, standin.CUDA).split() == ["cuda", "fit", "cpu", "history"]


def test_without_one_nothing_is_touched(monkeypatch):
    monkeypatch.delenv(standin.VARIABLE, raising=False)
    before = dict(os.environ)
    standin.apply()
    assert dict(os.environ) == before
