"""Several models on one task, each given the same search and the same budget.

    found = compare(models, task, Budget(steps=1000), seeds=(0, 1, 2), rates=(1e-3, 2e-3, 4e-3), search_steps=200, folder="runs/mine")
    record("results/mine.json", "what was asked", found)

Killed, the same call goes on where it stopped: each run has its checkpoint in `folder`.
"""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch
from torch import nn

from geolab.distributed import Engine, join, rank
from geolab.tasks import Task
from geolab.training import Budget, History, fit

POINTS = 50   # of a training curve in a result file
Measure = Callable[[nn.Module], dict]


def compare(models: Mapping[str, Callable[[], nn.Module]], task: Task, budget: Budget, *, seeds: Sequence[int],
            rates: Sequence[float], search_steps: int | None = None, search_seeds: Sequence[int] | None = None, folder: str | Path,
            measure: Measure | None = None, untrained: Measure | None = None, device: str = "cpu", engine: Engine = Engine()) -> dict:
    """Train each model at the learning rate with the lowest mean validation loss in its own search.

    Arguments:
        models: name -> a function that builds the model on the CPU; it is called under `torch.manual_seed(seed)`.
        budget: of the long runs; its learning rate is replaced by the winner.
        rates: the learning rates that are tried, the same ones for every model. A single one needs no search, and gets none.
        search_steps, search_seeds: of the search; the seeds are those of the long runs unless told.
        folder: for the checkpoints; a run that is finished there is read, not repeated.
        measure: trained model, on the CPU -> numbers to keep beside its losses.
        untrained: the same of the model as it was built.
        device: to train on, "cpu" or "cuda".
        engine: how steps are computed.
    Returns: plain data: "parameters", "search" (all its runs, and the best rate a model) and "runs" (one a model and seed,
        with the validation losses at "evaluated_at", and the training losses and gradient norms as means over
        stretches), and "seconds_not_quoted" of all training. A run that diverged has no losses but the word.
    Raises: ValueError for no seed or no rate, or rates without search_steps; FloatingPointError when every rate of a model diverges.
    """
    search_seeds = seeds if search_seeds is None else search_seeds
    if not seeds or not search_seeds or not rates:
        raise ValueError("compare needs at least one seed and one rate, "
                         f"got seeds={seeds!r}, search_seeds={search_seeds!r} and rates={rates!r}")
    if len(rates) > 1 and search_steps is None:
        raise ValueError(f"search_steps must be given to choose among {len(rates)} rates, got None")
    place, seconds = join(device), 0.0

    def build(name: str, seed: int) -> nn.Module:
        torch.manual_seed(seed)
        return models[name]()

    def train(name: str, seed: int, setting: Budget) -> tuple[Path, History | None]:
        if rank() == 0:
            print(f"{name}, seed {seed}, learning rate {setting.lr:g}, {setting.steps} steps", file=sys.stderr, flush=True)
        checkpoint = Path(folder) / f"{name.replace('/', '-')}-{seed}-{setting.lr:g}-{setting.steps}.pt"
        nonlocal seconds
        try:
            history = fit(build(name, seed).to(place), task, setting, seed, checkpoint=checkpoint,
                          progress=sys.stderr.isatty(), engine=engine)
        except FloatingPointError:
            return checkpoint, None
        seconds += history.seconds
        return checkpoint, history

    def trained(name: str, seed: int, checkpoint: Path) -> nn.Module:
        """As the checkpoint has it: whole and on the CPU, wherever and in however many parts it was trained."""
        model = build(name, seed)
        model.load_state_dict(torch.load(checkpoint, map_location="cpu", weights_only=True)["model"])
        return model

    search, best = [], dict.fromkeys(models, rates[0])
    for name in models if len(rates) > 1 else ():
        means = {}
        for lr in rates:
            setting = replace(budget, steps=search_steps, lr=lr)
            histories = [train(name, seed, setting)[1] for seed in search_seeds]
            finals = [history.final if history else None for history in histories]
            search += [{"model": name, "lr": lr, "seed": seed, "validation_loss": final}
                       for seed, final in zip(search_seeds, finals)]
            means[lr] = math.inf if None in finals else sum(finals) / len(finals)
        best[name] = min(means, key=means.get)
        if math.isinf(means[best[name]]):
            raise FloatingPointError(f"{name} diverges at every learning rate of {', '.join(f'{lr:g}' for lr in rates)}; add a lower one")
    runs = []
    for name in models:
        for seed in seeds:
            checkpoint, history = train(name, seed, replace(budget, lr=best[name]))
            run = {"model": name, "seed": seed, "lr": best[name]}
            if history is None:
                run["diverged"] = True
            else:
                run |= _curves(history) | {"seconds_not_quoted": round(history.seconds)}
                run |= {"measured": measure(trained(name, seed, checkpoint))} if measure and rank() == 0 else {}
            run |= {"untrained": untrained(build(name, seed))} if untrained and rank() == 0 else {}
            runs.append(run)
    return {"task": repr(task), "budget": {**asdict(budget), "lr": "by search" if search else rates[0]}, "seeds": list(seeds),
            "parameters": {name: sum(p.numel() for p in build().parameters()) for name, build in models.items()},
            "search": {"steps": search_steps, "seeds": list(search_seeds), "rates": list(rates), "best": best, "runs": search},
            "runs": runs, "seconds_not_quoted": round(seconds)}


def merge(parts: Sequence[dict]) -> dict:
    """The comparison of all models, out of comparisons of some of them that were otherwise the same."""
    first = parts[0]
    search = {**first["search"], "best": {}, "runs": []}
    whole = {**first, "parameters": {}, "search": search, "runs": [], "seconds_not_quoted": 0}
    for part in parts:
        whole["parameters"] |= part["parameters"]
        search["best"] |= part["search"]["best"]
        search["runs"] += part["search"]["runs"]
        whole["runs"] += part["runs"]
        whole["seconds_not_quoted"] += part["seconds_not_quoted"]
    return whole


def _curves(history: History) -> dict:
    return {"evaluated_at": history.evaluated_at, "validation_loss": _digits(history.validation_loss),
            "train_loss": _digits(thinned(history.train_loss)), "gradient_norm": _digits(thinned(history.gradient_norm))}


def thinned(values: Sequence[float], points: int = POINTS) -> list[float]:
    """Means over at most `points` stretches, as equal in length as can be."""
    ends = [round(len(values) * k / points) for k in range(points + 1)] if len(values) > points else range(len(values) + 1)
    return [sum(values[a:b]) / (b - a) for a, b in zip(ends, ends[1:])]


def _digits(values: Sequence[float]) -> list[float]:
    return [float(f"{value:.5g}") for value in values]
