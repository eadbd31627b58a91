"""Two processes against one.

Run by torchrun, this file is the two processes. Run by pytest, it starts them and compares.
"""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
import torch.distributed as dist
from torch import nn

from geolab.distributed import Engine, join, rank, world
from geolab.models import TokenModel, Transformer, TransformerConfig
from geolab.penalties import add_penalty
from geolab.residuals import REGISTRY
from geolab.tasks import Copy
from geolab.tasks.stream import Stream
from geolab.training import Budget, fit

TASK = Copy(half=3, alphabet=5, train=24, validation=7)  # two processes can't share 7 evenly
BUDGET = Budget(steps=10, batch=8, lr=1e-2, warmup=2, clip=0.5, evaluate_every=4)
ENGINES = {"plain": Engine(), "accumulated": Engine(accumulate=2), "sharded": Engine(shard=True),
           "sharded accumulated": Engine(shard=True, accumulate=2)}
RESUMED = "plain", "sharded accumulated"
HALF = {"half": Engine(precision="bfloat16"),
        "half sharded": Engine(precision="bfloat16", shard=True)}
SHORT = replace(BUDGET, steps=2, warmup=1)
GENTLE = replace(BUDGET, lr=1e-4)  # at this rate rounding errors stay small


class Model(TokenModel):
    """A model with a penalty; its residual has parameters in `expand` and in `reduce`."""

    def forward(self, tokens):
        add_penalty(0.1 * self.embedding.weight.square().mean())
        return super().forward(tokens)


def model(seed=0, residual="delta-matrix", **options):
    torch.manual_seed(seed)
    config = TransformerConfig.ddl(width=8, layers=2, heads=2)
    return Model(Transformer(config, residual, **options), TASK.vocabulary)


def stream(folder):
    return Stream(str(folder / "texts"), context=6, validation=5)


def reader():
    torch.manual_seed(0)
    return TokenModel(Transformer(TransformerConfig.ddl(width=8, layers=1, heads=2)), 256).double()


def at(step, action, task=TASK):
    """A copy of a task in which `action(loss)` replaces the loss at one step of this process.

    To a checkpoint it is the same task, since it has the same fields.
    """
    copy, steps = replace(task), itertools.count()

    def loss(prediction, target):
        loss = task.loss(prediction, target)
        return action(loss) if torch.is_grad_enabled() and next(steps) == step else loss

    object.__setattr__(copy, "loss", loss)  # the dataclass is frozen
    return copy


def send(number):
    def action(loss):
        os.kill(os.getpid(), number)
        return loss
    return action


def train(task=TASK, network=None, budget=BUDGET, **options):
    return fit(network or model().double(), task, budget, seed=3, progress=False, **options)


def measured(history):
    names = "train_loss", "gradient_norm", "evaluated_at", "validation_loss"
    return {name: getattr(history, name) for name in names}


def finished(path):
    """What a run measured in all, after another model has gone on from its checkpoint."""
    return measured(train(network=model(seed=9).double(), checkpoint=path))


def refused(error, task=TASK, **options):
    """The message of the error that `fit` raises."""
    try:
        train(task, **options)
    except error as raised:
        return str(raised)


# ---------------------------------------------------------------- what each of the two does

