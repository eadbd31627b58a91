"""One training loop: `fit(model, task, budget, seed)`.

AdamW with linear warm-up and cosine decay, weight decay on matrices only, gradient clipping, as E-MHC-Geo trains
its benchmark. On a CPU the same call gives the same numbers, in one run or resumed.
"""

import hashlib
import json
import math
import os
import signal
import threading
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn
from tqdm import tqdm

from geolab.residuals import collect_penalties
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
        checkpoint: str | Path | None = None, save_every: int = 100, progress: bool = True) -> History:
    """Train `model` in place.

    Arguments:
        model: maps task inputs to predictions; it stays on the device where its parameters are.
        seed: of the batches and of dropout. The model's own initialisation comes before, from whoever built it.
        checkpoint: a file to save to, and to resume from when it is there. A finished run is read, not repeated.
        save_every: steps between two saves; an interruption saves as well.
        progress: show a bar.
    Returns: the History.
    Raises: ValueError when the checkpoint is of another run; FloatingPointError at a loss or gradient that is not
        finite, before the update: the model keeps its last good weights, and the checkpoint its last save.
    """
    run = _Run(model, task, budget, seed, checkpoint)
    run.resume()
    history = run.history
    bar = tqdm(total=budget.steps, initial=history.steps, disable=not progress, leave=False, mininterval=0.5)
    with bar, _interrupts_held() as interrupted:
        while history.steps < budget.steps:
            run.step()
            bar.update()
            last = history.steps == budget.steps
            if history.steps % budget.evaluate_every == 0 or last:
                run.evaluate()
                bar.set_postfix(validation=f"{history.final:.3g}", refresh=False)
            if history.steps % save_every == 0 or last or interrupted():
                run.save()
            if interrupted() and not last:
                kept = f"saved to {checkpoint}; the same call goes on from there" if checkpoint else \
                    "not saved; give fit a checkpoint to be able to go on"
                raise KeyboardInterrupt(f"stopped after step {history.steps} of {budget.steps}, {kept}")
    return history


@contextmanager
def _interrupts_held():
    """Hold Ctrl-C back until the step is whole: half an update can't be resumed. Yields a function that tells."""
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed.is_set  # Python delivers signals to the main thread only
        return
    before = signal.signal(signal.SIGINT, lambda *_: pressed.set())
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, before)


class _Run:
    """The state of one call of `fit`: all that a checkpoint must hold for the next step to be the same."""

    def __init__(self, model: nn.Module, task: Task, budget: Budget, seed: int, checkpoint: str | Path | None):
        self.model, self.task, self.budget = model, task, budget
        self.path = Path(checkpoint) if checkpoint else None
        device = next(model.parameters()).device
        self.train = [t.to(device) for t in task.sample("train")]
        self.validation = [t.to(device) for t in task.sample("validation")]
        decayed = [p for p in model.parameters() if p.ndim >= 2]
        others = [p for p in model.parameters() if p.ndim < 2]
        self.optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": budget.weight_decay},
                                            {"params": others, "weight_decay": 0.0}], lr=budget.lr, betas=(0.9, 0.95), fused=True)
        self.batches = torch.Generator().manual_seed(seed)
        torch.manual_seed(seed)
        self.history = History(task=repr(task), budget=budget, seed=seed, device=device.type)

    def step(self) -> None:
        start, history = time.perf_counter(), self.history
        self.model.train()
        index = torch.randint(len(self.train[0]), (self.budget.batch,), generator=self.batches)
        inputs, targets = (t[index.to(t.device)] for t in self.train)
        with collect_penalties() as penalties:
            loss = self.task.loss(self.model(inputs), targets)
        objective = loss + sum(penalties)
        self._require_finite("loss", objective)
        self.optimizer.zero_grad(set_to_none=True)
        objective.backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.budget.clip)
        self._require_finite("gradient norm", norm)
        for group in self.optimizer.param_groups:
            group["lr"] = self.budget.learning_rate(history.steps)
        self.optimizer.step()
        history.train_loss.append(loss.item())
        history.gradient_norm.append(norm.item())
        history.seconds += time.perf_counter() - start

    @torch.no_grad()
    def evaluate(self) -> None:
        self.model.eval()
        inputs, targets = self.validation
        self.history.evaluated_at.append(self.history.steps)
        self.history.validation_loss.append(self.task.loss(self.model(inputs), targets).item())

    def _require_finite(self, name: str, value: Tensor) -> None:
        if not torch.isfinite(value):
            step = self.history.steps
            raise FloatingPointError(
                f"{name} is {value.item()} at step {step} of {self.budget.steps} (learning rate "
                f"{self.budget.learning_rate(step):.3g}, clip {self.budget.clip}); the model holds the weights "
                "from before it. A lower lr is the first thing to try")

    def identity(self) -> dict:
        shapes = [(name, tuple(p.shape)) for name, p in self.model.named_parameters()]
        return {"task": self.history.task, "budget": asdict(self.budget), "seed": self.history.seed,
                "model": hashlib.sha256(json.dumps([repr(self.model), shapes]).encode()).hexdigest()[:12]}

    def save(self) -> None:
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(self.path.suffix + ".partial")
        torch.save({"identity": self.identity(), "model": self.model.state_dict(),
                    "optimizer": self.optimizer.state_dict(), "batches": self.batches.get_state(),
                    "random": torch.get_rng_state(),
                    "history": {**asdict(self.history), "budget": None}}, partial)
        os.replace(partial, self.path)  # a kill in the middle of a save leaves the last one whole

    def resume(self) -> None:
        if self.path is None or not self.path.exists():
            return
        saved = torch.load(self.path, map_location="cpu", weights_only=True)
        mine = self.identity()
        for name, value in mine.items():
            if saved["identity"][name] != value:
                raise ValueError(f"checkpoint {self.path} is of another run: its {name} is "
                                 f"{saved['identity'][name]}, asked for {value}. Name another file, or delete it")
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.batches.set_state(saved["batches"])
        torch.set_rng_state(saved["random"])
        self.history = History(**{**saved["history"], "budget": self.budget})
