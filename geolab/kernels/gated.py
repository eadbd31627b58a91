"""(γ Q + (1 − γ) H) X and its gradients.

The matrix is made in registers. Memory holds only u, v, β, k and γ of a token.

With Q = I − e₁ fᵀ − e₂ gᵀ (`kernels.cayley`) and H = I − 2 k kᵀ, the matrix is

    G = I − e₁ (γf)ᵀ − e₂ (γg)ᵀ − 2(1 − γ) k kᵀ.

The backward pass reads ∂Y and X once, writes ∂X = Gᵀ∂Y, and keeps S = ∂Y Xᵀ in registers. Then
∂k = −2(1 − γ)(S + Sᵀ)k and ∂γ = ⟨S, Q − H⟩. The gradients ∂u, ∂v and ∂β are those of Q for γS. All
of them are linear in S, so coefficients that tokens share get the sum over these tokens.

Legend: N tokens, n streams, d features per stream. Coefficients belong to `span` consecutive
tokens: 1, or a whole sequence.
"""

from math import ceil

import torch
import triton
import triton.language as tl
from torch import Tensor

from geolab.kernels import number
from geolab.kernels.cayley import half_angle, plane_of, plane_vjp, spanned, turned
from geolab.kernels.launch import (
    INTERPRETED,
    common,
    differentiate,
    expanded,
    groups,
    op,
    require,
    summed,
    twin,
)
from geolab.kernels.registers import dot, plus, scaled, times
from geolab.kernels.tiles import added, zeros

# Features of a token that one program of the forward pass takes: few, so that there are enough
# programs. In the backward pass a program takes all features, and sums over them.
CHUNK = 1024


@twin
def gated_mix(x: Tensor, u: Tensor, v: Tensor, beta: Tensor | float,
              direction: Tensor | None = None, gate: Tensor | float | None = None) -> Tensor:
    """(γ Q + (1 − γ) H) X, as `operators.gated_mix`, for n up to 8.

    The forward pass moves 2n d numbers of the state per token, and the backward pass 3n d. Without
    direction and gate, k = 0 and γ = 1: these are n + 1 float32 numbers per token that Q alone
    doesn't need.
    Raises: ValueError where `plane_of` does, or for a mix of devices; TypeError for a dtype that
        kernels don't read.
    """
    n = x.shape[-2]
    u, v, beta = plane_of(u, v, beta)
    k, gate = (torch.zeros_like(u), 1.0) if direction is None else (direction, gate)
    gate = number(gate, x)
    require("x", x=x, u=u, v=v, beta=beta, direction=k, gate=gate)
    tokens, shared = x.shape[:-2], common(beta.shape, k.shape[:-1], gate.shape)
    u, v, k = (groups(expanded(t, *shared, n), tokens, 1)[0] for t in (u, v, k))
    (beta, span), (gate, _) = (groups(expanded(t, *shared), tokens, 0) for t in (beta, gate))
    return _gated_mix(x.contiguous(), u, v, beta, k, gate, span)


def _tile(x: Tensor) -> tuple[int, int]:
    """Tokens and features that a program holds at a time: 16 bytes of each stream per thread.

    A program is one warp. So a thread makes the matrix of its token once for many features, and
    sums over features need no shared memory.
    """
    widest = 512 // x.element_size()
    features = min(max(1 << (x.shape[-1] - 1).bit_length(), 16), widest)
    return (16384 if INTERPRETED else widest) // features, features


def _launch(x: Tensor, u: Tensor, v: Tensor, beta: Tensor, k: Tensor, gate: Tensor, span: int,
            y: Tensor) -> None:
    N, n, d = x.shape[:-2].numel(), *x.shape[-2:]
    tokens, features = _tile(x)
    _mix[(ceil(N / tokens), ceil(d / CHUNK))](
        x, u, v, beta, k, gate, y, N, d, span, n, tokens, features, CHUNK, num_warps=1)


def _launch_backward(grad: Tensor, x: Tensor, u: Tensor, v: Tensor, beta: Tensor, k: Tensor,
                     gate: Tensor, span: int, *grads: Tensor) -> None:
    N, n, d = x.shape[:-2].numel(), *x.shape[-2:]
    tokens, features = _tile(x)
    _mix_backward[(ceil(N / tokens),)](
        grad, x, u, v, beta, k, gate, *grads, N, d, span, n, tokens, features, num_warps=1)


@op("geolab::gated_mix", _launch)
def _gated_mix(x: Tensor, u: Tensor, v: Tensor, beta: Tensor, k: Tensor, gate: Tensor,
               span: int) -> Tensor:
    return x.new_empty(x.shape)


