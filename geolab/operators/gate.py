"""The gate between a rotation Q and a reflection H: G = γ Q + (1 − γ) H (E-MHC-Geo eq. 5).

QᵀH has determinant −1, so it has an eigenvalue −1. On its eigenvector Q and H are opposite, and the
smallest singular value of G is |2γ − 1|. At γ = ½ G is singular.
"""

import math

import torch
from torch import Tensor

from geolab import kernels
from geolab.checks import require_leading, require_number, require_width
from geolab.operators.cayley import cayley_rank2
from geolab.operators.precision import outside_autocast, product, widened
from geolab.operators.streams import stream_mix


def blend(q: Tensor, h: Tensor, gate: Tensor | float) -> Tensor:
    """G = γ Q + (1 − γ) H, with singular values between |2γ − 1| and 1 for a rotation Q and a
    reflection H.

    Arguments:
        q, h: (..., n, n).
        gate: γ in [0, 1], (...) or a number.
    Returns: (..., n, n), in float32 at least.
    Raises: ValueError for a number outside [0, 1]. A tensor's values are not read: that would wait
        for its device.
    """
    if isinstance(gate, Tensor):
        return torch.lerp(widened(h), widened(q), widened(gate)[..., None, None])
    require_number("gate", gate, low=0, high=1)
    return torch.lerp(widened(h), widened(q), gate)


def gated_matrix(q: Tensor, direction: Tensor, gate: Tensor | float) -> Tensor:
    """G = γ Q + (1 − γ)(I − 2 k kᵀ): `blend` with a reflection.

    Arguments:
        q: Q, (..., n, n).
        direction: k, (..., n), unit vectors.
        gate: γ, (...) or a number.
    Returns: (..., n, n), in float32 at least.
    """
    k = widened(direction)
    identity = torch.eye(q.shape[-1], dtype=k.dtype, device=k.device)
    return blend(q, identity - 2 * k.unsqueeze(-1) * k.unsqueeze(-2), gate)


def gated_mix(x: Tensor, u: Tensor, v: Tensor, beta: Tensor | float,
              direction: Tensor | None = None, gate: Tensor | float | None = None) -> Tensor:
    """G X = (γ Q + (1 − γ) H) X, with Q = `cayley_rank2`(u, v, β) and H = I − 2 k kᵀ.

    Without direction and gate it is Q X.

    Arguments:
        x: (..., n, d), the streams.
        u, v: (..., n); leading axes may be fewer than those of x, and broadcast.
        beta: one number per pair u, v, or a number.
        direction: k, (..., n), unit vectors, or None.
        gate: γ, (...) or a number: 1 gives Q X and 0 gives H X. None if direction is None.
    Returns: (..., n, d), in the dtype of x.
    Raises: ValueError for one of direction and gate without the other, for vectors that don't have
        one number per stream or whose leading axes don't broadcast to those of x, and where
        `cayley_rank2` does.
    """
    n, tokens = x.shape[-2], x.shape[:-2]
    for name, tensor, own in (("u", u, 1), ("direction", direction, 1), ("gate", gate, 0)):
        if isinstance(tensor, Tensor):
            require_leading(name, tensor, own, tokens)
            if own:
                require_width(name, tensor, n)
    if (direction is None) != (gate is None):
        missing, given = ("direction", "gate") if direction is None else ("gate", "direction")
        raise ValueError(f"{missing} must be given with {given}, got None")
    if kernels.serves(x, n):
        return kernels.TWINS["gated_mix"](x, u, v, beta, direction, gate)
    matrix = cayley_rank2(u, v, beta)
    if direction is not None and gate is not None:
        matrix = gated_matrix(matrix, direction, gate)
    return stream_mix(x, matrix)


def geodesic(q: Tensor, direction: Tensor, gate: Tensor) -> Tensor:
    """G = Q H^{1−γ} on streams whose halves are real and imaginary parts.

    H^s = I + (e^{iπs} − 1) k kᵀ is unitary for every s.

    Arguments:
        q: Q, (..., n, n), orthogonal.
        direction: k, (..., n), unit vectors; H = I − 2 k kᵀ.
        gate: γ, (...).
    Returns: (..., 2n, 2n), orthogonal at every γ: halves 2i and 2i + 1 belong to stream i. In
        float32 at least.
    """
    q, k, gate = widened(q), widened(direction), widened(gate)
    with outside_autocast(q):
        turned = product(q, k.unsqueeze(-1)) * k.unsqueeze(-2)           # Q k kᵀ
    angle = math.pi * (1 - gate)[..., None, None]
    real, imaginary = q - 2 * (angle / 2).sin().square() * turned, angle.sin() * turned
    # (..., n, n, 2) each
    rows = torch.stack([real, -imaginary], dim=-1), torch.stack([imaginary, real], dim=-1)
    return torch.stack(rows, dim=-3).flatten(-4, -3).flatten(-2)


def midpoint_penalty(gate: Tensor) -> Tensor:
    """4γ(1 − γ) (E-MHC-Geo eq. 7): 1 at γ = ½, 0 at either end. At γ = ½ it has no slope.

    It is 1 − (2γ − 1)², the largest share of a vector's squared length that `blend` can lose.

    Arguments:
        gate: γ, any shape.
    Returns: a tensor in the shape of gate.
    """
    return 4 * gate * (1 - gate)
