"""An arm of a study: one model on one task, with its search and its runs.

    arms = comparison("text", {"additive": build_additive, "delta": build_delta}, Text(context=32),
                      Budget(steps=200), Protocol(rates=(5e-3, 1e-2, 2e-2)))
    outcome = train(arms[0], folder="runs/mine")

An arm is one value, which can be sent to another process. Every run has a checkpoint in the folder,
so the same call goes on from the point where an interrupted one stopped.
"""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from geolab.distributed import Engine, join, rank
from geolab.files import read_tensors
from geolab.tasks import Task
from geolab.training import Budget, History, fit
from studies.engine.protocol import STEPS, Protocol, Setting, at

POINTS = 50   # how many points of a training curve a result file keeps
SMALLEST = 1e-30  # smaller losses count as this one, since 0 has no logarithm
EQUAL = 0.03  # steps whose times differ by a smaller share count as equally long
Measure = Callable[[nn.Module], dict]


@dataclass(frozen=True)
class Arm:
    """One model on one task.

    Arguments:
        part: the arm's comparison in the study.
        name: the model's name in the file and the figures.
        build: makes the model on the CPU; it is called under `torch.manual_seed(seed)`.
        budget: how long each run is; its learning rate and warm-up are replaced by those of the
            search.
        protocol: the search, the seeds and the variations.
        measure: trained model, on the CPU -> numbers that are kept beside its losses.
        untrained: the same for the model as it was built.
        engine: the options with which steps are computed.
        pace: the time of a step over that of the comparison's first arm.
        selects: the task whose validation data the search reads; None for `task` itself.
    """

    part: str
    name: str
    build: Callable[[], nn.Module]
    task: Task
    budget: Budget
    protocol: Protocol
    measure: Measure | None = None
    untrained: Measure | None = None
    engine: Engine = Engine()
    pace: float = 1.0
    selects: Task | None = None

    def batch(self) -> list[Tensor]:
        """The first batch: inputs and targets.

        Raises: ImportError or ConnectionError for a corpus that can't be read here.
        """
        if hasattr(self.task, "batches"):
            pairs = next(self.task.batches(self.budget.batch, 0, 0, 1))
        else:
            pairs = self.task.sample("train")
        return [t[torch.arange(self.budget.batch) % len(t)] for t in pairs]

    def model(self, seed: int) -> nn.Module:
        """The model of a seed, before training."""
        torch.manual_seed(seed)
        return self.build()


def comparison(part: str, builds: Mapping[str, Callable[[], nn.Module]], task: Task,
               budget: Budget, protocol: Protocol, **settings) -> list[Arm]:
    """The arms of one comparison: they share the task, the budget and the protocol."""
    return [Arm(part, name, build, task, budget, protocol, **settings)
            for name, build in builds.items()]


class Unfinished(Exception):
    """A run isn't finished, but the caller takes only finished ones."""


def train(arm: Arm, folder: str | Path, device: str = "cpu", so_far: bool = False) -> dict:
    """Search, train every seed at the best setting, measure, and vary.

    Arguments:
        folder: holds the checkpoints; a run that is finished there is read, not repeated.
        device: "cpu" or "cuda".
        so_far: train nothing; read the finished runs.
    Returns: plain data: "parameters"; "search", one entry per run of it, and "best" and
        "next best", the settings that it found; "runs", one entry per seed, with validation losses
        at "evaluated_at", and training losses and gradient norms as means over stretches;
        "sensitivity", the runs of each variation; "unfinished", the number of runs that `so_far`
        found to be missing; "seconds_not_quoted". A run that diverged says so and has no losses.
    Raises: FloatingPointError if every setting of the search diverges; Unfinished if `so_far`
        finds an unfinished search.
    """
    runner = _Runner(arm, Path(folder), join(device), so_far)
    protocol, search = arm.protocol, []
    best = second = protocol.grid()[0]
    if protocol.searches:
        tried = protocol.search(partial(runner.try_out, search=search))
        best, second, *_ = [*tried, *tried]
        second = best if math.isinf(tried[second]) else second
        if math.isinf(tried[best]):
            rates = ", ".join(f"{lr:g}" for lr in sorted({run["lr"] for run in search}))
            raise FloatingPointError(f"{arm.name} diverges at every learning rate of {rates}")
    runs = runner.runs(best, protocol.seeds, whole=True)
    varied = {"next best": (second, 1.0), **{name: (best, times) for name, times in STEPS.items()},
              "equal time": (best, 1 / arm.pace)}
    sensitivity = {}
    for name in protocol.variations:
        setting, times = varied[name]
        if name != "equal time" or not math.isclose(arm.pace, 1, abs_tol=EQUAL):
            sensitivity[name] = runner.runs(setting, protocol.few, times)
    return {"parameters": sum(p.numel() for p in arm.build().parameters()), "search": search,
            "best": best._asdict(), "next best": second._asdict(), "runs": runs,
            "sensitivity": sensitivity, "unfinished": runner.unfinished,
            "seconds_not_quoted": round(runner.seconds)}


