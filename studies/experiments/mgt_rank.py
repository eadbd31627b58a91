"""Experiments 1 and 3 of the Manifold-Geometric Transformer's paper: the effective rank over depth,
and the β that the deep model learns.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from geolab.models import TokenModel, TransformerConfig
from geolab.models.layers import Layer
from geolab.probes import effective_rank, states, statistics_by_layer
from geolab.tasks import Task, Text
from geolab.training import Budget
from studies.claims.configurations import MGT_PLANS
from studies.engine.arm import Arm, comparison
from studies.engine.protocol import Protocol
from studies.engine.run import Study
from studies.engine.watch import on_the_way, watch
from studies.experiments.mgt import MGT, SHORT, STANDARD, Builds, backbone, build


def watched(config: TransformerConfig, task: Task, evaluations: int, threshold: float,
            options: dict) -> TokenModel:
    """Build a model that keeps the numbers of `betas_and_alphas` at each evaluation."""
    model = build(config, task.vocabulary, options)
    return watch(model, partial(betas_and_alphas, threshold), task, evaluations,
                 len(model.trunk.layers), 4, examples=64)


def betas_and_alphas(threshold: float, model: TokenModel, tokens: Tensor) -> Tensor:
    """Return by sublayer β's mean, deviation and share below the threshold, and α."""
    def of(layer: Layer, state: Tensor) -> Tensor:
        beta = statistics_by_layer([layer.residual.coefficients(state).beta], threshold)
        return torch.cat([beta.mean, beta.std, beta.below, layer.residual.alpha.double()])
    return torch.stack(on_the_way(model, model.trunk.layers, tokens, of))


def deep(task: Task, config: TransformerConfig, budget: Budget) -> Builds:
    signed = {"beta_offset": 0.0, "beta_init": 0.0, **MGT}
    evaluations = math.ceil(budget.steps / budget.evaluate_every)
    post = replace(config, norm_at="post")
    return {"Standard": partial(build, config, task.vocabulary, STANDARD),
            "Standard, post-LN": partial(build, post, task.vocabulary, STANDARD),
            "MGT (Full)": partial(watched, config, task, evaluations, 1.0, MGT),
            "MGT, β in (−1, 1)": partial(watched, config, task, evaluations, 0.0, signed)}


# ------------------------------------------------------------ measurements

@torch.no_grad()
def ranks(task: Task, windows: int, model: TokenModel) -> dict:
    """Effective ranks of the states before and after each block, as means over windows.

    The ranks are those of the definition and of centred states. Beside them is the share of a
    window's squared norm that centring leaves.
    """
    inputs = task.sample("validation").inputs[:windows]
    blocks = states(model, model.trunk.layers, inputs)[::2]
    measured = {"as defined": effective_rank, "centred": partial(effective_rank, center=True),
                "left by centring": left_by_centring}
    return {name: [float(f"{f(x).mean().item():.4g}") for x in blocks]
            for name, f in measured.items()}


def left_by_centring(x: Tensor) -> Tensor:
    return x.var(-2, correction=0).sum(-1) / x.square().mean(-2).sum(-1)


def decay(ranks: list[float]) -> dict:
    """Return the last block's rank over the first's, the paper's slope, and two more numbers.

    The slope is that of the logarithm over blocks passed, by least squares. The other two are the
    last rank and the largest rise in a block. (The paper's ρ divides by the rank before the first
    block.)
    """
    logs = np.log(ranks)
    found = {"last": ranks[-1], "ratio": ranks[-1] / ranks[1],
             "slope": float(np.polyfit(np.arange(len(logs)), logs, 1)[0]),
             "largest rise": float(np.exp(np.diff(logs).max()))}
    return {name: float(f"{value:.4g}") for name, value in found.items()}


def profile(task: Task, windows: int, model: TokenModel) -> dict:
    by_block = ranks(task, windows, model)
    found = {"rank": by_block, "decay": decay(by_block["as defined"]),
             "decay, centred": decay(by_block["centred"])}
    if hasattr(model, "seen"):
        noted = model.seen[:model.count].mul(1e4).round().div(1e4).tolist()
        found["beta mean, std, share below, alpha"] = noted
    return found


def by_depth(builds: Builds, task: Task, budget: Budget, protocol: Protocol,
             windows: int = 64) -> list[Arm]:
    return comparison("rank", builds, task, budget, protocol,
                      measure=partial(profile, task, windows),
                      untrained=partial(ranks, task, windows))


# ------------------------------------------------------------ sizes

def small() -> list[Arm]:
    text, budget = Text(context=64), Budget(steps=240, batch=8, evaluate_every=60)
    return by_depth(deep(text, backbone(32, 24, heads=2, max_length=64), budget), text, budget,
                    Protocol())


def at_depths(text: Text, budget: Budget, max_length: int) -> Builds:
    one = MGT_PLANS["mgt-rank"]
    return {f"{name}, {layers} blocks": model for layers in one.layers
            for name, model in deep(text, backbone(one.width, layers, 4, max_length),
                                    budget).items()}


def medium() -> list[Arm]:
    """Train at the paper's depths and width on the shipped text, for a quarter of an hour."""
    text, budget = Text(context=128), Budget(steps=300, batch=16, evaluate_every=75)
    return by_depth(at_depths(text, budget, 128), text, budget, SHORT, windows=16)


def paper() -> list[Arm]:
    one, batch = MGT_PLANS["mgt-rank"], MGT_PLANS["mgt-ablation"].batch
    text = Text("wikitext-2", context=256, size=11_000_000)
    epoch = 10_900_000 // (batch * 256)
    budget = Budget(steps=one.epochs * epoch, batch=batch, evaluate_every=epoch)
    return by_depth(at_depths(text, budget, 256), text, budget, replace(SHORT, search_steps=epoch))


def arrange(found: dict[str, dict], tasks: Mapping[str, Task], size: str) -> dict:
    for run in found["rank"]["runs"]:
        run["rank untrained"] = run.pop("untrained")
    return found


STUDY = Study("mgt_rank", "Do the Manifold-Geometric Transformer's gates keep the rank over depth, "
              "and which β do they learn?", {"cpu": small, "gpu": medium, "paper": paper}, arrange)
