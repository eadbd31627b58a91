"""x ← x + attention with values λ₁ V₁ + λ₂ V: value residual learning (Zhou et al. 2024).

    V = norm x W_V in this sublayer, V₁ the V of the network's first attention

The source is arXiv 2410.17897, whose network is ResFormer. `learned=False` is the form of its
public code (Zcchill/Value-Residual-Learning, 95652f6): both λ are 0.5, queries and keys are as
always, and the first attention reads its own values. That code learns no λ. Here each attention
learns its own two, which start at these constants. An MLP has no values.

What can differ from the plain network is what attention reads. Where attention writes nothing, the
states are those of the plain network, whatever both λ are. At λ = (0, 1) they always are.

Legend: B batch, T positions, D width.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from geolab.checks import require_number, require_option
from geolab.residuals.base import Normed, Residual, Sublayer
from geolab.residuals.weights import put


class ValueCoefficients(NamedTuple):
    """The factor of the state."""

    mix: Tensor   # of x and V₁, as of two streams: (B, T, 2, 2)


class ValueResidual(Residual):
    """The plain residual, around attention whose values are joined to the first ones.

    The state (B, T, 2D) is x and V₁ side by side. Sublayers are attention and MLP in turns, as in
    `geolab.models`. V₁ isn't detached: the first layer learns by all later ones.

    Arguments:
        width: D.
        first_weight, own_weight: λ₁ and λ₂, or their start.
        learned: whether each attention but the first learns its own two.
    Raises: ValueError for a number that isn't finite; in a step, for attention that doesn't take
        values, `Normed(..., takes_values=True)`.
    """

    spectrum = "1, and 0 in the place of V₁"
    needs_values = True

    def __init__(self, width: int, index: int = 0, count: int = 1, *, first_weight: float = 0.5,
                 own_weight: float = 0.5, learned: bool = True):
        super().__init__(width, index, count)
        require_number("first_weight", first_weight)
        require_number("own_weight", own_weight)
        require_option("learned", learned, (True, False))
        self.attends, self.start = index % 2 == 0, (first_weight, own_weight)
        self.weights: nn.Parameter | None = None
        if learned and self.attends and index:
            self.weights = nn.Parameter(torch.empty(2))
        self.start_own()

    def start_own(self) -> None:
        if self.weights is not None:
            put(self.weights, torch.tensor(self.start))

    def expand(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, 2D): x, and a place for V₁."""
        return F.pad(x, (0, self.width))

    def forward(self, state: Tensor, sublayer: Sublayer) -> Tensor:
        x, first = state.chunk(2, dim=-1)
        if not self.attends:
            return torch.cat([x + sublayer(x), first], dim=-1)
        if not isinstance(sublayer, Normed) or not sublayer.takes_values:
            raise ValueError(f"the sublayer of {type(self).__name__} must be attention that takes "
                             "values, Normed(..., takes_values=True), in the places 0, 2, …, got a "
                             f"{type(sublayer).__name__} that doesn't")
        read = []  # the values of this attention

        def values(own: Tensor) -> Tensor:
            read.append(own if self.first else self._joined(own, first))
            return read[-1]

        update = sublayer(x, values)
        return torch.cat([x + update, read[0].to(x.dtype) if self.first else first], dim=-1)

    def coefficients(self, state: Tensor) -> ValueCoefficients:
        kept = torch.tensor([1.0, 0.0 if self.first else 1.0], device=state.device)
        mix = kept.diag().to(state.dtype)
        return ValueCoefficients(mix.expand(*state.shape[:2], 2, 2))

    def _joined(self, own: Tensor, first: Tensor) -> Tensor:
        """λ₁ V₁ + λ₂ V, (B, T, D), in the dtype of V."""
        of_first, of_own = self.start if self.weights is None else self.weights.to(own.dtype)
        return of_first * first.to(own.dtype) + of_own * own

    def reduce(self, state: Tensor) -> Tensor:
        """(B, T, 2D) -> (B, T, D): x."""
        return state[..., :self.width]
