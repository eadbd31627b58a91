"""Make results/reflection.json: `python results/reflection.py`, about a quarter of an hour on one core.

Table 7 of E-MHC-Geo again, with the controls that it lacks: gates that start on the other side, one branch alone, both
starts of JPmHC's iteration, and models without a geometric operator. One rate for all, the published one: no model has a search.
"""

import statistics
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from geolab import Budget, fit
from geolab.compare import record
from geolab.models import AdditiveReflector, DeltaReflector, HybridReflector, JPmHCReflector, MHCReflector
from geolab.tasks import Negation

SEEDS, SIZES = (42, 123, 456), (10, 25, 50, 100, 200, 500)
PUBLISHED = Budget(steps=2000, batch=32, lr=1e-3, lr_end=1.0, warmup=0, weight_decay=0.01, clip=1e9, evaluate_every=50)


def held(model: nn.Module, part: nn.Linear, at: float) -> nn.Module:
    """The model with the sigmoid of `part` held at 0 (at = −40) or 1 (at = 40), to the last bit of float32."""
    nn.init.zeros_(part.weight)
    nn.init.constant_(part.bias, at)
    part.requires_grad_(False)
    return model


def rotation_alone(dim: int) -> nn.Module:
    model = HybridReflector(dim, penalty=0.0)
    return held(model, model.gate, 40.0)


def reflection_alone(dim: int) -> nn.Module:
    model = DeltaReflector(dim)
    return held(model, model.beta[-1], 40.0)


EVERY_SIZE = {
    "delta": DeltaReflector,
    "hybrid, bias -1.5": partial(HybridReflector, gate_bias=-1.5),
    "hybrid, bias 0": partial(HybridReflector, gate_bias=0.0),
    "hybrid, bias +1.5": partial(HybridReflector, gate_bias=1.5),
    "rotation alone": rotation_alone,
    "JPmHC, start I": JPmHCReflector,
    "JPmHC, start I + aW": partial(JPmHCReflector, start="shifted"),
}
LARGEST_SIZE = {
    "reflection alone": reflection_alone,
    "hybrid, bias -1.5, no penalty": partial(HybridReflector, gate_bias=-1.5, penalty=0.0),
    "hybrid, bias 0, no penalty": partial(HybridReflector, gate_bias=0.0, penalty=0.0),
    "additive": AdditiveReflector,
    "mHC": MHCReflector,
    "linear": lambda dim: nn.Linear(dim, dim, bias=False),
}


def alignment(prediction, target) -> float:
    return round(F.cosine_similarity(prediction, target, dim=-1).mean().item(), 4)


def watch(model: nn.Module, log: list) -> None:
    """Note, at each evaluation, the mean cosine and the mean of γ or β."""
    def note(model, inputs, prediction):
        if not model.training:
            log.append([alignment(prediction, -inputs[0]), round(model.coefficients(*inputs)[-1].mean().item(), 4)])
    model.register_forward_hook(note)


@torch.no_grad()
def measure(model: nn.Module, task: Negation) -> dict:
    """After training: alignment on seen and new inputs, and what the operator became on the new ones."""
    model.eval()
    (seen, seen_target), (x, target) = task.sample("train"), task.sample("validation")
    found = {"train_alignment": alignment(model(seen), seen_target), "alignment": alignment(model(x), target)}
    if isinstance(model, DeltaReflector):
        found["beta"] = round(model.coefficients(x)[1].mean().item(), 4)
    if isinstance(model, HybridReflector):
        q, k, gate = model.coefficients(x)
        cosine = (q.diagonal(dim1=-2, dim2=-1).sum(-1) - x.shape[-1] + 2) / 2
        found |= {"gate": round(gate.mean().item(), 4), "gates_between": round(((gate > 0.2) & (gate < 0.8)).float().mean().item(), 4),
                  "angle_degrees": round(cosine.clamp(-1, 1).acos().rad2deg().mean().item(), 1),
                  "alignment_of_q": alignment((q @ x[..., None])[..., 0], target),
                  "alignment_of_h": alignment(x - 2 * (k * x).sum(-1, keepdim=True) * k, target)}
    return found


def train(name: str, build, size: int, seed: int) -> dict:
    print(f"{name}, {size} inputs, seed {seed}", flush=True)
    task, path = Negation(train=size), []
    torch.manual_seed(seed)
    model = build(task.dim)
    followed = size == max(SIZES) and isinstance(model, DeltaReflector | HybridReflector)
    if followed:
        with torch.no_grad():
            watch(model.eval(), path)
            model(task.sample("validation").inputs)
    history = fit(model, task, replace(PUBLISHED, batch=min(PUBLISHED.batch, size)), seed, progress=False)
    run = {"model": name, "train": size, "seed": seed, "validation_loss": float(f"{history.final:.4g}"), **measure(model, task)}
    return run | ({"alignment_and_coefficient": path[:-2]} if followed else {})  # without the two calls of `measure`


def row(runs: list[dict], model: str, key: str) -> dict:
    """Mean and sample deviation over the seeds, by training inputs: the form of the reported table."""
    values = {size: [run[key] for run in runs if (run["model"], run["train"]) == (model, size)] for size in SIZES}
    return {str(size): [round(statistics.mean(v), 4), round(statistics.stdev(v), 4)] for size, v in values.items()}


def main() -> None:
    runs = [train(name, build, size, seed) for models, sizes in ((EVERY_SIZE | LARGEST_SIZE, SIZES[-1:]), (EVERY_SIZE, SIZES[:-1]))
            for name, build in models.items() for size in sizes for seed in SEEDS]
    rows = {"DDL beta": ("delta", "beta"), "DDL alignment": ("delta", "alignment"),
            "E-MHC-Geo gamma": ("hybrid, bias -1.5", "gate"), "E-MHC-Geo alignment": ("hybrid, bias -1.5", "alignment")}
    differs = "Three seeds at every size; AdamW's second beta is 0.95 and not 0.999, and weight decay spares the biases."
    record(Path(__file__).with_suffix(".json"), "negation: can a gate find the reflection, and does the task need it?", {
        "task": repr(Negation()), "budget": asdict(PUBLISHED), "batch": "at most the number of training inputs", "seeds": SEEDS,
        "evaluated_every": PUBLISHED.evaluate_every,
        "parameters": {name: sum(p.numel() for p in build(64).parameters()) for name, build in (EVERY_SIZE | LARGEST_SIZE).items()},
        "reproduces": {"table": "emhc-table-7", "models": {name: model for name, (model, _) in rows.items()},
                       "rows": {name: row(runs, *source) for name, source in rows.items()}, "differs": differs},
        "runs": runs})


if __name__ == "__main__":
    main()
