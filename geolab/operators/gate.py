"""The gate between a rotation Q and a reflection H: G = γ Q + (1 − γ) H (E-MHC-Geo eq. 5).

QᵀH has determinant −1, so it has an eigenvalue −1. On its eigenvector Q and H are opposite, and the smallest
singular value of G is |2γ − 1|. At γ = ½ G is singular.
"""

import torch
from torch import Tensor


def blend(q: Tensor, h: Tensor, gate: Tensor | float) -> Tensor:
    """G = γ Q + (1 − γ) H, with singular values between |2γ − 1| and 1 when Q and H are as above.

    Arguments:
        q, h: (..., n, n).
        gate: γ in [0, 1], (...) or a number.
    Returns: (..., n, n).
    """
    return torch.lerp(h, q, gate[..., None, None] if isinstance(gate, Tensor) else gate)


def midpoint_penalty(gate: Tensor) -> Tensor:
    """4γ(1 − γ) (E-MHC-Geo eq. 7): 1 at γ = ½, 0 at either end. At γ = ½ it has no slope.

    It is 1 − (2γ − 1)², the largest share of a vector's squared length that `blend` can lose.

    Arguments:
        gate: γ, any shape.
    Returns: of the shape of gate.
    """
    return 4 * gate * (1 - gate)
