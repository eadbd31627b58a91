"""x ← α F(x) + x + B A x: LAuReL, the low-rank form (Menghani et al. 2024, arXiv 2411.07501).

The shortcut I + B A is learned, and differs from the identity by a matrix of the rank r. It starts
as the identity, since B starts at 0, and α at 1: the network starts as the plain one.

Legend: D width, r rank.
"""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from geolab.checks import require_count
from geolab.residuals.base import Residual, Sublayer
from geolab.residuals.weights import Weight, normal_matrix


class LAuReL(Residual):
    """x ← α F(x) + x + B A x, with A (r, D) and B (D, r).

    Arguments:
        width: D.
        rank: r.
    Raises: ValueError for a rank below 1.
    """

    spectrum = "1, and r free"

    def __init__(self, width: int, index: int = 0, count: int = 1, *, rank: int = 16):
        super().__init__(width, index, count)
        require_count("rank", rank, 1)
        self.alpha = nn.Parameter(torch.empty(1))
        self.down = Weight(rank, width, how=partial(normal_matrix, std=width**-0.5), decays=True)
        self.up = Weight(width, rank, how=nn.init.zeros_, decays=True)
        self.start_own()

    def start_own(self) -> None:
        nn.init.ones_(self.alpha)

    def forward(self, state: Tensor, sublayer: Sublayer) -> Tensor:
        down, up, alpha = (w.to(state.dtype) for w in (self.down(), self.up(), self.alpha))
        return state + F.linear(F.linear(state, down), up) + alpha * sublayer(state)
