"""aᵀX, H X + b ⊗ h and their gradients: the kernels that read, mix and write streams.

Legend: N tokens, n streams, d features per stream. A coefficient belongs to `span` consecutive
tokens: 1, or a whole sequence. The state and the update are read, and their gradients are written,
each in its own dtype. Coefficients, sums and their gradients are float32.
"""

import triton
import triton.language as tl
from torch import Tensor

from geolab.kernels.launch import (
    buffer,
    cdiv,
    differentiate,
    expanded,
    groups,
    op,
    require,
    sizes,
    summed,
    twin,
)
from geolab.kernels.tiles import across, added, along, coefficients, store_sums, vectors, zeros


@twin
def stream_read(x: Tensor, weights: Tensor, ports: tuple = ()) -> Tensor:
    """aᵀX, as `operators.stream_read`, for n up to 8.

    The forward pass moves (n + 1) d numbers per token, and the backward pass (2n + 1) d. With
    ports, which take the factors of the gradient of X, the backward pass moves (n + 1) d.
    Raises: ValueError for a mix of devices; TypeError for a dtype that kernels don't read.
    """
    require("x", x=x, weights=weights)
    if ports:
        return _read_apart(x, expanded(weights, *x.shape[:-1]).float().contiguous(), *ports)
    return _stream_read(x.contiguous(), *groups(weights, x.shape[:-2], 1))


@twin
def stream_mix(x: Tensor, matrix: Tensor) -> Tensor:
    """H X, as `operators.stream_mix` for a square H, for n up to 8.

    The forward pass moves 2n d numbers per token, and the backward pass 3n d.
    Raises: ValueError for a mix of devices; TypeError for a dtype that kernels don't read.
    """
    require("x", x=x, matrix=matrix)
    return _stream_mix(x.contiguous(), *groups(matrix, x.shape[:-2], 2), None, 1, None)


@twin
def stream_mix_write(x: Tensor, matrix: Tensor, weights: Tensor, update: Tensor) -> Tensor:
    """H X + b ⊗ h, as `operators.stream_mix_write`, for n up to 8.

    The forward pass moves (2n + 1) d numbers per token, and the backward pass (3n + 2) d.
    Raises: ValueError for a mix of devices; TypeError for a dtype that kernels don't read.
    """
    require("x", x=x, matrix=matrix, weights=weights, update=update)
    tokens = x.shape[:-2]
    h = expanded(update, *tokens, x.shape[-1]).contiguous()
    return _stream_mix(x.contiguous(), *groups(matrix, tokens, 2), *groups(weights, tokens, 1), h)


# ---------------------------------------------------------------- read

def _launch_read(x: Tensor, a: Tensor, span: int, y: Tensor) -> None:
    N, n, d = sizes(x, 2)
    tile = across(x)
    programs = cdiv(N, tile["TOKENS"]) * cdiv(d, tile["FEATURES"])
    _read[(programs,)](x, a, y, N, d, span, n, span > 1, **tile)


def _launch_read_backward(grad: Tensor, x: Tensor, a: Tensor, span: int, *grads: Tensor) -> None:
    N, n, d = sizes(x, 2)
    tile = along(x)
    _read_backward[(cdiv(N, tile["TOKENS"]),)](grad, x, a, grads[0], grads[-1], N, d, span, n,
                                               len(grads) == 2, span > 1, **tile)


@op("geolab::stream_read", _launch_read)
def _stream_read(x: Tensor, a: Tensor, span: int) -> Tensor:
    *tokens, _, d = x.shape
    return buffer(*tokens, d, like=x)


@op("geolab::stream_read_backward", _launch_read_backward)
def _stream_read_backward(grad: Tensor, x: Tensor, a: Tensor, span: int) -> tuple[Tensor, Tensor]:
    return buffer(*x.shape, like=x), buffer(*x.shape[:-1], like=a)


def _read_vjp(grad, x, a, span):
    grad_x, grad_a = _stream_read_backward(grad, x, a, span)
    return grad_x, summed(grad_a, span, a)


differentiate(_stream_read, _read_vjp)


# aᵀX, where another kernel forms the gradient of X from the gradients of two ports

@op("geolab::stream_read_apart", lambda x, a, u_port, a_port, y: _launch_read(x, a, 1, y))
def _read_apart(x: Tensor, a: Tensor, u_port: Tensor, a_port: Tensor) -> Tensor:
    return buffer(*u_port.shape, like=x)


@op("geolab::stream_read_apart_backward",
    lambda grad, x, a, grad_a: _launch_read_backward(grad, x, a, 1, grad_a))
def _read_apart_backward(grad: Tensor, x: Tensor, a: Tensor) -> Tensor:
    return buffer(*a.shape, like=a)


differentiate(_read_apart, lambda grad, x, a: (None, _read_apart_backward(grad, x, a), grad, a),
              keep=lambda inputs, outputs: inputs[:2])


# ---------------------------------------------------------------- mix, and write

def _launch_mix(x: Tensor, matrix: Tensor, span: int, b: Tensor | None, span_b: int,
                h: Tensor | None, y: Tensor) -> None:
    N, n, d = sizes(x, 2)
    tile, write = across(x), h is not None
    programs = cdiv(N, tile["TOKENS"]) * cdiv(d, tile["FEATURES"])
    _mix[(programs,)](x, matrix, b if write else matrix, h if write else x, y, N, d, span, span_b,
                      n, write, span * span_b > 1, **tile)


def _launch_mix_backward(grad: Tensor, x: Tensor, matrix: Tensor, span: int, b: Tensor | None,
                         span_b: int, h: Tensor | None, *grads: Tensor) -> None:
    N, n, d = sizes(x, 2)
    tile, write = along(x), h is not None
    _mix_backward[(cdiv(N, tile["TOKENS"]),)](
        grad, x, matrix, b if write else matrix, h if write else x, *grads, N, d, span, span_b, n,
        write, span * span_b > 1, **tile)


@op("geolab::stream_mix", _launch_mix)
def _stream_mix(x: Tensor, matrix: Tensor, span: int, b: Tensor | None, span_b: int,
                h: Tensor | None) -> Tensor:
    return buffer(*x.shape, like=x)


@op("geolab::stream_mix_backward", _launch_mix_backward)
def _stream_mix_backward(grad: Tensor, x: Tensor, matrix: Tensor, span: int, b: Tensor | None,
                         span_b: int, h: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    *tokens, n, _ = x.shape
    vector, update = ((*tokens, n), h.shape) if h is not None else ((0,), (0,))
    return (buffer(*x.shape, like=x), buffer(*tokens, n, n, like=matrix),
            buffer(*vector, like=matrix), buffer(*update, like=x if h is None else h))


def _mix_vjp(grad, x, matrix, span, b, span_b, h):
    grad_x, grad_matrix, grad_b, grad_h = _stream_mix_backward(grad, x, matrix, span, b, span_b, h)
    written = () if h is None else (None, summed(grad_b, span_b, b), None, grad_h)
    return grad_x, summed(grad_matrix, span, matrix), *written


differentiate(_stream_mix, _mix_vjp)


# ---------------------------------------------------------------- in Triton

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
def _read_backward(GY, X, A, GX, GA, N, d, span, n: tl.constexpr, STATE: tl.constexpr,
                   SHARED: tl.constexpr, TOKENS: tl.constexpr, FEATURES: tl.constexpr):
    token = tl.program_id(0).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    inside = token < N
    if STATE:
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
            if STATE:
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
