"""Make results/hyper_gain.json: `python results/hyper_gain.py`, about ten minutes on one core.

The composite gain of hyper-connections while they learn to copy: by depth and by learning rate, dynamic and static, over
three seeds, with the additive residual and mHC in the same backbone.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from geolab import Budget
from geolab.compare import compare, record
from geolab.models import TokenModel, Transformer, TransformerConfig
from geolab.models.inspect import operators_by_layer
from geolab.probes import composite_gain
from geolab.tasks import Copy

OUT = Path(__file__).with_suffix(".json")
TASK = Copy(half=12, alphabet=16, validation=200)
BUDGET = Budget(steps=200, evaluate_every=20)
STREAMS, SEEDS = 4, (0, 1, 2)


class Watched(nn.Module):
    """A model that notes its composite gain whenever it is evaluated: in buffers, which a checkpoint keeps."""

    def __init__(self, residual: str, blocks: int, **options):
        super().__init__()
        config = TransformerConfig.ddl(width=32, layers=blocks, heads=4)
        if residual == "hyper":  # as the paper starts each sublayer's last matrix
            config = replace(config, output_std=config.output_std * STREAMS**0.5)
        self.model = TokenModel(Transformer(config, residual, **options), TASK.vocabulary)
        self.register_buffer("inputs", TASK.sample("validation").inputs[:16])
        self.register_buffer("gain", torch.ones(3, BUDGET.steps // BUDGET.evaluate_every))  # 1: what the additive one has
        self.register_buffer("evaluations", torch.tensor(0))

    def forward(self, tokens: Tensor) -> Tensor:
        if not self.training:
            self.note()
        return self.model(tokens)

    def note(self) -> None:
        layers = operators_by_layer(self.model, self.inputs)
        if layers[0]:
            mixes = torch.stack([layer.mix for layer in layers])
            whole, single = composite_gain(mixes), max(composite_gain(mix[None]).forward.item() for mix in mixes)
            self.gain[:, self.evaluations] = torch.tensor([whole.forward[0], whole.backward[0], single])
        self.evaluations += 1


def gain(model: Watched) -> dict:
    """At each evaluation: of all sublayers forward and backward, and the largest of a single sublayer forward."""
    return {name: [float(f"{g:.4g}") for g in row] for name, row in zip(("forward", "backward", "single"), model.gain.tolist())}


def models(residual: str, blocks: tuple[int, ...], **options) -> dict:
    name = "hyper, static" if options.get("dynamic") is False else residual
    return {f"{name}, {count} blocks": partial(Watched, residual, count, **options) for count in blocks}


PLAN = {  # learning rate -> models: none is tuned
    8e-3: models("hyper", (4, 8, 16, 24)) | models("hyper", (8,), dynamic=False) | models("additive", (8,)) | models("mhc", (8,)),
    2e-3: models("hyper", (8,)) | models("additive", (8,)),
    3.2e-2: models("hyper", (8,)) | models("additive", (8,)),
}

if __name__ == "__main__":
    record(OUT, "copy: composite gain by training step, depth and learning rate; at one rate there is nothing to search",
           {"rates": {f"{lr:g}": compare(chosen, TASK, BUDGET, seeds=SEEDS, rates=(lr,), search_steps=1, measure=gain,
                                         folder="runs/hyper_gain") for lr, chosen in PLAN.items()}})
