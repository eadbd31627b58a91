"""x ← x + α F(x): ReZero (Bachlechner et al. 2020, arXiv 2003.04887).

One learned number for each sublayer starts at 0, so each sublayer starts as the identity.
"""

import torch
from torch import Tensor, nn

from geolab.checks import require_number
from geolab.residuals.base import Residual, Sublayer


class ReZero(Residual):
    """x ← x + α F(x). The paper's blocks have no norm; the backbone's have one inside F.

    Arguments:
        start: α before training.
    Raises: ValueError for a start that isn't a finite number.
    """

    spectrum = "1"

    def __init__(self, width: int, index: int = 0, count: int = 1, *, start: float = 0.0):
        super().__init__(width, index, count)
        require_number("start", start)
        self.alpha, self.start = nn.Parameter(torch.empty(1)), start
        self.start_own()

    def start_own(self) -> None:
        nn.init.constant_(self.alpha, self.start)

    def forward(self, state: Tensor, sublayer: Sublayer) -> Tensor:
        return state + self.alpha.to(state.dtype) * sublayer(state)
