"""The two vector models of the negation diagnostic (E-MHC-Geo, section 9.5): x + F(x) against x − β (kᵀx) k.

No sequence and no Transformer: two-layer MLPs generate what the operator needs. Legend: B batch, d features.
"""

import torch
from torch import Tensor, nn

from geolab.operators import delta_shortcut, unit_direction


def mlp(inputs: int, outputs: int, hidden: int = 128) -> nn.Sequential:
    """Linear, GELU, Linear, with PyTorch's own initialisation, as the published diagnostic has it."""
    return nn.Sequential(nn.Linear(inputs, hidden), nn.GELU(), nn.Linear(hidden, outputs))


class AdditiveReflector(nn.Module):
    """x + F(x): (B, d) -> (B, d)."""

    def __init__(self, dim: int):
        super().__init__()
        self.branch = mlp(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.branch(x)


class DeltaReflector(nn.Module):
    """x − β(x) (k(x)ᵀx) k(x), with β in (0, 2): (B, d) -> (B, d)."""

    def __init__(self, dim: int):
        super().__init__()
        self.direction = mlp(dim, dim)
        self.beta = mlp(dim, 1)

    def coefficients(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """k (B, d), of unit length, and β (B,)."""
        return unit_direction(self.direction(x), eps=1e-8), 2 * torch.sigmoid(self.beta(x).squeeze(-1))

    def forward(self, x: Tensor) -> Tensor:
        return delta_shortcut(x, *self.coefficients(x))
