"""Several models on one task, each given the same search and the same budget, kept as JSON with its provenance.

    found = compare(models, task, Budget(steps=1000), seeds=(0, 1, 2), rates=(1e-3, 2e-3, 4e-3), search_steps=200, folder="runs/mine")
    record("results/mine.json", "what was asked", found)

A script of `results/` is these two calls. Killed, it goes on where it stopped: each run has its checkpoint in `folder`.
"""

import json
import math
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from shutil import which

import torch
from torch import nn

from geolab.distributed import rank
from geolab.tasks import Task
from geolab.training import Budget, fit


def compare(models: Mapping[str, Callable[[], nn.Module]], task: Task, budget: Budget, *, seeds: Sequence[int],
            rates: Sequence[float], search_steps: int | None = None, search_seeds: Sequence[int] | None = None, folder: str | Path,
            measure: Callable[[nn.Module], dict] | None = None) -> dict:
    """Train each model at the learning rate with the lowest mean validation loss in its own search.

    Arguments:
        models: name -> a function that builds the model; it is called under `torch.manual_seed(seed)`.
        budget: of the long runs; its learning rate is replaced by the winner.
        rates: the learning rates that are tried, the same ones for every model. A single one needs no search, and gets none.
        search_steps, search_seeds: of the search; the seeds are those of the long runs unless told.
        folder: for the checkpoints; a run that is finished there is read, not repeated.
        measure: trained model -> numbers to keep beside its losses.
    Returns: plain data: "parameters", "search" (all its runs, and the best rate a model) and "runs" (one a model and seed,
        with the validation losses at "evaluated_at"). A run that diverged has no losses but the word.
    Raises: ValueError for no seed or no rate, or rates without search_steps; RuntimeError when every rate of a model diverges.
    """
    search_seeds = seeds if search_seeds is None else search_seeds
    if not seeds or not search_seeds or not rates:
        raise ValueError("compare needs at least one seed and one rate, "
                         f"got seeds={seeds!r}, search_seeds={search_seeds!r} and rates={rates!r}")
    if len(rates) > 1 and search_steps is None:
        raise ValueError(f"search_steps must be given to choose among {len(rates)} rates, got None")

    def train(name: str, seed: int, setting: Budget):
        if rank() == 0:
            print(f"{name}, seed {seed}, learning rate {setting.lr:g}, {setting.steps} steps", file=sys.stderr, flush=True)
        torch.manual_seed(seed)
        model = models[name]()
        checkpoint = Path(folder) / f"{name.replace('/', '-')}-{seed}-{setting.lr:g}-{setting.steps}.pt"
        try:
            return model, fit(model, task, setting, seed, checkpoint=checkpoint, progress=sys.stderr.isatty())
        except FloatingPointError:
            return model, None

    search, best = [], dict.fromkeys(models, rates[0])
    for name in models if len(rates) > 1 else ():
        means = {}
        for lr in rates:
            setting = replace(budget, steps=search_steps, lr=lr)
            finals = [history.final if history else None for _, history in (train(name, seed, setting) for seed in search_seeds)]
            search += [{"model": name, "lr": lr, "seed": seed, "validation_loss": final}
                       for seed, final in zip(search_seeds, finals)]
            means[lr] = math.inf if None in finals else sum(finals) / len(finals)
        best[name] = min(means, key=means.get)
        if math.isinf(means[best[name]]):
            raise RuntimeError(f"{name} diverges at every learning rate of {', '.join(f'{lr:g}' for lr in rates)}; add a lower one")
    runs = []
    for name in models:
        for seed in seeds:
            model, history = train(name, seed, replace(budget, lr=best[name]))
            run = {"model": name, "seed": seed, "lr": best[name]}
            if history is None:
                run["diverged"] = True
            else:
                run |= {"evaluated_at": history.evaluated_at, "seconds_not_quoted": round(history.seconds),
                        "validation_loss": [float(f"{loss:.5g}") for loss in history.validation_loss]}
                run |= {"measured": measure(model)} if measure else {}
            runs.append(run)
    return {"task": repr(task), "budget": {**asdict(budget), "lr": "by search" if search else rates[0]}, "seeds": list(seeds),
            "parameters": {name: sum(p.numel() for p in build().parameters()) for name, build in models.items()},
            "search": {"steps": search_steps, "seeds": list(search_seeds), "rates": list(rates), "best": best, "runs": search},
            "runs": runs}


def record(path: str | Path, experiment: str, content: dict) -> None:
    """Write a measurement with its provenance: device, versions, commit.

    Of several processes the first one writes.
    Raises: FileExistsError where there is a file: what was measured is not overwritten.
    """
    if rank() > 0:
        return
    path = Path(path)
    commit = _said("git", "rev-parse", "--short", "HEAD", cwd=path.parent)
    versions = {"torch": torch.__version__, "python": platform.python_version()}
    provenance = {"experiment": experiment, "device": "cuda" if torch.cuda.is_available() else "cpu",
                  "threads": torch.get_num_threads(), "commit": commit, "versions": versions}
    if "triton" in sys.modules:
        versions["triton"] = sys.modules["triton"].__version__
    if torch.cuda.is_available():
        gpu = torch.cuda.get_device_properties(torch.cuda.current_device())
        versions["cuda"] = torch.version.cuda
        provenance["gpu"] = {"name": gpu.name, "capability": f"{gpu.major}.{gpu.minor}", "multiprocessors": gpu.multi_processor_count,
                             "memory": gpu.total_memory,
                             "driver": _said("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").partition("\n")[0]}
    with path.open("x") as file:
        file.write(json.dumps(provenance | content, indent=1) + "\n")


def _said(*command: str, cwd: Path | None = None) -> str:
    """What a program prints; nothing where there is none, or it fails."""
    if not which(command[0]):
        return ""
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd).stdout.strip()
