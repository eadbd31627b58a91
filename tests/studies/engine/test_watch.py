"""What a model notes of itself is the same however an evaluation is shared out.

Run by torchrun, this file is one of two processes; run by pytest, it starts them and compares.
"""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn

from geolab.distributed import Engine, join, rank
from geolab.tasks import Copy, Negation, RandomTokens
from geolab.tasks.base import Pairs
from geolab.training import Budget, fit
from studies.engine.watch import on_the_way, watch
from studies.experiments import hyper_gain, mgt, mgt_rank, reflection, regimes


class Double:
    """A task in float64, in which rounding stays small."""

    def __init__(self, task):
        self.task = task

    def __getattr__(self, name):
        return getattr(self.task, name)

    def sample(self, split):
        return Pairs(*(t.double() if t.is_floating_point() else t for t in self.task.sample(split)))


COPY, TOKENS = Copy(half=4, alphabet=5, train=16, validation=11), RandomTokens(8, 6, 16, 70)
NEGATION = Double(Negation(8, 500, 11))
BUDGET = Budget(steps=3, batch=4, lr=1e-3, warmup=0, evaluate_every=2)
EVALUATIONS = 2  # after steps 2 and 3
CONFIG = mgt.backbone(8, 2, heads=2, max_length=8)
ARMS = {
    "mgt": (partial(mgt_rank.watched, CONFIG, COPY, EVALUATIONS, 1.0, mgt.MGT), COPY),
    **{f"hyper_gain, {name}": (partial(hyper_gain.build, 8, COPY, BUDGET, name, 2), COPY)
       for name in hyper_gain.MODELS},
    **{f"reflection, {name}": (partial(reflection.build, reflection.EVERY_SIZE[name], NEGATION),
                               NEGATION)
       for name in ("delta", "hybrid, bias 0")},
    **{f"regimes, {name}": (partial(regimes.watched, name, TOKENS, EVALUATIONS), TOKENS)
       for name in ("AR-Base", regimes.HINT)},
    "regimes, frozen": (partial(regimes.watched, regimes.HINT, TOKENS, EVALUATIONS, frozen=True),
                        TOKENS)}
TOGETHER = {"shared": Engine(), "sharded, in parts": Engine(shard=True, accumulate=2)}


def noted(name, engine=Engine()):
    """By an arm that trains: what lies in the places that are taken."""
    build, task = ARMS[name]
    torch.manual_seed(0)
    torch.set_default_dtype(torch.double)
    try:
        model = build()
    finally:
        torch.set_default_dtype(torch.float)
    fit(model, task, BUDGET, seed=1, progress=False, engine=engine)
    assert {"seen", "count"} <= model.state_dict().keys()  # a checkpoint keeps them
    return model.seen[:model.count].tolist()


def together(folder: Path):
    found = {engine: {name: noted(name, TOGETHER[engine]) for name in ARMS} for engine in TOGETHER}
    (folder / f"{rank()}.json").write_text(json.dumps(found))


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What each of two processes noted."""
    folder = tmp_path_factory.mktemp("two")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
               "2", __file__, str(folder)]
    started = subprocess.run(command, capture_output=True, text=True, timeout=600,
                             env=os.environ
                             | {"OMP_NUM_THREADS": "1",
                                "PYTHONPATH": str(Path(__file__).parents[3])})
    assert started.returncode == 0, started.stderr
    return [json.loads((folder / f"{number}.json").read_text()) for number in (0, 1)]


def assert_the_same(one, other):
    assert len(one) == len(other)
    torch.testing.assert_close(torch.tensor(one), torch.tensor(other), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", ARMS)
def test_an_evaluation_is_noted_once_and_alike_however_it_is_shared_out(found, name):
    alone = noted(name)
    start = name.startswith(("reflection", "regimes"))
    assert len(alone) == start + EVALUATIONS and not torch.tensor(alone).isnan().any()
    assert_the_same(noted(name, Engine(accumulate=2)), alone)
    for engine in TOGETHER:
        assert found[0][engine][name] == found[1][engine][name]
        assert_the_same(found[0][engine][name], alone)


def test_what_is_noted_changes_with_the_weights():
    assert all(one != two
               for one, two in (noted(name)[-2:]
                                for name in ("mgt", "hyper_gain, hyper", "reflection, delta")))


# ---------------------------------------------------------------- one process

def counting(places=9, **options):
    """A model that notes how many examples it looks at, and their sum."""
    def look(model, x):
        return torch.stack([torch.tensor(float(len(x))), model.forward(x).sum()])
    return watch(nn.Linear(8, 8, bias=False), look, NEGATION.task, places, 2, **options)


def test_only_the_first_of_the_passes_between_two_trainings_is_noted_while_there_is_a_place():
    model, x, counts = counting(places=2), torch.zeros(1, 8), []
    for training in (False, True, True, False, False, True, False, True, False):
        model.train(training)(x)
        counts.append(model.count.item())
    assert counts == [0, 0, 0, 1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize("examples", [None, 3])
def test_it_looks_at_its_own_inputs_all_or_the_first(examples):
    inputs = NEGATION.task.sample("validation").inputs[:examples]
    model = counting(start=True, examples=examples)
    assert model.count == 1 and not model.training
    assert model.seen[0].tolist() == [len(inputs), model(inputs).sum().item()]
    assert model.seen[1:].isnan().all()


def test_a_compiled_model_notes_the_same():
    plain, compiled, x = counting(), counting(), torch.zeros(1, 8)
    compiled.load_state_dict(plain.state_dict())
    compiled.compile(backend="eager")  # the default one would call a C++ compiler
    for model in (plain, compiled):
        for training in (True, False, False, True, False):
            model.train(training)(x)
    assert compiled.count == 2 and torch.equal(compiled.seen[:2], plain.seen[:2])


def test_on_the_way_sees_what_each_module_is_given_and_leaves_no_hooks():
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    x = torch.randn(3, 8)
    first, second = on_the_way(model, model, x, lambda module, given: given)
    assert torch.equal(first, x) and torch.equal(second, model[0](x))
    assert not model[0]._forward_pre_hooks and not model[1]._forward_pre_hooks


if __name__ == "__main__":
    torch.set_num_threads(1)
    if "GEOLAB_STANDIN" in os.environ:
        sys.path.insert(0, str(Path(__file__).parents[1]))
        import conftest  # noqa: F401, the stand-in of the process that started this one
    join()
    together(Path(sys.argv[1]))
    dist.destroy_process_group()
