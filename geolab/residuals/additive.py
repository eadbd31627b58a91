"""x ← x + F(x) (He et al. 2016, eq. 1): the residual that all others replace. Its shortcut is the identity."""

from typing import NamedTuple

import torch
from torch import Tensor

from geolab.residuals.base import Residual, Sublayer


class Nothing(NamedTuple):
    """What the additive residual computes from a state."""

    @property
    def shortcut(self) -> Tensor:
        """The identity, as one number for all features and tokens: (1, 1, 1, 1)."""
        return torch.ones(1, 1, 1, 1)


class Additive(Residual):
    """The plain residual connection. No parameters."""

    spectrum = "1"

    def forward(self, state: Tensor, sublayer: Sublayer) -> Tensor:
        return state + sublayer(state)

    def observe(self, state: Tensor, sublayer: Sublayer) -> Nothing:
        return Nothing()
