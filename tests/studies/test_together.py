"""Two processes that share a model find what one process finds, and note the same on the way.

Run by torchrun, this file is the command with the studies of this file.
"""

import os
import subprocess
import sys
from functools import partial
from itertools import product
from pathlib import Path

import pytest
import torch

from geolab.models import TokenModel, Transformer, TransformerConfig
from geolab.tasks import Copy, RandomTokens
from geolab.training import Budget
from studies.__main__ import main
from studies.engine.again import differences
from studies.engine.arm import comparison
from studies.engine.protocol import Protocol
from studies.engine.results import read
from studies.engine.run import Study, run_study
from studies.experiments import hyper_gain, mgt, mgt_rank, regimes
from studies.experiments.registry import STUDIES

ALONE = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
THEN = "then"  # between two commands of one start
ENGINES = {"data parallel": [], "sharded": ["--shard", "--accumulate", "2"]}
EVALUATIONS = 2  # of the models that are watched, after steps 2 and 3


def many():
    task = Copy(half=3, alphabet=5, train=24, validation=7)

    def build():
        config = TransformerConfig.ddl(width=8, layers=2, heads=2)
        return TokenModel(Transformer(config), task.vocabulary)
    return comparison("copy", {"additive": build}, task,
                      Budget(steps=8, batch=8, warmup=2, evaluate_every=4),
                      Protocol(rates=(1e-4, 1e-3), warmups=None, search_seeds=(7, 8), seeds=(0, 1),
                               few=(0,), search_steps=2, widen=False,
                               variations=("half the steps", "equal time")),
                      measure=lambda model: {"weights": [p.norm().item()
                                                         for p in model.parameters()]})


def in_double(build):
    """A model in float64, in which rounding stays small."""
    torch.set_default_dtype(torch.double)
    try:
        return build()
    finally:
        torch.set_default_dtype(torch.float)


def watched():
    """Models that note something of themselves at each evaluation, some at the start as well."""
    budget = Budget(steps=3, batch=4, lr=1e-3, warmup=0, evaluate_every=2)
    copy, tokens = Copy(half=4, alphabet=5, train=16, validation=11), RandomTokens(8, 6, 16, 70)
    config = mgt.backbone(8, 2, heads=2, max_length=8)
    regime = partial(regimes.watched, regimes.HINT, tokens, EVALUATIONS)
    copying = {name: partial(hyper_gain.build, 8, copy, budget, name, 2)
               for name in hyper_gain.MODELS}
    copying["mgt"] = partial(mgt_rank.watched, config, copy, EVALUATIONS, 1.0, mgt.MGT)
    return [arm for part, task, builds in (
        ("copy", copy, copying), ("tokens", tokens, {"hint": regime,
                                                     "frozen": partial(regime, frozen=True)}))
            for arm in comparison(
                part, {name: partial(in_double, build) for name, build in builds.items()}, task,
                budget, Protocol.stated(1e-3, (1,)),
                measure=lambda model: {"seen": model.seen[:model.count].tolist()})]


TOYS = {"many": Study("many", "Do two processes find what one does?", {"cpu": many}),
        "watched": Study("watched", "And what do models note meanwhile?", {"cpu": watched})}


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """What two processes find. One start of them takes one study and engine after the other."""
    folder = tmp_path_factory.mktemp("two")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
               "2", __file__]
    for name, engine in product(("many", "watched"), ENGINES):
        command += [name, "--out", f"{name}, {engine}.json", "--folder", engine, *ENGINES[engine],
                    THEN]
    subprocess.run(command[:-1], check=True, capture_output=True, timeout=600, env=ALONE,
                   cwd=folder)
    return lambda name, engine: read(folder / f"{name}, {engine}.json")


@pytest.mark.parametrize("engine", ENGINES)
def test_torchrun_of_the_same_command_finds_the_same(engine, together, tmp_path):
    one, two = run_study(TOYS["many"], folder=tmp_path), together("many", engine)
    rows = differences(one, two)
    assert len(rows) == 4 + 2 + 1 and max(row.difference for row in rows) < 1e-4
    assert (one["processes"], two["processes"]) == (1, 2)
    assert two["engine"]["copy"]["shard"] == bool(ENGINES[engine])
    for a, b in zip(one["copy"]["runs"], two["copy"]["runs"]):
        assert a["measured"]["weights"] == pytest.approx(b["measured"]["weights"], rel=1e-3)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_evaluation_is_noted_once_and_alike_however_it_is_shared_out(engine, together, tmp_path):
    one, two = run_study(TOYS["watched"], folder=tmp_path), together("watched", engine)
    for part, start in (("copy", 0), ("tokens", 1)):
        for a, b in zip(one[part]["runs"], two[part]["runs"], strict=True):
            seen, other = (torch.tensor(run["measured"]["seen"], dtype=torch.double)
                           for run in (a, b))
            assert len(seen) == start + EVALUATIONS and not seen.isnan().any(), a["model"]
            assert not torch.equal(seen[-1], seen[-2]), a["model"]  # other weights, other notes
            torch.testing.assert_close(seen, other, rtol=1e-6, atol=1e-9)


if __name__ == "__main__":
    if "GEOLAB_STANDIN" in os.environ:
        sys.path.append(str(Path(__file__).parents[1]))
        import conftest  # noqa: F401, the stand-in of the process that started this one
    STUDIES.update(TOYS)
    rest = sys.argv[1:]
    while THEN in rest:
        assert main(rest[:rest.index(THEN)]) == 0
        rest = rest[rest.index(THEN) + 1:]
    sys.exit(main(rest))
