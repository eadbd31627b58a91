"""aᵀX, H X + b ⊗ h and their gradients: the kernels that read, mix and write streams. A read may
take the norm that follows it.

Legend: N tokens, n streams, d features per stream. A coefficient belongs to `span` consecutive
tokens: 1, or a whole sequence. The state and the update are read, and their gradients are written,
each in its own dtype. Coefficients, sums and their gradients are float32.
"""

from math import ceil

import triton
import triton.language as tl
from torch import Tensor

from geolab.kernels import normed
from geolab.kernels.launch import differentiate, expanded, groups, op, require, summed, twin
from geolab.kernels.tiles import across, added, along, coefficients, store_sums, vectors, zeros
from geolab.kernels.totals import add_up


@twin
def stream_read(x: Tensor, weights: Tensor, ports: tuple = (),
                norm: tuple[Tensor, float] | None = None) -> Tensor:
    """aᵀX, or its RMS norm, as `operators.stream_read`, for n up to 8.

    The forward pass moves (n + 1) d numbers per token, and the backward pass (2n + 1) d. With
    ports, which take the factors of the gradient of X, the backward pass moves (n + 1) d, and
    (n + 2) d if there is a norm.
    Raises: ValueError for a mix of devices; TypeError for a dtype that kernels don't read.
    """
    gamma, eps = (None, 0.0) if norm is None else norm
    require("x", x=x, weights=weights, **({} if gamma is None else {"norm": gamma}))
    gamma = None if gamma is None else gamma.float().contiguous()
    if ports:
        return _read_apart(x, expanded(weights, *x.shape[:-1]).float().contiguous(), gamma, *ports,
                           eps)
    a, span = groups(weights, x.shape[:-2], 1)
    return _stream_read(x.contiguous(), a, gamma, span, eps)


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

def _launch_read(x: Tensor, a: Tensor, gamma: Tensor | None, span: int, eps: float,
                 y: Tensor) -> None:
    N, n, d = x.shape[:-2].numel(), *x.shape[-2:]
    tile = reading(x, gamma)
    programs = ceil(N / tile["TOKENS"]) * ceil(d / tile["FEATURES"])
    _read[(programs,)](x, a, a if gamma is None else gamma, y, N, d, span, eps, n, span > 1,
                       gamma is not None, **tile)


def reading(x: Tensor, gamma: Tensor | None) -> dict[str, int]:
    """The tile of a program that reads: whole tokens, if it takes their norm too."""
    tile = across if gamma is None else normed.whole
    return tile(x.shape[-1], x.element_size())


def read_backward(grad: Tensor, x: Tensor, a: Tensor, span: int, *grads: Tensor) -> None:
    """Fill the gradients of X and a, or that of a alone."""
    N, n, d = x.shape[:-2].numel(), *x.shape[-2:]
    tile = along(d, x.element_size())
    _read_backward[(ceil(N / tile["TOKENS"]),)](
        grad, x, a, grads[0], grads[-1], N, d, span, n, len(grads) == 2, span > 1, **tile)


def _launch_read_backward(grad: Tensor, x: Tensor, a: Tensor, gamma: Tensor | None, span: int,
                          eps: float, gx: Tensor, ga: Tensor, of_gamma: Tensor) -> None:
    if gamma is None:
        read_backward(grad, x, a, span, gx, ga)
    else:
        add_up((normed.backward(grad, x, a, span, gamma, eps, gx, ga, of_gamma, None), of_gamma))


def _launch_apart_backward(grad: Tensor, x: Tensor, a: Tensor, gamma: Tensor | None, eps: float,
                           ga: Tensor, of_gamma: Tensor, gu: Tensor) -> None:
    if gamma is None:
        read_backward(grad, x, a, 1, ga)
    else:
        add_up((normed.backward(grad, x, a, 1, gamma, eps, None, ga, of_gamma, gu), of_gamma))


@op("geolab::stream_read", _launch_read)
def _stream_read(x: Tensor, a: Tensor, gamma: Tensor | None, span: int, eps: float) -> Tensor:
    *tokens, _, d = x.shape
    return x.new_empty((*tokens, d))


@op("geolab::stream_read_backward", _launch_read_backward)
def _stream_read_backward(grad: Tensor, x: Tensor, a: Tensor, gamma: Tensor | None, span: int,
                          eps: float) -> tuple[Tensor, Tensor, Tensor]:
    return x.new_empty(x.shape), a.new_empty(x.shape[:-1]), a.new_empty(_shape(gamma))


