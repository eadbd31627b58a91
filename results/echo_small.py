"""Make results/echo_small.json: `python results/echo_small.py`, about a quarter of an hour on one core.

Three residuals in one backbone on a small echo task: for each a search over learning rates at 300 steps, then long runs
at the rate that won. An interrupted run goes on where it stopped, from checkpoints in runs/.
"""

import json
import platform
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import torch

from geolab import Budget, fit
from geolab.models import ContinuousModel, Transformer, TransformerConfig
from geolab.tasks import Echo

OUT = Path(__file__).with_suffix(".json")
TASK = Echo(dim=16, length=33)
CONFIG = TransformerConfig.ddl(width=64, layers=4, heads=4)
MODELS = {"additive": {"residual": "additive"}, "delta": {"residual": "delta"},
          "delta, v-Map": {"residual": "delta", "map": "v", "value": "sigmoid"}}
SEEDS, RATES, SEARCH, LONG = (0, 1, 2), (1e-3, 2e-3, 4e-3, 8e-3), 300, 3000


def network(name: str, seed: int) -> ContinuousModel:
    torch.manual_seed(seed)
    return ContinuousModel(Transformer(CONFIG, **MODELS[name]), TASK.dim)


def train(name: str, seed: int, lr: float, steps: int):
    print(f"{name}, seed {seed}, learning rate {lr:g}, {steps} steps", flush=True)
    checkpoint = Path("runs") / "echo_small" / f"{name}-{seed}-{lr:g}-{steps}.pt"
    return fit(network(name, seed), TASK, Budget(steps=steps, lr=lr), seed, checkpoint=checkpoint)


def main() -> None:
    if OUT.exists():
        sys.exit(f"{OUT} is there; move it away to measure again")
    search = [{"model": name, "lr": lr, "seed": seed, "validation_loss": train(name, seed, lr, SEARCH).final}
              for name in MODELS for lr in RATES for seed in SEEDS]
    best = {name: min(RATES, key=lambda lr: sum(run["validation_loss"] for run in search if (run["model"], run["lr"]) == (name, lr)))
            for name in MODELS}
    runs = []
    for name in MODELS:
        for seed in SEEDS:
            history = train(name, seed, best[name], LONG)
            runs.append({"model": name, "seed": seed, "lr": best[name], "evaluated_at": history.evaluated_at[5::6],
                         "validation_loss": [float(f"{loss:.5g}") for loss in history.validation_loss[5::6]],
                         "seconds_not_quoted": round(history.seconds)})
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    OUT.write_text(json.dumps({
        "experiment": "echo, small: additive and delta residuals in one backbone; each model at the learning rate that won "
                      "its own 300-step search",
        "config": {"task": repr(TASK), "transformer": asdict(CONFIG), "models": MODELS,
                   "parameters": {name: sum(p.numel() for p in network(name, 0).parameters()) for name in MODELS}},
        "budget": {**asdict(Budget(steps=LONG)), "lr": "by search"}, "seeds": SEEDS, "device": "cpu",
        "threads": torch.get_num_threads(), "versions": {"torch": torch.__version__, "python": platform.python_version()},
        "commit": commit, "search": {"steps": SEARCH, "lrs": RATES, "best": best, "runs": search}, "runs": runs,
    }, indent=1) + "\n")


if __name__ == "__main__":
    main()
