"""One training loop: `fit(model, task, budget, seed)`.

AdamW with linear warm-up and cosine decay, weight decay on matrices only, gradient clipping, as E-MHC-Geo trains
its benchmark. On a CPU the same call gives the same numbers, in one run or resumed.

Under `torchrun` the same call shares every batch among the processes: see `geolab.distributed`.
"""

import hashlib
import json
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn
from tqdm import tqdm

from geolab import distributed
from geolab.distributed import Engine
from geolab.penalties import collect_penalties
from geolab.tasks import Task


@dataclass(frozen=True)
class Budget:
    """How long and how hard to train."""

    steps: int = 300
    batch: int = 16              # examples a step, drawn with replacement
    lr: float = 2e-3             # at the top, after the warm-up
    lr_end: float = 0.1          # at the last step, as a share of lr
    warmup: int = 30             # steps
    weight_decay: float = 0.1    # on parameters of two or more axes
    clip: float = 1.0            # largest gradient norm
    evaluate_every: int = 50     # steps

    def __post_init__(self):
        for name in ("steps", "batch", "evaluate_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("lr", "clip"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")

    def learning_rate(self, step: int) -> float:
        """At a step counted from 0."""
        if step < self.warmup:
            return self.lr * (step + 1) / self.warmup
        progress = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.lr * (self.lr_end + (1 - self.lr_end) * (1 + math.cos(math.pi * progress)) / 2)


@dataclass
class History:
    """What a run measured. Losses are in the task's unit; `seconds` is the loop's own time, over all resumptions."""

    task: str
    budget: Budget
    seed: int
    device: str
    train_loss: list[float] = field(default_factory=list)          # one a step, on the batch before its update
    gradient_norm: list[float] = field(default_factory=list)       # one a step, before clipping
    evaluated_at: list[int] = field(default_factory=list)          # steps done
    validation_loss: list[float] = field(default_factory=list)     # one an evaluation
    seconds: float = 0.0

    @property
    def steps(self) -> int:
        return len(self.train_loss)

    @property
    def final(self) -> float:
        """The last validation loss."""
        return self.validation_loss[-1]


def fit(model: nn.Module, task: Task, budget: Budget = Budget(), seed: int = 0, *,
        checkpoint: str | Path | None = None, save_every: int = 100, progress: bool = True,
        engine: Engine = Engine()) -> History:
    """Train `model` in place.

    Under torchrun every process calls this, with a model of its own built alike. The batch of a step is the one that a
    single process would draw, and losses are those of the whole batch, on every process. The first one saves and shows.

    Arguments:
        model: maps task inputs to predictions; it stays on the device where its parameters are.
        task: a task with `batches`, as Stream, is read in its own order; of others each batch is drawn with replacement.
        seed: of the batches and of dropout. The model's own initialisation comes before, from whoever built it.
        checkpoint: a file to save to, and to resume from when it is there. A finished run is read, not repeated.
            It goes on with any number of processes, sharded or not; all of them must see it.
        save_every: steps between two saves; an interruption, by Ctrl-C or SIGTERM, saves as well.
        progress: show a bar.
        engine: precision, micro-batches, sharding, compilation. A sharded model stays so; the checkpoint is whole.
    Returns: the History.
    Raises: ValueError when the checkpoint is of another run, or batch does not divide among processes and micro-batches;
        FloatingPointError at a loss or gradient that is not finite, on every process, before the update: the model keeps
        its last good weights, and the checkpoint its last save; KeyboardInterrupt when interrupted, after the save, also where
        the run is whole by then.
    """
    run = _Run(model, task, budget, seed, checkpoint, engine)
    run.resume()
    history = run.history
    bar = tqdm(total=budget.steps, initial=history.steps, disable=not progress or distributed.rank() > 0, leave=False,
               mininterval=0.5)
    with bar, _interrupts_held() as pressed:
        while history.steps < budget.steps:
            interrupted = run.step(pressed)
            bar.update()
            last = history.steps == budget.steps
            if history.steps % budget.evaluate_every == 0 or last:
                run.evaluate()
                bar.set_postfix(validation=f"{history.final:.3g}", refresh=False)
            if history.steps % save_every == 0 or last or interrupted:
                run.save()
            if interrupted and not last:
                kept = f"saved to {checkpoint}; the same call goes on from there" if checkpoint else \
                    "not saved; give fit a checkpoint to be able to go on"
                raise KeyboardInterrupt(f"stopped after step {history.steps} of {budget.steps}, {kept}")
    return history