def dropped():
    """Which of its 64 features dropout sets to zero in this process's first step."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Embedding(TASK.vocabulary, 64), nn.Dropout(0.5),
                            nn.Linear(64, TASK.vocabulary))
    seen = []
    network[1].register_forward_hook(lambda module, inputs, output: seen.append(output[0, 0] == 0))
    train(network=network)
    return seen[0].tolist()


def saved_by_all(path):
    """Whether the checkpoint is there when `fit` returns, though it takes a while to write."""
    def slow(partial, whole, replace=os.replace):
        time.sleep(0.5)
        replace(partial, whole)

    with patch.object(os, "replace", slow):
        train(checkpoint=path)
    return path.exists()


def together(folder: Path):
    here, found = rank(), {"world": world()}
    for name, engine in ENGINES.items():
        found[name] = measured(train(engine=engine))
    for name in RESUMED:
        engine, parts = ENGINES[name], ENGINES[name].accumulate
        other = model(seed=1 + here).double()
        found[f"{name}, from one"] = measured(train(
            network=other, checkpoint=folder / f"one {name}", engine=engine))
        # only process 1 is interrupted, and only process 1 has a bad loss
        pressed = at(5 * parts, send(signal.SIGTERM)) if here else TASK
        spoilt = at(4 * parts, lambda loss: loss * float("nan")) if here else TASK
        found[f"{name}, interrupted"] = refused(
            KeyboardInterrupt, pressed, checkpoint=folder / f"two {name}", engine=engine)
        found[f"{name}, not a number"] = refused(
            FloatingPointError, spoilt, checkpoint=folder / f"nan {name}", engine=engine,
            save_every=3)
    for name in sorted(REGISTRY):
        network = model(residual=name).double()
        found[f"shared {name}"] = measured(train(network=network, budget=SHORT,
                                                 engine=Engine(shard=True)))
    lent = model(tied=True).double()
    found["lent"] = measured(train(network=lent, engine=Engine(shard=True)))
    for name, engine in HALF.items():
        found[name] = measured(train(network=model(), budget=GENTLE, engine=engine))
    found["stream"] = measured(train(stream(folder), network=reader()))
    pressed = at(5, send(signal.SIGTERM), stream(folder))
    found["stream, interrupted"] = refused(KeyboardInterrupt, pressed, network=reader(),
                                           checkpoint=folder / "stream")
    found["dropped"] = dropped()
    found["saved"] = saved_by_all(folder / "slow")
    found["batch"] = refused(ValueError, budget=replace(BUDGET, batch=7))
    found["micro-batch"] = refused(ValueError, engine=Engine(accumulate=3))
    found["validation"] = refused(ValueError, replace(TASK, validation=1))
    found["unseen"] = refused(ValueError, checkpoint=folder / ("one plain" if here else "nothing"))
    (folder / f"{here}.json").write_text(json.dumps(found))

    def die(loss):
        (folder / "died").touch()
        return send(signal.SIGKILL)(loss)
    train(at(7, die) if here else TASK, checkpoint=folder / "killed", save_every=3)


# ---------------------------------------------------------------- what is expected of them

def run(folder):
    """What torchrun says of two processes that run this file, and how it ends."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
               "2", __file__, str(folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)
    return done.stdout + done.stderr, done.returncode


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files of two processes, which also went on from runs that one process had begun."""
    folder = tmp_path_factory.mktemp("runs")
    for name in RESUMED:
        pressed = at(4, send(signal.SIGINT))
        said = refused(KeyboardInterrupt, pressed, checkpoint=folder / f"one {name}")
        assert "after step 5 of 10" in said
    (folder / "texts").mkdir()
    for number in range(9):
        text = f"{number} is the number of this one. " * (number + 1)
        (folder / "texts" / f"{number}.txt").write_text(text)
    output, code = run(folder)
    assert (folder / "0.json").exists(), output
    assert code != 0 and "SIGKILL" in output
    # without torchrun the other process would wait for half an hour
    assert time.time() - (folder / "died").stat().st_mtime < 600
    return folder


@pytest.fixture(scope="module")
def found(folder):
    return [json.loads((folder / f"{number}.json").read_text()) for number in (0, 1)]


@pytest.fixture(scope="module")
def alone():
    return measured(train())


def assert_close(one, other, rel):
    assert one.keys() == other.keys()
    for name in one:
        assert one[name] == pytest.approx(other[name], rel=rel), name


def test_both_processes_know_the_same_numbers(found):
    own = {name: found[0][name] for name in ("unseen", "dropped")}
    assert found[0] == {**found[1], **own} and found[0]["world"] == 2


ALONE = {  # what two processes train -> the same for one
    **dict.fromkeys((*ENGINES, *(f"{name}, from one" for name in RESUMED)), train),
    **{f"shared {name}": lambda name=name: train(network=model(residual=name).double(),
                                                 budget=SHORT) for name in sorted(REGISTRY)},
    "lent": lambda: train(network=model(tied=True).double()),
}


@pytest.mark.parametrize("name", ALONE)
def test_two_processes_train_as_one(found, name):
    assert_close(found[0][name], measured(ALONE[name]()), rel=1e-11)


@pytest.mark.parametrize("name", RESUMED)
def test_what_two_began_one_finishes(found, folder, alone, name):
    """After an interruption of one of them, and after a loss in one that isn't finite."""
    assert "stopped after step 6 of 10, saved to" in found[0][f"{name}, interrupted"]
    assert found[0][f"{name}, not a number"].startswith("loss is nan at step 4 of 10")
    saved = torch.load(folder / f"nan {name}", weights_only=True)
    assert len(saved["history"]["train_loss"]) == 3
    for path in (folder / f"two {name}", folder / f"nan {name}"):
        assert_close(finished(path), alone, rel=1e-11)


