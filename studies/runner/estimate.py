"""What a run would cost, before it starts: counted, and timed on one step of each arm."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

from studies.runner.study import Comparison, find
from geolab.penalties import collect_penalties
from geolab.tasks import Task

ENOUGH = 1.0       # seconds that a timed step may take before its examples are no longer doubled
OPTIMIZER = 16     # bytes a parameter: itself, its gradient and two moments, in float32


def estimate(name: str, budget: str, arms=None, seeds=None, engine=None, corpus=None, device: str = "cpu") -> Iterator[str]:
    """A table of arms, line by line: parameters, runs, steps, operations and bytes, and the time that they would take one after another.

    A step of as many examples as take a second is timed and scaled to the batch, which is too much where small steps mostly wait.
    Operations are PyTorch's count, which takes the gradient of a depthwise convolution for more than it is (chapter 24).
    """
    plan = find(name).plan(budget, arms, seeds, engine, corpus)
    width = max(len(arm) for comparison in plan.values() for arm in comparison.models)
    whole = 0.0
    for part, comparison in plan.items():
        yield f"{part}: {comparison.task!r}"
        setting = asdict(comparison.budget)
        setting.pop("lr")
        yield "  " + ", ".join(f"{name} {value}" for name, value in setting.items())
        yield f"  seeds {', '.join(map(str, comparison.seeds))}; rates {', '.join(f'{lr:g}' for lr in comparison.rates)}"
        drawn, missing = _draw(comparison, device)
        if missing is not None:
            yield f"  random tokens in place of the text, at the same cost: {missing}"
        yield f"  {'arm':{width}}  parameters  runs    steps  TFLOP  memory     time"
        for arm in comparison.models:
            runs, steps = _amount(comparison)
            cost = _cost(comparison, arm, drawn, device)
            whole += steps * cost["seconds"]
            yield (f"  {arm:{width}}  {cost['parameters']:10,}  {runs:4}  {steps:7,}  {steps * cost['operations'] / 1e12:5.3g}  "
                   f"{cost['bytes'] / 2**20:4.0f} MiB  {_duration(steps * cost['seconds']):>7}")
    yield f"All of it, one after another on this {device}: {_duration(whole)}"


def _amount(comparison: Comparison) -> tuple[int, int]:
    """Runs and steps of an arm, its search included. A search of full length at the best rate is a run that is not repeated."""
    long, searched = len(comparison.seeds), 0
    if len(comparison.rates) > 1:
        searched = len(comparison.rates) * len(comparison.search_seeds or comparison.seeds)
        if comparison.search_steps == comparison.budget.steps:
            long -= len(set(comparison.seeds) & set(comparison.search_seeds or comparison.seeds))
    return long + searched, long * comparison.budget.steps + searched * (comparison.search_steps or 0)


def _cost(comparison: Comparison, arm: str, drawn: list[Tensor], device: str) -> dict:
    """Of one training step on a batch."""
    torch.manual_seed(0)
    model, task, batch, examples = comparison.models[arm]().to(device), comparison.task, comparison.budget.batch, 1
    parameters = sum(p.numel() for p in model.parameters())
    _step(model, task, drawn, 1)
    while True:
        seconds = min(_seconds(lambda: _step(model, task, drawn, examples)) for _ in range(2))
        if examples == batch or seconds > ENOUGH:
            break
        examples = min(2 * examples, batch)
    with FlopCounterMode(display=False) as counter:
        kept = _step(model, task, drawn, 1)
    share = math.ceil(batch / comparison.engine.accumulate)
    return {"parameters": parameters, "seconds": seconds * batch / examples, "operations": counter.get_total_flops() * batch,
            "bytes": OPTIMIZER * parameters + kept * share}


def _seconds(step: Callable[[], object]) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def _draw(comparison: Comparison, device: str) -> tuple[list[Tensor], Exception | None]:
    """A batch; of a corpus that can't be read here, tokens in its place, and why."""
    missing = None
    try:
        drawn = comparison.batch()
    except (ImportError, ConnectionError) as problem:
        missing, drawn = problem, 2 * [torch.randint(comparison.task.vocabulary, (comparison.budget.batch, comparison.task.context))]
    return [t.to(device) for t in drawn], missing


def _step(model: nn.Module, task: Task, drawn: list[Tensor], examples: int) -> int:
    """Forward and backward. Returns the bytes that the forward pass keeps for the backward pass, parameters aside."""
    own, kept = {p.untyped_storage().data_ptr() for p in model.parameters()}, {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    inputs, targets = (t[:examples] for t in drawn)
    model.train()
    with saved_tensors_hooks(keep, lambda tensor: tensor), collect_penalties() as penalties:
        loss = task.loss(model(inputs), targets)
    (loss + sum(penalties)).backward()
    loss.item()  # waits for the device
    return sum(kept.values())


def _duration(seconds: float) -> str:
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
