"""Residuals that MGT's paper describes and doesn't build:

    TokenRate    X ← X + β (G ⊙ F − α X), one β per token, as its text has it
    Projected    X ← X + β ⊙ (G ⊙ F − α Proj_k X), its equation 7 before it is simplified
    MHCDelta     X ← H X, then xᵢ ← xᵢ + βᵢ (v − kᵀ xᵢ) k: mixing streams, and a delta update

Legend: B batch, T positions, D width, n streams.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from geolab.operators import stream_read, unit_direction
from geolab.residuals.base import Sublayer
from geolab.residuals.delta import Delta
from geolab.residuals.mgt import MGT, MGTCoefficients
from geolab.residuals.mhc import MHC


class TokenRate(MGT):
    """MGT with one β per token: the mean over the features of the β of `MGT`.

    Raises: ValueError for erase=False, without which there is no β.
    """

    spectrum = "1 − α β"
    rates = True

    def coefficients(self, state: Tensor) -> MGTCoefficients:
        found = super().coefficients(state)
        return found._replace(beta=found.beta.mean(-1, keepdim=True).expand_as(found.beta))


class ProjectedCoefficients(NamedTuple):
    """The coefficients that `Projected` computes from a state and its sublayer's output."""

    beta: Tensor       # β: (B, T, D)
    alpha: Tensor      # α: (1,)
    direction: Tensor  # k: (B, T, D)

    @property
    def shortcut(self) -> Tensor:
        """I − α β ⊙ k kᵀ, (B, T, D, D)."""
        k = self.direction
        erased = self.alpha * (self.beta * k).unsqueeze(-1) * k.unsqueeze(-2)
        return torch.eye(k.shape[-1]).to(k) - erased


class Projected(MGT):
    """X ← X + β ⊙ (V − k kᵀ X), V = G ⊙ F and k = V / |V|: in MGT, α X stands for k kᵀ X.

    α multiplies the projection, and is 1 at the start, as in the equation.

    Raises: ValueError for erase=False, without which there is no β.
    """

    spectrum = "1, and 1 − α kᵀ(β ⊙ k)"
    rates = True

    def __init__(self, width: int, index: int = 0, count: int = 1, **options):
        super().__init__(width, index, count, **{"alpha_init": 1.0} | options)

    def forward(self, state: Tensor, sublayer: Sublayer) -> Tensor:
        update, (beta, alpha, k) = self._update(state, sublayer)
        change = update - alpha * (k * state).sum(-1, keepdim=True) * k
        return state + (beta * change).to(state.dtype)

    def observe(self, state: Tensor, sublayer: Sublayer) -> ProjectedCoefficients:
        return self._update(state, sublayer)[1]

    def _update(self, state: Tensor, sublayer: Sublayer) -> tuple[Tensor, ProjectedCoefficients]:
        """V, and the coefficients that multiply the state."""
        gate, beta, alpha = self.coefficients(state)
        update = sublayer(state) if gate is None else gate.to(state.dtype) * sublayer(state)
        return update, ProjectedCoefficients(beta, alpha, unit_direction(update, 1e-5))


class MHCDeltaCoefficients(NamedTuple):
    """The coefficients that `MHCDelta` computes from a state and its sublayer's output."""

    mix: Tensor        # H: (B, T, n, n)
    direction: Tensor  # k: (B, T, D)
    value: Tensor      # v: (B, T)
    beta: Tensor       # βᵢ: (B, T, n)

    @property
    def shortcut(self) -> Tensor:
        """The blocks Hᵢⱼ (I − βᵢ k kᵀ), (B, T, n D, n D)."""
        k = self.direction
        erase = torch.eye(k.shape[-1]).to(k) - self.beta[..., None, None] * (
            k.unsqueeze(-1) * k.unsqueeze(-2)).unsqueeze(-3)                    # (B, T, n, D, D)
        blocks = torch.einsum("...ij,...iab->...iajb", self.mix, erase)
        return blocks.flatten(-2).flatten(-3, -2)


class MHCDelta(MHC):
    """X ← H X, then xᵢ ← xᵢ + βᵢ (v − kᵀ xᵢ) k in each stream, with one k and v for all streams.

    H and the sublayer's input are mHC's. k is the sublayer's output and v a number per token, as
    in the delta residual, whose βᵢ = 2σ(β + bᵢ) takes mHC's write as a summand of its logit. With
    one stream this is the delta residual, and with H alone mHC without a sublayer.
    """

    spectrum = "mHC's, where βᵢ = 0; erased along k otherwise"

    def __init__(self, width: int, index: int = 0, count: int = 1, **options):
        super().__init__(width, index, count, **options)
        self.delta = Delta(width)

    def forward(self, state: Tensor, sublayer: Sublayer) -> Tensor:
        mix, k, v, beta = self.coefficients(state, sublayer)
        mixed = mix.to(state.dtype) @ state
        along = v.unsqueeze(-1) - (k.unsqueeze(-2) * mixed).sum(-1)            # (B, T, n)
        return mixed + ((beta * along).unsqueeze(-1) * k.unsqueeze(-2)).to(state.dtype)

    def observe(self, state: Tensor, sublayer: Sublayer) -> MHCDeltaCoefficients:
        return self.coefficients(state, sublayer)

    def coefficients(self, state: Tensor, sublayer: Sublayer) -> MHCDeltaCoefficients:
        """H, k, v and each βᵢ at a state (B, T, n, D)."""
        read, write, mix = super().coefficients(state)
        k, v, beta = self.delta.generate(stream_read(state, read), sublayer)
        rate = 2 * ((write / 2).logit() + (beta / 2).logit().unsqueeze(-1)).sigmoid()
        return MHCDeltaCoefficients(mix, unit_direction(k, self.delta.rule.eps), v, rate)
