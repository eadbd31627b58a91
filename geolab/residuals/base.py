"""What every residual is: a state, and a step of that state around one sublayer.

Legend: B batch, T positions, D model width.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor, nn

Sublayer = Callable[[Tensor], Tensor]  # (B, T, D) -> (B, T, D): F(norm(x)), or F(x) where the norm comes after


class Residual(nn.Module, ABC):
    """The connection around one sublayer. The plain one is state + sublayer(state).

    A single-stream residual keeps its state as (B, T, D) and overrides `forward` alone. One with a wider state
    says in `expand` how the state starts and in `reduce` how it is read. The network calls `expand` on its first
    residual and `reduce` on its last, once each.

    A residual holds parameters and no tensors of a batch: what it computes, it returns.

    Arguments:
        width: D.
        index, count: which sublayer of the network this one is, from 0, and how many there are.
    """

    reach = 1       # how many positions its own convolutions read, the present one included
    leaks = False   # whether an output depends on inputs that come after it, as some are published
    spectrum = ""   # in words, of what the state is multiplied by while all that is computed from it is held

    def __init__(self, width: int, index: int = 0, count: int = 1):
        super().__init__()
        self.width, self.first, self.last = width, index == 0, index == count - 1
        self.before: Tensor | None = None  # (D, D) maps around F, where a residual has them, for the sublayer to apply:
        self.after: Tensor | None = None   # after F(before norm x)

    def expand(self, x: Tensor) -> Tensor:
        """(B, T, D) -> state, at the network's entry."""
        return x

    @abstractmethod
    def forward(self, state: Tensor, sublayer: Sublayer) -> Tensor:
        """state -> state, through one sublayer."""

    def observe(self, state: Tensor, sublayer: Sublayer) -> tuple:
        """What this step computes from a state, as a named tuple: for the probes. Empty where there is nothing."""
        return self.coefficients(state) if hasattr(self, "coefficients") else ()

    def reduce(self, state: Tensor) -> Tensor:
        """state -> (B, T, D), at the network's exit."""
        return state
