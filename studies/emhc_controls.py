"""The controls that E-MHC-Geo's tables lack, on echo and the gyroscope: its block, causal, with other operators in the place of
its gated one, and the residuals that its benchmark changed, in their papers' form.

Everyone has the same number of parameters within a tenth, the same steps and the same search.
"""

from functools import partial

import torch
from torch import nn

from studies.runner.study import Experiment, Plan
from studies.emhc import BLOCK, CAUSAL, SEEDS, TASKS, Model, on
from geolab.probes.shortcut import operators_by_layer
from geolab.tasks import Task

MODELS: dict[str, Model] = {
    "additive": ("additive", {}),
    "hybrid": ("emhc-hybrid", CAUSAL),
    "hybrid, hard": ("emhc-hybrid", CAUSAL | {"gate": "hard", "penalty": 0.0}),
    "cayley": ("emhc-cayley", BLOCK | {"start": "published"}),
    "geodesic": ("emhc-geodesic", BLOCK | {"start": "published", "gate_bias": 0.0}),
    "exact": ("emhc-exact", BLOCK),
    "mhc": ("mhc", {}),
    "delta": ("delta", {}),
}
OF_THE_BLOCK = ("emhc-hybrid", "emhc-cayley", "emhc-geodesic", "emhc-exact")
LAYERS = {  # 58 000 to 65 000 parameters, and 1.82 to 1.84 million
    "cpu": {"additive": 5, "mhc": 3, "delta": 5} | dict.fromkeys(OF_THE_BLOCK, 3),
    "paper": {"additive": 9, "mhc": 8, "delta": 9} | dict.fromkeys(OF_THE_BLOCK, 6),
}


def measure(task: Task, model: nn.Module) -> dict:
    """How far the operators are from doing nothing, by sublayer, in the mean over 16 validation sequences.

    Frobenius norms of G − I, where the residual has a matrix G, and of Q − I, where G has a part Q: √8 sin(θ/2) for one plane
    turned by θ. And its γ or β.
    """
    layers, found = operators_by_layer(model, task.sample("validation").inputs[:16]), {}
    for field, name in (("mix", "|G - I|"), ("rotation", "|Q - I|"), ("gate", "gate"), ("beta", "beta")):
        values = [getattr(layer, field, None) for layer in layers]
        if values[0] is not None:
            if name.startswith("|"):
                values = [(matrix - torch.eye(matrix.shape[-1])).norm(dim=(-2, -1)) for matrix in values]
            found[name] = [round(value.mean().item(), 4) for value in values]
    return found


def plan(size: str) -> Plan:
    """Small: two rates on echo for one seed, and 56 runs of 300 steps in all: about 7 minutes on one core.

    At the paper's size 48 runs of 2000 steps at the paper's one rate: 96 000 steps of 10 to 20 ms on an H200 are 16 to 32 minutes
    one after another, and about 8 with --jobs 8.
    """
    comparisons = {}
    for name in ("echo", "gyroscope"):
        far = partial(measure, TASKS[size][name])
        comparisons[name] = on(size, name, MODELS, LAYERS[size], search_seeds=SEEDS[size][:1], measure=far, untrained=far)
    return comparisons


def arrange(found: dict[str, dict], plan: Plan, budget: str) -> dict:
    """One entry a task."""
    models = {arm: (residual, LAYERS[budget][residual], options) for arm, (residual, options) in MODELS.items()}
    return {name: content | {"floor": plan[name].task.bayes_floor(), "baselines": plan[name].task.baselines()}
            for name, content in found.items()} | {"models": models}


EXPERIMENT = Experiment("What does E-MHC-Geo's gated operator add to its block, and what do others' residuals in their own form?",
                        {size: partial(plan, size) for size in ("cpu", "paper")}, arrange)
