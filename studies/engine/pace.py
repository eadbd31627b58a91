"""The time of a step of each arm, relative to a step of its comparison's first arm.

The arms take turns, and the fastest step of each counts. A folder of checkpoints keeps the measured
times, so that a run that goes on keeps its number of steps.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from geolab import distributed, files
from geolab.penalties import collect_penalties
from studies.engine.arm import Arm

ROUNDS, BEFORE = 15, 3   # rounds that count, and rounds before them that don't


def paced(arms: Sequence[Arm], whole: Callable[[], Sequence[Arm]], folder: Path,
          device: str) -> list[Arm]:
    """Return the arms, with a pace of three digits if a variation needs it.

    Arguments:
        whole: gives all arms of the study, which include the first one of each comparison.
        folder: keeps the paces in paces.json. Under torchrun the first process measures.
    """
    timed = {arm.part for arm in arms if "equal time" in arm.protocol.variations}
    if not timed:
        return list(arms)
    path = folder / "paces.json"
    if distributed.rank() == 0:
        known = json.loads(path.read_text()) if path.exists() else {}
        for part in timed:
            of_part = [arm for arm in whole() if arm.part == part]
            if not {arm.name for arm in of_part} <= set(known.get(part, ())):
                known[part] = measure(of_part, device)
        with files.whole(path) as partial:
            partial.write_text(json.dumps(known))
    distributed.barrier()  # no process reads the file before it is written
    known = json.loads(path.read_text())
    return [replace(arm, pace=known.get(arm.part, {}).get(arm.name, 1.0)) for arm in arms]


def measure(arms: Sequence[Arm], device: str) -> dict[str, float]:
    """Return name -> fastest step over the first arm's; other programs can only slow a step."""
    steps = {arm.name: _step(arm, device) for arm in arms}
    rounds = [{name: _seconds(step) for name, step in steps.items()}
              for _ in range(BEFORE + ROUNDS)][BEFORE:]
    fastest = {name: min(seconds[name] for seconds in rounds) for name in steps}
    return {name: float(f"{taken / fastest[arms[0].name]:.3g}") for name, taken in fastest.items()}


def _step(arm: Arm, device: str):
    model, batch = arm.model(0).to(device).train(), [t.to(device) for t in arm.batch()]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with arm.engine.cast(torch.device(device)), collect_penalties() as penalties:
            loss = arm.task.loss(model(batch[0]), batch[1])
        (loss + sum(penalties)).backward()
        optimizer.step()
        loss.item()  # waits for the device
    return step


def _seconds(step) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start
