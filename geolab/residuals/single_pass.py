"""x ← H x + b ⊗ F(norm u), u ← aᵀx: mHC whose read is one sublayer old (single-pass mHC).

DeepSeek-V4.1 reads the streams with the weights a that the sublayer before made of its own state.
So what forms the new streams forms the next sublayer's input in the same pass: the streams needn't
be complete before a is known. The equation is that of Megatron-LM's
`megatron/core/transformer/hyper_connection.py`.

The state holds the streams and, as its last row, the input u of the next sublayer. At the entry u
is the first stream, and at the exit u itself leaves: there is no readout of its own. A sublayer's a
starts by reading the stream that the next sublayer has as its own.

Legend: B batch, T positions, D width, n streams.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from geolab.operators import constrained_join, stream_read
from geolab.operators.streams import Unwritten
from geolab.residuals.base import Normed, Sublayer
from geolab.residuals.constrained import ConstrainedStreams


class SinglePassCoefficients(NamedTuple):
    """a for the next sublayer, b and H of each token."""

    read: Tensor   # a: (B, T, n)
    write: Tensor  # b: (B, T, n)
    mix: Tensor    # H: (B, T, n, n)

    @property
    def shortcut(self) -> Tensor:
        """H above aᵀH, and a column of zeros: (B, T, n + 1, n + 1)."""
        through = torch.cat([self.mix, stream_read(self.mix, self.read).unsqueeze(-2)], dim=-2)
        return torch.cat([through, torch.zeros_like(through[..., :1])], dim=-1)


class Unread(NamedTuple):
    """A state whose streams aren't written, and whose u isn't read of them, so that the next
    sublayer can do both.
    """

    streams: Unwritten
    read: Tensor        # a: (B, T, n)

    def written(self) -> Tensor:
        """(B, T, n + 1, D)."""
        streams = self.streams.written()
        return torch.cat([streams, stream_read(streams, self.read).unsqueeze(-2)], dim=-2)


class SinglePass(ConstrainedStreams):
    """mHC that reads with the weights of the sublayer before.

    Arguments:
        width, streams, iterations, order, diagonal, start, without, mix, blocks, eps, write_eps,
            norm_eps: as for `MHC`.
    """

    spectrum = "0, 1, the others inside the unit disc"
    ahead = 1

    def expand(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, n + 1, D)."""
        return x.unsqueeze(-2).repeat_interleave(self.streams + 1, dim=-2)

    def forward(self, state: Tensor, sublayer: Sublayer) -> Tensor:
        return self._started(state, sublayer).written()

    def step(self, state: Tensor | Unread, sublayer: Normed) -> Unread:
        """Do the step of `forward` without its last write and read, from a state that is written or
        not.
        """
        if not isinstance(state, Unread):
            return self._started(state, sublayer)
        z, u, given, read = constrained_join(state.streams, self.maps(), self.maps.form, state.read,
                                             sublayer.norm)
        return Unread(Unwritten(z, sublayer.f(u), given), read)

    def _started(self, state: Tensor, sublayer: Sublayer) -> Unread:
        read, write, mix = self.coefficients(state)
        return Unread(Unwritten(state[..., :-1, :], sublayer(state[..., -1, :]), (mix, write)),
                      read)

    def coefficients(self, state: Tensor) -> SinglePassCoefficients:
        return SinglePassCoefficients(*self.maps.at(state[..., :-1, :].flatten(-2)))

    def reduce(self, state: Tensor) -> Tensor:
        return state[..., -1, :]
