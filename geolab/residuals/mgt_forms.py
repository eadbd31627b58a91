"""The residuals that MGT's paper speaks of and doesn't build.

    TokenRate        MGT with one β per token, as its text has it; its equation has one per feature
    Projected        MGT's equation 7 before it is simplified: X + β ⊙ (G ⊙ F − Proj_k X)
    MHCDelta         hyper-connections with doubly stochastic mixing, whose write is a delta update

Legend: B batch, T positions, D width, n streams.
"""

from torch import Tensor

from geolab.operators import stream_read, unit_direction
from geolab.residuals.base import Sublayer
from geolab.residuals.delta import Delta
from geolab.residuals.mgt import MGT, MGTCoefficients
from geolab.residuals.mhc import MHC


class TokenRate(MGT):
    """MGT whose β is the mean over the features of what `MGT` has there: one number per token."""

    def coefficients(self, state: Tensor) -> MGTCoefficients:
        found = super().coefficients(state)
        return found._replace(beta=found.beta.mean(-1, keepdim=True).expand_as(found.beta))


class Projected(MGT):
    """X ← X + β ⊙ (V − k kᵀ X), V = G ⊙ F and k = V / |V|: what α X stands for in MGT.

    α multiplies the projection, and is 1 at the start, as in the equation.
    """

    def __init__(self, width: int, index: int = 0, count: int = 1, **options):
        super().__init__(width, index, count, **{"alpha_init": 1.0} | options)

    def forward(self, state: Tensor, sublayer: Sublayer) -> Tensor:
        gate, beta, alpha = self.coefficients(state)
        update = sublayer(state) if gate is None else gate * sublayer(state)
        k = unit_direction(update, 1e-5)
        return state + beta * (update - alpha * (k * state).sum(-1, keepdim=True) * k)


class MHCDelta(MHC):
    """X ← H X, then xᵢ ← xᵢ + βᵢ (v − kᵀ xᵢ) k in each stream, with one k and v for all streams.

    H and what the sublayer reads are mHC's. k is the sublayer's output and v a number per token, as
    in the delta residual, whose βᵢ = 2σ(β + bᵢ) takes mHC's write as a summand of its logit. With
    one stream this is the delta residual, and with H alone mHC without a sublayer.
    """

    def __init__(self, width: int, index: int = 0, count: int = 1, **options):
        super().__init__(width, index, count, **options)
        self.delta = Delta(width)

    def forward(self, state: Tensor, sublayer: Sublayer) -> Tensor:
        read, write, mix = self.coefficients(state)
        k, v, beta = self.delta.generate(stream_read(state, read), sublayer)
        mixed = mix @ state
        k = unit_direction(k, self.delta.eps).unsqueeze(-2)                    # (B, T, 1, D)
        rate = 2 * ((write / 2).logit() + (beta / 2).logit().unsqueeze(-1)).sigmoid()
        along = v.unsqueeze(-1) - (k * mixed).sum(-1)                          # (B, T, n)
        return mixed + (rate * along).unsqueeze(-1) * k
