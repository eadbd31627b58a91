"""The Cayley transform Q = (I + M)⁻¹ (I − M) of a skew-symmetric M: a rotation, in closed form, without a solve.

An eigenvalue iμ of M becomes the phase exp(−2i atan μ) of Q: every rotation but those with eigenvalue −1 is reached.

Four streams have a form of their own, in `_quaternions`: there Q is a product of two quaternions.
"""

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from geolab.checks import require_count, require_pairs, require_square
from geolab.operators._quaternions import cayley_of_plane, cayley_of_skew
from geolab.operators.dispatch import with_kernel
from geolab.operators.precision import full_precision

STARTS = ("shifted", "identity")


def skew(w: Tensor) -> Tensor:
    """W − Wᵀ, skew-symmetric: (..., n, n) -> (..., n, n).

    Raises: ValueError when w isn't square.
    """
    require_square("w", w)
    return w - w.mT


@with_kernel
@full_precision
def cayley_rank2(u: Tensor, v: Tensor, beta: Tensor | float) -> Tensor:
    """Q = I − 2/(1 + s²) (M − M²), with M = β/2 (u vᵀ − v uᵀ) and s² = Σ_{i<j} M_ij² (E-MHC-Geo eq. 3).

    Q turns the plane of u and v by θ = 2 atan s, s = β/2 √(‖u‖²‖v‖² − (u·v)²), and leaves its complement alone.
    We take s² from the minors u_i v_j − u_j v_i, since the difference under that root cancels.
    At u = v = 0 all gradients vanish, and training never leaves: start elsewhere.

    Arguments:
        u, v: (..., n), any vectors.
        beta: (...) or a number. −β gives Qᵀ.
    Returns: (..., n, n).
    Raises: ValueError when u and v differ in shape, or beta isn't one number a pair.
    """
    beta = torch.as_tensor(beta, dtype=u.dtype, device=u.device)
    require_pairs(u, v, beta)
    form = cayley_of_plane if u.shape[-1] == 4 else _Rank2.apply
    return form(u, v, beta.expand(u.shape[:-1]))


@with_kernel
@full_precision
def cayley_skew4(w: Tensor) -> Tensor:
    """Q = (I + W)⁻¹ (I − W) for any skew-symmetric 4 × 4 matrix: what JPmHC approximates by iteration.

    Multiplied out, the product of quaternions is ((1 + p − f²) I − 2W + 2W² − 2f W̃) / (1 + p + f²), with p = Σ_{i<j} W_ij²,
    f = Pf(W) and W̃ the dual of W. Only the skew-symmetric part of w is read.

    Arguments:
        w: (..., 4, 4), skew-symmetric.
    Returns: (..., 4, 4).
    Raises: ValueError when w isn't 4 × 4.
    """
    require_square("w", w, 4)
    return cayley_of_skew(w)


@full_precision
def cayley_iterated(w: Tensor, steps: int = 2, alpha: float = 0.1, start: str = "shifted") -> Tensor:
    """Y ← I + α/2 W (I + Y), `steps` times, towards (I − α/2 W)⁻¹ (I + α/2 W) (JPmHC v2).

    With K = α/2 W, Yᵀ Y − I is 4K⁴ after one step from I + αW and −4K⁴(I + K²) after two: orthogonal for small K only.
    It diverges for ‖K‖ > 1.

    Arguments:
        w: (..., n, n), skew-symmetric.
        start: Y₀ = I + αW ("shifted", the paper) or I ("identity", the benchmark's diagnostic, one step behind).
    Returns: (..., n, n).
    Raises: ValueError when w isn't square, for another start, or for a number of steps below 0.
    """
    require_square("w", w)
    require_count("steps", steps, at_least=0)
    if start not in STARTS:
        raise ValueError(f"start must be one of 'shifted', 'identity', got {start!r}")
    identity, k = torch.eye(w.shape[-1], dtype=w.dtype, device=w.device), alpha / 2 * w
    y = identity + 2 * k if start == "shifted" else identity
    for _ in range(steps):
        y = identity + k @ (identity + y)
    return y


class _Rank2(Function):
    """Q = I − 2 cos(θ/2) C + 2 C², C = sin(θ/2) times the unit bivector of u and v, for any n."""

    @staticmethod
    def forward(ctx, u: Tensor, v: Tensor, beta: Tensor) -> Tensor:
        # The minors don't change when v loses its u-component. Without it they don't cancel, and C has rank 2 to rounding
        tiny = torch.finfo(u.dtype).tiny
        across = v - (u * v).sum(-1, keepdim=True) / u.square().sum(-1, keepdim=True).clamp(min=tiny) * u
        outer = u.unsqueeze(-1) * across.unsqueeze(-2)
        minors = outer - outer.mT
        area = torch.linalg.matrix_norm(minors)[..., None, None] / 2**0.5
        beta = beta[..., None, None]
        secant = torch.hypot(torch.ones_like(area), beta / 2 * area)
        rate = beta / 2 / secant
        c = rate * minors
        ctx.save_for_backward(u, v, minors, rate, secant)
        return torch.eye(u.shape[-1], dtype=u.dtype, device=u.device) - 2 / secant * c + 2 * c @ c

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        u, v, minors, rate, secant = ctx.saved_tensors
        c = rate * minors
        along = (grad * minors).sum((-1, -2), keepdim=True)                    # ⟨G, A⟩, A the minors
        g_c = (grad + grad.mT) @ c                                             # (G + Gᵀ) C
        squared = -(g_c * minors).sum((-1, -2), keepdim=True) / 2              # ⟨G, C A⟩
        w = (grad - grad.mT) / secant + g_c - g_c.mT - 2 * (along / secant - squared) * rate * c
        w = -2 * rate * w
        sine2 = c.square().sum((-1, -2), keepdim=True) / 2
        grad_beta = (-along * (1 / secant**2 - sine2) + 2 * squared / secant) / secant**2
        return (w @ v.unsqueeze(-1)).squeeze(-1), -(w @ u.unsqueeze(-1)).squeeze(-1), grad_beta[..., 0, 0]
