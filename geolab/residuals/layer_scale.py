"""x ← x + s ⊙ F(x): LayerScale (Touvron et al. 2021, CaiT), one learned number per feature.

An experiment with a gate on the sublayer's output needs this residual as a control.
"""

import torch
from torch import Tensor, nn

from geolab.checks import require_number
from geolab.residuals.base import Residual, Sublayer


class LayerScale(Residual):
    """x ← x + s ⊙ F(x).

    Arguments:
        start: s before training; CaiT takes 0.1 up to 18 blocks.
    Raises: ValueError for a start that isn't a finite number.
    """

    spectrum = "1"

    def __init__(self, width: int, index: int = 0, count: int = 1, *, start: float = 0.1):
        super().__init__(width, index, count)
        require_number("start", start)
        self.scale, self.start = nn.Parameter(torch.empty(width)), start
        self.start_own()

    def start_own(self) -> None:
        nn.init.constant_(self.scale, self.start)

    def forward(self, state: Tensor, sublayer: Sublayer) -> Tensor:
        return state + self.scale.to(state.dtype) * sublayer(state)
