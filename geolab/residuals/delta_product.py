"""x ← x + β_j (v_j − k_jᵀx) k_j for j = 1, …, m in turn: delta residuals, m at each sublayer.

What multiplies the state is A_m ⋯ A_1 with A_j = I − β_j k_j k_jᵀ, the transition of DeltaProduct
(Siems et al. 2025, arXiv 2502.10297), taken over depth in place of time. One factor is
the delta residual, whose A is symmetric. At β = 2 each factor is a mirror. Two mirrors make every
rotation of a plane. The products of m factors with β = 0 or 2 are the orthogonal matrices Q for
which I − Q has at most the rank m (Cartan–Dieudonné), and no gate chooses between their components.

Legend: B batch, T positions, D width, m factors.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from geolab.checks import require_count, require_number
from geolab.operators import delta_shortcut, delta_update, outside_autocast, unit_direction, widened
from geolab.residuals.base import Residual, Sublayer
from geolab.residuals.delta import VALUES
from geolab.residuals.weights import Linear, normal


class ProductCoefficients(NamedTuple):
    """The coefficients of m factors. The first factor acts first."""

    directions: Tensor   # k: (B, T, m, D), unit vectors
    values: Tensor       # v: (B, T, m)
    betas: Tensor        # β: (B, T, m)

    @property
    def shortcut(self) -> Tensor:
        """A_m ⋯ A_1, (B, T, D, D)."""
        D = self.directions.shape[-1]
        product = torch.eye(D).to(self.directions).expand(*self.betas.shape[:-1], D, D)
        for k, beta in zip(self.directions.unbind(-2), self.betas.unbind(-1), strict=True):
            product = delta_shortcut(product, k, beta)
        return product


class DeltaProduct(Residual):
    """Delta residuals in a row around one sublayer, all made from the state before the first.

    As in `Delta`'s k-Map, the sublayer's output h is the first direction, v_j = 4σ(·) reads the
    state, and β_j = 2σ(·) its RMS norm; with one factor this is `Delta`. The other directions are
    linear maps of h, with D² weights each.

    Arguments:
        width: D.
        factors: m.
        beta_init: every β at the start, in (0, 2).
        beta_fixed: a number in [0, 2] freezes every β, which then has no parameters; None learns
            them. 2 makes every factor a mirror.
        eps: the guard of the directions' normalisation.
    Raises: ValueError for a number outside its range.
    """

    spectrum = "in the unit disc"

    def __init__(self, width: int, index: int = 0, count: int = 1, *, factors: int = 2,
                 beta_init: float = 1.0, beta_fixed: float | None = None, eps: float = 1e-5):
        super().__init__(width, index, count)
        require_count("factors", factors, 1)
        require_number("beta_init", beta_init, 0, 2, strict=True)
        require_number("eps", eps, 0)
        self.factors, self.beta_fixed, self.eps = factors, beta_fixed, eps
        std = 0.5 / math.sqrt(width)  # as in `Delta`
        if beta_fixed is None:
            self.beta_head = Linear(width, factors).start(
                normal, std=std, bias=math.log(beta_init / (2 - beta_init)))
        else:
            require_number("beta_fixed", beta_fixed, 0, 2)
        self.value_head = Linear(width, factors).start(normal, std=std)
        if factors > 1:
            self.direction_heads = Linear(width, (factors - 1) * width, bias=False).start(
                normal, std=std)

    @classmethod
    def idle(cls, options: Mapping[str, Any]) -> dict[str, str]:
        if options["beta_fixed"] is None:
            return {}
        return {"beta_init": f"beta_fixed={options['beta_fixed']!r}"}

    def forward(self, state: Tensor, sublayer: Sublayer) -> Tensor:
        made = self._generate(state, sublayer)
        for k, v, beta in zip(*(part.unbind(2) for part in made), strict=True):
            state = delta_update(state, k, v, beta, eps=self.eps)
        return state

    def coefficients(self, state: Tensor, sublayer: Sublayer) -> ProductCoefficients:
        directions, values, betas = self._generate(state, sublayer)
        return ProductCoefficients(unit_direction(directions, self.eps), values, betas)

    def observe(self, state: Tensor, sublayer: Sublayer) -> ProductCoefficients:
        return self.coefficients(state, sublayer)

    def _generate(self, x: Tensor, sublayer: Sublayer) -> tuple[Tensor, Tensor, Tensor]:
        """k before its normalisation, v and β."""
        h = sublayer(x)
        every = h if self.factors == 1 else torch.cat([h, self.direction_heads(h)], dim=-1)
        values = VALUES["sigmoid4"](self.value_head(x))
        return every.unflatten(-1, (self.factors, -1)), values, self._betas(x)

    def _betas(self, x: Tensor) -> Tensor:
        if self.beta_fixed is not None:
            return x.new_full((*x.shape[:-1], self.factors), self.beta_fixed)
        with outside_autocast(x):
            logits = self.beta_head(widened(F.rms_norm(x, (self.width,))))
        return 2 * torch.sigmoid(logits)
