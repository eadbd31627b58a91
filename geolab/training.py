"""One training loop: `fit(model, task, budget, seed)`.

AdamW with β = (0.9, 0.95), weight decay on matrices only, and gradients clipped by their norm, as
E-MHC-Geo trains its benchmark. `geolab.residuals.decaying` says which matrices. The learning rate
at step t = 0 … T − 1, with w steps of warm-up and ε = lr_end, is

    lr (t + 1) / w                                             t < w
    lr (ε + (1 − ε) (1 + cos(π (t − w) / (T − w))) / 2)        afterwards

On a CPU the same call gives the same numbers, whether the run is interrupted and resumed or not.
Under `torchrun` the processes share every batch: see `geolab.distributed`.
"""

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from geolab import distributed
from geolab.checks import model_options, options, require_count, require_number
from geolab.distributed import Engine
from geolab.files import read_tensors, write_tensors
from geolab.penalties import collect_penalties
from geolab.residuals import decaying
from geolab.tasks import Task

ENTRIES = ("options", "draws", "random", "history", "model", "optimizer")  # of a checkpoint


@dataclass(frozen=True)
class Budget:
    """The options of a training run.

    Raises: ValueError for steps, batch or evaluate_every below 1, for lr or clip not above 0, and
        for a negative warmup, lr_end or weight_decay.
    """

    steps: int = 300             # updates
    batch: int = 16              # examples per step, drawn with replacement
    lr: float = 2e-3             # the highest, at the end of the warm-up
    lr_end: float = 0.1          # at the last step, as a share of lr
    warmup: int = 30             # steps
    weight_decay: float = 0.1    # on matrices that multiply features
    clip: float = 1.0            # the largest gradient norm
    evaluate_every: int = 50     # steps

    def __post_init__(self):
        for name in ("steps", "batch", "evaluate_every"):
            require_count(name, getattr(self, name))
        require_count("warmup", self.warmup, 0)
        require_number("lr", self.lr, 0, strict=True)
        if self.clip != math.inf:  # without a bound
            require_number("clip", self.clip, 0, strict=True)
        for name in ("lr_end", "weight_decay"):
            require_number(name, getattr(self, name), 0)
        for name, value in list(vars(self).items()):  # PyTorch's optimisers keep no number of numpy
            if isinstance(value, np.generic):
                object.__setattr__(self, name, value.item())

    def learning_rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        if step < self.warmup:
            return self.lr * (step + 1) / self.warmup
        progress = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.lr * (self.lr_end + (1 - self.lr_end) * (1 + math.cos(math.pi * progress)) / 2)


@dataclass
class History:
    """The measurements of a run. Losses are in the task's unit."""

    task: str        # in words
    budget: Budget
    seed: int
    device: str
    train_loss: list[float] = field(default_factory=list)       # one per step, before its update
    gradient_norm: list[float] = field(default_factory=list)    # one per step, before clipping
    evaluated_at: list[int] = field(default_factory=list)       # steps done
    validation_loss: list[float] = field(default_factory=list)  # one per evaluation
    seconds: float = 0.0                                        # in steps, over all resumptions

    @property
    def steps(self) -> int:
        """The number of steps done."""
        return len(self.train_loss)

    @property
    def final(self) -> float:
        """The last validation loss."""
        return self.validation_loss[-1]


