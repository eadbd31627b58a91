"""A residual's weights: their start, their precision beside a state of half precision, and their
decay.

    x -> W x + b, in the dtype of x

A weight starts as its module says, and again at every call of `reset_parameters`. It stays in
float32 beside a network of half precision, where the updates of a coefficient would be rounded
away, and is rounded where it meets the state, as autocast rounds it. Weight decay pulls a matrix
that multiplies features towards forgetting them. On any other weight of a residual, such as a table
of streams, a scale, a bias or a kernel, it would pull the connection itself towards zero.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from geolab.residuals.base import untouched


class Started(nn.Module):
    """A module with a weight and a bias that remembers how they start."""

    _starts: tuple[Callable[[Any], object], ...] = ()

    def start(self: "Kind", how: Callable[..., object], **options) -> "Kind":
        """Let `how(module, **options)` set the weights, now and whenever they are reset."""
        self._starts += (partial(how, **options),)
        self._starts[-1](self)
        return self

    def reset_parameters(self) -> None:
        for start in self._starts:
            start(self)


Kind = TypeVar("Kind", bound=Started)


class Linear(Started, nn.Linear):
    """W x + b in the dtype of x; without x, W and b. Arguments: as for nn.Linear, which sets W and
    b at first.
    """

    def reset_parameters(self) -> None:
        nn.Linear.reset_parameters(self)  # first, since the seeds of stored runs count its draws
        super().reset_parameters()

    def forward(self, x: Tensor | None = None) -> Tensor | tuple[Tensor, Tensor]:
        if x is None:
            return self.weight, self.bias
        bias = None if self.bias is None else self.bias.to(x.dtype)
        return F.linear(x, self.weight.to(x.dtype), bias)


class LayerNorm(nn.LayerNorm):
    """A layer norm in float32 at least, whose bias starts at a number; without x, its weights."""

    def __init__(self, width: int, bias: float = 0.0):
        self._bias = bias
        super().__init__(width)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        nn.init.constant_(self.bias, self._bias)

    def forward(self, x: Tensor | None = None) -> Tensor | tuple[Tensor, Tensor]:
        if x is None:
            return self.weight, self.bias
        dtype = torch.promote_types(x.dtype, torch.float32)
        return F.layer_norm(x.to(dtype), self.normalized_shape, self.weight.to(dtype),
                            self.bias.to(dtype), self.eps)


def own(*parts: nn.Module) -> bool:
    """Return whether these parts are as the residual made them, so that they give their weights
    without x: no adapter or quantised weight has taken their place, and nobody looks at them.
    """
    return all(type(part) in (Linear, LayerNorm) and type(part.weight) is nn.Parameter
               and untouched(part, called=True) for part in parts)


class Weight(nn.Module):
    """A weight as a module: a call of the module returns it.

    Offloading, sharding and parametrisations act where a module is called. So a weight is such a
    module if `expand` or `reduce` reads it, which run outside `forward`, or if it is cut or scaled
    before it is multiplied.

    Arguments:
        shape: the shape of the weight.
        how: sets it, in place.
        decays: whether it multiplies features.
    """

    def __init__(self, *shape: int, how: Callable[[Tensor], object], decays: bool = False):
        super().__init__()
        self._how, self.decayed = how, ("weight",) if decays else ()
        self.weight = nn.Parameter(torch.empty(shape))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        self._how(self.weight)

    def extra_repr(self) -> str:
        return str(tuple(self.weight.shape))

    def forward(self) -> Tensor:
        return self.weight


# ---------------------------------------------------------------- starts

@torch.no_grad()
def put(weight: Tensor, value: Tensor) -> None:
    """Set a weight to a value."""
    weight.copy_(value)


def normal(layer: nn.Linear, std: float, bias: float = 0.0) -> None:
    """N(0, std²) for every entry of W, and b a number."""
    nn.init.normal_(layer.weight, std=std)
    if layer.bias is not None:
        nn.init.constant_(layer.bias, bias)


def zero(layer: nn.Linear, bias: float = 0.0) -> None:
    """W = 0, and b a number."""
    nn.init.zeros_(layer.weight)
    if layer.bias is not None:
        nn.init.constant_(layer.bias, bias)


def normal_matrix(weight: Tensor, std: float) -> None:
    """N(0, std²), after the draws that nn.Linear makes."""
    as_linear(weight)  # overwritten, but the seeds of stored runs count these draws
    nn.init.normal_(weight, std=std)


def zero_matrix(weight: Tensor) -> None:
    """Zeros, after the draws that nn.Linear makes."""
    as_linear(weight)  # overwritten, but the seeds of stored runs count these draws
    nn.init.zeros_(weight)


def as_linear(weight: Tensor) -> None:
    """The draws of nn.Linear's own start."""
    nn.init.kaiming_uniform_(weight, a=5**0.5)


def matrix(inputs: int, outputs: int, std: float) -> Weight:
    """A matrix with entries N(0, std²), to be folded with others before it meets a token."""
    return Weight(outputs, inputs, how=partial(normal_matrix, std=std), decays=True)


def small_linear(inputs: int, outputs: int) -> Linear:
    """Weights N(0, 0.02²) and zero biases, as the published code starts every generator."""
    return Linear(inputs, outputs).start(normal, std=0.02)
