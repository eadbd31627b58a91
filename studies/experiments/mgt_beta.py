"""Experiment 3 of the Manifold-Geometric Transformer's paper: β over 100 blocks, while they learn.

The paper has β in (−1, 1) and asks for its sign. At α = 0 the sign is a convention: −β and −F
instead of β and F give the same model. The paper doesn't say where α starts, so it starts here at
0, ½ and 1. β starts at 0, so that neither sign is given; the model is then the identity.

Each run is a few hundred steps. One comparison has the rate of the paper's experiment 2 for all
starts, at which most runs with α from 1 diverge; the other one searches each start's rate by its
loss. No losses are compared.
"""

from functools import partial

import torch
from torch import Tensor

from geolab.models import TokenModel
from geolab.models.layers import Layer
from geolab.probes import statistics_by_layer
from geolab.tasks import Text
from geolab.training import Budget
from studies.engine.arm import Arm, comparison
from studies.engine.protocol import Protocol
from studies.engine.run import Study
from studies.engine.watch import on_the_way, watch
from studies.experiments.mgt import MGT, backbone, build

TASK = Text(context=64)
BLOCKS, END = 100, 25     # blocks, and how many of them are early, or deep
BUDGET = Budget(steps=300, batch=4, evaluate_every=75, lr=1e-3)
PARTS = (0, 1, 2, 4)      # the notes after 0, 25, 50 and 100 % of the steps
NAMES = ("mean", "deviation", "below 0", "alpha", "erased")
STARTS = {"α from 0": 0.0, "α from ½": 0.5, "α from 1": 1.0}


def watched(alpha: float) -> TokenModel:
    options = MGT | {"beta_offset": 0.0, "beta_init": 0.0, "alpha_init": alpha}
    model = build(backbone(64, BLOCKS, heads=4, max_length=TASK.context), TASK.vocabulary, options)
    return watch(model, gates, TASK, 1 + BUDGET.steps // BUDGET.evaluate_every, 2 * BLOCKS,
                 len(NAMES), examples=16, start=True)


def gates(model: TokenModel, tokens: Tensor) -> Tensor:
    """Return NAMES by sublayer, (2 BLOCKS, 5): β's mean, deviation and share below 0, α, and the
    share of numbers with G F < α X, which are erased whatever β's sign is.
    """
    def of(layer: Layer, state: Tensor) -> Tensor:
        gate, beta, alpha = layer.residual.coefficients(state)
        found = statistics_by_layer([beta], threshold=0)
        erased = (gate * layer.sublayer(state) < alpha * state).double().mean()
        return torch.cat([found.mean, found.std, found.below, alpha.double(), erased[None]])
    return torch.stack(on_the_way(model, model.trunk.layers, tokens, of))


def measure(model: TokenModel) -> dict:
    """Return the notes by block, β's mean in the early and in the deep blocks with its share below
    0, and how much of the mean's variance over blocks a step explains.

    A run of a variation is evaluated at its end alone, so it has notes of its start and its end.
    """
    parts, places = (PARTS, PARTS) if model.count > 2 else (PARTS[::len(PARTS) - 1], (0, 1))
    notes = model.seen[list(places)].view(len(parts), BLOCKS, 2, len(NAMES)).mean(2)
    means = notes[..., NAMES.index("mean")]

    def at(blocks: slice) -> dict:
        return {name: _round(notes[-1, blocks, NAMES.index(name)].mean().item())
                for name in ("mean", "below 0", "erased")}

    return {"by block": {name: [[_round(x) for x in row] for row in notes[..., k].tolist()]
                         for k, name in enumerate(NAMES)},
            "early": at(slice(END)), "deep": at(slice(-END, None)),
            "step": {f"{100 * part // PARTS[-1]} %": _round(step(mean))
                     for part, mean in zip(parts, means, strict=True) if part}}


def step(mean: Tensor) -> float:
    """The largest share of the variance of numbers (blocks,) that two levels explain, one for the
    blocks before some place and one for those from there on; 0 for equal numbers.
    """
    whole = mean.var(correction=0).item()
    within = min((k * mean[:k].var(correction=0) + (len(mean) - k) * mean[k:].var(correction=0))
                 .item() / len(mean) for k in range(1, len(mean)))
    return 1 - within / whole if whole > 0 else 0.0


def _round(x: float) -> float:
    return float(f"{x:.4g}")


def deep() -> list[Arm]:
    """The stated rate is that of the paper's experiment 2, since experiment 3 states none."""
    models = {name: partial(watched, alpha) for name, alpha in STARTS.items()}
    protocols = {"beta": Protocol.stated(BUDGET.lr, tuple(range(8))),
                 "beta, rate searched": Protocol.brief(rates=(5e-4, 1e-3, 2e-3), warmups=None)}
    return [arm for part, protocol in protocols.items()
            for arm in comparison(part, models, TASK, BUDGET, protocol, measure=measure)]


STUDY = Study("mgt_beta", "Do the deep blocks of the Manifold-Geometric Transformer learn a "
              "negative β, and the early ones a positive one?", {"cpu": deep}, compares=False)
