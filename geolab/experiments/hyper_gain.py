"""The composite gain of hyper-connections while they learn to copy: by depth and by learning rate, dynamic and static, with the
additive residual and mHC in the same backbone. No rate is tuned: each is a comparison of its own."""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from geolab.experiments.base import Comparison, Experiment, Plan
from geolab.models import TokenModel, Transformer, TransformerConfig
from geolab.models.inspect import operators_by_layer
from geolab.probes import composite_gain
from geolab.tasks import Copy
from geolab.training import Budget

STREAMS = 4
MODELS = {"hyper": ("hyper", {}), "hyper, static": ("hyper", {"dynamic": False}), "additive": ("additive", {}), "mhc": ("mhc", {})}


class Watched(nn.Module):
    """A model that notes its composite gain before each evaluation: in buffers, which a checkpoint keeps.

    Arguments:
        inputs: at which the gain is taken.
        evaluations: how many there will be.
    """

    def __init__(self, model: TokenModel, inputs: Tensor, evaluations: int):
        super().__init__()
        self.model = model
        self.register_buffer("inputs", inputs)
        self.register_buffer("gain", torch.ones(3, evaluations))  # 1: what the additive one has
        self.register_buffer("evaluations", torch.tensor(0))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.model(tokens)

    def train(self, mode: bool = True) -> "Watched":
        if self.training and not mode:
            self.note()
        return super().train(mode)

    def note(self) -> None:
        layers = operators_by_layer(self.model, self.inputs)
        if layers[0]:
            mixes = torch.stack([layer.mix for layer in layers])
            whole, singles = composite_gain(mixes), [composite_gain(mix[None]).forward[0] for mix in mixes]
            self.gain[:, self.evaluations] = torch.stack([whole.forward[0], whole.backward[0], torch.stack(singles).amax()])
        self.evaluations += 1


def gain(model: Watched) -> dict:
    """At each evaluation: of all sublayers forward and backward, and the largest of a single sublayer forward."""
    return {name: [float(f"{g:.4g}") for g in row] for name, row in zip(("forward", "backward", "single"), model.gain.tolist())}


def build(width: int, task: Copy, budget: Budget, name: str, blocks: int) -> Watched:
    residual, options = MODELS[name]
    config = TransformerConfig.ddl(width=width, layers=blocks, heads=4)
    if residual == "hyper":  # as the paper starts each sublayer's last matrix
        config = replace(config, output_std=config.output_std * STREAMS**0.5)
    model = TokenModel(Transformer(config, residual, **options), task.vocabulary)
    return Watched(model, task.sample("validation").inputs[:16], math.ceil(budget.steps / budget.evaluate_every))


def by_rate(depths: Mapping[float, Mapping[str, tuple[int, ...]]], width: int, task: Copy, budget: Budget) -> Plan:
    """`depths`: learning rate -> model -> numbers of blocks."""
    return {f"{lr:g}": Comparison({f"{name}, {blocks} blocks": partial(build, width, task, budget, name, blocks)
                                   for name, counts in models.items() for blocks in counts},
                                  task, budget, rates=(lr,), measure=gain)
            for lr, models in depths.items()}


def small() -> Plan:
    fewer = {"hyper": (8,), "additive": (8,)}
    depths = {8e-3: {"hyper": (4, 8, 16, 24), "hyper, static": (8,), "additive": (8,), "mhc": (8,)}, 2e-3: fewer, 3.2e-2: fewer}
    return by_rate(depths, 32, Copy(half=12, alphabet=16, validation=200), Budget(steps=200, evaluate_every=20))


def medium() -> Plan:
    """To the 60 sublayers of mHC's largest model: 6 million parameters at 30 blocks, 4096 tokens a step.

    344 sublayers, of about 100 launches each, are 0.3 s for a step of all models; 500 steps, 3 seeds and 3 rates are 22 minutes.
    """
    depths = {"hyper": (4, 8, 16, 24, 30), "hyper, static": (30,), "additive": (30,), "mhc": (30,)}
    budget = Budget(steps=500, batch=64, warmup=50, evaluate_every=25)
    return by_rate(dict.fromkeys((2e-3, 8e-3, 3.2e-2), depths), 128, Copy(half=32), budget)


def arrange(found: dict[str, dict], plan: Plan, budget: str) -> dict:
    return {"rates": found}


EXPERIMENT = Experiment("How does the composite gain of hyper-connections grow with depth, learning rate and training?",
                        {"cpu": small, "gpu": medium}, arrange)
