"""x_{b+1} ← B(Σ_{j ≤ b} α_j x_j), where B runs a block, x ← x + F(norm x): DenseFormer.

After each block of sublayers the network goes on with a weighted sum of all blocks' outputs and the
embedding x_0, by static learned weights (Pagliardini et al. 2024, arXiv 2402.02622).
They start at 1 for the last block and at 0 for the others, so the network starts as the plain one.

Legend: B batch, T positions, D width, n blocks with the embedding.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from geolab.checks import require_count
from geolab.operators import stream_read
from geolab.residuals.base import Sublayer
from geolab.residuals.streams import StreamCoefficients, Streams
from geolab.residuals.weights import Weight, put


class DenseFormer(Streams):
    """Depth-weighted averages, without the paper's dilation and period.

    The state (B, T, n, D) has a place for each block's output, and zeros in those of later blocks.

    Arguments:
        width: D.
        block: the sublayers of a block: attention and MLP are 2.
    Raises: ValueError for a block without sublayers.
    """

    spectrum = "1, and 0 in the place of a new block"

    def __init__(self, width: int, index: int = 0, count: int = 1, *, block: int = 2):
        require_count("block", block, 1)
        super().__init__(width, index, count, streams=1 + math.ceil(count / block))
        self.slot, self.averages = 1 + index // block, index > 0 and index % block == 0
        if self.averages:
            self.alpha = nn.Parameter(torch.empty(self.slot))
        if self.last:
            self.exit = Weight(self.streams, how=_last)
        self.start_own()

    def start_own(self) -> None:
        if self.averages:
            _last(self.alpha)

    def expand(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, n, D): x, and places for the blocks' outputs."""
        return F.pad(x.unsqueeze(-2), (0, 0, 0, self.streams - 1))

    def forward(self, state: Tensor, sublayer: Sublayer) -> Tensor:
        x = stream_read(state, self.coefficients(state).read)
        # not by `stream_mix_write`: H would cost n² products
        return state.select_scatter(x + sublayer(x), -2, self.slot)

    def coefficients(self, state: Tensor) -> StreamCoefficients:
        n, tokens = self.streams, state.shape[:-2]
        identity = torch.eye(n, device=state.device, dtype=state.dtype)
        if self.averages:
            read = F.pad(self.alpha.to(state.dtype), (0, n - self.slot))
        else:
            read = identity[0 if self.first else self.slot]
        mix = identity.select_scatter(read, 0, self.slot)
        return StreamCoefficients(read.expand(*tokens, n), identity[self.slot].expand(*tokens, n),
                                  mix.expand(*tokens, n, n))

    def reduce(self, state: Tensor) -> Tensor:
        """(B, T, n, D) -> (B, T, D): the average after the last block."""
        return stream_read(state, self.exit())


def _last(weights: Tensor) -> None:
    put(weights, torch.eye(len(weights))[-1])
