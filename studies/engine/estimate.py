"""The cost of a run before it starts: counted, and timed on one step of each arm."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from itertools import groupby

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

from geolab.penalties import collect_penalties
from geolab.tasks import Task
from geolab.tasks.text import Corpus
from studies.engine.arm import Arm
from studies.engine.protocol import LEADERS, STEPS

ENOUGH = 1.0       # seconds that a timed step may take before its examples are no longer doubled
OPTIMIZER = 16     # bytes per parameter: itself, its gradient and two moments, in float32


def estimate(arms: Sequence[Arm], device: str = "cpu") -> Iterator[str]:
    """Yield a table of the arms, line by line: parameters, runs, steps, operations, bytes and time.

    The times assume that arms run one after another. The timed step has as many examples as take a
    second; its time is scaled to the batch, which overestimates steps that mostly wait. PyTorch
    counts the operations, and overestimates the gradient of a depthwise convolution (chapter 24).
    """
    width = max(len(arm.name) for arm in arms)
    whole = 0.0
    for part, members in groupby(arms, key=lambda arm: arm.part):
        first, *others = members
        yield f"{part}: {first.task!r}"
        setting, protocol = asdict(first.budget), first.protocol
        setting.pop("lr")
        if protocol.warmups:
            setting["warmup"] = " and ".join(f"{share:.0%}" for share in protocol.warmups)
        yield "  " + ", ".join(f"{name} {value}" for name, value in setting.items())
        yield (f"  seeds {', '.join(map(str, protocol.seeds))}; "
               f"rates {', '.join(f'{lr:g}' for lr in protocol.rates)}")
        drawn, missing = _draw(first, device)
        if missing is not None:
            yield f"  random tokens in place of the text, at the same cost: {missing}"
        yield f"  {'arm':{width}}  parameters  runs    steps  TFLOP  memory     time"
        for arm in (first, *others):
            runs, steps = amount(arm)
            cost = _cost(arm, drawn, device)
            whole += steps * cost["seconds"]
            yield (f"  {arm.name:{width}}  {cost['parameters']:10,}  {runs:4}  {steps:7,}  "
                   f"{steps * cost['operations'] / 1e12:5.3g}  {cost['bytes'] / 2**20:4.0f} MiB  "
                   f"{_duration(steps * cost['seconds']):>7}")
    yield f"All of it, one after another on this {device}: {_duration(whole)}"


WIDENED = 3  # settings that a search tries beyond its grid, more or less


def amount(arm: Arm) -> tuple[int, int]:
    """Return an arm's runs and steps, its search and its variations included."""
    protocol, steps = arm.protocol, arm.budget.steps
    searched = 0
    if protocol.searches:
        searched = len(protocol.grid()) + WIDENED * protocol.widen
        searched += LEADERS * (len(protocol.search_seeds) - 1)
    times = {"next best": 1.0, "equal time": 1 / arm.pace, **STEPS}
    varied = sum(times[name] for name in protocol.variations) * len(protocol.few)
    runs = len(protocol.seeds) + len(protocol.variations) * len(protocol.few) + searched
    return runs, round(steps * (len(protocol.seeds) + varied)
                       + searched * (protocol.search_steps or steps))


def _cost(arm: Arm, drawn: list[Tensor], device: str) -> dict:
    """The cost of one training step on a batch."""
    model, batch, examples = arm.model(0).to(device), arm.budget.batch, 1
    parameters = sum(p.numel() for p in model.parameters())
    _step(model, arm.task, drawn, 1)
    while True:
        seconds = min(_seconds(lambda n=examples: _step(model, arm.task, drawn, n))
                      for _ in range(2))
        if examples == batch or seconds > ENOUGH:
            break
        examples = min(2 * examples, batch)
    with FlopCounterMode(display=False) as counter:
        kept = _step(model, arm.task, drawn, 1)
    share = math.ceil(batch / arm.engine.accumulate)
    return {"parameters": parameters, "seconds": seconds * batch / examples,
            "operations": counter.get_total_flops() * batch,
            "bytes": OPTIMIZER * parameters + kept * share}


def _seconds(step: Callable[[], object]) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def _draw(arm: Arm, device: str) -> tuple[list[Tensor], Exception | None]:
    """Return a batch, or random tokens and the reason if the corpus can't be read here."""
    missing = None
    try:
        drawn = arm.batch()
    except (ImportError, ConnectionError) as problem:
        if not isinstance(arm.task, Corpus):
            raise
        missing, shape = problem, (arm.budget.batch, arm.task.context)
        drawn = 2 * [torch.randint(arm.task.vocabulary, shape)]
    return [t.to(device) for t in drawn], missing


def _step(model: nn.Module, task: Task, drawn: list[Tensor], examples: int) -> int:
    """Run forward and backward. Returns the bytes kept between the two, without parameters."""
    own, kept = {p.untyped_storage().data_ptr() for p in model.parameters()}, {}

    def keep(tensor: Tensor) -> Tensor:
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
