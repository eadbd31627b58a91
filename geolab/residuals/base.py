"""What every residual is: a state, and a step of that state around one sublayer.

    a sublayer is x -> F(norm x); the plain residual is x ← x + F(norm x)

Legend: B batch, T positions, D model width.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

Sublayer = Callable[[Tensor], Tensor]  # (B, T, D) -> (B, T, D)


class Residual(nn.Module, ABC):
    """The connection around one sublayer. The plain one is state + sublayer(state).

    A residual with a single stream keeps its state as (B, T, D) and overrides `forward` alone.
    A residual with a wider state also defines `expand`, which makes the first state, and `reduce`,
    which reads the last one. The network calls `expand` on its first residual and `reduce` on its
    last one, once each.

    A residual holds parameters and options, but no tensors of a batch: it returns what it computes.
    Options are keyword arguments of its constructor.

    Arguments:
        width: D.
        index: the place of this sublayer in the network, from 0.
        count: how many sublayers the network has.
    Attributes:
        first, last: whether this sublayer is the first or the last one of the network. Parameters
            that `expand` or `reduce` needs exist only there.
        options: the options that `make_residual` was given, by name.
    """

    reach = 1       # how many positions its own convolutions read, including the present one
    leaks = False   # whether an output depends on later inputs, as in some published forms
    lends = False   # whether another sublayer uses parameters of this one
    step: Callable[[Any, Sublayer], Any]
    spectrum = ""   # eigenvalues of what multiplies the state, with all coefficients held fixed

    def __init__(self, width: int, index: int = 0, count: int = 1):
        super().__init__()
        self.width, self.first, self.last = width, index == 0, index == count - 1
        self.options: dict[str, object] = {}

    @property
    def outer(self) -> int:
        """How many features `expand` takes and `reduce` gives: D, unless the trunk is wider."""
        return self.width

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.options.items())

    def follow(self, before: "Residual") -> None:
        """Take what this sublayer shares with the one before. A network calls it once, when made.

        What is taken stays a part of `before` alone: its parameters are counted and stored there.
        """

    def expand(self, x: Tensor) -> Tensor:
        """(B, T, D) -> state, at the network's entry."""
        return x

    @abstractmethod
    def forward(self, state: Tensor, sublayer: Sublayer) -> Tensor:
        """state -> state, through one sublayer."""

    def joins(self, state: Tensor) -> bool:
        """Whether kernels join neighbours at such a state: `step` leaves the write to the next."""
        return False

    def observe(self, state: Tensor, sublayer: Sublayer) -> tuple:
        """The coefficients of this step as a named tuple, for the probes; () where it has none."""
        return self.coefficients(state) if hasattr(self, "coefficients") else ()

    def reduce(self, state: Tensor) -> Tensor:
        """state -> (B, T, D), at the network's exit."""
        return state


@dataclass  # not frozen: what makes one is then not compiled by PyTorch 2.11
class Normed:
    """The sublayer x -> F(norm x), in two parts, for a residual that puts a map between them.

    Arguments:
        f: F, (B, T, D) -> (B, T, D).
        norm: the norm in front of F, or None for no norm.
        fused: whether F also takes the two maps of `between` as `f(x, before, after)`, because it
            can multiply them into its own matrices.
    """

    f: Callable[..., Tensor]
    norm: Callable[[Tensor], Tensor] | None = None
    fused: bool = False

    def __call__(self, x: Tensor) -> Tensor:
        return self.f(x if self.norm is None else self.norm(x))

    def between(self, x: Tensor, before: Tensor, after: Tensor) -> Tensor:
        """after F(before norm x), with (D, D) matrices `before` and `after`."""
        x = x if self.norm is None else self.norm(x)
        if self.fused:
            return self.f(x, before, after)
        return F.linear(self.f(F.linear(x, before)), after)


def between(sublayer: Sublayer, x: Tensor, before: Tensor, after: Tensor) -> Tensor:
    """after F(before norm x), where the sublayer is x -> F(norm x).

    A plain function doesn't say what its norm is, so all of it counts as F: the result is
    after F(before x). `Normed(F, norm)` is the sublayer that says it.

    Arguments:
        x: (B, T, D).
        before, after: (D, D) matrices.
    Returns: (B, T, D).
    """
    sublayer = sublayer if isinstance(sublayer, Normed) else Normed(sublayer)
    return sublayer.between(x, before, after)
