"""x ← x + b ⊗ F(Σᵢ gᵢ ⊙ x̂ᵢ / n): streams that are never mixed, with a read gate for each feature.

This is the residual of Qwen4-Exp (`models/qwen4_exp/modeling_qwen4_exp.py` in transformers). Each
stream is normalised by itself, x̂ᵢ = (1 + wᵢ) ⊙ xᵢ / rms xᵢ, and all gates read all of x̂:

    g = σ(U silu(V x̂ / n)),    b = 2σ(W x̂ / n).

The network leaves through one more read, with its own w, U and V. There is no norm after a read in
Qwen4-Exp. A sublayer that has one, as those of our backbone do, keeps it.

Streams that start as copies are told apart by random U, V and W. So step 0 is only near the plain
network.

Legend: B batch, T positions, D width, n streams, r rank.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from geolab.checks import require_count, require_number
from geolab.operators import gated_read, stream_write, widened
from geolab.operators.gated_read import inverse_sizes
from geolab.residuals.base import Sublayer
from geolab.residuals.streams import Streams
from geolab.residuals.weights import Linear, Weight, normal


class GatedStreamCoefficients(NamedTuple):
    """The factors of each feature of each stream when it is read, and b."""

    read: Tensor   # gᵢ ⊙ (1 + wᵢ) / (n rms xᵢ): (B, T, n, D)
    write: Tensor  # b: (B, T, n)

    @property
    def shortcut(self) -> Tensor:
        """The identity of the streams, for all tokens: (1, 1, n, n)."""
        return torch.eye(self.write.shape[-1]).to(self.write).expand(1, 1, -1, -1)


class ReadGate(nn.Module):
    """What is read of a state (B, T, n, D), (B, T, D), and its x̂, (B, T, n D).

    Arguments:
        streams, width, rank: n, D and r.
        std: the standard deviation of U's and V's entries at the start.
        eps: the guard of the norm.
    """

    def __init__(self, streams: int, width: int, rank: int, std: float, eps: float):
        super().__init__()
        self.streams, self.eps = streams, eps
        self.norm = Weight(streams, width, how=nn.init.zeros_)
        self.down = Linear(streams * width, rank, bias=False).start(normal, std=std)
        self.up = Linear(rank, streams * width, bias=False).start(normal, std=std)

    def forward(self, state: Tensor) -> tuple[Tensor, Tensor]:
        return gated_read(state, self.norm(), self.logits, self.eps)

    def weights(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """What each feature of the state is multiplied by, (B, T, n, D), and x̂."""
        scale = inverse_sizes(state, self.norm(), self.eps)
        normed = (scale * widened(state)).to(state.dtype).flatten(-2)
        gate = self.logits(normed).sigmoid()
        return gate.view_as(state) * scale / self.streams, normed

    def logits(self, normed: Tensor) -> Tensor:
        """Those of the gates, of x̂: (B, T, n D) both."""
        return self.up(F.silu(self.down(normed) / self.streams))


class GatedStreams(Streams):
    """Streams with a gate for each feature where they are read and for each stream where written.

    Arguments:
        width: D.
        streams: n, at least 2; Qwen4-Exp takes 4.
        rank: r; Qwen4-Exp takes 320 at D = 2048.
        std: the standard deviation of U's, V's and W's entries at the start.
        eps: the guard of the norms. A stream whose square float32 can't hold, of numbers above
            about 1e19, gives NaN where kernels run.
    """

    spectrum = "1"

    def __init__(self, width: int, index: int = 0, count: int = 1, *, streams: int = 4,
                 rank: int = 32, std: float = 0.02, eps: float = 1e-6):
        super().__init__(width, index, count, streams=streams, fewest=2)
        require_count("rank", rank)
        require_number("std", std, 0)
        require_number("eps", eps, 0)
        self.read = ReadGate(streams, width, rank, std, eps)
        self.write = Linear(streams * width, streams, bias=False).start(normal, std=std)
        if self.last:
            self.exit = ReadGate(streams, width, rank, std, eps)

    def forward(self, state: Tensor, sublayer: Sublayer) -> Tensor:
        if "coefficients" in vars(self):  # a probe has put others in their place
            read, write = self.coefficients(state)
            u = (read * state).sum(-2).to(state.dtype)
        else:
            u, normed = self.read(state)
            write = self.writes(normed)
        return stream_write(state, write, sublayer(u))

    def coefficients(self, state: Tensor) -> GatedStreamCoefficients:
        read, normed = self.read.weights(state)
        return GatedStreamCoefficients(read, self.writes(normed))

    def writes(self, normed: Tensor) -> Tensor:
        """b, (B, T, n), of x̂."""
        return 2 * (self.write(normed) / self.streams).sigmoid()

    def reduce(self, state: Tensor) -> Tensor:
        return self.exit(state)[0]
