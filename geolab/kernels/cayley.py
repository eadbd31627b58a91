"""Q = (I + M)⁻¹ (I − M) for M of rank 2, and for a full skew 4 × 4 matrix.

A thread makes one matrix, in registers.

For rank 2, u and v span a plane. It has the orthonormal basis e₁ = u/r and e₂, the direction of the
part of v across u. That part has length h. Let σ and κ be the sine and cosine of half the angle,
with tan(θ/2) = s = β/2 r h. Then

    Q = I − 2σκ (e₁e₂ᵀ − e₂e₁ᵀ) − 2σ² (e₁e₁ᵀ + e₂e₂ᵀ).

e₁, e₂ and (κ, σ) are normalised separately, so Q is orthogonal to rounding for u, v and β of any
size. h doesn't cancel, unlike √(‖u‖²‖v‖² − (u·v)²). With G = ∂L/∂Q, c = e₁·v, ρ = βκ/2 and the
projection P across the plane,

    τ = ∂L/∂θ = −⟨G, cos θ (e₁e₂ᵀ − e₂e₁ᵀ) + sin θ (e₁e₁ᵀ + e₂e₂ᵀ)⟩,
    a = P (κ (G − Gᵀ) e₁ − σ (G + Gᵀ) e₂) + κτ e₂,
    b = P (κ (Gᵀ − G) e₂ − σ (G + Gᵀ) e₁) + κτ e₁,
    ∂v = 2ρr a,    ∂u = 2ρ (h b − c a),    ∂β = τκ² r h.

No length is a divisor here, so this also holds where u or v vanishes and where they are parallel.

Legend: N matrices of size n. A vector is a tuple of n numbers, and a matrix is a tuple of n²
numbers, row after row.
"""

from math import ceil

import triton
import triton.language as tl
from torch import Tensor

from geolab.checks import require_pairs
from geolab.kernels import number
from geolab.kernels.launch import INTERPRETED, differentiate, expanded, op, require, twin
from geolab.kernels.registers import dot, length, load_row, plus, scaled, store_row, times, unit

# Matrices per program. On a device, each lane of a program's only warp has one, so that 8192
# matrices fill the device.
MATRICES = 2048 if INTERPRETED else 32


@twin
def cayley_rank2(u: Tensor, v: Tensor, beta: Tensor | float) -> Tensor:
    """Q for M = β/2 (u vᵀ − v uᵀ), as `operators.cayley_rank2`, for n up to 8.

    The forward pass moves n² + 2n + 1 numbers per matrix, and the backward pass n² + 4n + 2.
    Raises: ValueError where `plane_of` does; TypeError for a dtype that kernels don't read.
    """
    u, v, beta = plane_of(u, v, beta)
    require("u", u=u, v=v, beta=beta)
    return _cayley_rank2(*(t.float().contiguous() for t in (u, v, beta)))


@twin
def cayley_skew4(w: Tensor) -> Tensor:
    """Q of a skew 4 × 4 matrix, as `operators.cayley_skew4`.

    The forward pass moves 32 numbers per matrix, and the backward pass 48.
    Raises: TypeError for a dtype that kernels don't read.
    """
    require("w", w=w)
    return _cayley_skew4(w.float().contiguous())


def plane_of(u: Tensor, v: Tensor, beta: Tensor | float) -> tuple[Tensor, Tensor, Tensor]:
    """u, v and β, with one β per pair.

    Raises: ValueError when u and v differ in shape, or beta is not one number per pair.
    """
    beta = number(beta, u)
    require_pairs(u, v, beta)
    return u, v, expanded(beta, *u.shape[:-1])


def _launch_rank2(u: Tensor, v: Tensor, beta: Tensor, q: Tensor) -> None:
    N, n = u.shape[:-1].numel(), u.shape[-1]
    _rank2[(ceil(N / MATRICES),)](u, v, beta, q, N, n, MATRICES, num_warps=1)


def _launch_rank2_backward(grad: Tensor, u: Tensor, v: Tensor, beta: Tensor,
                           *grads: Tensor) -> None:
    N, n = u.shape[:-1].numel(), u.shape[-1]
    _rank2_backward[(ceil(N / MATRICES),)](grad, u, v, beta, *grads, N, n, MATRICES, num_warps=1)


def _launch_skew4(w: Tensor, q: Tensor) -> None:
    N = w.numel() // 16
    _skew4[(ceil(N / MATRICES),)](w, q, N, MATRICES, num_warps=1)


def _launch_skew4_backward(grad: Tensor, w: Tensor, grad_w: Tensor) -> None:
    N = w.numel() // 16
    _skew4_backward[(ceil(N / MATRICES),)](grad, w, grad_w, N, MATRICES, num_warps=1)


@op("geolab::cayley_rank2", _launch_rank2)
def _cayley_rank2(u: Tensor, v: Tensor, beta: Tensor) -> Tensor:
    return u.new_empty((*u.shape, u.shape[-1]))


