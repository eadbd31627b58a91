"""An arm of a study: one model on one task, with its search over learning rates and its runs.

    arms = comparison("text", {"additive": build_additive, "delta": build_delta}, Text(context=32),
                      Budget(steps=200), rates=(1e-2, 3e-2), search_steps=200)
    outcome = train(arms[0], folder="runs/mine")

An arm is one value that another process can be handed. Every run has a checkpoint in the folder,
so the same call goes on where an interrupted one stopped.
"""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from geolab.distributed import Engine, join, rank
from geolab.tasks import Task
from geolab.training import Budget, History, fit

POINTS = 50  # how many points of a training curve a result file keeps
Measure = Callable[[nn.Module], dict]


@dataclass(frozen=True)
class Arm:
    """One model on one task.

    Arguments:
        part: which comparison of the study it belongs to.
        name: what the file and the figures call the model.
        build: makes the model on the CPU; it is called under `torch.manual_seed(seed)`.
        budget: how long each run is; its learning rate is replaced by the best one of the search.
        rates: the learning rates that are tried. A single one needs no search, and gets none.
        seeds: one run each, at the best rate.
        search_steps, search_seeds: how long the runs of the search are, and their seeds, which
            are those of the runs unless told.
        measure: trained model, on the CPU -> numbers that are kept beside its losses.
        untrained: the same for the model as it was built.
        engine: how steps are computed.
    Raises: ValueError for no seed, a seed that is there twice, no rate, or several rates without
        search_steps.
    """

    part: str
    name: str
    build: Callable[[], nn.Module]
    task: Task
    budget: Budget
    rates: Sequence[float]
    seeds: Sequence[int] = (0, 1, 2)
    search_steps: int | None = None
    search_seeds: Sequence[int] | None = None
    measure: Measure | None = None
    untrained: Measure | None = None
    engine: Engine = Engine()

    def __post_init__(self) -> None:
        for name, values in (("seeds", self.seeds), ("rates", self.rates)):
            if not values:
                raise ValueError(f"{name} must hold at least one number, got {values!r}")
        if len(set(self.seeds)) < len(self.seeds):  # a run and its copy have no spread
            raise ValueError(f"seeds must differ, got {', '.join(map(str, self.seeds))}")
        if len(self.rates) > 1 and self.search_steps is None:
            raise ValueError("search_steps must be given to choose among "
                             f"{len(self.rates)} rates, got None")

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
               budget: Budget, rates: Sequence[float], **settings) -> list[Arm]:
    """The arms of one comparison: they share the task, the budget, the search and the seeds."""
    return [Arm(part, name, build, task, budget, rates, **settings)
            for name, build in builds.items()]


def train(arm: Arm, folder: str | Path, device: str = "cpu") -> dict:
    """Search the learning rate, train every seed at the best one, and measure.

    Arguments:
        folder: where the checkpoints lie; a run that is finished there is read, not repeated.
        device: "cpu" or "cuda".
    Returns: plain data: "parameters"; "best", the chosen rate; "search" and "runs", one entry per
        run, with validation losses at "evaluated_at", and training losses and gradient norms as
        means over stretches; "seconds_not_quoted". A run that diverged says so and has no losses.
    Raises: FloatingPointError when every rate of the search diverges.
    """
    place = join(device)
    seconds = 0.0

    def run(seed: int, setting: Budget) -> tuple[Path, History | None]:
        nonlocal seconds
        if rank() == 0:
            print(f"{arm.name}, seed {seed}, learning rate {setting.lr:g}, {setting.steps} steps",
                  file=sys.stderr, flush=True)
        name = f"{arm.name.replace('/', '-')}-{seed}-{setting.lr:g}-{setting.steps}.pt"
        checkpoint = Path(folder) / arm.part / name
        try:
            history = fit(arm.model(seed).to(place), arm.task, setting, seed,
                          checkpoint=checkpoint, progress=sys.stderr.isatty(), engine=arm.engine)
        except FloatingPointError:
            return checkpoint, None
        seconds += history.seconds
        return checkpoint, history

    best, search = arm.rates[0], []
    if len(arm.rates) > 1:
        setting = replace(arm.budget, steps=arm.search_steps)
        for lr in arm.rates:
            for seed in arm.search_seeds or arm.seeds:
                history = run(seed, replace(setting, lr=lr))[1]
                search.append({"model": arm.name, "lr": lr, "seed": seed,
                               "validation_loss": history.final if history else None})
        best = lowest(arm, search)
    runs = []
    for seed in arm.seeds:
        checkpoint, history = run(seed, replace(arm.budget, lr=best))
        found = {"model": arm.name, "seed": seed, "lr": best}
        if history is None:
            found["diverged"] = True
        else:
            found |= curves(history) | {"seconds_not_quoted": round(history.seconds)}
            if arm.measure and rank() == 0:
                found["measured"] = arm.measure(trained(arm, seed, checkpoint))
        if arm.untrained and rank() == 0:
            found["untrained"] = arm.untrained(arm.model(seed))
        runs.append(found)
    return {"parameters": sum(p.numel() for p in arm.build().parameters()), "best": best,
            "search": search, "runs": runs, "seconds_not_quoted": round(seconds)}


def lowest(arm: Arm, search: Sequence[dict]) -> float:
    """The rate with the lowest mean validation loss; a rate at which a seed diverged is out.

    Raises: FloatingPointError when that leaves no rate.
    """
    means = {}
    for lr in arm.rates:
        losses = [run["validation_loss"] for run in search if run["lr"] == lr]
        means[lr] = math.inf if None in losses else sum(losses) / len(losses)
    best = min(means, key=means.__getitem__)
    if math.isinf(means[best]):
        raise FloatingPointError(f"{arm.name} diverges at every learning rate of "
                                 f"{', '.join(f'{lr:g}' for lr in arm.rates)}; add a lower one")
    return best


def trained(arm: Arm, seed: int, checkpoint: Path) -> nn.Module:
    """The model as the checkpoint has it: whole and on the CPU, wherever it was trained."""
    model = arm.model(seed)
    saved = torch.load(checkpoint, map_location="cpu", weights_only=True)
    model.load_state_dict(saved["model"])
    return model


def curves(history: History) -> dict:
    return {"evaluated_at": history.evaluated_at,
            "validation_loss": _digits(history.validation_loss),
            "train_loss": _digits(thinned(history.train_loss)),
            "gradient_norm": _digits(thinned(history.gradient_norm))}


def thinned(values: Sequence[float], points: int = POINTS) -> list[float]:
    """Means over at most `points` stretches of nearly equal length."""
    points = min(points, len(values))
    ends = [round(len(values) * k / points) for k in range(points + 1)]
    return [sum(values[a:b]) / (b - a) for a, b in zip(ends, ends[1:], strict=False)]


def _digits(values: Sequence[float]) -> list[float]:
    return [float(f"{value:.5g}") for value in values]
