"""The gate between a rotation Q and a reflection H: G = γ Q + (1 − γ) H (E-MHC-Geo eq. 5).

QᵀH has determinant −1, so it has an eigenvalue −1. On its eigenvector Q and H are opposite, and the
smallest singular value of G is |2γ − 1|. At γ = ½ G is singular.
"""

import math

import torch
from torch import Tensor

from geolab import kernels
from geolab.checks import (
    require_leading,
    require_number,
    require_real,
    require_square,
    require_state,
    require_together,
    require_width,
)
from geolab.operators.cayley import cayley_rank2
from geolab.operators.precision import outside_autocast, product, promoted
from geolab.operators.streams import stream_mix


def blend(q: Tensor, h: Tensor, gate: Tensor | float) -> Tensor:
    """G = γ Q + (1 − γ) H, with singular values between |2γ − 1| and 1 for a rotation Q and a
    reflection H.

    Arguments:
        q, h: (..., n, n).
        gate: γ in [0, 1], (...) or a number.
    Returns: (..., n, n), in float32 at least.
    Raises: ValueError for matrices that aren't n × n, leading axes that don't broadcast, or a
        number outside [0, 1]. A tensor's values are not read: that would wait for its device.
        TypeError for complex numbers.
    """
    if not isinstance(gate, Tensor):
        require_number("gate", gate, low=0, high=1)
    require_square("q", q)
    require_square("h", h, q.shape[-1])
    require_real(q=q, h=h, gate=gate)
    if not isinstance(gate, Tensor):
        return torch.lerp(*promoted(h, q), gate)
    require_together(q=q.shape[:-2], h=h.shape[:-2], gate=gate.shape)
    h, q, gate = promoted(h, q, gate)
    return torch.lerp(h, q, gate[..., None, None])


def gated_matrix(q: Tensor, direction: Tensor, gate: Tensor | float) -> Tensor:
    """G = γ Q + (1 − γ)(I − 2 k kᵀ): `blend` with a reflection.

    Arguments:
        q: Q, (..., n, n).
        direction: k, (..., n), unit vectors.
        gate: γ, (...) or a number.
    Returns: (..., n, n), in float32 at least.
    Raises: as `blend`; ValueError for a direction that doesn't have n numbers.
    """
    require_square("q", q)
    require_width("direction", direction, q.shape[-1])
    require_real(direction=direction)
    k, = promoted(direction)
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
        one number per stream or whose leading axes don't broadcast to those of x, for a gate that
        is a number outside [0, 1], and where `cayley_rank2` does; TypeError for complex numbers, or
        an x whose numbers aren't floating-point.
    """
    require_state("x", x, 2)
    require_real(u=u, v=v, beta=beta)
    n, tokens = x.shape[-2], x.shape[:-2]
    for name, tensor, own in (("u", u, 1), ("direction", direction, 1), ("gate", gate, 0)):
        if isinstance(tensor, Tensor):
            require_leading(name, tensor, own, tokens)
            if own:
                require_width(name, tensor, n)
    if (direction is None) != (gate is None):
        missing, given = ("direction", "gate") if direction is None else ("gate", "direction")
        raise ValueError(f"{missing} must be given with {given}, got None")
    if direction is not None:
        require_real(direction=direction, gate=gate)
        if not isinstance(gate, Tensor):
            require_number("gate", gate, low=0, high=1)
    if kernels.serves(x, n):
        return kernels.TWINS["gated_mix"](x, u, v, beta, direction, gate)
    matrix = cayley_rank2(u, v, beta)
    if direction is not None and gate is not None:
        matrix = gated_matrix(matrix, direction, gate)
    return stream_mix(x, matrix)


def geodesic(q: Tensor, direction: Tensor, gate: Tensor | float) -> Tensor:
    """G = Q H^{1−γ} on streams whose halves are real and imaginary parts.

    H^s = I + (e^{iπs} − 1) k kᵀ is unitary for every s.

    Arguments:
        q: Q, (..., n, n), orthogonal.
        direction: k, (..., n), unit vectors; H = I − 2 k kᵀ.
        gate: γ, (...) or a number.
    Returns: (..., 2n, 2n), orthogonal at every γ: halves 2i and 2i + 1 belong to stream i. In
        float32 at least.
    Raises: ValueError for a q that isn't n × n, a direction that doesn't have n numbers, leading
        axes that don't broadcast, or a gate that isn't finite; TypeError for complex numbers.
    """
    require_square("q", q)
    require_width("direction", direction, q.shape[-1])
    require_real(q=q, direction=direction, gate=gate)
    gate = kernels.number(gate, q)
    require_together(q=q.shape[:-2], direction=direction.shape[:-1], gate=gate.shape)
    q, k, gate = promoted(q, direction, gate)
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
