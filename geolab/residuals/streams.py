"""x ← H x + b ⊗ F(norm aᵀx): the step of every residual over n parallel streams of full width.

A sublayer reads one vector aᵀx = Σ aᵢ xᵢ, its output goes to stream i with weight bᵢ, and H mixes
the streams in between. The residuals of this kind differ in where a, b and H come from, and in
which matrices H may be.

Legend: B batch, T positions, D width, n streams.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from geolab.checks import require_count
from geolab.operators import post_norm, stream_read
from geolab.operators.streams import Unwritten
from geolab.residuals.base import Normed, Residual, Sublayer, parted, steps_as


class StreamCoefficients(NamedTuple):
    """The coefficients of the n streams of each token. Probes take the spectrum of `mix`."""

    read: Tensor   # a: (B, T, n)
    write: Tensor  # b: (B, T, n)
    mix: Tensor    # H: (B, T, n, n), row i for new stream i, column j for old stream j


class Streams(Residual):
    """State (B, T, n, D): copies of x at the entry, their mean at the exit.

    A subclass gives the coefficients. With `ends` = "split" the trunk is as wide as all streams
    together: the n D features of x are the streams, at the entry and at the exit.

    Arguments:
        width: D, of the sublayer and of every stream.
        streams: n.
        fewest: the smallest n for which the subclass has a meaning.
    Raises: ValueError for fewer streams than that.
    """

    ends = "copied"

    def __init__(self, width: int, index: int, count: int, *, streams: int, fewest: int = 1):
        super().__init__(width, index, count)
        require_count("streams", streams, fewest)
        self.streams = streams

    @property
    def outer(self) -> int:
        return self.streams * self.width if self.ends == "split" else self.width

    def expand(self, x: Tensor) -> Tensor:
        """(B, T, D), or (B, T, n D) where it is split, -> (B, T, n, D)."""
        if self.ends == "split":
            return x.unflatten(-1, (self.streams, -1))
        return x.unsqueeze(-2).repeat_interleave(self.streams, dim=-2)

    def forward(self, state: Tensor, sublayer: Sublayer) -> Tensor:
        return self.unwritten(state, parted(sublayer)).written()

    def normed(self, state: Tensor, sublayer: Sublayer,
               norm: Callable[[Tensor], Tensor]) -> Tensor:
        if not steps_as(self, Streams):
            return super().normed(state, sublayer, norm)
        return post_norm(self.unwritten(state, parted(sublayer)), norm)

    def unwritten(self, state: Tensor, sublayer: Normed) -> Unwritten:
        """Do the step of `forward` without its write."""
        if self.joins and "coefficients" not in vars(self):  # a probe may put others in their place
            return self.step(state, sublayer)
        read, write, mix = self.coefficients(state)
        u = stream_read(state, read, norm=sublayer.norm)
        return Unwritten(state, sublayer.f(u), (mix, write))

    @abstractmethod
    def coefficients(self, state: Tensor) -> StreamCoefficients:
        """a, b and H at a state (B, T, n, D)."""

    def reduce(self, state: Tensor) -> Tensor:
        """(B, T, n, D) -> (B, T, D), or (B, T, n D) where it was split."""
        return state.flatten(-2) if self.ends == "split" else state.mean(-2)
