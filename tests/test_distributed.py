"""Two processes against one. Run by torchrun, this file is the two processes; run by pytest, it starts them and compares."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from geolab.distributed import Engine, join, rank, world
from geolab.models import TokenModel, Transformer, TransformerConfig
from geolab.penalties import add_penalty
from geolab.tasks import Copy
from geolab.tasks.stream import Stream
from geolab.training import Budget, fit

TASK = Copy(half=3, alphabet=5, train=24, validation=7)  # 7 don't divide by two
BUDGET = Budget(steps=10, batch=8, lr=1e-2, warmup=2, clip=0.5, evaluate_every=4)
ENGINES = {"plain": Engine(), "accumulated": Engine(accumulate=2), "sharded": Engine(shard=True),
           "sharded accumulated": Engine(shard=True, accumulate=2)}
RESUMED = "plain", "sharded accumulated"
HALF = {"half": Engine(precision="bfloat16"), "half sharded": Engine(precision="bfloat16", shard=True)}
GENTLE = replace(BUDGET, lr=1e-4)  # at which rounding stays rounding


class Model(TokenModel):
    """With parameters in `expand`, in `reduce` and in a penalty."""

    def forward(self, tokens):
        add_penalty(0.1 * self.embedding.weight.square().mean())
        return super().forward(tokens)


def model(seed=0, residual="delta-matrix"):
    torch.manual_seed(seed)
    return Model(Transformer(TransformerConfig.ddl(width=8, layers=2, heads=2), residual), TASK.vocabulary)


def stream(folder):
    return Stream(str(folder / "texts"), context=6, validation=5)


def reader():
    torch.manual_seed(0)
    return TokenModel(Transformer(TransformerConfig.ddl(width=8, layers=1, heads=2)), 256).double()


class At:
    """A task, but `action(loss)` replaces the loss at one step, counted in this process."""

    def __init__(self, step, action, task=TASK):
        self.step, self.action, self.now, self.task = step, action, -1, task

    def __repr__(self):
        return repr(self.task)

    def __getattr__(self, name):
        return getattr(self.task, name)

    def loss(self, prediction, target):
        loss = self.task.loss(prediction, target)
        self.now += torch.is_grad_enabled()
        return self.action(loss) if self.now == self.step and torch.is_grad_enabled() else loss


def send(number):
    def action(loss):
        os.kill(os.getpid(), number)
        return loss
    return action


def train(task=TASK, network=None, budget=BUDGET, **options):
    return fit(network or model().double(), task, budget, seed=3, progress=False, **options)


def measured(history):
    return {name: getattr(history, name) for name in ("train_loss", "gradient_norm", "evaluated_at", "validation_loss")}


def refused(error, task=TASK, **options):
    """What `fit` says."""
    try:
        train(task, **options)
    except error as raised:
        return str(raised)


# ---------------------------------------------------------------- what each of the two processes does

def together(folder: Path):
    here, found = rank(), {"world": world()}
    for name, engine in ENGINES.items():
        found[name] = measured(train(engine=engine))
    for name in RESUMED:
        engine, parts = ENGINES[name], ENGINES[name].accumulate
        found[f"{name}, from one"] = measured(train(network=model(seed=1 + here).double(), checkpoint=folder / f"one {name}",
                                                       engine=engine))
        # what happens, happens to one of the two
        pressed, spoilt = At(5 * parts, send(signal.SIGTERM)), At(4 * parts, lambda loss: loss * float("nan"))
        found[f"{name}, interrupted"] = refused(KeyboardInterrupt, pressed if here else TASK, checkpoint=folder / f"two {name}",
                                                 engine=engine)
        found[f"{name}, not a number"] = refused(FloatingPointError, spoilt if here else TASK, checkpoint=folder / f"nan {name}",
                                                 save_every=3, engine=engine)
    found["one number"] = measured(train(network=model(residual="mgt").double(), engine=Engine(shard=True)))
    for name, engine in HALF.items():
        found[name] = measured(train(network=model(), budget=GENTLE, engine=engine))
    found["stream"] = measured(train(stream(folder), network=reader()))
    found["stream, interrupted"] = refused(KeyboardInterrupt, At(5, send(signal.SIGTERM), stream(folder)), network=reader(),
                                           checkpoint=folder / "stream")
    found["batch"] = refused(ValueError, budget=replace(BUDGET, batch=7))
    found["micro-batch"] = refused(ValueError, engine=Engine(accumulate=3))
    found["validation"] = refused(ValueError, replace(TASK, validation=1))
    found["unseen"] = refused(ValueError, checkpoint=folder / ("one plain" if here else "nothing"))
    (folder / f"{here}.json").write_text(json.dumps(found))
    train(At(2, lambda loss: loss / 0) if here else TASK)  # the last one ends the job


def killed(folder: Path):
    def die(loss):
        (folder / "died").touch()
        return send(signal.SIGKILL)(loss)
    train(At(7, die) if rank() else TASK, checkpoint=folder / "run", save_every=3)


def long(folder: Path):
    def ready(loss):
        (folder / f"ready {rank()}").touch()
        return loss
    train(At(5, ready), budget=replace(BUDGET, steps=100_000), checkpoint=folder / "run", save_every=10**6)


# ---------------------------------------------------------------- what is expected of them

def start(scenario, folder):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", __file__, scenario, str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)})


def finish(process, seconds=600):
    try:
        return process.communicate(timeout=seconds)[0]
    finally:
        process.kill()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What two processes made, from what one had begun."""
    folder = tmp_path_factory.mktemp("runs")
    for name in RESUMED:
        assert "after step 5 of 10" in refused(KeyboardInterrupt, At(4, send(signal.SIGINT)), checkpoint=folder / f"one {name}")
    (folder / "texts").mkdir()
    for number in range(9):
        (folder / "texts" / f"{number}.txt").write_text(f"{number} is the number of this one. " * (number + 1))
    process = start("together", folder)
    output = finish(process)
    assert (folder / "0.json").exists(), output
    assert process.returncode != 0 and "FloatingPointError: loss is inf at step 2 of 10" in output
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
    assert found[0] == {**found[1], "unseen": found[0]["unseen"]} and found[0]["world"] == 2


