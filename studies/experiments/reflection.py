"""Table 7 of E-MHC-Geo again, with the controls that it lacks.

The controls are gates that start on the other side, one branch alone, both starts of JPmHC's
iteration, and models without a geometric operator. The size is the paper's.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from geolab.models.reflectors import (
    AdditiveReflector,
    DeltaReflector,
    HybridReflector,
    JPmHCReflector,
    MHCReflector,
)
from geolab.tasks import Negation, Task
from geolab.training import Budget
from studies.claims.repeated import over_seeds
from studies.engine.arm import Arm, comparison
from studies.engine.protocol import Protocol
from studies.engine.run import Study
from studies.engine.watch import watch

SEEDS, SIZES = (42, 123, 456, 0, 1, 2, 3, 4), (10, 25, 50, 100, 200, 500)
PUBLISHED = Budget(steps=2000, batch=32, lr=1e-3, lr_end=1.0, warmup=0, weight_decay=0.01,
                   clip=1e9, evaluate_every=50)


def held(model: nn.Module, part: nn.Linear, at: float) -> nn.Module:
    """Hold the sigmoid of `part` at 0 (at = −40) or 1 (at = 40), to the last bit of float32.

    Returns: the model.
    """
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


def linear(dim: int) -> nn.Module:
    return nn.Linear(dim, dim, bias=False)


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
    "linear": linear,
}


def build(model: Callable[[int], nn.Module], task: Negation) -> nn.Module:
    """Build a model for a task; at the largest size, models with β or γ note their path."""
    built = model(task.dim)
    if task.train == max(SIZES) and isinstance(built, DeltaReflector | HybridReflector):
        evaluations = PUBLISHED.steps // PUBLISHED.evaluate_every
        return watch(built, path, task, 1 + evaluations, 2, start=True)
    return built


def path(model: nn.Module, inputs: Tensor) -> Tensor:
    """The mean cosine with −x, and the mean of γ or β."""
    cosine = F.cosine_similarity(model.forward(inputs), -inputs, dim=-1)
    return torch.stack([cosine.mean(), model.coefficients(inputs)[-1].mean()])


def alignment(prediction: Tensor, target: Tensor) -> float:
    return round(F.cosine_similarity(prediction, target, dim=-1).mean().item(), 4)


@torch.no_grad()
def measure(task: Negation, model: nn.Module) -> dict:
    """Return the alignment on seen and new inputs, and the learned operator on the new ones."""
    model.eval()
    (seen, seen_target), (x, target) = task.sample("train"), task.sample("validation")
    found = {"train_alignment": alignment(model(seen), seen_target),
             "alignment": alignment(model(x), target)}
    if isinstance(model, DeltaReflector):
        found["beta"] = round(model.coefficients(x)[1].mean().item(), 4)
    if isinstance(model, HybridReflector):
        q, k, gate = model.coefficients(x)
        cosine = (q.diagonal(dim1=-2, dim2=-1).sum(-1) - x.shape[-1] + 2) / 2
        angle = cosine.clamp(-1, 1).acos().rad2deg().mean().item()
        between = ((gate > 0.2) & (gate < 0.8)).float().mean().item()
        reflected = x - 2 * (k * x).sum(-1, keepdim=True) * k
        found |= {"gate": round(gate.mean().item(), 4), "gates_between": round(between, 4),
                  "angle_degrees": round(angle, 1),
                  "alignment_of_q": alignment((q @ x[..., None])[..., 0], target),
                  "alignment_of_h": alignment(reflected, target)}
    if hasattr(model, "seen"):
        found["alignment_and_coefficient"] = [[round(number, 4) for number in pair]
                                              for pair in model.seen.tolist()]
    return found


def small() -> list[Arm]:
    """Return one comparison per number of training inputs, at the published rate.

    The largest number comes first and has all models. Then the same comparisons follow with each
    model at its own best rate.
    """
    found = []
    for size in sorted(SIZES, reverse=True):
        task = Negation(train=size)
        models = EVERY_SIZE | (LARGEST_SIZE if size == max(SIZES) else {})
        found += comparison(
            f"{size} inputs", {name: partial(build, model, task) for name, model in models.items()},
            task, replace(PUBLISHED, batch=min(PUBLISHED.batch, size)),
            Protocol.stated(PUBLISHED.lr, SEEDS), measure=partial(measure, task))
    task = Negation(train=max(SIZES))
    models = {name: partial(build, model, task)
              for name, model in (EVERY_SIZE | LARGEST_SIZE).items()}
    return found + comparison("searched", models, task, PUBLISHED,
                              Protocol.eight(rates=(5e-4, 1e-3, 2e-3), warmups=None),
                              measure=partial(measure, task))


ROWS = {"DDL beta": ("delta", "beta"), "DDL alignment": ("delta", "alignment"),
        "E-MHC-Geo gamma": ("hybrid, bias -1.5", "gate"),
        "E-MHC-Geo alignment": ("hybrid, bias -1.5", "alignment")}
DIFFERS = ("Eight seeds at every size; AdamW's second beta is 0.95 and not 0.999, and weight decay "
           "spares the biases.")


def arrange(found: dict[str, dict], tasks: Mapping[str, Task], size: str) -> dict:
    """Return all runs in one list, each with its number of training inputs under "train".

    The measurements of a run are beside its loss.
    """
    searched = {"searched": found.pop("searched")} if "searched" in found else {}
    parts = {tasks[part].train: content for part, content in found.items()}
    runs = [flat(run, inputs) for inputs, content in parts.items() for run in content["runs"]]
    rows = {name: numbers for name, source in ROWS.items() if (numbers := row(runs, *source))}
    repeated = {"table": "emhc-table-7", "models": {name: ROWS[name][0] for name in rows},
                "rows": rows, "differs": DIFFERS}
    return {"task": repr(Negation()), "budget": asdict(PUBLISHED),
            "batch": "at most the number of training inputs",
            "seeds": parts[max(parts)]["seeds"], "evaluated_every": PUBLISHED.evaluate_every,
            "parameters": {name: n for content in parts.values()
                           for name, n in content["parameters"].items()},
            **({"reproduces": repeated} if rows else {}), "runs": runs, **searched}


def flat(run: dict, inputs: int) -> dict:
    """Return a run with its measurements beside its last loss, without shared settings."""
    measured, losses = run.get("measured", {}), run.get("validation_loss")
    kept = {key: value for key, value in run.items()
            if key not in ("lr", "warmup", "evaluated_at", "measured")}
    curve = {"validation_loss": losses[-1], "validation_losses": losses} if losses else {}
    return {"model": run["model"], "train": inputs, **kept, **curve, **measured}


def row(runs: list[dict], model: str, key: str) -> dict:
    """Return mean and deviation over seeds by training inputs, in the reported table's form."""
    values = {size: [run[key] for run in runs
                     if (run["model"], run["train"]) == (model, size) and key in run]
              for size in SIZES}
    return {str(size): over_seeds(numbers) for size, numbers in values.items() if numbers}


STUDY = Study("reflection", "Negation: can a gate find the reflection, and does the task need it?",
              {"cpu": small}, arrange)