class _Runner:
    """The runs of an arm: each has a checkpoint, and a finished one is read."""

    def __init__(self, arm: Arm, folder: Path, place: torch.device, so_far: bool):
        self.arm, self.folder, self.place, self.so_far = arm, folder, place, so_far
        self.seconds, self.unfinished = 0.0, 0

    def run(self, seed: int, budget: Budget,
            task: Task | None = None) -> tuple[Path, History | None]:
        """Return the checkpoint and the losses of a run; a run that diverged has no losses."""
        arm = self.arm
        name = f"{seed}-{budget.lr:g}-{budget.warmup}-{budget.steps}.pt"
        checkpoint = self.folder / arm.part / arm.name.replace("/", "-") / name
        diverged = checkpoint.with_suffix(".diverged")
        if diverged.exists():
            return checkpoint, None
        if self.so_far and steps_in(checkpoint) < budget.steps:
            raise Unfinished
        if rank() == 0:
            print(f"{arm.name}, seed {seed}, learning rate {budget.lr:g}, warm-up {budget.warmup} "
                  f"of {budget.steps} steps", file=sys.stderr, flush=True)
        try:
            history = fit(arm.model(seed).to(self.place), task or arm.task, budget, seed,
                          checkpoint=checkpoint, progress=sys.stderr.isatty(), engine=arm.engine)
        except FloatingPointError as problem:
            if rank() == 0:
                diverged.parent.mkdir(parents=True, exist_ok=True)
                diverged.write_text(str(problem))
            return checkpoint, None
        self.seconds += history.seconds
        return checkpoint, history

    @staticmethod
    def once(budget: Budget) -> Budget:
        """The budget with a single evaluation, after the last step."""
        return replace(budget, evaluate_every=budget.steps)

    def try_out(self, setting: Setting, seed: int, search: list[dict]) -> float:
        """Return the log of a setting's loss on a seed, noted in `search`; infinite if it diverges.
        """
        steps = self.arm.budget.steps
        times = (self.arm.protocol.search_steps or steps) / steps
        budget = self.once(at(setting, self.arm.budget, times))
        history = self.run(seed, budget, self.arm.selects)[1]
        search.append({"model": self.arm.name, **setting._asdict(), "seed": seed,
                       "validation_loss": history.final if history else None})
        return math.log(max(history.final, SMALLEST)) if history else math.inf

    def runs(self, setting: Setting, seeds: Sequence[int], times: float = 1.0,
             whole: bool = False) -> list[dict]:
        """Return a run per seed: its measurements, and its curves if `whole`, or its last loss."""
        found = []
        for seed in seeds:
            budget = at(setting, self.arm.budget, times)
            try:
                checkpoint, history = self.run(seed, budget if whole else self.once(budget))
            except Unfinished:
                self.unfinished += 1
                continue
            entry = {"model": self.arm.name, "seed": seed, **setting._asdict()}
            if history is None:
                entry["diverged"] = True
            else:
                entry |= curves(history) if whole else {
                    "steps": history.steps, "validation_loss": _digits([history.final])[0]}
                if self.arm.measure and rank() == 0:
                    entry["measured"] = self.arm.measure(trained(self.arm, seed, checkpoint))
            if whole and self.arm.untrained and rank() == 0:
                entry["untrained"] = self.arm.untrained(self.arm.model(seed))
            found.append(entry)
        return found


def steps_in(checkpoint: Path) -> int:
    """Return the number of steps of a checkpoint; 0 if there is no checkpoint."""
    if not checkpoint.exists():
        return 0
    saved = read_tensors(checkpoint, map_location="cpu")
    return len(saved["history"]["train_loss"])


def trained(arm: Arm, seed: int, checkpoint: Path) -> nn.Module:
    """Return the checkpoint's model, whole and on the CPU, whatever device trained it."""
    model = arm.model(seed)
    saved = read_tensors(checkpoint, map_location="cpu")
    model.load_state_dict(saved["model"])
    return model


def curves(history: History) -> dict:
    return {"evaluated_at": history.evaluated_at,
            "validation_loss": _digits(history.validation_loss),
            "train_loss": _digits(thinned(history.train_loss)),
            "gradient_norm": _digits(thinned(history.gradient_norm)),
            "seconds_not_quoted": round(history.seconds)}


def thinned(values: Sequence[float], points: int = POINTS) -> list[float]:
    """Means over at most `points` stretches of nearly equal length."""
    points = min(points, len(values))
    ends = [round(len(values) * k / points) for k in range(points + 1)]
    return [sum(values[a:b]) / (b - a) for a, b in zip(ends, ends[1:], strict=False)]


def _digits(values: Sequence[float]) -> list[float]:
    return [float(f"{value:.5g}") for value in values]
