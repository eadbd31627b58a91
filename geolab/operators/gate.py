"""The gate between a rotation Q and a reflection H: G = γ Q + (1 − γ) H (E-MHC-Geo eq. 5).

QᵀH has determinant −1, so it has an eigenvalue −1. On its eigenvector Q and H are opposite, and the smallest
singular value of G is |2γ − 1|. At γ = ½ G is singular.
"""

import math
from functools import cache

import torch
from torch import Tensor

from geolab.checks import require_number
from geolab.operators.cayley import cayley_rank2
from geolab.operators.dispatch import with_kernel
from geolab.operators.products import outer, spread
from geolab.operators.precision import full_precision
from geolab.operators.streams import stream_mix


@full_precision
def blend(q: Tensor, h: Tensor, gate: Tensor | float) -> Tensor:
    """G = γ Q + (1 − γ) H, with singular values between |2γ − 1| and 1 when Q and H are as above.

    Arguments:
        q, h: (..., n, n).
        gate: γ in [0, 1], (...) or a number.
    Returns: (..., n, n).
    Raises: ValueError for a number outside [0, 1]; a tensor is not looked at, which would wait for its device.
    """
    if not isinstance(gate, Tensor):
        require_number("gate", gate, low=0, high=1)
    return torch.lerp(h, q, gate[..., None, None] if isinstance(gate, Tensor) else gate)


@full_precision
def gated_matrix(q: Tensor, direction: Tensor, gate: Tensor | float) -> Tensor:
    """G = γ Q + (1 − γ)(I − 2 k kᵀ): `blend` with a reflection.

    Arguments:
        q: Q, (..., n, n).
        direction: k, (..., n), unit vectors.
        gate: γ, (...) or a number.
    Returns: (..., n, n).
    """
    identity = torch.eye(q.shape[-1], dtype=direction.dtype, device=direction.device)
    return blend(q, (identity.flatten() - 2 * outer(direction, direction)).unflatten(-1, identity.shape), gate)


@with_kernel
def gated_mix(x: Tensor, u: Tensor, v: Tensor, beta: Tensor | float, direction: Tensor | None = None,
              gate: Tensor | float | None = None) -> Tensor:
    """G X = (γ Q + (1 − γ) H) X, with Q = `cayley_rank2`(u, v, β) and H = I − 2 k kᵀ. Without direction and gate, Q X.

    Arguments:
        x: (..., n, d), the streams.
        u, v: (..., n); leading axes may be fewer than those of x, and broadcast.
        beta: one number a pair u, v, or a number.
        direction: k, (..., n), unit vectors, or None.
        gate: γ, (...) or a number; 1 is Q X and 0 is H X. None where direction is.
    Returns: (..., n, d), in the dtype of x.
    Raises: ValueError for one of direction and gate without the other, and where `cayley_rank2` and `stream_mix` do.
    """
    require_both(direction, gate)
    matrix = cayley_rank2(u, v, beta)
    return stream_mix(x, matrix if direction is None else gated_matrix(matrix, direction, gate))


def require_both(direction: Tensor | None, gate: Tensor | float | None) -> None:
    """Raise ValueError unless both are given, or none is."""
    if (direction is None) != (gate is None):
        missing, given = ("direction", "gate") if direction is None else ("gate", "direction")
        raise ValueError(f"{missing} must be given with {given}, got None")


@full_precision
def geodesic(q: Tensor, direction: Tensor, gate: Tensor) -> Tensor:
    """G = Q H^{1−γ} on streams whose halves are real and imaginary parts: H^s = I + (e^{iπs} − 1) k kᵀ, unitary for every s.

    Arguments:
        q: Q, (..., n, n), orthogonal.
        direction: k, (..., n), unit vectors; H = I − 2 k kᵀ.
        gate: γ, (...).
    Returns: (..., 2n, 2n), orthogonal at every γ: halves 2i and 2i + 1 belong to stream i.
    """
    n, flat = q.shape[-1], q.flatten(-2)
    left, right = spread(n, q.dtype, q.device)
    row = direction @ right
    turned = (flat * row) @ left.T @ left * row                             # Q k kᵀ, in rows
    angle = math.pi * (1 - gate).unsqueeze(-1)
    real, imaginary = torch.addcmul(flat, -2 * (angle / 2).sin().square(), turned), angle.sin() * turned
    return (torch.cat([real, imaginary], dim=-1) @ _on_halves(n, q.dtype, q.device)).unflatten(-1, (2 * n, 2 * n))


@cache
@torch.inference_mode(False)
def _on_halves(n: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The real and the imaginary part of an n × n matrix -> the 2n × 2n matrix on the halves, all in rows: (2n², 4n²)."""
    one, turn = torch.eye(2), torch.tensor([[0.0, -1.0], [1.0, 0.0]])
    units = torch.eye(n * n).view(-1, n, n)
    return torch.stack([torch.kron(unit, part) for part in (one, turn) for unit in units]).flatten(-2).to(device, dtype)


def midpoint_penalty(gate: Tensor) -> Tensor:
    """4γ(1 − γ) (E-MHC-Geo eq. 7): 1 at γ = ½, 0 at either end. At γ = ½ it has no slope.

    It is 1 − (2γ − 1)², the largest share of a vector's squared length that `blend` can lose.

    Arguments:
        gate: γ, any shape.
    Returns: of the shape of gate.
    """
    return 4 * gate * (1 - gate)
