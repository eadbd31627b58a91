"""What tests of studies share: a small study, arms by their names, and a stored comparison."""

import json
import time
from dataclasses import asdict
from functools import partial
from itertools import product
from pathlib import Path

from torch import nn

from geolab.tasks import Negation, Task
from geolab.training import Budget
from studies.engine.arm import EQUAL, Arm, comparison
from studies.engine.earlier import budget_of
from studies.engine.protocol import Protocol
from studies.engine.run import Study

TASK = Negation(dim=4, train=32, validation=16)
MAPS = {"biased": partial(nn.Linear, 4, 4), "linear": partial(nn.Linear, 4, 4, bias=False)}


def small_arms(protocol: Protocol, part: str = "negation", **budget) -> list[Arm]:
    """Two linear maps, with a bias and without."""
    return comparison(part, MAPS, TASK,
                      Budget(**{"steps": 6, "evaluate_every": 3, "warmup": 1} | budget), protocol)


def small_study(arms) -> Study:
    """The study whose arms a function gives."""
    return Study("toy", "Does it run?", {"cpu": arms})


def arm_of(study: Study, part: str, name: str, size: str = "cpu") -> Arm:
    """The arm of a study."""
    found, = (arm for arm in study.arms(size) if (arm.part, arm.name) == (part, name))
    return found


def tasks_of(arms: list[Arm]) -> dict[str, Task]:
    """part -> task."""
    return {arm.part: arm.task for arm in arms}


def count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def is_of(one: dict, arms: list[Arm], finished: set[str]) -> bool:
    """Whether a comparison in a file is of these arms, and complete for the finished ones."""
    protocol, pace = arms[0].protocol, one["pace"]
    names = {arm.name for arm in arms}
    slower = {name for name in names if abs(pace.get(name, 1.0) - 1) > EQUAL}
    counts = {arm.name: count(arm.build()) for arm in arms if arm.name in finished}

    def complete(runs, seeds, names):
        found = {(run["model"], run["seed"]) for run in runs}
        return set(product(names & finished, seeds)) <= found <= set(product(names, seeds))

    return (one["task"] == repr(arms[0].task) and one["budget"] == budget_of(arms[0])
            and json.loads(json.dumps(one["protocol"])) == json.loads(json.dumps(asdict(protocol)))
            and one["seeds"] == list(protocol.seeds)
            and counts == {name: one["parameters"].get(name) for name in counts}
            and complete(one["runs"], protocol.seeds, names)
            and one["sensitivity"].keys() == {*protocol.variations}
            and all(complete(runs, protocol.few, slower if name == "equal time" else names)
                    for name, runs in one["sensitivity"].items()))


# ---------------------------------------------------------------- what other processes run

def last_first(k: int, seen: Path) -> int:
    """k, and for 0 not before another call has ended."""
    while k == 0 and not seen.exists():
        time.sleep(0.02)
    seen.touch()
    return k


def fails(k: int) -> None:
    raise ValueError(f"the loss of {k} is not finite")
