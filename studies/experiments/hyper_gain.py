"""The composite gain of hyper-connections while they learn to copy: by depth and by learning rate.

The arms are the dynamic and the static form, with the additive residual and mHC in the same
backbone. No rate is tuned: each is a comparison of its own.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial, reduce

import torch
from torch import Tensor

from geolab.models import TokenModel, Transformer, TransformerConfig
from geolab.models.layers import Layer
from geolab.probes import composite_gain
from geolab.tasks import Copy
from geolab.training import Budget
from studies.engine.arm import Arm, comparison
from studies.engine.protocol import Protocol
from studies.engine.run import Study
from studies.engine.watch import on_the_way, watch

STREAMS = 4
MODELS = {"hyper": ("hyper", {}), "hyper, static": ("hyper", {"dynamic": False}),
          "additive": ("additive", {}), "mhc": ("mhc", {})}
# The composite gain of all sublayers forward and backward, and the largest forward gain of a single
# one. Then two growths up to the last sublayer, as medians over tokens: that of the embedding's
# copies under mixing alone ("met"), and that of the streams.
MEASURED = ("forward", "backward", "single", "met", "length")
Depths = Mapping[str, tuple[int, ...]]  # model -> numbers of blocks


def mix(layer: Layer, state: Tensor) -> Tensor:
    """H of a layer; for the additive one, the number 1."""
    operator = layer.residual.observe(state, layer.sublayer)
    return getattr(operator, "mix", state.new_ones(1, 1))


def gains(model: TokenModel, tokens: Tensor) -> Tensor:
    """The five numbers of `MEASURED`, in their order."""
    found = []

    def see(layer: Layer, state: Tensor) -> Tensor:
        found.append(state)
        return mix(layer, state)

    mixes = torch.stack(on_the_way(model, model.trunk.layers, tokens, see))
    whole = composite_gain(mixes)
    singles = torch.stack([composite_gain(one[None]).forward[0] for one in mixes])
    entry, last = (state.reshape(*tokens.shape, -1, state.shape[-1])
                   for state in (found[0], found[-1]))
    carried = reduce(lambda streams, one: one @ streams, mixes[:-1], entry)
    met, length = (times(streams, entry).median() for streams in (carried, last))
    return torch.stack([whole.forward[0], whole.backward[0], singles.amax(), met, length]).float()


def times(streams: Tensor, entry: Tensor) -> Tensor:
    """The longest stream's norm over that at the entry: (B, T, n, d) twice -> (B, T)."""
    return streams.norm(dim=-1).amax(-1) / entry.norm(dim=-1).amax(-1)


def gain(model: TokenModel) -> dict:
    """`gains` at each evaluation."""
    return {name: [float(f"{g:.4g}") for g in row]
            for name, row in zip(MEASURED, model.seen.T.tolist(), strict=True)}


def build(width: int, task: Copy, budget: Budget, name: str, blocks: int) -> TokenModel:
    residual, options = MODELS[name]
    config = TransformerConfig.ddl(width=width, layers=blocks, heads=4)
    if residual == "hyper":  # the paper's start of each sublayer's last matrix
        config = replace(config, output_std=config.output_std * STREAMS**0.5)
    model = TokenModel(Transformer(config, residual, **options), task.vocabulary)
    evaluations = math.ceil(budget.steps / budget.evaluate_every)
    return watch(model, gains, task, evaluations, len(MEASURED), examples=16)


def by_rate(depths: Mapping[float, Depths], width: int, task: Copy, budget: Budget) -> list[Arm]:
    """One comparison per learning rate."""
    return [arm for lr, models in depths.items() for arm in comparison(
        f"{lr:g}", {f"{name}, {blocks} blocks": partial(build, width, task, budget, name, blocks)
                    for name, counts in models.items() for blocks in counts},
        task, budget, Protocol.stated(lr, range(8)), measure=gain)]


def small() -> list[Arm]:
    fewer = {"hyper": (8,), "additive": (8,)}
    most = {"hyper": (4, 8, 16, 24), "hyper, static": (8,), "additive": (8,), "mhc": (8,)}
    task = Copy(half=12, alphabet=16, validation=200)
    return by_rate({8e-3: most, 2e-3: fewer, 3.2e-2: fewer}, 32, task,
                   Budget(steps=200, evaluate_every=20))


def medium() -> list[Arm]:
    """Train up to 30 blocks, the 60 sublayers of mHC's largest model, with 4096 tokens per step.

    Models of 30 blocks have 6 million parameters.

    344 sublayers with about 100 launches each take 0.3 s for a step of all models; 500 steps, 3
    seeds and 3 rates take 22 minutes.
    """
    depths = {"hyper": (4, 8, 16, 24, 30), "hyper, static": (30,), "additive": (30,), "mhc": (30,)}
    budget = Budget(steps=500, batch=64, warmup=50, evaluate_every=25)
    return by_rate(dict.fromkeys((2e-3, 8e-3, 3.2e-2), depths), 128, Copy(half=32), budget)


STUDY = Study(
    "hyper_gain",
    "How does the composite gain of hyper-connections grow with depth, learning rate and training?",
    {"cpu": small, "gpu": medium}, lambda found, tasks, size: {"rates": found})
