"""What every command does with a file that exists, and what it says where there is no device."""

import argparse
import importlib
import json

import pytest
import torch

from benchmarks import command
from geolab import kernels

# command -> its arguments, what measures, and what that gives in its place
COMMANDS = {"assembly": ([], "passes", []),
            "cayley_cpu": ([], "measured", []),
            "kernels": (["--interpret", "--only", "stream_read"], "run", {"rows": []}),
            "layouts": ([], "compiled", []),
            "mixes": ([], "measured", []),
            "profile": (["--device", "cpu"], "measure", {"rows": [], "step_us": 1.0, "again": 1.0}),
            "steps": (["--device", "cpu"], "on_cpu", []),
            "tokens": (["--device", "cpu", "--batch", "1"], "measure", [])}


@pytest.fixture(params=COMMANDS)
def run(request, monkeypatch):
    """A command that measures nothing."""
    if request.param in ("assembly", "kernels", "layouts"):
        pytest.importorskip("triton")
    arguments, measures, nothing = COMMANDS[request.param]
    module = importlib.import_module(f"benchmarks.{request.param}")
    monkeypatch.setattr(module, measures, lambda *given, **options: nothing)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("TRITON_INTERPRET", "1")

    def called(*more):
        return module.main([*arguments, *more])

    # benchmarks.kernels writes a file per operator, benchmarks.tokens one per number of sequences
    called.suffix = {"kernels": ".stream_read.json", "tokens": ".batch-1.json"}.get(
        request.param, ".json")
    return called


def test_a_file_is_not_written_over_without_a_reason(run, tmp_path, capsys):
    path = (tmp_path / "found.json").with_suffix(run.suffix)
    path.write_text("{}")
    with pytest.raises(SystemExit):
        run("--out", str(tmp_path / "found.json"))
    assert "--out must be a new file" in (said := capsys.readouterr().err)
    assert str(path) in said and "--force REASON" in said and path.read_text() == "{}"


def test_the_new_file_keeps_the_reason(run, tmp_path):
    out = tmp_path / "found.json"
    path = out.with_suffix(run.suffix)
    run("--out", str(out))
    assert "replaced" not in json.loads(path.read_text())
    run("--out", str(out), "--force", "the closed form is shorter")
    assert json.loads(path.read_text())["replaced"] == "the closed form is shorter"


def test_a_flag_without_a_reason_is_refused(run, tmp_path, capsys):
    with pytest.raises(SystemExit):
        run("--out", str(tmp_path / "found.json"), "--force")
    assert "--force: expected one argument" in capsys.readouterr().err


@pytest.mark.parametrize("there, missing", [
    (False, "PyTorch sees none; wait for one"), (True, "Triton isn't installed")])
def test_it_says_whether_the_device_or_triton_is_missing(there, missing, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    monkeypatch.setattr(kernels, "TWINS", {})
    with pytest.raises(SystemExit):
        command.require_cuda(argparse.ArgumentParser(), "wait for one")
    assert f"this needs a CUDA device with Triton: {missing}" in capsys.readouterr().err


def test_a_number_keeps_four_digits():
    assert command.rounded(0.0123456) == 0.01235 and command.rounded(98764.0) == 98760.0
