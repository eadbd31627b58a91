"""x ← x + F(x) (He et al. 2016, eq. 1): the residual that all others replace.

Its shortcut is the identity.
"""

from torch import Tensor

from geolab.residuals.base import Residual, Sublayer


class Additive(Residual):
    """The plain residual connection. It has no parameters."""

    spectrum = "1"

    def forward(self, state: Tensor, sublayer: Sublayer) -> Tensor:
        return state + sublayer(state)