@torch.inference_mode(False)  # it trains wherever it is called
def fit(model: nn.Module, task: Task, budget: Budget = Budget(), seed: int = 0, *,
        checkpoint: str | Path | None = None, save_every: int = 100, progress: bool = True,
        engine: Engine = Engine()) -> History:
    """Train `model` in place, and leave it in eval mode.

    Under torchrun every process calls this with a model of its own, built in the same way. Together
    they train on the batches that a single process would draw, and every process gets the losses of
    whole batches. Process 0 writes the checkpoint and shows the bar.

    Arguments:
        model: maps task inputs to predictions. It stays on the device where its parameters are.
        task: a task with a method `batches`, such as Stream, is read in its own order. From any
            other task each batch is drawn with replacement.
        seed: the seed of the batches and of dropout. The first weights were drawn when `model` was
            made.
        checkpoint: a file to save to, and to resume from if it is there. A finished run is read and
            not repeated. A run can go on with any number of processes, sharded or not, if all of
            them see the file.
        save_every: steps between two saves. An interruption by Ctrl-C or SIGTERM saves as well.
        progress: whether to show a bar.
        engine: precision, micro-batches, sharding, compilation. A sharded model stays sharded; its
            checkpoint holds whole tensors.
    Returns: the History.
    Raises: ValueError for a checkpoint of another run, with the option that differs, or a damaged
            one; for a model without parameters to train, a task without training examples, and a
            batch that processes and micro-batches don't divide evenly.
        OSError, before the first step, for a checkpoint that can't be written.
        FloatingPointError for a loss or gradient that is not finite, on every process and before
            the update: the model keeps its last good weights, the checkpoint its last save.
        KeyboardInterrupt after an interruption, once the step is done and saved.
    """
    require_count("save_every", save_every)
    require_count("seed", seed, -2**63)
    require_number("seed", seed, high=2**63 - 1)
    seed = int(seed)
    if not any(p.requires_grad for p in model.parameters()):
        raise ValueError("model must have parameters that require gradients, got "
                         f"{type(model).__name__} with none")
    run = _Run(model, task, budget, seed, checkpoint, engine)
    run.resume()
    history = run.history
    if history.steps < budget.steps:
        run.require_place()
    bar = tqdm(total=budget.steps, initial=history.steps, leave=False, mininterval=0.5,
               disable=not progress or distributed.rank() > 0)
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
                kept = f"saved to {checkpoint}; the same call goes on from there" if checkpoint \
                    else "not saved; give fit a checkpoint to be able to go on"
                done = f"stopped after step {history.steps} of {budget.steps}"
                raise KeyboardInterrupt(f"{done}, {kept}")
    model.eval()  # after a run that was read, too
    return history


def require_shares(batch: int, engine: Engine) -> None:
    """Raise ValueError unless processes and their micro-batches divide a batch evenly."""
    if batch % (distributed.world() * engine.accumulate):
        raise ValueError("batch must be divisible by processes times accumulate, got batch "
                         f"{batch}, {distributed.world()} processes and accumulate "
                         f"{engine.accumulate}")


