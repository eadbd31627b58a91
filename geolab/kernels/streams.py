"""aᵀX, H X + b ⊗ h and their gradients: the kernels that touch the streams.

Legend: N tokens, n streams, d features per stream. A coefficient belongs to `span` tokens in a row:
1, or a whole sequence. Data are read and written in the state's dtype; coefficients, sums and their
gradients are float32.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import custom_op

from geolab.kernels.launch import buffer, groups, on, require, rows, summed
from geolab.kernels.tiles import across, added, along, coefficients, store_sums, vectors, zeros


def stream_read(x: Tensor, weights: Tensor) -> Tensor:
    """aᵀX, as `operators.stream_read`:

    (n + 1) d numbers moved per token, and (2n + 1) d on the way back.
    """
    require("x", x=x, weights=weights)
    return _stream_read(rows(x, 2), *groups(weights, x.shape[:-2], 1)).view(*x.shape[:-2],
                                                                            x.shape[-1])


def stream_mix(x: Tensor, matrix: Tensor) -> Tensor:
    """H X, as `operators.stream_mix` for a square H, n up to 8: 2n d numbers moved per token, and
    3n d on the way back.
    """
    require("x", x=x, matrix=matrix)
    return _stream_mix(rows(x, 2), *groups(matrix, x.shape[:-2], 2), None, 1, None).view(x.shape)


def stream_mix_write(x: Tensor, matrix: Tensor, weights: Tensor, update: Tensor) -> Tensor:
    """H X + b ⊗ h, as `operators.stream_mix_write`, for n up to 8:

    (2n + 1) d numbers moved per token, and (3n + 2) d on the way back.
    """
    require("x", x=x, matrix=matrix, weights=weights, update=update)
    tokens = x.shape[:-2]
    h = rows(update.to(x.dtype).expand(*tokens, x.shape[-1]), 1)
    return _stream_mix(rows(x, 2), *groups(matrix, tokens, 2), *groups(weights, tokens, 1),
                       h).view(x.shape)


@custom_op("geolab::stream_read", mutates_args=())
def _stream_read(x: Tensor, a: Tensor, span: int) -> Tensor:
    N, n, d = x.shape
    y, tile = buffer(N, d, like=x), across(x)
    if y.numel():
        with on(x):
            _read[(triton.cdiv(N, tile["TOKENS"]) * triton.cdiv(d, tile["FEATURES"]),)](x, a, y, N,
                                                                                        d, span, n,
                                                                                        span > 1,
                                                                                        **tile)
    return y


@custom_op("geolab::stream_read_backward", mutates_args=())
def _stream_read_backward(grad: Tensor, x: Tensor, a: Tensor, span: int) -> tuple[Tensor, Tensor]:
    N, n, d = x.shape
    grad_x, grad_a, tile = buffer(N, n, d, like=x), buffer(N, n, like=a), along(x)
    if N:
        with on(x):
            _read_backward[(triton.cdiv(N, tile["TOKENS"]),)](grad, x, a, grad_x, grad_a, N, d,
                                                              span, n, span > 1, **tile)
    return grad_x, grad_a


@_stream_read.register_fake
def _(x, a, span):
    return x.new_empty(x.shape[0], x.shape[2])


@_stream_read_backward.register_fake
def _(grad, x, a, span):
    return torch.empty_like(x), a.new_empty(x.shape[0], x.shape[1])


def _keep_read(ctx, inputs, output):
    x, a, ctx.span = inputs
    ctx.save_for_backward(x, a)


def _read_vjp(ctx, grad):
    x, a = ctx.saved_tensors
    grad_x, grad_a = _stream_read_backward(grad.contiguous(), x, a, ctx.span)
    return grad_x, summed(grad_a, ctx.span, a), None


_stream_read.register_autograd(_read_vjp, setup_context=_keep_read)


@custom_op("geolab::stream_mix", mutates_args=())
def _stream_mix(x: Tensor, matrix: Tensor, span: int, b: Tensor | None, span_b: int,
                h: Tensor | None) -> Tensor:
    N, n, d = x.shape
    y, tile, write = buffer(N, n, d, like=x), across(x), h is not None
    if y.numel():
        with on(x):
            _mix[(triton.cdiv(N, tile["TOKENS"]) * triton.cdiv(d, tile["FEATURES"]),)](x, matrix,
                                                                                       b if write
                                                                                       else matrix,
                                                                                       h if write
                                                                                       else x, y, N,
                                                                                       d, span,
                                                                                       span_b, n,
                                                                                       write,
                                                                                       span
                                                                                       * span_b > 1,
                                                                                       **tile)
    return y


@custom_op("geolab::stream_mix_backward", mutates_args=())
def _stream_mix_backward(grad: Tensor, x: Tensor, matrix: Tensor, span: int, b: Tensor | None,
                         span_b: int, h: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    N, n, d = x.shape
    write, tile = h is not None, along(x)
    grad_x, grad_matrix = buffer(N, n, d, like=x), buffer(N, n, n, like=matrix)
    grad_b, grad_h = (buffer(N, n, like=b),
                      buffer(N, d, like=h)) if write else (matrix.new_empty(0), x.new_empty(0))
    if N:
        with on(x):
            _mix_backward[(triton.cdiv(N, tile["TOKENS"]),)](grad, x, matrix, b if write
                                                             else matrix, h if write else x, grad_x,
                                                             grad_matrix, grad_b, grad_h, N, d,
                                                             span, span_b, n, write,
                                                             span * span_b > 1, **tile)
    return grad_x, grad_matrix, grad_b, grad_h


@_stream_mix.register_fake
def _(x, matrix, span, b, span_b, h):
    return torch.empty_like(x)


@_stream_mix_backward.register_fake
def _(grad, x, matrix, span, b, span_b, h):
    N, n, _ = x.shape
    return (torch.empty_like(x), matrix.new_empty(N, n, n), matrix.new_empty(0) if b is None
            else b.new_empty(N, n), x.new_empty(0) if h is None else torch.empty_like(h))


def _keep_mix(ctx, inputs, output):
    x, matrix, ctx.span, b, ctx.span_b, h = inputs
    ctx.save_for_backward(x, matrix, b, h)


def _mix_vjp(ctx, grad):
    x, matrix, b, h = ctx.saved_tensors
    grad_x, grad_matrix, grad_b, grad_h = _stream_mix_backward(grad.contiguous(), x, matrix,
                                                               ctx.span, b, ctx.span_b, h)
    written = (None, None, None) if h is None else (summed(grad_b, ctx.span_b, b), None, grad_h)
    return grad_x, summed(grad_matrix, ctx.span, matrix), None, *written


_stream_mix.register_autograd(_mix_vjp, setup_context=_keep_mix)


@triton.jit(do_not_specialize=["N", "span"])
def _read(X, A, Y, N, d, span, n: tl.constexpr, SHARED: tl.constexpr, TOKENS: tl.constexpr,
          FEATURES: tl.constexpr):
    tiles = tl.cdiv(d, FEATURES)
    token = (tl.program_id(0) // tiles).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    feature = tl.program_id(0) % tiles * FEATURES + tl.arange(0, FEATURES)
    inside = token < N
    mask = inside[:, None] & (feature < d)[None, :]
    x = vectors(X, (token * n * d)[:, None] + feature[None, :], mask, d, n)
    a = coefficients(A, token, inside, span, n, SHARED)
    y = a[0] * x[0].to(tl.float32)
    for i in tl.static_range(1, n):
        y += a[i] * x[i].to(tl.float32)
    tl.store(Y + (token * d)[:, None] + feature[None, :], y.to(Y.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=["N", "span"])
def _read_backward(GY, X, A, GX, GA, N, d, span, n: tl.constexpr, SHARED: tl.constexpr,
                   TOKENS: tl.constexpr, FEATURES: tl.constexpr):
    token = tl.program_id(0).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    inside = token < N
    a = coefficients(A, token, inside, span, n, SHARED)
    sums = zeros(n, X, TOKENS, FEATURES)
    for start in range(0, d, FEATURES):
        feature = start + tl.arange(0, FEATURES)
        mask = inside[:, None] & (feature < d)[None, :]
        place = (token * n * d)[:, None] + feature[None, :]
        gy = tl.load(GY + (token * d)[:, None] + feature[None, :], mask=mask,
                     other=0.0).to(tl.float32)
        x = vectors(X, place, mask, d, n)
        for i in tl.static_range(n):
            tl.store(GX + place + i * d, (a[i] * gy).to(GX.dtype.element_ty), mask=mask)
            sums = added(sums, i, gy, x[i].to(tl.float32))
    store_sums(GA, token, inside, sums)


@triton.jit(do_not_specialize=["N", "span", "span_b"])
def _mix(X, H, B, U, Y, N, d, span, span_b, n: tl.constexpr, WRITE: tl.constexpr,
         SHARED: tl.constexpr, TOKENS: tl.constexpr, FEATURES: tl.constexpr):
    tiles = tl.cdiv(d, FEATURES)
    token = (tl.program_id(0) // tiles).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    feature = tl.program_id(0) % tiles * FEATURES + tl.arange(0, FEATURES)
    inside = token < N
    mask = inside[:, None] & (feature < d)[None, :]
    place = (token * n * d)[:, None] + feature[None, :]
    x = vectors(X, place, mask, d, n)
    if WRITE:
        u = tl.load(U + (token * d)[:, None] + feature[None, :], mask=mask,
                    other=0.0).to(tl.float32)
        b = coefficients(B, token, inside, span_b, n, SHARED)
    matrix = coefficients(H, token, inside, span, n * n, SHARED)
    for i in tl.static_range(n):
        y = matrix[i * n] * x[0].to(tl.float32)
        for j in tl.static_range(1, n):
            y += matrix[i * n + j] * x[j].to(tl.float32)
        if WRITE:
            y += b[i] * u
        tl.store(Y + place + i * d, y.to(Y.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=["N", "span", "span_b"])
def _mix_backward(GY, X, H, B, U, GX, GH, GB, GU, N, d, span, span_b, n: tl.constexpr,
                  WRITE: tl.constexpr, SHARED: tl.constexpr, TOKENS: tl.constexpr,
                  FEATURES: tl.constexpr):
    token = tl.program_id(0).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    inside = token < N
    matrix = coefficients(H, token, inside, span, n * n, SHARED)
    if WRITE:
        b = coefficients(B, token, inside, span_b, n, SHARED)
    sums = zeros(n * n + n if WRITE else n * n, X, TOKENS, FEATURES)  # dY Xᵀ row by row, then dY h
    for start in range(0, d, FEATURES):
        feature = start + tl.arange(0, FEATURES)
        mask = inside[:, None] & (feature < d)[None, :]
        place = (token * n * d)[:, None] + feature[None, :]
        gy = vectors(GY, place, mask, d, n)
        x = vectors(X, place, mask, d, n)
        if WRITE:
            own = (token * d)[:, None] + feature[None, :]
            u = tl.load(U + own, mask=mask, other=0.0).to(tl.float32)
            gu = b[0] * gy[0].to(tl.float32)
            for i in tl.static_range(1, n):
                gu += b[i] * gy[i].to(tl.float32)
            tl.store(GU + own, gu.to(GU.dtype.element_ty), mask=mask)
            for i in tl.static_range(n):
                sums = added(sums, n * n + i, gy[i].to(tl.float32), u)
        for j in tl.static_range(n):
            gx = matrix[j] * gy[0].to(tl.float32)
            for i in tl.static_range(1, n):
                gx += matrix[i * n + j] * gy[i].to(tl.float32)
            tl.store(GX + place + j * d, gx.to(GX.dtype.element_ty), mask=mask)
            for i in tl.static_range(n):
                sums = added(sums, i * n + j, gy[i].to(tl.float32), x[j].to(tl.float32))
    store_sums(GH, token, inside, sums[:n * n])
    if WRITE:
        store_sums(GB, token, inside, sums[n * n:])