@op("geolab::gated_mix_backward", _launch_backward)
def _gated_mix_backward(
        grad: Tensor, x: Tensor, u: Tensor, v: Tensor, beta: Tensor, k: Tensor, gate: Tensor,
        span: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    vector, scalar = x.shape[:-1], x.shape[:-2]
    return (x.new_empty(x.shape),
            *(u.new_empty(shape) for shape in (vector, vector, scalar, vector, scalar)))


def _vjp(grad, x, *coefficients_and_span):
    *coefficients, span = coefficients_and_span
    grad_x, *per_token = _gated_mix_backward(grad, x, *coefficients, span)
    pairs = zip(per_token, coefficients, strict=True)
    return grad_x, *(summed(g, span, shared) for g, shared in pairs)


differentiate(_gated_mix, _vjp)


# ---------------------------------------------------------------- in Triton

@triton.jit
def _vector(X, row, inside, n: tl.constexpr):
    """Read X[row], one number at a time."""
    a = ()
    for i in tl.static_range(n):
        a += (tl.load(X + row * n + i, mask=inside, other=0.0),)
    return a


@triton.jit
def _store_vector(X, row, inside, a):
    """Write X[row], one number at a time."""
    for i in tl.static_range(len(a)):
        tl.store(X + row * len(a) + i, a[i], mask=inside)


@triton.jit
def _tiles(X, token, feature, mask, d, n: tl.constexpr):
    """Some features of some tokens, in all streams: a tuple of n tiles."""
    streams = ()
    for i in tl.static_range(n):
        streams += (tl.load(X + (token * n + i)[:, None] * d + feature[None, :], mask=mask,
                            other=0.0),)
    return streams


@triton.jit
def _matrix(U, V, BETA, K, GATE, row, inside, n: tl.constexpr):
    """G from a row of the coefficients."""
    k, gate = _vector(K, row, inside, n), tl.load(GATE + row, mask=inside, other=0.0)
    e1, e2, r, h, c = spanned(_vector(U, row, inside, n), _vector(V, row, inside, n))
    cosine, sine = half_angle(tl.load(BETA + row, mask=inside, other=0.0) / 2 * r * h)
    f, g = turned(e1, e2, cosine, sine)
    f, g, l = scaled(f, gate), scaled(g, gate), scaled(k, 2 - 2 * gate)
    matrix = ()
    for i in tl.static_range(n):
        for j in tl.static_range(n):
            matrix += ((1.0 if i == j else 0.0) - e1[i] * f[j] - e2[i] * g[j] - l[i] * k[j],)
    return matrix


@triton.jit(do_not_specialize=["N", "span"])
def _mix(X, U, V, BETA, K, GATE, Y, N, d, span, n: tl.constexpr, TOKENS: tl.constexpr,
         FEATURES: tl.constexpr, CHUNK: tl.constexpr):
    token = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)
    inside = token < N
    G = _matrix(U, V, BETA, K, GATE, (token // span).to(tl.int64), inside, n)
    token = token.to(tl.int64)
    first = tl.program_id(1) * CHUNK
    for start in range(first, tl.minimum(first + CHUNK, d), FEATURES):
        feature = start + tl.arange(0, FEATURES)
        mask = inside[:, None] & (feature < d)[None, :]
        x = _tiles(X, token, feature, mask, d, n)
        for i in tl.static_range(n):
            y = G[i * n][:, None] * x[0].to(tl.float32)
            for j in tl.static_range(1, n):
                y += G[i * n + j][:, None] * x[j].to(tl.float32)
            tl.store(Y + (token * n + i)[:, None] * d + feature[None, :], y.to(Y.dtype.element_ty),
                     mask=mask)


@triton.jit(do_not_specialize=["N", "span"])
def _mix_backward(GY, X, U, V, BETA, K, GATE, GX, GU, GV, GBETA, GK, GGATE, N, d, span,
                  n: tl.constexpr, TOKENS: tl.constexpr, FEATURES: tl.constexpr):
    token = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)
    inside = token < N
    row = (token // span).to(tl.int64)
    token = token.to(tl.int64)
    G, S = _matrix(U, V, BETA, K, GATE, row, inside, n), zeros(n * n, X, TOKENS, FEATURES)
    for start in range(0, d, FEATURES):
        feature = start + tl.arange(0, FEATURES)
        mask = inside[:, None] & (feature < d)[None, :]
        gy = _tiles(GY, token, feature, mask, d, n)
        x = _tiles(X, token, feature, mask, d, n)
        for i in tl.static_range(n):
            gx = G[i][:, None] * gy[0].to(tl.float32)
            for j in tl.static_range(1, n):
                gx += G[j * n + i][:, None] * gy[j].to(tl.float32)
            tl.store(GX + (token * n + i)[:, None] * d + feature[None, :],
                     gx.to(GX.dtype.element_ty), mask=mask)
            for j in tl.static_range(n):
                S = added(S, i * n + j, gy[i].to(tl.float32), x[j].to(tl.float32))
    s = ()
    for i in tl.static_range(n * n):
        s += (tl.sum(S[i], axis=1),)
    # Load the coefficients and make the plane again: kept through the loop, they would take its
    # registers.
    beta = tl.load(BETA + row, mask=inside, other=0.0)
    gate = tl.load(GATE + row, mask=inside, other=0.0)
    k = _vector(K, row, inside, n)
    e1, e2, r, h, c = spanned(_vector(U, row, inside, n), _vector(V, row, inside, n))
    cosine, sine = half_angle(beta / 2 * r * h)
    f, g = turned(e1, e2, cosine, sine)
    sk = times(s, k, n)
    grad_gate = 2 * dot(k, sk) - dot(e1, times(s, f, n)) - dot(e2, times(s, g, n))
    grad_u, grad_v, grad_beta = plane_vjp(scaled(s, gate), e1, e2, r, h, c, beta, cosine, sine, n)
    _store_vector(GU, token, inside, grad_u)
    _store_vector(GV, token, inside, grad_v)
    tl.store(GBETA + token, grad_beta, mask=inside)
    _store_vector(GK, token, inside, scaled(plus(sk, times(s, k, n, True), 1.0), 2 * gate - 2))
    tl.store(GGATE + token, grad_gate, mask=inside)
