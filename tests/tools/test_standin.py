"""A stand-in changes what it names, and nothing else."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import standin

ROOT = Path(__file__).resolve().parents[2]
DRAWS = ("global_", "own", "numpy", "listed", "new")
# Each probe in a process that has loaded PyTorch and used nothing of it yet
PROBES = """
import json, os, sys
import numpy as np, torch, torch._dynamo  # which an optimiser loads

def draws():
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.tensor([1.0, -2.0, 0.0, 3.0] * 8))
    torch.optim.AdamW([weight], lr=0.1)
    return dict(
        global_=torch.rand(3).tolist(),
        own=torch.rand(3, generator=torch.Generator().manual_seed(0)).tolist(),
        numpy=np.random.RandomState(0).rand(3).tolist(),
        listed=np.random.RandomState([0, 1]).rand(3).tolist(),
        new=np.random.default_rng(0).random(3).tolist(), weight=weight.tolist(),
        capability=torch.backends.cpu.get_cpu_capability())

def calls():
    from geolab import training
    called = []
    training.fit = lambda model, task: called.append("fit") or "history"
    standin.apply()
    from geolab.training import fit
    class Model:
        def cuda(self): called.append("cuda"); return self
        def cpu(self): called.append("cpu")
    return [fit(Model(), "task"), *called]

for name, environment in json.load(sys.stdin).items():
    if not os.fork():
        os.environ.clear()
        os.environ.update(environment)
        sys.path.insert(0, "tools")
        import standin
        if name == "cuda":
            print(json.dumps(calls()), flush=True)
        else:
            standin.apply()
            print(json.dumps(draws()), flush=True)
        os._exit(0)
    assert not os.wait()[1], name
"""
STAND_INS = {"plain": standin.NATIVE, "seeds": standin.StandIn(changes={"seeds": 1000}),
             "ulp": standin.StandIn(changes={"ulp": 1}), "cuda": standin.CUDA,
             "default": standin.STAND_INS["default"]._replace(changes={"ulp": 2})}


@pytest.fixture(scope="module")
def probed() -> dict:
    """What a process under each stand-in draws, and the weights that it starts from."""
    given = json.dumps({name: standin.environment(one) for name, one in STAND_INS.items()})
    done = subprocess.run([sys.executable, "-c", PROBES], cwd=ROOT, input=given, check=False,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return dict(zip(STAND_INS, map(json.loads, done.stdout.splitlines()), strict=True))


def test_seeds_are_moved_everywhere(probed):
    plain, moved = probed["plain"], probed["seeds"]
    assert all(moved[name] != plain[name] for name in DRAWS)
    assert moved["own"] == moved["global_"] and moved["weight"] == plain["weight"]


def test_first_weights_move_by_one_unit_in_the_last_place_and_an_instruction_set_is_taken(probed):
    plain, one, other = (probed[name] for name in ("plain", "ulp", "default"))
    for moved in (one, other):
        pairs = zip(moved["weight"], plain["weight"])
        assert {round((new / old - 1) / 2.0**-23) for new, old in pairs if old} <= {-1, 0, 1}
        assert moved["weight"] != plain["weight"]
        assert [moved[name] for name in DRAWS] == [plain[name] for name in DRAWS]
    assert one["weight"] != other["weight"] and other["capability"] == "DEFAULT"


def test_stored_runs_differ_in_all_that_matters():
    machines = standin.stored_runs(12)
    assert len({machine.changes["seeds"] for machine in machines}) == 12
    assert len({machine.environment.get("ATEN_CPU_CAPABILITY") for machine in machines}) == 3


def test_a_chapter_under_cuda_gets_a_fit_that_trains_on_the_device(probed):
    """Without a device, what stands in for `fit` and for the model notes the calls."""
    assert probed["cuda"] == ["history", "cuda", "fit", "cpu"]


def test_without_one_nothing_is_touched(monkeypatch):
    monkeypatch.delenv(standin.VARIABLE, raising=False)
    before = dict(os.environ)
    standin.apply()
    assert dict(os.environ) == before
