"""x_{b+1} ← B(X_Q, X_K, X_V, X_R), X_c = Σ_{j ≤ b} A_cj x_j: MUDDFormer (Xiao et al. 2025).

    A = W₂ gelu(W₁ x_b / rms x_b) + α

The block B is X_R + attention(norm X_Q, norm X_K, norm X_V), and then the MLP; the source is arXiv
2502.12170. As in DenseFormer, a block reads weighted sums of all blocks' outputs x_j and the
embedding x_0. Here the weights depend on the token, and attention's queries, keys and values and
the shortcut have a sum each. W₂ starts at 0, and α at 1 for the last output and at 0 for the
others, so the network starts as the plain one. W₁ gets its first gradient at step 1. The published
code (Caiyun-AI/MUDDFormer at fc067b2) starts so too, with N(0, 1 / D) for W₁.

Legend: B batch, T positions, D width, n blocks with the embedding, k those that a sublayer reads, C
sums.
"""

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from geolab.checks import require_count, require_option
from geolab.operators import rms_linear, stream_read, widened
from geolab.residuals.base import Sublayer, Views, takes_views
from geolab.residuals.streams import StreamCoefficients, Streams
from geolab.residuals.weights import Linear, Weight, normal_matrix, put, zero

EPS = 1e-6  # of the norm


class DepthWeights(nn.Module):
    """A of a token's last output: (B, T, D) -> (B, T, C, k).

    Arguments:
        width, ways, seen: D, C and k. There are C k hidden features, as in the published code,
            whose exit has 4 k.
    """

    def __init__(self, width: int, ways: int, seen: int):
        super().__init__()
        size = ways * seen
        self.down = Weight(size, width, how=partial(normal_matrix, std=width**-0.5), decays=True)
        self.up = Linear(size, size, bias=False).start(zero)
        self.static = Weight(ways, seen, how=_last)  # α

    def forward(self, x: Tensor) -> Tensor:
        hidden = F.gelu(rms_linear(x, self.down(), EPS))
        static = self.static()
        return widened(self.up(hidden)).unflatten(-1, static.shape) + static


class MUDDFormer(Streams):
    """Multiway dynamic dense connections.

    The state (B, T, n, D) has a place for each block's output, and zeros in those of later blocks.
    The paper's norms around the sums, and its MLPs that grow with depth, belong to the network and
    aren't here.

    Arguments:
        width: D.
        block: the sublayers of a block: attention and MLP are 2.
        ways: 4 (MUDDFormer: a sum each for queries, keys, values and the shortcut) or 1, by default
            (one sum for all: the dynamic dense connection that the paper compares with). 4 needs
            blocks that begin with attention that takes `Views`, as in `geolab.models`.
    Raises: ValueError for a block without sublayers, or another number of ways; in a step with 4
        ways, for a sublayer that takes one input.
    """

    spectrum = "1, and 0 in the place of a new block"

    def __init__(self, width: int, index: int = 0, count: int = 1, *, block: int = 2,
                 ways: int = 1):
        require_count("block", block, 1)
        require_option("ways", ways, (1, 4))
        super().__init__(width, index, count, streams=1 + math.ceil(count / block))
        self.ways = ways
        # the place that this sublayer writes to, and whether it is the first to write there
        self.slot, self.opens = 1 + index // block, index % block == 0
        if self.opens and index:  # the first block reads x_0 alone
            self.weights = DepthWeights(width, ways, self.slot)
        if self.last:
            self.exit = DepthWeights(width, 1, self.streams)

    def expand(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, n, D): x, and places for the blocks' outputs."""
        return F.pad(x.unsqueeze(-2), (0, 0, 0, self.streams - 1))

    def forward(self, state: Tensor, sublayer: Sublayer) -> Tensor:
        *reads, shortcut = self._reads(state).unbind(-2)
        x = stream_read(state, shortcut)
        if not reads:
            update = sublayer(x)
        elif takes_views(sublayer):
            update = sublayer(Views(*(stream_read(state, read) for read in reads)))
        else:
            raise ValueError("ways must be 1 around a sublayer that takes one input for its "
                             f"queries, keys and values, got {self.ways}")
        return state.select_scatter(x + update, -2, self.slot)

    def coefficients(self, state: Tensor) -> StreamCoefficients:
        """With four ways the read of a block's first sublayer is (B, T, 3, n)."""
        n, tokens = self.streams, state.shape[:-2]
        *reads, shortcut = self._reads(state).unbind(-2)
        identity = torch.eye(n, device=state.device, dtype=shortcut.dtype)
        mix = identity.expand(*tokens, n, n).select_scatter(
            shortcut.expand(*tokens, n), -2, self.slot)
        return StreamCoefficients(torch.stack(reads, -2) if reads else shortcut.expand(*tokens, n),
                                  identity[self.slot].expand(*tokens, n), mix)

    def _reads(self, state: Tensor) -> Tensor:
        """The weights of all places for each sum, the shortcut's last: (B, T, C, n)."""
        if self.first or not self.opens:
            place = 0 if self.first else self.slot
            one = torch.arange(self.streams, device=state.device) == place
            return one.to(state.dtype).expand(*state.shape[:-2], 1, -1)
        weights = self.weights(state[..., self.slot - 1, :])
        return F.pad(weights, (0, self.streams - self.slot))

    def reduce(self, state: Tensor) -> Tensor:
        """(B, T, n, D) -> (B, T, D): one sum after the last block."""
        return stream_read(state, self.exit(state[..., -1, :]).squeeze(-2))


def _last(weights: Tensor) -> None:
    """1 for the last source, in each row."""
    put(weights, torch.eye(weights.shape[-1])[-1].expand_as(weights))
