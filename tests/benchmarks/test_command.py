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
            "cayley_cpu": ([], "measure", []),
            "kernels": (["--interpret", "--only", "stream_read"], "run", {"rows": []}),
            "layouts": ([], "compiled histories", []),
            "mixes": ([], "measure", []),
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
    for name in measures.split():
        monkeypatch.setattr(module, name, lambda *given, **options: nothing)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("TRITON_INTERPRET", "1")

    def called(*more):
        return module.main([*arguments, *more])

    # benchmarks.kernels writes a file per operator, benchmarks.tokens one per number of sequences
    called.suffix = {"kernels": ".stream_read.json", "tokens": ".batch-1.json"}.get(
        request.param, ".json")
    return called


def test_a_file_is_written_once_and_over_for_a_reason_that_it_keeps(run, tmp_path, capsys):
    out = tmp_path / "found.json"
    path = out.with_suffix(run.suffix)
    run("--out", str(out))
    first = path.read_text()
    assert "replaced" not in json.loads(first)
    with pytest.raises(SystemExit):
        run("--out", str(out))
    assert "--out must be a new file" in (said := capsys.readouterr().err)
    assert str(path) in said and "--force REASON" in said and path.read_text() == first
    run("--out", str(out), "--force", "the closed form is shorter")
    assert json.loads(path.read_text())["replaced"] == "the closed form is shorter"


def test_it_says_that_triton_is_missing(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(kernels, "TWINS", {})
    with pytest.raises(SystemExit):
        command.require_cuda(argparse.ArgumentParser(), "wait for one")
    assert "this needs a CUDA device with Triton: Triton isn't" in capsys.readouterr().err


NO_GPU = pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU it measures")
CPU = ["--device", "cpu"]
REFUSED = [  # a command, its arguments, and words of the message
    ("kernels", ["--interpret", "--only", "stream"], "argument --only: invalid choice: 'stream'"),
    ("kernels", ["--interpret", "--ddl", "nowhere"], "--ddl must be a folder with model/DDL_utils"),
    ("layouts", ["--clock", "--rounds", "0"], "--rounds must be at least 1, got 0"),
    ("mixes", ["--rounds", "1"], "--rounds must be at least 2"),
    ("models", ["--batch", "0"], "--batch must be at least 1, got 0"),
    ("models", ["--width", "10"], "width must be divisible by heads"),
    ("models", ["--table5", "--variants"], "--variants: not allowed with argument --table5"),
    ("steps", ["--only", "plus"], "--only must be among additive, "),
    ("steps", ["--modes", "fast"], "got fast"),
    ("steps", [*CPU, "--processes", "1"], "--processes must be at least 2, got 1"),
    ("steps", [*CPU, "--modes", "kernels"], "kernels need a CUDA device"),
    ("steps", [*CPU, "--slope"], "--slope measures the backbone on a CUDA device"),
    ("tokens", ["--only", "plus"], "--only must be among additive, "),
    ("tokens", ["--modes", "fast"], "got fast"),
    ("tokens", [*CPU, "--batch", "0"], "--batch and all sizes must be at least 1, got [0]"),
    ("tokens", [*CPU, "--modes", "kernels"], "kernels need a CUDA device"),
    *(pytest.param(name, [], "a CUDA device with Triton: PyTorch sees none; --", marks=NO_GPU)
      for name in ("kernels", "steps", "tokens"))]


@pytest.mark.parametrize("name, arguments, message", REFUSED)
def test_a_bad_argument_is_named(name, arguments, message, capsys):
    module = importlib.import_module(f"benchmarks.{name}")
    with pytest.raises(SystemExit):
        module.main(arguments)
    assert message in capsys.readouterr().err


# a command, its arguments, what measures, and what is written before an interruption
INTERRUPTED = [("layouts", ["--clock"], "timed", {"found.partial.json"}),
               ("steps", ["--modes", "eager"], "on_cuda", {"found.partial.json"}),
               ("kernels", ["--interpret", "--only", "delta_update, d_v = 4", "sinkhorn"], "run",
                {"found.delta_update-d_v-4.json"}),
               ("tokens", [*CPU, "--batch", "1", "64"], "measure", {"found.batch-1.json"})]


@pytest.mark.parametrize("name, arguments, measures, files", INTERRUPTED)
def test_an_interruption_leaves_what_was_measured(name, arguments, measures, files, monkeypatch,
                                                  tmp_path):
    module, calls = importlib.import_module(f"benchmarks.{name}"), []

    def once(*given):
        if calls:
            raise KeyboardInterrupt
        calls.append(given)
        return {"rows": []} if name == "kernels" else []

    def one_by_one(*given):
        yield once(*given)
        if name == "steps":
            raise KeyboardInterrupt

    monkeypatch.setattr(module, measures, one_by_one if name in ("steps", "tokens") else once)
    monkeypatch.setattr(module, "require_cuda", lambda *_: None)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with pytest.raises(KeyboardInterrupt):
        module.main([*arguments, "--out", str(tmp_path / "found.json")])
    assert {path.name for path in tmp_path.iterdir()} == files