@pytest.mark.parametrize("name", ENGINES)
def test_two_processes_train_as_one(found, alone, name):
    assert_close(found[0][name], alone, rel=1e-11)


def test_a_parameter_of_one_number_is_shared_out_among_two(found):
    assert_close(found[0]["one number"], measured(train(network=model(residual="mgt").double())), rel=1e-11)


@pytest.mark.parametrize("name", RESUMED)
def test_what_one_began_two_finish(found, alone, name):
    assert_close(found[0][f"{name}, from one"], alone, rel=1e-11)


@pytest.mark.parametrize("name", RESUMED)
def test_what_two_began_one_finishes(found, folder, alone, name):
    assert "stopped after step 6 of 10, saved to" in found[0][f"{name}, interrupted"]
    assert_close(measured(train(network=model(seed=9).double(), checkpoint=folder / f"two {name}")), alone, rel=1e-11)


@pytest.mark.parametrize("name", RESUMED)
def test_a_loss_that_is_not_finite_in_one_stops_both(found, folder, alone, name):
    assert found[0][f"{name}, not a number"].startswith("loss is nan at step 4 of 10")
    saved = torch.load(folder / f"nan {name}", weights_only=True)
    assert len(saved["history"]["train_loss"]) == 3
    assert_close(measured(train(network=model(seed=9).double(), checkpoint=folder / f"nan {name}")), alone, rel=1e-11)


def test_a_stream_is_read_by_two_as_by_one(found, folder):
    alone = measured(train(stream(folder), network=reader()))
    assert_close(found[0]["stream"], alone, rel=1e-11)
    assert "after step 6 of 10" in found[0]["stream, interrupted"]
    assert_close(measured(train(stream(folder), network=reader(), checkpoint=folder / "stream")), alone, rel=1e-11)


