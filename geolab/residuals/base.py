"""What every residual is: a state, and a step of that state around one sublayer.

Legend: B batch, T positions, D model width.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

from torch import Tensor, nn

Sublayer = Callable[[Tensor], Tensor]  # (B, T, D) -> (B, T, D), normalised inside: F(norm(x))


class Residual(nn.Module, ABC):
    """The connection around one sublayer. The plain one is state + sublayer(state).

    A single-stream residual keeps its state as (B, T, D) and overrides `forward` alone. One with a wider state
    says in `expand` how the state starts and in `reduce` how it is read; both are called once a network.

    A residual holds parameters and no tensors of a batch: what it computes, it returns.
    """

    def __init__(self, width: int):
        super().__init__()
        self.width = width

    def expand(self, x: Tensor) -> Tensor:
        """(B, T, D) -> state, at the network's entry."""
        return x

    @abstractmethod
    def forward(self, state: Tensor, sublayer: Sublayer) -> Tensor:
        """state -> state, through one sublayer."""

    def reduce(self, state: Tensor) -> Tensor:
        """state -> (B, T, D), at the network's exit."""
        return state
