"""x ← x + F(x) (He et al. 2016, eq. 1): the residual that all others replace.

Its shortcut is the identity.
"""

from collections.abc import Callable

from torch import Tensor

from geolab.operators import post_norm
from geolab.operators.streams import Unwritten
from geolab.residuals.base import Residual, Sublayer, steps_as


class Additive(Residual):
    """The plain residual connection. It has no parameters."""

    spectrum = "1"

    def forward(self, state: Tensor, sublayer: Sublayer) -> Tensor:
        return state + sublayer(state)

    def normed(self, state: Tensor, sublayer: Sublayer,
               norm: Callable[[Tensor], Tensor]) -> Tensor:
        if not steps_as(self, Additive):
            return super().normed(state, sublayer, norm)
        return post_norm(Unwritten(state, sublayer(state), None), norm)