@contextmanager
def _interrupts_held() -> Iterator[Callable[[], bool]]:
    """Hold back Ctrl-C and SIGTERM, since half an update can't be resumed.

    Yields a function that says whether a signal has come. The first signal is delivered at the end,
    even if it came after the last step had asked, since its sender wants no further run to begin.
    """
    held = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False  # Python delivers signals to the main thread only
        return
    before = {number: signal.signal(number, lambda number, _: held.append(number))
              for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(held)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if held:
        signal.raise_signal(held[0])


class _Run:
    """The state of one call of `fit`. A checkpoint holds all that the next step depends on."""

    def __init__(self, model: nn.Module, task: Task, budget: Budget, seed: int,
                 checkpoint: str | Path | None, engine: Engine):
        self.model, self.task, self.budget, self.engine = model, task, budget, engine
        self.path = None if checkpoint is None else Path(checkpoint)
        self.device = next(model.parameters()).device
        own = distributed.join(self.device.type)
        self.rank, self.world = distributed.rank(), distributed.world()
        if self.world > 1 and self.device != own:
            raise ValueError(f"model must be on {own}, the device of its process, got "
                             f"{self.device}: geolab.distributed.join(\"cuda\") returns it")
        require_shares(budget.batch, engine)
        train = () if hasattr(task, "batches") else task.sample("train")
        if len(train) and not len(train[0]):
            raise ValueError(f"task must have training examples, got none from {task!r}")
        self.train = [t.to(self.device) for t in train]
        validation = task.sample("validation")
        self.validation_size = len(validation[0])
        if self.validation_size < self.world:
            raise ValueError("validation needs an example per process, got "
                             f"{self.validation_size} for {self.world} processes")
        self.validation = [t.tensor_split(self.world)[self.rank].to(self.device)
                           for t in validation]
        self.options = {"seed": str(seed), "precision": engine.precision, **options("task", task),
                        **options("budget", budget), **model_options("model", model)}
        self.parallel = distributed.parallel(model, engine)  # it may shard the parameters
        names, named = decaying(model), list(model.named_parameters())
        groups = [{"params": [p for name, p in named if name in names],
                   "weight_decay": budget.weight_decay},
                  {"params": [p for name, p in named if name not in names], "weight_decay": 0.0}]
        groups = [group for group in groups if group["params"]]  # torch 2.6 can't load an empty one
        self.optimizer = torch.optim.AdamW(groups, lr=budget.lr, betas=(0.9, 0.95), fused=True)
        self.draws = torch.Generator().manual_seed(seed)
        self.shares = self._shares()
        torch.manual_seed(seed + 1_000_003 * self.rank)  # each process has its own dropout
        self.history = History(repr(task), budget, seed, self.device.type)

    def _shares(self) -> Iterator[Sequence[Tensor]]:
        """Yield this process's inputs and targets of each batch, from the next step on."""
        if hasattr(self.task, "batches"):
            yield from self.task.batches(self.budget.batch, self.history.steps, self.rank,
                                         self.world)
        while True:
            batch = torch.randint(len(self.train[0]), (self.budget.batch,), generator=self.draws)
            index = batch.chunk(self.world)[self.rank].to(self.device)
            yield [t[index] for t in self.train]

    def step(self, pressed: Callable[[], bool]) -> bool:
        """Make one update. Returns whether `pressed` says True on any process."""
        start, history, parts = time.perf_counter(), self.history, self.engine.accumulate
        self.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        share = [t.to(self.device).chunk(parts) for t in next(self.shares)]
        loss = objective = 0
        for part, (inputs, targets) in enumerate(zip(*share, strict=True), start=1):
            with distributed.exchange(self.parallel, on=part == parts):
                with self.engine.cast(self.device), collect_penalties() as penalties:
                    part_loss = self.task.loss(self.parallel(inputs), targets) / parts
                part_objective = part_loss + sum(penalties) / parts
                part_objective.backward()
            loss, objective = loss + part_loss.detach(), objective + part_objective.detach()
        loss, objective, interrupted = distributed.mean(
            loss, objective, loss.new_tensor(float(pressed())))
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

    def _require_finite(self, name: str, value: float) -> None:
        if not math.isfinite(value):
            step = self.history.steps
            raise FloatingPointError(
                f"{name} is {value} at step {step} of {self.budget.steps} (learning rate "
                f"{self.budget.learning_rate(step):.3g}, clip {self.budget.clip}); the model holds "
                "the weights from before it. A lower lr is the first thing to try")

    @torch.no_grad()
    def evaluate(self) -> None:
        """Measure the validation loss, in one part or in parts of about a micro-batch's size."""
        parts = 1
        if self.engine.accumulate > 1:  # as many parts on every process, each with an example
            micro_batch = self.budget.batch // (self.world * self.engine.accumulate)
            parts = min(math.ceil(self.validation_size / self.world / micro_batch),
                        self.validation_size // self.world)
        self.model.eval()
        split = [t.tensor_split(parts) for t in self.validation]
        with self.engine.cast(self.device):
            loss = sum(self.task.loss(self.model(inputs), targets)
                       * (self.world * len(inputs) / self.validation_size)
                       for inputs, targets in zip(*split, strict=True))
        self.history.evaluated_at.append(self.history.steps)
        self.history.validation_loss += distributed.mean(loss)

    def require_place(self) -> None:
        """Make the checkpoint's folder. Raises: OSError where the file can't be written there."""
        if self.path is None or self.rank > 0:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(self.path.parent, os.W_OK):
            raise PermissionError(f"checkpoint {self.path} must lie in a folder that can be "
                                  "written to")

    def save(self) -> None:
        """Write the checkpoint. No process continues or ends before the file is there."""
        if self.path is None:
            return
        content = {"options": self.options, "draws": self.draws.get_state(),
                   "random": distributed.random_states(self.device),
                   "history": {**asdict(self.history), "budget": None},
                   **distributed.whole_state(self.model, self.optimizer)}
        if self.rank == 0:
            write_tensors(content, self.path)
        distributed.barrier()

    def resume(self) -> None:
        """Go on from the checkpoint, if it is there.

        Raises: ValueError for one that only some processes see, or that is of another run.
        """
        if self.path is None:
            return
        seen, = distributed.mean(torch.tensor(float(self.path.exists()), device=self.device))
        if 0 < seen < 1:
            raise ValueError(f"checkpoint {self.path} must be on a disk that all processes see, "
                             f"got one that {self.world * seen:.0f} of {self.world} see")
        if not seen:
            return
        saved = read_tensors(self.path, map_location="cpu", mmap=self.world > 1)
        lacks = [name for name in ENTRIES if not isinstance(saved, dict) or name not in saved]
        if lacks:
            raise ValueError(f"checkpoint {self.path} has no entry {lacks[0]!r}: another version "
                             "of geolab wrote it. Name another file, or delete it")
        found = saved["options"]
        for name in {**self.options, **found}:
            there, asked = found.get(name, "not there"), self.options.get(name, "nothing")
            if there != asked:
                raise ValueError(f"checkpoint {self.path} is of another run: its {name} is "
                                 f"{there}, asked for {asked}. Name another file, or delete it")
        distributed.load_state(self.model, self.optimizer, saved)
        self.draws.set_state(saved["draws"])
        distributed.set_random_state(saved["random"], self.device)
        self.history = History(**{**saved["history"], "budget": self.budget})