def require_shares(batch: int, engine: Engine) -> None:
    """Raises: ValueError for a batch that doesn't divide among the processes and their micro-batches."""
    if batch % (distributed.world() * engine.accumulate):
        raise ValueError(f"batch must divide by processes times accumulate, got batch {batch}, "
                         f"{distributed.world()} processes and accumulate {engine.accumulate}")


@contextmanager
def _interrupts_held():
    """Hold Ctrl-C and SIGTERM back until the step is whole: half an update can't be resumed. Yields a function that tells.

    One that comes behind the last step's question is delivered at the end: whoever pressed it wants no further run either.
    """
    held = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False  # Python delivers signals to the main thread only
        return
    before = {number: signal.signal(number, lambda number, _: held.append(number)) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(held)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if held:
        signal.raise_signal(held[0])


class _Run:
    """The state of one call of `fit`: all that a checkpoint must hold for the next step to be the same."""

    def __init__(self, model: nn.Module, task: Task, budget: Budget, seed: int, checkpoint: str | Path | None,
                 engine: Engine):
        self.model, self.task, self.budget, self.engine = model, task, budget, engine
        self.path = Path(checkpoint) if checkpoint else None
        self.device = next(model.parameters()).device
        own = distributed.join(self.device.type)
        self.rank, self.world = distributed.rank(), distributed.world()
        if self.world > 1 and self.device != own:
            raise ValueError(f"model must be on {own}, the one of its process, got {self.device}: "
                             "device = geolab.distributed.join(\"cuda\") says it")
        require_shares(budget.batch, engine)
        self.stream = None
        self.train = None if hasattr(task, "batches") else [t.to(self.device) for t in task.sample("train")]
        validation = task.sample("validation")
        self.validation_size = len(validation[0])
        if self.validation_size < self.world:
            raise ValueError(f"validation needs an example a process, got {self.validation_size} of {self.world}")
        self.validation = [t.tensor_split(self.world)[self.rank].to(self.device) for t in validation]
        self.identity = self._identity(seed)
        self.parallel = distributed.parallel(model, engine)  # from here on parameters may be sharded
        decayed = [p for p in model.parameters() if p.ndim >= 2]
        others = [p for p in model.parameters() if p.ndim < 2]
        self.optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": budget.weight_decay},
                                            {"params": others, "weight_decay": 0.0}], lr=budget.lr, betas=(0.9, 0.95), fused=True)
        self.batches = torch.Generator().manual_seed(seed)
        torch.manual_seed(seed + 1_000_003 * self.rank)  # each process has its own dropout
        self.history = History(task=repr(task), budget=budget, seed=seed, device=self.device.type)

    def step(self, pressed: Callable[[], bool]) -> bool:
        """One update. Whether an interruption is pressed in any of the processes."""
        start, history, parts = time.perf_counter(), self.history, self.engine.accumulate
        self.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        loss = objective = 0
        for part, (inputs, targets) in enumerate(zip(*(t.chunk(parts) for t in self._share())), start=1):
            with distributed.exchange(self.parallel, on=part == parts):
                with self.engine.cast(self.device), collect_penalties() as penalties:
                    part_loss = self.task.loss(self.parallel(inputs), targets) / parts
                part_objective = part_loss + sum(penalties) / parts
                part_objective.backward()
            loss, objective = loss + part_loss.detach(), objective + part_objective.detach()
        loss, objective, interrupted = distributed.mean(loss, objective, loss.new_tensor(float(pressed())))
        self._require_finite("loss", objective)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.budget.clip)
        norm = (norm.full_tensor() if self.engine.shard else norm).item()
        self._require_finite("gradient norm", norm)
        for group in self.optimizer.param_groups:
            group["lr"] = self.budget.learning_rate(history.steps)
        self.optimizer.step()
        history.train_loss.append(loss)
        history.gradient_norm.append(norm)
        history.seconds += time.perf_counter() - start
        return interrupted > 0

    def _share(self) -> Iterator[Tensor]:
        """This process's inputs and targets of the next batch: drawn, or from a task that reads its data as it goes."""
        if self.train is None:
            if self.stream is None:
                self.stream = self.task.batches(self.budget.batch, self.history.steps, self.rank, self.world)
            return (t.to(self.device) for t in next(self.stream))
        batch = torch.randint(len(self.train[0]), (self.budget.batch,), generator=self.batches)
        index = batch.chunk(self.world)[self.rank]
        return (t[index.to(t.device)] for t in self.train)

    @torch.no_grad()
    def evaluate(self) -> None:
        self.model.eval()
        with self.engine.cast(self.device):
            loss = sum(self.task.loss(self.model(inputs), targets) * (self.world * len(inputs) / self.validation_size)
                       for inputs, targets in self._validation_parts())
        self.history.evaluated_at.append(self.history.steps)
        self.history.validation_loss += distributed.mean(loss)

    def _validation_parts(self) -> Iterator[tuple[Tensor, Tensor]]:
        """This process's share: at once, or with micro-batches in parts of about their size, as many on every process."""
        parts = 1
        if self.engine.accumulate > 1:
            micro_batch = self.budget.batch // (self.world * self.engine.accumulate)
            parts = min(math.ceil(self.validation_size / self.world / micro_batch), self.validation_size // self.world)
        return zip(*(t.tensor_split(parts) for t in self.validation))

    def _require_finite(self, name: str, value: float) -> None:
        if not math.isfinite(value):
            step = self.history.steps
            raise FloatingPointError(
                f"{name} is {value} at step {step} of {self.budget.steps} (learning rate "
                f"{self.budget.learning_rate(step):.3g}, clip {self.budget.clip}); the model holds the weights "
                "from before it. A lower lr is the first thing to try")

    def _identity(self, seed: int) -> dict:
        shapes = [(name, tuple(p.shape)) for name, p in self.model.named_parameters()]
        return {"task": repr(self.task), "budget": asdict(self.budget), "seed": seed, "precision": self.engine.precision,
                "model": hashlib.sha256(json.dumps([repr(self.model), shapes]).encode()).hexdigest()[:12]}

    def save(self) -> None:
        if self.path is None:
            return
        content = {"identity": self.identity, "model": distributed.whole(self.model.state_dict()),
                   "optimizer": distributed.whole(self.optimizer.state_dict()), "batches": self.batches.get_state(),
                   "random": distributed.random_states(self.device), "history": {**asdict(self.history), "budget": None}}
        if self.rank == 0:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            partial = self.path.with_suffix(self.path.suffix + ".partial")
            torch.save(content, partial)
            os.replace(partial, self.path)  # a kill in the middle of a save leaves the last one whole
        distributed.mean(torch.zeros((), device=self.device))  # nobody goes on, or ends, before the file is there

    def resume(self) -> None:
        if self.path is None:
            return
        there = self.path.exists()
        seen, = distributed.mean(torch.tensor(float(there), device=self.device))
        if not seen:
            return
        if seen < 1:
            raise ValueError(f"checkpoint {self.path} must be on a disk that all processes see, got one that "
                             f"{self.world * seen:.0f} of {self.world} see")
        saved = torch.load(self.path, map_location="cpu", weights_only=True, mmap=self.world > 1)
        for name, value in self.identity.items():
            found = saved["identity"].get(name, "float32")  # precision is younger than the first checkpoints
            if found != value:
                raise ValueError(f"checkpoint {self.path} is of another run: its {name} is "
                                 f"{found}, asked for {value}. Name another file, or delete it")
        distributed.load(self.model, self.optimizer, saved)
        self.batches.set_state(saved["batches"])
        random = saved["random"]
        distributed.set_random_state([[random]] if isinstance(random, Tensor) else random, self.device)  # a Tensor, once
        self.history = History(**{**saved["history"], "budget": self.budget})
