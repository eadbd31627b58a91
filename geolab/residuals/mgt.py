"""X ← X + β ⊙ (G ⊙ F(LN X) − α X): the block of the Manifold-Geometric Transformer (MGT).

These are equations 5–7 and algorithm 1 of the paper. G = σ(LN(X W_gate)) scales the sublayer's
output feature by feature; β = λ tanh(X W_β + b_β) + ε is one rate per feature; α is one learned
scalar. G and β read the state itself, not the sublayer's normalised input; the norm inside G is a
second one. With G and β held fixed the shortcut is diag(1 − α β_i): it has D free eigenvalues,
where the delta operator has the eigenvalue 1 with multiplicity D − 1.

The paper calls G "mHC" and β, α "DDL". It leaves λ, ε and every initial value open. Here β starts
at 1, α at 0 and G at σ(2 + z), where z has mean 0 and variance 1 over the features: near the plain
pre-norm block.

Legend: B batch, T positions, D model width.
"""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from geolab.checks import require_number, require_option
from geolab.operators import diagonal_update
from geolab.residuals.base import Residual, Sublayer
from geolab.residuals.weights import LayerNorm, Weight, as_linear


class MGTCoefficients(NamedTuple):
    """The coefficients that MGT computes from a state; those that an ablation lacks are None."""

    gate: Tensor | None   # G: (B, T, D)
    beta: Tensor | None   # β: (B, T, D)
    alpha: Tensor | None  # α: (1,)

    @property
    def shortcut(self) -> Tensor:
        """diag(1 − α β), (B, T, D, D).

        Without erasure it is the identity, as one number for all features and tokens, (1, 1, 1, 1).
        """
        if self.alpha is None or self.beta is None:
            return torch.ones(1, 1, 1, 1)
        return torch.diag_embed(1 - self.alpha * self.beta)


class MGT(Residual):
    """The MGT residual and its ablations: `gate` and `erase`, the columns of the paper's table 1.

    Without both it is the additive residual. With the gate alone it is X + G ⊙ F, with erasure
    alone X + β ⊙ (F − α X).

    Arguments:
        width: D.
        gate: whether there is a G, with its D × D map: the paper's "+mHC".
        erase: whether there are β and α, with β's D × D map: the paper's "+DDL".
        beta_scale, beta_offset: λ and ε, so that β lies in (ε − λ, ε + λ). Both 1 give DDL's
            (0, 2); the paper's remark 3.4 takes 1 and 0, which gives (−1, 1).
        beta_init: β at the start, inside that range, the same for every feature and token.
        alpha_init: α at the start. At α = β = 1 the block forgets its input.
    Raises: ValueError for a gate or erase that isn't True or False, a beta_scale that isn't
        positive, or a beta_init outside its range.
    """

    spectrum = "1 − α βᵢ, one per feature"
    rates = False  # whether the equation has no meaning without β

    def __init__(self, width: int, index: int = 0, count: int = 1, *, gate: bool = True,
                 erase: bool = True, beta_scale: float = 1.0, beta_offset: float = 1.0,
                 beta_init: float = 1.0, alpha_init: float = 0.0):
        super().__init__(width, index, count)
        require_option("gate", gate, (True, False))
        require_option("erase", erase, (True,) if self.rates else (True, False))
        require_number("beta_scale", beta_scale, 0, strict=True)
        for name, number in (("alpha_init", alpha_init), ("beta_offset", beta_offset),
                             ("beta_init", beta_init)):
            require_number(name, number)
        low, high = beta_offset - beta_scale, beta_offset + beta_scale
        if not low < beta_init < high:
            raise ValueError("beta_init must lie strictly between beta_offset ± beta_scale = "
                             f"{low:g} and {high:g}, got {beta_init}")
        self.gate, self.erase = gate, erase
        self.beta_scale, self.beta_offset = beta_scale, beta_offset
        if gate or erase:
            self.logits = Weight(width * (gate + erase), width, decays=True,  # W_gate over W_β
                                 how=partial(_start_logits, of_gate=width * gate))
        if gate:
            self.gate_norm = LayerNorm(width, bias=2.0)
        if erase:
            self.beta_start = math.atanh((beta_init - beta_offset) / beta_scale)
            self.alpha_start = float(alpha_init)
            self.beta_bias = nn.Parameter(torch.empty(width))
            # one axis, because FSDP2 can't shard a parameter without axes
            self.alpha = nn.Parameter(torch.empty(1))
        self.start_own()

    @classmethod
    def idle(cls, options: Mapping[str, Any]) -> dict[str, str]:
        return {} if options["erase"] else dict.fromkeys(
            ("beta_scale", "beta_offset", "beta_init", "alpha_init"), "erase=False")

    def start_own(self) -> None:
        if self.erase:
            nn.init.constant_(self.beta_bias, self.beta_start)
            nn.init.constant_(self.alpha, self.alpha_start)

    def forward(self, state: Tensor, sublayer: Sublayer) -> Tensor:
        gate, beta, alpha = self.coefficients(state)
        update = sublayer(state) if gate is None else gate.to(state.dtype) * sublayer(state)
        return state + update if beta is None else diagonal_update(state, update, beta, alpha)

    def coefficients(self, state: Tensor) -> MGTCoefficients:
        """G, β and α at a state (B, T, D)."""
        gate = beta = alpha = None
        # two products, so that neither half of one product is copied
        maps = iter(self.logits().to(state.dtype).split(self.width)
                    if self.gate or self.erase else ())
        if self.gate:
            gate = torch.sigmoid(self.gate_norm(F.linear(state, next(maps))))
        if self.erase:
            rate = torch.tanh(F.linear(state, next(maps), self.beta_bias.to(state.dtype)))
            beta = (self.beta_scale * rate).add_(self.beta_offset)
            alpha = self.alpha.clone()  # unlike the parameter, it has no gradient under no_grad
        return MGTCoefficients(gate, beta, alpha)


def _start_logits(weight: Tensor, of_gate: int) -> None:
    """N(0, 1/D) for W_gate, its first rows, and W_β = 0."""
    as_linear(weight)  # overwritten, but the seeds of stored runs count these draws
    weight[:of_gate].normal_(std=1 / math.sqrt(weight.shape[1]))
    weight[of_gate:].zero_()
