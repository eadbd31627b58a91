"""A generator reads, at position t, the mean of x_1 … x_t, x_t alone, or the sequence's mean.

E-MHC-Geo and its benchmark's delta baseline are published with the mean of the whole sequence:
their output at t depends on inputs after t. A residual that pools the whole sequence has `leaks =
True`.

Legend: B batch, T positions, D features.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from geolab.checks import require_option
from geolab.operators import widened
from geolab.residuals.weights import Started, normal, small_linear

POOLS = ("causal", "token", "sequence")


def pool(x: Tensor, how: str) -> Tensor:
    """Pool x for each position.

    Arguments:
        x: (B, T, D).
        how: "causal", the running mean; "token", x itself; or "sequence", the mean over all
            positions, as published. The last one reads the future.
    Returns: (B, T, D), or (B, 1, D) for "sequence": one mean for all positions.
    Raises: ValueError for another `how`.
    """
    require_option("pool", how, POOLS)
    if how == "token":
        return x
    if how == "sequence":  # not x.mean(): its gradient would be written out for every position
        return x.sum(dim=1, keepdim=True) / x.shape[1]
    dtype = torch.promote_types(x.dtype, torch.float32)  # half precision can't sum 1000 positions
    count = torch.arange(1, x.shape[1] + 1, device=x.device, dtype=dtype)
    return (x.cumsum(dim=1, dtype=dtype) / count[:, None]).to(x.dtype)


class Hidden(nn.Module):
    """Pool, Linear, GELU: (B, T, inputs) -> (B, T or 1, hidden).

    Arguments:
        inputs, hidden: numbers of features.
        pool: as in `pool`.
        normalise: whether to layer-norm the pooled features. This norm has no weight, because the
            linear map that follows would absorb it.
    """

    def __init__(self, inputs: int, hidden: int, pool: str, normalise: bool = False):
        super().__init__()
        require_option("pool", pool, POOLS)
        self.pool, self.normalise, self.down = pool, normalise, small_linear(inputs, hidden)

    def forward(self, x: Tensor) -> Tensor:
        if self.normalise:
            return F.gelu(self.down(F.layer_norm(pool(x, self.pool), x.shape[-1:])))
        if self.pool == "causal":  # a mean commutes with a linear map, and has fewer features after
            return F.gelu(pool(self.down(x), self.pool))
        return F.gelu(self.down(pool(x, self.pool)))


class Generator(nn.Sequential):
    """Pool, Linear, GELU, Linear: one pair of maps for all numbers of an operator.

    The maps may run under autocast; the result is float32 at least.

    Arguments: as for `Hidden`, and
        outputs: how many numbers it gives; or several such counts, for nets side by side that share
            nothing, with `hidden` features each.
    """

    def __init__(self, inputs: int, hidden: int, outputs: int | Sequence[int], pool: str,
                 normalise: bool = False):
        if isinstance(outputs, int):
            super().__init__(Hidden(inputs, hidden, pool, normalise), small_linear(hidden, outputs))
        else:
            super().__init__(Hidden(inputs, len(outputs) * hidden, pool, normalise),
                             BlockDiagonal(hidden, outputs))

    def forward(self, x: Tensor) -> Tensor:
        return widened(super().forward(x))


class BlockDiagonal(Started):
    """Linear maps side by side, started like `small_linear`: (..., blocks · inputs) -> (..., sum).

    Arguments:
        inputs: features that each block reads.
        outputs: how many numbers each block gives.
    """

    decayed = ("weight",)

    def __init__(self, inputs: int, outputs: Sequence[int]):
        super().__init__()
        self.outputs = tuple(outputs)
        self.weight = nn.Parameter(torch.empty(sum(outputs), inputs))
        self.bias = nn.Parameter(torch.empty(sum(outputs)))
        self.start(normal, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        weight = torch.block_diag(*self.weight.to(x.dtype).split(self.outputs))
        return F.linear(x, weight, self.bias.to(x.dtype))
