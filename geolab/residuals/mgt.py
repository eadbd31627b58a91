"""X ← X + β ⊙ (G ⊙ F(LN X) − α X), the block of the Manifold-Geometric Transformer (MGT eqs 5–7, algorithm 1).

G = σ(LN(X W_gate)) scales what the sublayer gives, feature by feature; β = λ tanh(X W_β + b_β) + ε is one rate a feature;
α is one learned scalar. G and β read the state itself, not the sublayer's norm, and the norm inside G is a second one.
With G and β held fixed the shortcut is diag(1 − α β_i): D free eigenvalues, where the delta operator has 1, D − 1 times.
The paper calls G "mHC" and β, α "DDL". It leaves λ, ε and every initial value open; ours start β at 1, α at 0 and
G at σ(2 + z), z of mean 0 and variance 1 over the features: near the plain pre-norm block.

Legend: B batch, T positions, D model width.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from geolab.checks import require_number, require_option
from geolab.operators import diagonal_update
from geolab.residuals.base import Residual, Sublayer


class Coefficients(NamedTuple):
    """What MGT computes from a state, each (B, T, D), or None where the ablation has none."""

    gate: Tensor | None   # G
    beta: Tensor | None   # β


class Observed(NamedTuple):
    """The coefficients, and what erases with them."""

    gate: Tensor | None
    beta: Tensor | None
    alpha: Tensor | None  # α: (1,)

    @property
    def shortcut(self) -> Tensor:
        """diag(1 − α β): (B, T, D, D); without erasure the identity, as one number for all features and tokens: (1, 1, 1, 1)."""
        return torch.ones(1, 1, 1, 1) if self.beta is None else torch.diag_embed(1 - self.alpha * self.beta)


class MGT(Residual):
    """The MGT residual and its ablations: `gate` and `erase` are the two columns of the paper's table 1.

    Neither is the additive residual, gate alone X + G ⊙ F, erase alone X + β ⊙ (F − α X).

    Arguments:
        width: D.
        gate: G, with its D × D map. The paper's "+mHC".
        erase: β and α, with β's D × D map. The paper's "+DDL".
        beta_scale, beta_offset: λ and ε, so that β lies in (ε − λ, ε + λ). Both 1 give DDL's (0, 2); the paper's
            remark 3.4 takes 1 and 0, which gives (−1, 1).
        beta_init: β at initialisation, inside that range, the same for every feature and token.
        alpha_init: α at initialisation. At α = β = 1 the block forgets its input.
    Raises: ValueError for a gate or erase that isn't a truth value, a beta_scale that isn't positive or a beta_init outside
        its range.
    """

    spectrum = "1 − α βᵢ, one a feature"

    def __init__(self, width: int, index: int = 0, count: int = 1, *, gate: bool = True, erase: bool = True,
                 beta_scale: float = 1.0, beta_offset: float = 1.0, beta_init: float = 1.0, alpha_init: float = 0.0):
        super().__init__(width, index, count)
        require_option("gate", gate, (True, False))
        require_option("erase", erase, (True, False))
        require_number("beta_scale", beta_scale, 0, strict=True)
        require_number("alpha_init", alpha_init)
        low, high = beta_offset - beta_scale, beta_offset + beta_scale
        if not low < beta_init < high:
            raise ValueError(f"beta_init must lie strictly between beta_offset ± beta_scale = {low:g} and {high:g}, got {beta_init}")
        self.gate, self.erase, self.beta_scale, self.beta_offset = gate, erase, beta_scale, beta_offset
        if gate or erase:
            self.logits = nn.Linear(width, width * (gate + erase), bias=False)  # W_gate over W_β
            with torch.no_grad():
                self.logits.weight[:width * gate].normal_(std=1 / math.sqrt(width))
                self.logits.weight[width * gate:].zero_()
        if gate:
            self.gate_norm = nn.LayerNorm(width)
            nn.init.constant_(self.gate_norm.bias, 2.0)
        if erase:
            self.beta_bias = nn.Parameter(torch.full((width,), math.atanh((beta_init - beta_offset) / beta_scale)))
            self.alpha = nn.Parameter(torch.full((1,), float(alpha_init)))  # with an axis: FSDP2 shares nothing out without one

    def extra_repr(self) -> str:
        return f"gate={self.gate}, erase={self.erase}, beta_scale={self.beta_scale}, beta_offset={self.beta_offset}"

    def forward(self, state: Tensor, sublayer: Sublayer) -> Tensor:
        gate, beta = self.coefficients(state)
        update = sublayer(state) if gate is None else gate * sublayer(state)
        return state + update if beta is None else diagonal_update(state, update, beta, self.alpha)

    def coefficients(self, state: Tensor) -> Coefficients:
        """G and β at a state (B, T, D)."""
        gate = beta = None
        maps = iter(self.logits.weight.split(self.width) if self.gate or self.erase else ())  # apart, so that no half is copied
        if self.gate:
            gate = torch.sigmoid(self.gate_norm(F.linear(state, next(maps))))
        if self.erase:
            beta = (self.beta_scale * torch.tanh(F.linear(state, next(maps), self.beta_bias))).add_(self.beta_offset)
        return Coefficients(gate, beta)

    def observe(self, state: Tensor, sublayer: Sublayer) -> Observed:
        return Observed(*self.coefficients(state), self.alpha.detach() if self.erase else None)
