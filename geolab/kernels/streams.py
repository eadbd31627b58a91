"""aᵀX, H X + b ⊗ h and their gradients: the kernels that touch the streams.

Legend: N tokens, n streams, d features a stream. A coefficient belongs to `span` tokens in a row: 1, or a whole sequence.
Data are read and written in the state's dtype; coefficients, sums and their gradients are float32.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import custom_op

from geolab._checks import require_width
from geolab.kernels.launch import buffer, groups, on, require, rows, summed, tile


def stream_read(x: Tensor, weights: Tensor) -> Tensor:
    """aᵀX, as `operators.stream_read`: (n + 1) d numbers moved a token, and (2n + 1) d on the way back."""
    require("x", x=x, weights=weights)
    n, d = x.shape[-2:]
    require_width("weights", weights, n)
    a, span = groups(weights, x.shape[:-2], 1)
    return _stream_read(rows(x, 2), a, span).view(*x.shape[:-2], d)


@custom_op("geolab::stream_read", mutates_args=())
def _stream_read(x: Tensor, a: Tensor, span: int) -> Tensor:
    N, n, d = x.shape
    y = buffer(N, d, like=x)
    tokens, features = tile(d)
    if N:
        with on(x):
            _read[(triton.cdiv(N, tokens), triton.cdiv(d, features))](x, a, y, N, d, span, n, tokens, features)
    return y


@custom_op("geolab::stream_read_backward", mutates_args=())
def _stream_read_backward(grad: Tensor, x: Tensor, a: Tensor, span: int) -> tuple[Tensor, Tensor]:
    N, n, d = x.shape
    grad_x, grad_a = buffer(N, n, d, like=x), buffer(N, n, like=a)
    tokens, features = tile(d)
    if N:
        with on(x):
            _read_backward[(triton.cdiv(N, tokens),)](grad, x, a, grad_x, grad_a, N, d, span, n, tokens, features)
    return grad_x, grad_a


@_stream_read.register_fake
def _(x, a, span):
    return x.new_empty(x.shape[0], x.shape[2])


@_stream_read_backward.register_fake
def _(grad, x, a, span):
    return torch.empty_like(x), a.new_empty(x.shape[0], x.shape[1])


def _keep(ctx, inputs, output):
    x, a, ctx.span = inputs
    ctx.save_for_backward(x, a)


def _read_vjp(ctx, grad):
    x, a = ctx.saved_tensors
    grad_x, grad_a = _stream_read_backward(grad.contiguous(), x, a, ctx.span)
    return grad_x, summed(grad_a, ctx.span), None


_stream_read.register_autograd(_read_vjp, setup_context=_keep)


@triton.jit(do_not_specialize=["N", "span"])
def _read(X, A, Y, N, d, span, n: tl.constexpr, TOKENS: tl.constexpr, FEATURES: tl.constexpr):
    token = tl.program_id(0).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    feature = tl.program_id(1) * FEATURES + tl.arange(0, FEATURES)
    inside = token < N
    mask = inside[:, None] & (feature < d)[None, :]
    y = tl.zeros([TOKENS, FEATURES], tl.float32)
    for i in tl.static_range(n):
        a = tl.load(A + token // span * n + i, mask=inside, other=0.0)
        y += a[:, None] * tl.load(X + (token * n + i)[:, None] * d + feature[None, :], mask=mask, other=0.0).to(tl.float32)
    tl.store(Y + token[:, None] * d + feature[None, :], y.to(Y.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=["N", "span"])
def _read_backward(GY, X, A, GX, GA, N, d, span, n: tl.constexpr, TOKENS: tl.constexpr, FEATURES: tl.constexpr):
    token = tl.program_id(0).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    inside = token < N
    a, sums = (), ()
    for i in tl.static_range(n):
        a = a + (tl.load(A + token // span * n + i, mask=inside, other=0.0),)
        sums = sums + (tl.zeros([TOKENS, FEATURES], tl.float32),)
    for start in range(0, d, FEATURES):
        feature = start + tl.arange(0, FEATURES)
        mask = inside[:, None] & (feature < d)[None, :]
        gy = tl.load(GY + token[:, None] * d + feature[None, :], mask=mask, other=0.0).to(tl.float32)
        added = ()
        for i in tl.static_range(n):
            place = (token * n + i)[:, None] * d + feature[None, :]
            x = tl.load(X + place, mask=mask, other=0.0).to(tl.float32)
            tl.store(GX + place, (a[i][:, None] * gy).to(GX.dtype.element_ty), mask=mask)
            added = added + (sums[i] + gy * x,)
        sums = added
    for i in tl.static_range(n):
        tl.store(GA + token * n + i, tl.sum(sums[i], axis=1), mask=inside)
