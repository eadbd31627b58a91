"""The Cayley transform Q = (I + M)⁻¹ (I − M) of a skew-symmetric M: a rotation, in closed form, without a solve.

An eigenvalue iμ of M becomes the phase exp(−2i atan μ) of Q: every rotation but those with eigenvalue −1 is reached.

Four streams have a form of their own. A skew 4 × 4 matrix is a sum A + B of two commuting parts with A² = −|a|² I and
B² = −|b|² I, so Q is a product of two quaternions, one acting from the left and one from the right:

    Q = ((1 − f) I − 2A) ((1 + f) I − 2B) / D,    f = |a|² − |b|² = Pf(M),    D = (1 − f)² + 4|a|² = (1 + f)² + 4|b|².

Each is normalised on its own, so that Q is orthogonal to rounding whatever the size of M.
"""

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from geolab.operators._checks import require_square
from geolab.operators.outer import outer
from geolab.operators.precision import full_precision

STARTS = ("shifted", "identity")


def skew(w: Tensor) -> Tensor:
    """W − Wᵀ, skew-symmetric: (..., n, n) -> (..., n, n).

    Raises: ValueError when w isn't square.
    """
    require_square("w", w)
    return w - w.mT


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
    if u.shape != v.shape:
        raise ValueError(f"u and v must have the same shape, got {tuple(u.shape)} and {tuple(v.shape)}")
    beta = torch.as_tensor(beta, dtype=u.dtype, device=u.device)
    if beta.ndim and beta.shape != u.shape[:-1]:
        raise ValueError(f"beta must be one number a pair, got {tuple(beta.shape)} with pairs {tuple(u.shape[:-1])}")
    if u.shape[-1] == 4:
        return _Quaternions.apply(outer(beta.unsqueeze(-1) * u, v).unflatten(-1, (4, 4)), False)  # M: the skew part of β u vᵀ
    return _Rank2.apply(u, v, beta.expand(u.shape[:-1]))


@full_precision
def cayley_skew4(w: Tensor) -> Tensor:
    """Q = (I + W)⁻¹ (I − W) for any skew-symmetric 4 × 4 matrix: what JPmHC approximates by iteration.

    Multiplied out, the product above is ((1 + p − f²) I − 2W + 2W² − 2f W̃) / (1 + p + f²), with p = Σ_{i<j} W_ij²,
    f = Pf(W) and W̃ the dual of W. Only the skew-symmetric part of w is read.

    Arguments:
        w: (..., 4, 4), skew-symmetric.
    Returns: (..., 4, 4).
    Raises: ValueError when w isn't 4 × 4.
    """
    require_square("w", w, 4)
    return _Quaternions.apply(w, True)


@full_precision
def cayley_iterated(w: Tensor, steps: int = 2, alpha: float = 0.1, start: str = "shifted") -> Tensor:
    """Y ← I + α/2 W (I + Y), `steps` times, towards (I − α/2 W)⁻¹ (I + α/2 W) (JPmHC v2).

    With K = α/2 W, Yᵀ Y − I is 4K⁴ after one step from I + αW and −4K⁴(I + K²) after two: orthogonal for small K only.
    It diverges for ‖K‖ > 1.

    Arguments:
        w: (..., n, n), skew-symmetric.
        start: Y₀ = I + αW ("shifted", the paper) or I ("identity", the benchmark's diagnostic, one step behind).
    Returns: (..., n, n).
    Raises: ValueError when w isn't square, or for another start.
    """
    require_square("w", w)
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


class _Quaternions(Function):
    """Q of the skew-symmetric part of w, by two quaternions; where `full` is false that part has rank 2, and f = 0.

    All in products with constant tables: a row of 16 numbers is too short for batched matrix products.
    """

    @staticmethod
    def forward(ctx, w: Tensor, full: bool) -> Tensor:
        tables = _tables(w.dtype, w.device)
        parts = torch.addmm(tables.one, w.reshape(-1, 16), tables.split)       # 1, −2a, 1, −2b
        pair = torch.addmm(parts, parts.square(), tables.pfaffian) if full else parts
        inverse = (pair.square() @ tables.sum).rsqrt()
        pair = pair * inverse
        left, right = pair @ tables.left, pair @ tables.right
        ctx.full = full
        ctx.save_for_backward(parts, pair, inverse, left, right)
        return ((left * right) @ tables.product).view(w.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None]:
        parts, pair, inverse, left, right = ctx.saved_tensors
        tables = _tables(grad.dtype, grad.device)
        product = grad.reshape(-1, 16) @ tables.product.T
        slope = torch.addmm((product * right) @ tables.left.T, product * left, tables.right.T)
        slope = (slope - pair * ((pair * slope) @ tables.sum)) * inverse
        if ctx.full:
            slope = torch.addcmul(slope, parts, slope @ tables.pfaffian.T, value=2)
        return (slope @ tables.split.T).view(grad.shape), None


class _Tables(NamedTuple):
    """Constant matrices that act on rows: on w (16 numbers), on a pair of quaternions (8), on their 16 products."""

    one: Tensor       # (8,): the pair 1, 1
    split: Tensor     # w -> the pair 0, −2a, 0, −2b
    pfaffian: Tensor  # squares of −2a and −2b -> the pair −f, 0, f, 0
    sum: Tensor       # each number of a quaternion -> the sum of its four
    left: Tensor      # the pair l, r -> l_i at 4i + j
    right: Tensor     # the pair l, r -> r_j at 4i + j
    product: Tensor   # l_i r_j -> the matrix l r


@cache
@torch.inference_mode(False)
def _tables(dtype: torch.dtype, device: torch.device) -> _Tables:
    i, j = torch.eye(2), torch.tensor([[0.0, -1.0], [1.0, 0.0]])
    x, z = torch.tensor([[0.0, 1.0], [1.0, 0.0]]), torch.diag(torch.tensor([1.0, -1.0]))
    # two quaternion algebras that commute; their units are an orthogonal basis of the skew 4 × 4 matrices
    lefts = torch.stack([torch.kron(*pair) for pair in ((i, i), (i, j), (j, x), (j, z))])
    rights = torch.stack([torch.kron(*pair) for pair in ((i, i), (j, i), (x, j), (z, j))])
    vector = torch.tensor([0.0, 1.0, 1.0, 1.0])
    scalar = 1 - vector
    split = -torch.stack([*lefts, *rights]).reshape(8, 16).T / 2 * vector.repeat(2)
    pfaffian = torch.kron(torch.tensor([[-1.0, 1.0], [1.0, -1.0]]), torch.outer(vector, scalar)) / 4
    eye, ones = torch.eye(4), torch.ones(1, 4)
    tables = _Tables(one=scalar.repeat(2), split=split, pfaffian=pfaffian, sum=torch.kron(i, torch.ones(4, 4)),
                     left=torch.cat([torch.kron(eye, ones), torch.zeros(4, 16)]),
                     right=torch.cat([torch.zeros(4, 16), torch.kron(ones, eye)]),
                     product=torch.einsum("aij,bjk->abik", lefts, rights).reshape(16, 16))
    return _Tables(*(table.to(device, dtype) for table in tables))