def test_a_checkpoint_of_shards_is_that_of_whole_tensors(folder):
    plain, sharded = (torch.load(folder / f"two {name}", weights_only=True) for name in RESUMED)
    assert plain["identity"] == sharded["identity"]
    for kind in ("model", "optimizer"):
        torch.testing.assert_close(plain[kind], sharded[kind], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", HALF)
def test_half_precision_differs_by_its_rounding(found, name):
    single, one = (train(network=model(), budget=GENTLE, engine=engine) for engine in (Engine(), HALF["half"]))
    single, one, two = map(torch.tensor, (single.train_loss, one.train_loss, found[0][name]["train_loss"]))
    assert 1e-6 < (two / single - 1).abs().max() < 5e-3
    torch.testing.assert_close(two, one, rtol=1e-3, atol=0)


def test_two_processes_refuse_by_name(found):
    assert found[0]["batch"] == "batch must divide by processes times accumulate, got batch 7, 2 processes and accumulate 1"
    assert found[0]["micro-batch"].endswith("got batch 8, 2 processes and accumulate 3")
    assert found[0]["validation"] == "validation needs an example a process, got 1 of 2"
    assert found[0]["unseen"].endswith("must be on a disk that all processes see, got one that 1 of 2 see")


def test_a_killed_process_ends_the_job_and_no_checkpoint(tmp_path, alone):
    process = start("killed", tmp_path)
    output = finish(process)
    assert process.returncode != 0 and "SIGKILL" in output
    assert time.time() - (tmp_path / "died").stat().st_mtime < 600  # the other one would wait for half an hour
    assert len(torch.load(tmp_path / "run", weights_only=True)["history"]["train_loss"]) == 6
    assert_close(measured(train(network=model(seed=9).double(), checkpoint=tmp_path / "run")), alone, rel=1e-11)


def test_torchrun_terminated_saves_a_whole_step(tmp_path):
    process = start("long", tmp_path)
    while process.poll() is None and len(list(tmp_path.glob("ready *"))) < 2:
        time.sleep(0.1)
    process.terminate()
    output = finish(process)
    assert process.returncode != 0 and "saved to" in output
    history = torch.load(tmp_path / "run", weights_only=True)["history"]
    assert f"stopped after step {len(history['train_loss'])} of 100000" in output


# ---------------------------------------------------------------- one process

def test_micro_batches_add_up_to_the_batch(alone):
    assert_close(measured(train(engine=Engine(accumulate=4))), alone, rel=1e-11)


def test_a_compiled_model_trains_alike_and_keeps_its_penalties(alone):
    class Traced(Model):
        def compile(self):
            super().compile(backend="eager")  # the default one would call a C++ compiler

    network = model().double()
    network.__class__ = Traced
    assert_close(measured(train(network=network, engine=Engine(compile=True))), alone, rel=1e-11)


def test_precision_is_part_of_a_run(tmp_path):
    train(network=model(), checkpoint=tmp_path / "run")
    said = refused(ValueError, network=model(), checkpoint=tmp_path / "run", engine=Engine(precision="bfloat16"))
    assert said.startswith("checkpoint") and "its precision is float32, asked for bfloat16" in said


def test_a_checkpoint_from_before_precision_is_read(tmp_path, alone):
    refused(KeyboardInterrupt, At(4, send(signal.SIGTERM)), checkpoint=tmp_path / "run")
    saved = torch.load(tmp_path / "run", weights_only=True)
    del saved["identity"]["precision"]
    torch.save({**saved, "random": saved["random"][0][0]}, tmp_path / "run")
    assert measured(train(network=model(seed=9).double(), checkpoint=tmp_path / "run")) == alone


@pytest.mark.parametrize("options, message", [
    ({"precision": "float16"}, "precision must be one of 'float32', 'bfloat16', got 'float16'"),
    ({"accumulate": 0}, "accumulate must be at least 1, got 0")])
def test_an_engine_refuses_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        Engine(**options)


def test_one_process_has_nobody_to_share_with():
    assert (rank(), world(), join("cpu")) == (0, 1, torch.device("cpu"))
    assert "torchrun --nproc-per-node" in refused(ValueError, engine=Engine(shard=True))


if __name__ == "__main__":
    torch.set_num_threads(1)
    if "GEOLAB_STANDIN" in os.environ:
        import conftest  # noqa: F401, the stand-in of the process that started this one
    join()
    {"together": together, "killed": killed, "long": long}[sys.argv[1]](Path(sys.argv[2]))
    dist.destroy_process_group()