@op("geolab::cayley_rank2_backward", _launch_rank2_backward)
def _cayley_rank2_backward(grad: Tensor, u: Tensor, v: Tensor,
                           beta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return u.new_empty(u.shape), u.new_empty(v.shape), u.new_empty(beta.shape)


@op("geolab::cayley_skew4", _launch_skew4)
def _cayley_skew4(w: Tensor) -> Tensor:
    return w.new_empty(w.shape)


@op("geolab::cayley_skew4_backward", _launch_skew4_backward)
def _cayley_skew4_backward(grad: Tensor, w: Tensor) -> Tensor:
    return w.new_empty(w.shape)


differentiate(_cayley_rank2, _cayley_rank2_backward)
differentiate(_cayley_skew4, _cayley_skew4_backward)


# ---------------------------------------------------------------- the plane of u and v

@triton.jit
def spanned(u, v):
    """e₁, e₂, r, h and c, with u = r e₁ and v = c e₁ + h e₂."""
    e1, r = unit(u)
    along = dot(e1, v)
    across = plus(v, e1, -along)
    rest = dot(e1, across)
    # Two projections are enough, unless the part across is only rounding: then u and v are
    # parallel.
    again = plus(across, e1, -rest)
    square = dot(across, across)
    kept = tl.where(dot(again, again) > 0.25 * square, 1.0, 0.0)
    e2, h = unit(scaled(again, tl.where(square == float("inf"), float("nan"), kept)))
    return e1, plus(e2, e1, -dot(e1, e2)), r, h, along + rest


@triton.jit
def half_angle(s):
    """The cosine and sine of atan s. No square overflows."""
    larger = tl.maximum(tl.abs(s), 1.0)
    pair, _ = unit((tl.div_rn(1.0, larger), tl.div_rn(s, larger)))
    return pair


@triton.jit
def turned(e1, e2, cosine, sine):
    """The vectors f and g in Q = I − e₁ fᵀ − e₂ gᵀ."""
    f, g = plus(scaled(e2, cosine), e1, sine), plus(scaled(e2, sine), e1, -cosine)
    return scaled(f, 2 * sine), scaled(g, 2 * sine)


@triton.jit
def plane_vjp(S, e1, e2, r, h, c, beta, cosine, sine, n: tl.constexpr):
    """∂u, ∂v and ∂β, from S = ∂L/∂Q."""
    s1, t1, s2, t2 = times(S, e1, n), times(S, e1, n, True), times(S, e2, n), times(S, e2, n, True)
    p = plus(scaled(plus(s1, t1, -1.0), cosine), plus(s2, t2, 1.0), -sine)
    q = plus(scaled(plus(t2, s2, -1.0), cosine), plus(s1, t1, 1.0), -sine)
    slope = ((cosine - sine) * (cosine + sine) * (dot(e2, s1) - dot(e1, s2))
             - 2 * cosine * sine * (dot(e1, s1) + dot(e2, s2)))
    a = plus(plus(p, e1, -dot(e1, p)), e2, cosine * slope - dot(e2, p))
    b = plus(plus(q, e2, -dot(e2, q)), e1, cosine * slope - dot(e1, q))
    rho = beta * cosine
    grad_u = scaled(plus(scaled(b, h), a, -c), rho)
    return grad_u, scaled(a, rho * r), slope * cosine * cosine * r * h


@triton.jit(do_not_specialize=["N"])
def _rank2(U, V, BETA, Q, N, n: tl.constexpr, MATRICES: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * MATRICES + tl.arange(0, MATRICES)
    inside = row < N
    e1, e2, r, h, c = spanned(load_row(U, row, inside, n), load_row(V, row, inside, n))
    beta = tl.load(BETA + row, mask=inside, other=0.0)
    cosine, sine = half_angle(beta / 2 * r * h)
    f, g = turned(e1, e2, cosine, sine)
    q = ()
    for i in tl.static_range(n):
        for j in tl.static_range(n):
            q += ((1.0 if i == j else 0.0) - e1[i] * f[j] - e2[i] * g[j],)
    store_row(Q, row, inside, q)


@triton.jit(do_not_specialize=["N"])
def _rank2_backward(GQ, U, V, BETA, GU, GV, GBETA, N, n: tl.constexpr, MATRICES: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * MATRICES + tl.arange(0, MATRICES)
    inside = row < N
    S = load_row(GQ, row, inside, n * n)
    e1, e2, r, h, c = spanned(load_row(U, row, inside, n), load_row(V, row, inside, n))
    beta = tl.load(BETA + row, mask=inside, other=0.0)
    cosine, sine = half_angle(beta / 2 * r * h)
    grad_u, grad_v, grad_beta = plane_vjp(S, e1, e2, r, h, c, beta, cosine, sine, n)
    store_row(GU, row, inside, grad_u)
    store_row(GV, row, inside, grad_v)
    tl.store(GBETA + row, grad_beta, mask=inside)


# ---------------------------------------------------------------- a full skew 4 × 4 matrix

@triton.jit
def quaternions(w):
    """The two unit quaternions of Q = L R, the factors that normalised them, and the vectors x and
    y that they are made of: (1 − Pfaffian, x) and (1 + Pfaffian, y).
    """
    w01, w02, w03 = (w[1] - w[4]) / 2, (w[2] - w[8]) / 2, (w[3] - w[12]) / 2
    w12, w13, w23 = (w[6] - w[9]) / 2, (w[7] - w[13]) / 2, (w[11] - w[14]) / 2
    x, y = (w01 + w23, w03 + w12, w02 - w13), (w02 + w13, w03 - w12, w01 - w23)
    pfaffian = w01 * w23 - w02 * w13 + w03 * w12
    left, right = (1.0 - pfaffian,) + x, (1.0 + pfaffian,) + y
    over_left, over_right = tl.div_rn(1.0, length(left)), tl.div_rn(1.0, length(right))
    return scaled(left, over_left), scaled(right, over_right), over_left, over_right, x, y


@triton.jit
def left_matrix(l):
    """The matrix L of the quaternion l."""
    return (l[0], -l[1], -l[3], -l[2],
            l[1], l[0], -l[2], l[3],
            l[3], l[2], l[0], -l[1],
            l[2], -l[3], l[1], l[0])


@triton.jit
def right_matrix(r):
    """The matrix R of the quaternion r."""
    return (r[0], -r[3], -r[1], -r[2],
            r[3], r[0], r[2], -r[1],
            r[1], -r[2], r[0], r[3],
            r[2], r[1], -r[3], r[0])


@triton.jit
def rotated(w):
    """The entries of Q."""
    left, right, _, _, _, _ = quaternions(w)
    L, R, q = left_matrix(left), right_matrix(right), ()
    for i in tl.static_range(4):
        for j in tl.static_range(4):
            q += (L[4 * i] * R[j] + L[4 * i + 1] * R[4 + j]
                  + L[4 * i + 2] * R[8 + j] + L[4 * i + 3] * R[12 + j],)
    return q


@triton.jit
def rotated_back(S, w):
    """∂W, from S = ∂L/∂Q."""
    left, right, over_left, over_right, x, y = quaternions(w)
    L, R = left_matrix(left), right_matrix(right)
    SR, LS = (), ()  # S Rᵀ and Lᵀ S, the gradients with respect to L and R
    for i in tl.static_range(4):
        for j in tl.static_range(4):
            SR += (S[4 * i] * R[4 * j] + S[4 * i + 1] * R[4 * j + 1]
                   + S[4 * i + 2] * R[4 * j + 2] + S[4 * i + 3] * R[4 * j + 3],)
            LS += (L[i] * S[j] + L[4 + i] * S[4 + j] + L[8 + i] * S[8 + j] + L[12 + i] * S[12 + j],)
    p = (SR[0] + SR[5] + SR[10] + SR[15], SR[4] - SR[1] + SR[14] - SR[11],
         SR[9] - SR[6] + SR[12] - SR[3], SR[8] - SR[2] + SR[7] - SR[13])
    q = (LS[0] + LS[5] + LS[10] + LS[15], LS[8] - LS[2] + LS[13] - LS[7],
         LS[6] - LS[9] + LS[12] - LS[3], LS[4] - LS[1] + LS[11] - LS[14])
    p = scaled(plus(p, left, -dot(left, p)), over_left)
    q = scaled(plus(q, right, -dot(right, q)), over_right)
    pull = (q[0] - p[0]) / 2  # with respect to the Pfaffian, (‖x‖² − ‖y‖²)/4
    p, q = plus((p[1], p[2], p[3]), x, pull), plus((q[1], q[2], q[3]), y, -pull)
    g01, g02, g03 = (p[0] + q[2]) / 2, (p[2] + q[0]) / 2, (p[1] + q[1]) / 2
    g12, g13, g23 = (p[1] - q[1]) / 2, (q[0] - p[2]) / 2, (p[0] - q[2]) / 2
    zero = tl.zeros_like(g01)
    return (zero, g01, g02, g03, -g01, zero, g12, g13,
            -g02, -g12, zero, g23, -g03, -g13, -g23, zero)


@triton.jit(do_not_specialize=["N"])
def _skew4(W, Q, N, MATRICES: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * MATRICES + tl.arange(0, MATRICES)
    inside = row < N
    store_row(Q, row, inside, rotated(load_row(W, row, inside, 16)))


@triton.jit(do_not_specialize=["N"])
def _skew4_backward(GQ, W, GW, N, MATRICES: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * MATRICES + tl.arange(0, MATRICES)
    inside = row < N
    S, w = load_row(GQ, row, inside, 16), load_row(W, row, inside, 16)
    store_row(GW, row, inside, rotated_back(S, w))
