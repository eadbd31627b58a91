"""X + b ⊗ h and its gradients: the kernels that write to streams that aren't mixed.

The gradient of X is that of the result itself, so the backward pass doesn't touch X.

Legend: N tokens, n streams, d features per stream. A row of b belongs to `span` consecutive tokens.
"""

from math import ceil

import triton
import triton.language as tl
from torch import Tensor

from geolab.kernels import launch
from geolab.kernels.launch import expanded, groups, summed, twin
from geolab.kernels.tiles import across, added, along, coefficients, store_sums, vectors, zeros


@twin
def stream_write(x: Tensor, weights: Tensor, update: Tensor) -> Tensor:
    """X + b ⊗ h, as `operators.stream_write`, for n up to 8.

    The forward pass moves (2n + 1) d numbers per token, and the backward pass (n + 2) d.
    Raises: ValueError for a mix of devices; TypeError for a dtype that kernels don't read.
    """
    launch.require("x", x=x, weights=weights, update=update)
    *tokens, _, d = x.shape
    b, span = groups(weights, x.shape[:-2], 1)
    return _stream_write(x.contiguous(), expanded(update, *tokens, d).contiguous(), b, span)


def _launch(x: Tensor, h: Tensor, b: Tensor, span: int, y: Tensor) -> None:
    N, n, d = x.shape[:-2].numel(), *x.shape[-2:]
    tile = across(d, x.element_size())
    programs = ceil(N / tile["TOKENS"]) * ceil(d / tile["FEATURES"])
    _write[(programs,)](x, h, b, y, N, d, span, n, span > 1, **tile)


def _launch_backward(grad: Tensor, h: Tensor, b: Tensor, span: int, gh: Tensor,
                     gb: Tensor) -> None:
    N, n, d = grad.shape[:-2].numel(), *grad.shape[-2:]
    tile = along(d, grad.element_size())
    _write_backward[(ceil(N / tile["TOKENS"]),)](grad, h, b, gh, gb, N, d, span, n, span > 1,
                                                 **tile)


@launch.op("geolab::stream_write", _launch)
def _stream_write(x: Tensor, h: Tensor, b: Tensor, span: int) -> Tensor:
    return x.new_empty(x.shape)


@launch.op("geolab::stream_write_backward", _launch_backward)
def _stream_write_backward(grad: Tensor, h: Tensor, b: Tensor, span: int) -> tuple[Tensor, Tensor]:
    return h.new_empty(h.shape), b.new_empty(grad.shape[:-1])


def _vjp(grad, h, b, span):
    gh, gb = _stream_write_backward(grad, h, b, span)
    return grad, gh, summed(gb, span, b)


launch.differentiate(_stream_write, _vjp, keep=lambda inputs, outputs: inputs[1:])


# ---------------------------------------------------------------- in Triton

@triton.jit(do_not_specialize=["N", "span"])
def _write(X, U, B, Y, N, d, span, n: tl.constexpr, SHARED: tl.constexpr, TOKENS: tl.constexpr,
           FEATURES: tl.constexpr):
    tiles = tl.cdiv(d, FEATURES)
    token = (tl.program_id(0) // tiles).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    feature = tl.program_id(0) % tiles * FEATURES + tl.arange(0, FEATURES)
    inside = token < N
    mask = inside[:, None] & (feature < d)[None, :]
    place = (token * n * d)[:, None] + feature[None, :]
    x = vectors(X, place, mask, d, n)
    h = tl.load(U + (token * d)[:, None] + feature[None, :], mask=mask, other=0.0).to(tl.float32)
    b = coefficients(B, token, inside, span, n, SHARED)
    for i in tl.static_range(n):
        y = x[i].to(tl.float32) + b[i] * h
        tl.store(Y + place + i * d, y.to(Y.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=["N", "span"])
def _write_backward(GY, U, B, GU, GB, N, d, span, n: tl.constexpr, SHARED: tl.constexpr,
                    TOKENS: tl.constexpr, FEATURES: tl.constexpr):
    token = tl.program_id(0).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    inside = token < N
    b = coefficients(B, token, inside, span, n, SHARED)
    sums = zeros(n, GY, TOKENS, FEATURES)
    for start in range(0, d, FEATURES):
        feature = start + tl.arange(0, FEATURES)
        mask = inside[:, None] & (feature < d)[None, :]
        own = (token * d)[:, None] + feature[None, :]
        g = vectors(GY, (token * n * d)[:, None] + feature[None, :], mask, d, n)
        h = tl.load(U + own, mask=mask, other=0.0).to(tl.float32)
        gh = b[0] * g[0].to(tl.float32)
        for i in tl.static_range(1, n):
            gh += b[i] * g[i].to(tl.float32)
        tl.store(GU + own, gh.to(GU.dtype.element_ty), mask=mask)
        for i in tl.static_range(n):
            sums = added(sums, i, g[i].to(tl.float32), h)
    store_sums(GB, token, inside, sums)
