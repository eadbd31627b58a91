"""The models around a trunk: they take vectors, tokens or features, and give predictions.

Legend: B batch, T positions, D width of the trunk.
"""

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from geolab.checks import require_count
from geolab.models.backbone import Transformer
from geolab.penalties import add_penalty
from geolab.residuals import Linear
from geolab.residuals.weights import Started, normal


def ends(trunk: nn.Module) -> int:
    """The number of features that a trunk reads and gives: its `width`, or else that of its config.
    """
    return (trunk if hasattr(trunk, "width") else trunk.config).width


class ContinuousModel(nn.Module):
    """Vectors in, vectors out: (B, T, d_in) -> (B, T, d_in), around a trunk."""

    def __init__(self, trunk: Transformer, dim: int):
        super().__init__()
        require_count("dim", dim)
        self.trunk = trunk
        self.read = Linear(dim, ends(trunk))
        self.write = Linear(ends(trunk), dim)
        for layer in (self.read, self.write):
            layer.start(normal, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        return self.write(self.trunk(self.read(x)))


class Embedding(Started, nn.Embedding):
    """Vectors of tokens, (B, T) -> (B, T, D), and scores of vectors, (B, T, D) -> (B, T, tokens).

    Both read the weight where the module is called, as offloading and sharding need it.
    """

    def reset_parameters(self) -> None:
        nn.Embedding.reset_parameters(self)
        super().reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight) if x.is_floating_point() else super().forward(x)


def small(embedding: nn.Embedding) -> None:
    nn.init.normal_(embedding.weight, std=0.02)


class TokenModel(nn.Module):
    """Tokens in, logits out: (B, T) -> (B, T, vocabulary), around a trunk.

    Input and output share one embedding, unless tied=False: then the output is a map with a bias,
    and both have PyTorch's own initialisation.
    """

    def __init__(self, trunk: nn.Module, vocabulary: int, tied: bool = True):
        super().__init__()
        require_count("vocabulary", vocabulary)
        self.trunk = trunk
        self.embedding = Embedding(vocabulary, ends(trunk))
        self.output = None if tied else nn.Linear(ends(trunk), vocabulary)
        if tied:
            self.embedding.start(small)

    def forward(self, tokens: Tensor) -> Tensor:
        h = self.trunk(self.embedding(tokens))
        return self.embedding(h) if self.output is None else self.output(h)


class PointModel(nn.Module):
    """Features in, scores out, per position: (B, T, inputs) -> (B, T, outputs), around a trunk.

    It has PyTorch's own initialisation.

    Arguments:
        reads: the trunk's further arguments besides x, such as a graph.
        penalty: `penalty(model, x, h)` is added to the loss in training, where h (B, T, D) is
            `states(x)`.
    """

    def __init__(self, trunk: nn.Module, inputs: int, outputs: int, reads: tuple = (),
                 penalty: Callable[[nn.Module, Tensor, Tensor], Tensor] | None = None):
        super().__init__()
        require_count("inputs", inputs)
        require_count("outputs", outputs)
        self.trunk, self.reads, self.penalty = trunk, reads, penalty
        self.read = nn.Linear(inputs, ends(trunk))
        self.write = nn.Linear(ends(trunk), outputs)

    def states(self, x: Tensor) -> Tensor:
        return self.trunk(self.read(x), *self.reads)

    def forward(self, x: Tensor) -> Tensor:
        h = self.states(x)
        if self.penalty is not None and self.training:
            add_penalty(self.penalty(self, x, h))
        return self.write(h)
