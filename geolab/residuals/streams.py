"""x ← H x + b ⊗ F(norm aᵀx): the step of every residual over n parallel streams of full width.

A sublayer reads one vector aᵀx = Σ aᵢ xᵢ, its output goes to stream i with weight bᵢ, and H mixes
the streams in between. The residuals of this kind differ in where a, b and H come from, and in
which matrices H may be.

Legend: B batch, T positions, D width, n streams.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from geolab.checks import require_count
from geolab.operators import stream_mix_write, stream_read
from geolab.operators.joined import apart
from geolab.operators.streams import Norm
from geolab.residuals.base import Normed, Residual, Sublayer, untouched


class StreamCoefficients(NamedTuple):
    """The coefficients of the n streams of each token. Probes take the spectrum of `mix`."""

    read: Tensor   # a: (B, T, n)
    write: Tensor  # b: (B, T, n)
    mix: Tensor    # H: (B, T, n, n), row i for new stream i, column j for old stream j


class Unwritten(NamedTuple):
    """A state H X + b ⊗ h before it is written, so that the next sublayer can write and read it at
    once.
    """

    x: Tensor       # X: (B, T, n, D)
    update: Tensor  # h: (B, T, D)
    given: Tensor | tuple[Tensor, Tensor]  # H and b; the rows of H above b, where one operator made
    #                                        them; b alone, (B, T, 1, n), where H = I

    def written(self) -> Tensor:
        """(B, T, n, D)."""
        return stream_mix_write(self.x, *self.apart(), self.update)

    def apart(self) -> tuple[Tensor, Tensor]:
        """H, (B, T, n, n), and b, (B, T, n)."""
        return self.given if isinstance(self.given, tuple) else apart(self.given)

    def together(self) -> Tensor:
        """The rows of H above b, (B, T, n + 1, n), or b alone."""
        if isinstance(self.given, tuple):
            mix, write = self.given
            return torch.cat([mix, write.unsqueeze(-2)], dim=-2)
        return self.given


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
        read, write, mix = self.coefficients(state)
        norm, f = norm_and_rest(sublayer)
        return stream_mix_write(state, mix, write, f(stream_read(state, read, norm=norm)))

    @abstractmethod
    def coefficients(self, state: Tensor) -> StreamCoefficients:
        """a, b and H at a state (B, T, n, D)."""

    def reduce(self, state: Tensor) -> Tensor:
        """(B, T, n, D) -> (B, T, D), or (B, T, n D) where it was split."""
        return state.flatten(-2) if self.ends == "split" else state.mean(-2)


def joined_step(join: Callable[..., tuple[Tensor, Tensor, Tensor]], state: Tensor | Unwritten,
                sublayer: Sublayer) -> Unwritten:
    """A sublayer's step without its last write, from a state that is written or not.

    join(x, given, update, norm) writes the state and reads it: it returns Z, u, and the rows of the
    next H above b.
    """
    x, given, update = state, None, None
    if isinstance(state, Unwritten):
        x, given, update = state.x, state.together(), state.update
    norm, f = norm_and_rest(sublayer)
    z, u, made = join(x, given, update, norm)
    return Unwritten(z, f(u), made)


def norm_and_rest(sublayer: Sublayer) -> tuple[Norm | None, Sublayer]:
    """The norm and F of a sublayer x -> F(norm x), so that the pass that reads x takes the norm.

    Of a plain function, of another norm than PyTorch's RMS norm with a weight and a guard, and
    where somebody looks at the norm: None and the sublayer itself.
    """
    norm = sublayer.norm if isinstance(sublayer, Normed) else None
    if (type(norm) is not nn.RMSNorm or norm.weight is None or norm.eps is None
            or not untouched(norm)):
        return None, sublayer
    return Norm(norm.weight, norm.eps), sublayer.f