def _shape(gamma: Tensor | None) -> tuple[int, ...]:
    return (0,) if gamma is None else gamma.shape


def _read_vjp(grad, x, a, gamma, span, eps):
    gx, ga, of_gamma = _stream_read_backward(grad, x, a, gamma, span, eps)
    return gx, summed(ga, span, a), None if gamma is None else of_gamma


differentiate(_stream_read, _read_vjp)


# aᵀX, where another kernel forms the gradient of X from the gradients of two ports

@op("geolab::stream_read_apart",
    lambda x, a, gamma, u_port, a_port, eps, y: _launch_read(x, a, gamma, 1, eps, y))
def _read_apart(x: Tensor, a: Tensor, gamma: Tensor | None, u_port: Tensor, a_port: Tensor,
                eps: float) -> Tensor:
    return x.new_empty(u_port.shape)


@op("geolab::stream_read_apart_backward", _launch_apart_backward)
def _read_apart_backward(grad: Tensor, x: Tensor, a: Tensor, gamma: Tensor | None,
                         eps: float) -> tuple[Tensor, Tensor, Tensor]:
    return (a.new_empty(a.shape), a.new_empty(_shape(gamma)),
            grad.new_empty(grad.shape if gamma is not None else (0,)))


def _apart_vjp(grad, x, a, gamma, eps):
    ga, of_gamma, gu = _read_apart_backward(grad, x, a, gamma, eps)
    return (None, ga, None, grad, a) if gamma is None else (None, ga, of_gamma, gu, a)


differentiate(_read_apart, _apart_vjp, keep=lambda inputs, outputs: (*inputs[:3], inputs[5]))


# ---------------------------------------------------------------- mix, and write

def _launch_mix(x: Tensor, matrix: Tensor, span: int, b: Tensor | None, span_b: int,
                h: Tensor | None, y: Tensor) -> None:
    N, n, d = x.shape[:-2].numel(), *x.shape[-2:]
    tile, write = across(d, x.element_size()), h is not None
    programs = ceil(N / tile["TOKENS"]) * ceil(d / tile["FEATURES"])
    _mix[(programs,)](x, matrix, b if write else matrix, h if write else x, y, N, d, span, span_b,
                      n, write, span * span_b > 1, **tile)


def _launch_mix_backward(grad: Tensor, x: Tensor, matrix: Tensor, span: int, b: Tensor | None,
                         span_b: int, h: Tensor | None, *grads: Tensor) -> None:
    N, n, d = x.shape[:-2].numel(), *x.shape[-2:]
    tile, write = along(d, x.element_size()), h is not None
    _mix_backward[(ceil(N / tile["TOKENS"]),)](
        grad, x, matrix, b if write else matrix, h if write else x, *grads, N, d, span, span_b, n,
        write, span * span_b > 1, **tile)


@op("geolab::stream_mix", _launch_mix)
def _stream_mix(x: Tensor, matrix: Tensor, span: int, b: Tensor | None, span_b: int,
                h: Tensor | None) -> Tensor:
    return x.new_empty(x.shape)


@op("geolab::stream_mix_backward", _launch_mix_backward)
def _stream_mix_backward(grad: Tensor, x: Tensor, matrix: Tensor, span: int, b: Tensor | None,
                         span_b: int, h: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    *tokens, n, _ = x.shape
    vector, update = ((*tokens, n), h.shape) if h is not None else ((0,), (0,))
    return (x.new_empty(x.shape), matrix.new_empty((*tokens, n, n)),
            matrix.new_empty(vector), (x if h is None else h).new_empty(update))


def _mix_vjp(grad, x, matrix, span, b, span_b, h):
    grad_x, grad_matrix, grad_b, grad_h = _stream_mix_backward(grad, x, matrix, span, b, span_b, h)
    written = () if h is None else (None, summed(grad_b, span_b, b), None, grad_h)
    return grad_x, summed(grad_matrix, span, matrix), *written


differentiate(_stream_mix, _mix_vjp)


# ---------------------------------------------------------------- in Triton

@triton.jit(do_not_specialize=["N", "span"])
def _read(X, A, GAMMA, Y, N, d, span, eps, n: tl.constexpr, SHARED: tl.constexpr,
          NORM: tl.constexpr, TOKENS: tl.constexpr, FEATURES: tl.constexpr):
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
    if NORM:
        y = normed.normed(y, GAMMA, feature, d, eps)
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
