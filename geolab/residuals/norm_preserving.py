"""x ← α ⊙ x + β ⊙ norm F(norm x), α² + β² = 1: a step that keeps the size of the state.

Where x and norm F have mean square 1 and nothing in common, the new state has mean square 1 too.
The plain sum grows instead, by 1 at every such step.

    Beam         β = 1/√k at summand k; the embedding is summand 1, and sublayer 0 writes summand 2
    Muse-Spark   β = σ(w / τ), learned per feature

The forms are those of `transformers`: models/beam and models/muse_spark. In Beam's, the state is
the sum of all k summands over √k, which is the plain sum up to a factor that the next norm undoes.
Beam's norm of F has a weight per feature; that of Muse-Spark has none.
"""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from geolab.checks import require_number, require_option
from geolab.residuals.base import Residual, Sublayer


class NormPreserving(Residual):
    """x ← α ⊙ x + β ⊙ norm F(norm x), α² + β² = 1.

    Arguments:
        share: where β comes from: "learned" (Muse-Spark) or "depth" (Beam).
        temperature: τ.
        start: w before training. `transformers` draws it around 0, where β = 1/2.
        floor: α² is at least this, so that a learned share never loses the state.
        eps: the guard of the norm of F.
    Raises: ValueError for another share, a temperature that isn't positive, a floor that isn't
        between 0 and 1, or an eps below 0.
    """

    spectrum = "αᵢ, between 0 and 1, one per feature"

    def __init__(self, width: int, index: int = 0, count: int = 1, *, share: str = "learned",
                 temperature: float = 0.3, start: float = 0.0, floor: float = 1e-3,
                 eps: float = 1e-6):
        super().__init__(width, index, count)
        require_option("share", share, ("learned", "depth"))
        require_number("temperature", temperature, low=0, strict=True)
        require_number("start", start)
        require_number("floor", floor, low=0, high=1)
        require_number("eps", eps, low=0)
        self.share, self.temperature, self.start = share, temperature, start
        self.floor, self.eps, self.summand = floor, eps, index + 2
        self.weight = nn.Parameter(torch.empty(width))  # w, or the weight of the norm
        self.start_own()

    @classmethod
    def idle(cls, options: Mapping[str, Any]) -> dict[str, str]:
        if options["share"] == "learned":
            return {}
        return dict.fromkeys(("temperature", "start", "floor"), f"share={options['share']!r}")

    def start_own(self) -> None:
        nn.init.constant_(self.weight, self.start if self.share == "learned" else 1.0)

    def forward(self, state: Tensor, sublayer: Sublayer) -> Tensor:
        alpha, write = self.scales(state.dtype)
        update = sublayer(state)
        return alpha * state + write * F.rms_norm(update, update.shape[-1:], eps=self.eps)

    def scales(self, dtype: torch.dtype) -> tuple[Tensor | float, Tensor]:
        """α, and β times the weight of the norm: (D), or a number for all features."""
        if self.share == "depth":
            k = self.summand
            return (1 - 1 / k) ** 0.5, (self.weight / k ** 0.5).to(dtype)
        w = self.weight / self.temperature
        # (1 − β)(1 + β), and not 1 − β²: near β = 1 that rounds to 0
        keep = (-w).sigmoid() * (1 + w.sigmoid())
        return keep.clamp(min=self.floor).sqrt().to(dtype), w.sigmoid().to(dtype)