def test_a_killed_process_ends_the_job_and_no_checkpoint(folder, alone):
    saved = torch.load(folder / "killed", weights_only=True)
    assert len(saved["history"]["train_loss"]) == 6
    assert_close(finished(folder / "killed"), alone, rel=1e-11)


def test_a_stream_is_read_by_two_as_by_one(found, folder):
    alone = measured(train(stream(folder), network=reader()))
    assert_close(found[0]["stream"], alone, rel=1e-11)
    assert "after step 6 of 10" in found[0]["stream, interrupted"]
    resumed = measured(train(stream(folder), network=reader(), checkpoint=folder / "stream"))
    assert_close(resumed, alone, rel=1e-11)


def test_each_process_drops_other_features_and_waits_for_the_checkpoint(found):
    assert sum(found[0]["dropped"]) > 0 and sum(found[1]["dropped"]) > 0
    assert found[0]["dropped"] != found[1]["dropped"]
    assert found[0]["saved"] and found[1]["saved"]


@pytest.mark.parametrize("name", HALF)
def test_half_precision_differs_by_its_rounding(found, name):
    single, one = (torch.tensor(train(network=model(), budget=GENTLE, engine=engine).train_loss)
                   for engine in (Engine(), HALF["half"]))
    two = torch.tensor(found[0][name]["train_loss"])
    assert 1e-6 < (two / single - 1).abs().max() < 5e-3
    torch.testing.assert_close(two, one, rtol=1e-3, atol=0)


@pytest.mark.parametrize("what, message", [
    ("batch", "batch must be divisible by processes times accumulate, got batch 7, 2 processes and "
              "accumulate 1"),
    ("micro-batch", "batch must be divisible by processes times accumulate, got batch 8, 2 "
                    "processes and accumulate 3"),
    ("validation", "validation needs an example per process, got 1 for 2 processes"),
    ("unseen", "must be on a disk that all processes see, got one that 1 of 2 see")])
def test_two_processes_refuse_by_name(found, what, message):
    assert found[0][what].endswith(message)


# ---------------------------------------------------------------- one process

def test_micro_batches_add_up_to_the_batch(alone):
    assert_close(measured(train(engine=Engine(accumulate=4))), alone, rel=1e-11)


def test_a_compiled_model_trains_alike_and_keeps_its_penalties(monkeypatch, tmp_path, alone):
    # the default backend would call a C++ compiler
    monkeypatch.setattr(Model, "compile", lambda model: nn.Module.compile(model, backend="eager"))
    assert_close(measured(train(engine=Engine(compile=True))), alone, rel=1e-11)
    pressed, path = at(4, send(signal.SIGTERM)), tmp_path / "run"
    said = refused(KeyboardInterrupt, pressed, checkpoint=path, engine=Engine(compile=True))
    assert "after step 5 of 10" in said
    assert_close(finished(path), alone, rel=1e-11)


def test_precision_is_part_of_a_run(tmp_path):
    train(network=model(), checkpoint=tmp_path / "run")
    half = Engine(precision="bfloat16")
    said = refused(ValueError, network=model(), checkpoint=tmp_path / "run", engine=half)
    assert said.startswith("checkpoint") and "its precision is float32, asked for bfloat16" in said


def test_one_process_has_nobody_to_share_with():
    assert (rank(), world(), join("cpu")) == (0, 1, torch.device("cpu"))
    assert "torchrun --nproc-per-node" in refused(ValueError, engine=Engine(shard=True))
    network = model().double()
    network.trunk.layers[0].scale = nn.Parameter(torch.tensor(1.0))  # has no axis to split
    said = refused(ValueError, network=network, engine=Engine(shard=True))
    assert said.startswith("shard needs parameters with an axis to split")
    assert said.endswith("got none in trunk.layers.0.scale")
    with pytest.raises(ValueError, match="^precision must be one of 'float32', 'bfloat16'"):
        Engine(precision="float16")


if __name__ == "__main__":
    torch.set_num_threads(1)
    if "GEOLAB_STANDIN" in os.environ:
        import_module("conftest")  # it applies the stand-in of the process that started this one
    join()
    together(Path(sys.argv[1]))
    dist.destroy_process_group()
