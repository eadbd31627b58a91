"""Parts of the Geometric Transformer that no other study trains.

    copy       the decoder of listing 2 behind an encoder: repeat a sequence that the encoder reads
    mlps       residual MLPs without attention, alone and with transport
    triangles  GT-Full with messages along edges, and over triangles as well

The lecture states a task for none of them.
"""

from functools import partial

import torch
from torch import Tensor, nn

from geolab.models import KINDS, GeometricConfig, GeometricDecoder, GeometricTransformer, TokenModel
from geolab.probes import jacobian, states
from geolab.tasks import Copy, Task, Text
from geolab.training import Budget
from studies.engine.arm import Arm, comparison
from studies.engine.protocol import Protocol
from studies.engine.run import Study

COPY = Copy(half=8, alphabet=16, validation=256)
TEXT = Text(context=32)
SIZES = {"width": 32, "layers": 2, "heads": 4, "dropout": 0.0}
CAUSAL = {"norm_at": "pre", "causal": True, "positions": "learned", "max_length": TEXT.context}


class Copier(nn.Module):
    """Copying with listing 2: (B, 2K) tokens -> (B, 2K, vocabulary).

    An encoder that sees all of it reads the first K tokens. The decoder reads the others. The first
    K outputs are zeros, since copying scores none of them.
    """

    def __init__(self, kind: str):
        super().__init__()
        config = GeometricConfig(**SIZES, hidden=32 if kind == "moe" else 128)
        self.embedding = nn.Embedding(COPY.vocabulary, config.width)
        self.places = nn.Parameter(0.1 * torch.randn(2 * COPY.half, config.width))
        self.encoder = GeometricTransformer(config, kind)
        self.decoder = GeometricDecoder(config, kind)
        self.output = nn.Linear(config.width, COPY.vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        first, second = (self.embedding(tokens) + self.places).split(COPY.half, dim=1)
        scores = self.output(self.decoder(second, self.encoder(first)))
        return torch.cat((torch.zeros_like(scores), scores), dim=1)


def text_model(kind: str, hidden: int = 128, triangles: bool = False) -> TokenModel:
    config = GeometricConfig(**SIZES, **CAUSAL, hidden=hidden, triangles=triangles)
    return TokenModel(GeometricTransformer(config, kind), TEXT.vocabulary)


def commutators(task: Task, model: nn.Module) -> dict:
    """Return log₁₀ ‖[J_i, J_j]‖ / (‖J_i‖ ‖J_j‖) of the Jacobians of two steps, by block.

    They are those of A and F, and without A those of F and of the next block's F. All are about the
    state before the first of the two, on two sequences.
    """
    model = model.double()
    blocks = (model.decoder if isinstance(model, Copier) else model.trunk).blocks
    after = states(model, blocks, task.sample("validation").inputs[:2])
    if "A" in blocks[0].steps:
        pairs = [(block.steps["A"], block.steps["M" if "M" in block.steps else "F"], x)
                 for block, x in zip(blocks, after, strict=False)]
    else:
        pairs = [(one.steps["F"], other.steps["F"], x)
                 for one, other, x in zip(blocks, blocks[1:], after, strict=False)]
    return {"commutator": [_commutator(*pair) for pair in pairs]}


def _commutator(first: nn.Module, second: nn.Module, x: Tensor) -> float:
    one, two = (torch.stack([jacobian(step, each[None]) for each in x]) - torch.eye(x[0].numel())
                for step in (first, second))
    norms = one.square().sum((-1, -2)) * two.square().sum((-1, -2))
    bracket = (one @ two - two @ one).square().sum((-1, -2))
    return (bracket.sum() / norms.sum()).sqrt().log10().item()


def small() -> list[Arm]:
    budget, protocol = Budget(steps=200, evaluate_every=50), Protocol.brief()
    copiers = {kind: partial(Copier, kind) for kind in KINDS}
    mlps = {"MLP": "F", "MLP, convolution": "CF", "MLP, messages": "FG"}
    triangles = {"edges": partial(text_model, "full"),
                 "edges, wide": partial(text_model, "full", hidden=128 + 16),
                 "edges and triangles": partial(text_model, "full", triangles=True)}
    return [*comparison("copy", copiers, COPY, Budget(steps=300, batch=32, evaluate_every=50),
                        protocol, measure=partial(commutators, COPY)),
            *comparison("mlps", {name: partial(text_model, kind) for name, kind in mlps.items()},
                        TEXT, budget, protocol, measure=partial(commutators, TEXT)),
            *comparison("triangles", triangles, TEXT, budget, protocol)]


STUDY = Study("gt_parts", "Listing 2's decoder, residual MLPs with transport, and triangles: what "
              "does each gain?", {"cpu": small})
