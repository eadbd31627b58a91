"""X + β k (vᵀ − kᵀX) and X + β ⊙ (h − α X), with their gradients.

Each pass, forward and backward, reads and writes the state once.

Legend: N tokens, d features, d_v value channels. Channels are padded to a power of two, so powers
of two are fast. Value and β each belong to a span of consecutive tokens: 1, or more where tokens
share them. Vectors are read, and their gradients written, each in its own dtype. Value, β, α, sums
and their gradients are float32.
"""

from functools import cache
from math import ceil

import torch
import triton
import triton.language as tl
from torch import Tensor

from geolab.kernels import number
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
from geolab.kernels.tiles import inverse_length

# Numbers per program of the diagonal update: each thread has 16 of each vector, in two loads.
BLOCK = 32768 if INTERPRETED else 2048


# ---------------------------------------------------------------- the delta update

@twin
def delta_update(x: Tensor, direction: Tensor, value: Tensor | float, beta: Tensor | float,
                 erase: bool = True, eps: float | None = None) -> Tensor:
    """X + β k (vᵀ − kᵀX), as `operators.delta_update`.

    With eps, k = h / sqrt(‖h‖² + eps²) is computed in registers and never written. The forward pass
    moves (2 d_v + 1) d numbers per token. The backward pass moves (3 d_v + 2) d, and (d_v + 2) d
    without erasure.
    Raises: ValueError for a mix of devices; TypeError for a dtype that kernels don't read.
    """
    value, beta = number(value, x), number(beta, x)
    require("x", x=x, direction=direction, value=value, beta=beta)
    axes = x.ndim - direction.ndim + 1  # 1 for a vector state, 2 for a matrix state
    value = (value.unsqueeze(-1) if axes == 1
             else expanded(value, *value.shape[:-1], x.shape[-1]))
    leading = common(x.shape[:-axes], direction.shape[:-1], value.shape[:-1], beta.shape)
    h = expanded(direction, *leading, direction.shape[-1]).contiguous()
    state = expanded(x, *leading, *x.shape[-axes:]).contiguous()
    y, _, _ = _delta_update(state, h, *groups(value, leading, 1), *groups(beta, leading, 0), erase,
                            eps)
    return y


@cache
def plan(d: int, d_v: int, most: int) -> dict[str, int]:
    """The layout of a program, as constants of the kernel.

    A tile has 8 numbers per thread, and a token gets the fewest warps that hold it in 4 tiles.
    Small tokens share a program of 4 warps.

    As long as tiles times warps is at most `most`, two programs fit into a multiprocessor's
    registers. Then a program holds its whole tokens, and reads nothing twice. Of a longer token it
    holds the first two tiles, and reads the others twice, the second time from a cache.
    """
    channels = 1 << (d_v - 1).bit_length()
    warps = min(1 << (ceil(d * channels / 1024) - 1).bit_length(), 16)
    features = min(1 << (d - 1).bit_length(), max(256 * warps // channels, 1))
    tiles = ceil(d / features)
    return dict(TOKENS=max((16 if INTERPRETED else 1) * 1024 // (features * channels), 1),
                FEATURES=features, CHANNELS=channels, TILES=tiles,
                HELD=tiles if tiles * warps <= most else 2, num_warps=max(warps, 4))


def _launch(x: Tensor, h: Tensor, v: Tensor, span_v: int, beta: Tensor, span_beta: int,
            erase: bool, eps: float | None, *outputs: Tensor) -> None:
    N, d, d_v = h.shape[:-1].numel(), h.shape[-1], v.shape[-1]
    tiles = plan(d, d_v, most=64)
    _update[(ceil(N / tiles["TOKENS"]),)](
        x, h, v, beta, *outputs, N, d, span_v, span_beta, (eps or 0.0)**2, d_v, erase,
        eps is not None, **tiles)


def _launch_backward(grad: Tensor, x: Tensor | None, h: Tensor, v: Tensor, span_v: int,
                     beta: Tensor, span_beta: int, erase: bool, normalize: bool, readout: Tensor,
                     scale: Tensor, *grads: Tensor) -> None:
    N, d, d_v = h.shape[:-1].numel(), h.shape[-1], v.shape[-1]
    tiles = plan(d, d_v, most=32)
    _update_backward[(ceil(N / tiles["TOKENS"]),)](
        grad, grad if x is None else x, h, v, beta, readout, scale, *grads, N, d, span_v, span_beta,
        d_v, erase, normalize, **tiles)


@op("geolab::delta_update", _launch)
def _delta_update(x: Tensor, h: Tensor, v: Tensor, span_v: int, beta: Tensor, span_beta: int,
                  erase: bool, eps: float | None) -> tuple[Tensor, Tensor, Tensor]:
    *tokens, _ = h.shape
    return x.new_empty(x.shape), v.new_empty((*tokens, v.shape[-1])), v.new_empty(tokens)


@op("geolab::delta_update_backward", _launch_backward)
def _delta_update_backward(
        grad: Tensor, x: Tensor | None, h: Tensor, v: Tensor, span_v: int, beta: Tensor,
        span_beta: int, erase: bool, normalize: bool, readout: Tensor,
        scale: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    grad_x = grad.new_empty(grad.shape if erase else (0,))
    return grad_x, *(t.new_empty(t.shape) for t in (h, readout, scale))


def _kept(inputs: tuple, outputs: tuple) -> tuple:
    """The tensors that the backward pass needs. Without erasure it doesn't need x."""
    x, *others, erase, eps = inputs
    return x if erase else None, *others, erase, eps is not None, *outputs[1:]


def _vjp(grad, x, h, v, span_v, beta, span_beta, erase, *rest):
    grad_x, grad_h, grad_v, grad_beta = _delta_update_backward(grad, x, h, v, span_v, beta,
                                                               span_beta, erase, *rest)
    return (grad_x if erase else grad, grad_h, summed(grad_v, span_v, v), None,
            summed(grad_beta, span_beta, beta))


differentiate(_delta_update, _vjp, _kept)


# ---------------------------------------------------------------- the diagonal update

@twin
def diagonal_update(x: Tensor, update: Tensor, beta: Tensor, alpha: Tensor) -> Tensor:
    """X + β ⊙ (h − α X), as `operators.diagonal_update`.

    The forward pass moves 4 d numbers per token, and the backward pass 7 d.
    Raises: ValueError for a mix of devices; TypeError for a dtype that kernels don't read.
    """
    require("x", x=x, update=update, beta=beta, alpha=alpha)
    return _diagonal_update(*(t.contiguous() for t in (x, update, beta)), alpha.float().reshape(1))


def _launch_diagonal(x: Tensor, update: Tensor, beta: Tensor, alpha: Tensor, y: Tensor) -> None:
    N, d = x.shape[:-1].numel(), x.shape[-1]
    _diagonal[(ceil(N * d / BLOCK),)](x, update, beta, alpha, y, N, d, BLOCK)


def _launch_diagonal_backward(grad: Tensor, x: Tensor, update: Tensor, beta: Tensor, alpha: Tensor,
                              grad_x: Tensor, grad_update: Tensor, grad_beta: Tensor,
                              grad_alpha: Tensor) -> None:
    N, d = x.shape[:-1].numel(), x.shape[-1]
    programs = ceil(N * d / BLOCK)
    parts = alpha.new_empty(programs)
    _diagonal_backward[(programs,)](grad, x, update, beta, alpha, grad_x, grad_update, grad_beta,
                                    parts, N, d, BLOCK)
    torch.sum(parts, 0, out=grad_alpha.view(()))


@op("geolab::diagonal_update", _launch_diagonal)
def _diagonal_update(x: Tensor, update: Tensor, beta: Tensor, alpha: Tensor) -> Tensor:
    return x.new_empty(x.shape)


@op("geolab::diagonal_update_backward", _launch_diagonal_backward)
def _diagonal_update_backward(grad: Tensor, x: Tensor, update: Tensor, beta: Tensor,
                              alpha: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return *(t.new_empty(t.shape) for t in (x, update, beta)), alpha.new_empty(1)


differentiate(_diagonal_update, _diagonal_update_backward)


# ---------------------------------------------------------------- in Triton

@triton.jit
def _tile(token, N, start, d, d_v: tl.constexpr, FEATURES: tl.constexpr, CHANNELS: tl.constexpr):
    """The places of FEATURES features from `start` on, and a mask of those that exist.

    Features and channels are on one axis, so that the 16 bytes of a thread may span features.
    """
    flat = tl.arange(0, FEATURES * CHANNELS)[None, :]
    if d_v == CHANNELS:
        within, exists = start * d_v + flat, start * d_v + flat < d * d_v
    else:  # channels are padded to a power of two
        within = (start + flat // CHANNELS) * d_v + flat % CHANNELS
        exists = (start + flat // CHANNELS < d) & (flat % CHANNELS < d_v)
    return token * d * d_v + within, (token < N) & exists


@triton.jit
def _load(X, token, N, start, d, d_v: tl.constexpr, TOKENS: tl.constexpr, FEATURES: tl.constexpr,
          CHANNELS: tl.constexpr):
    """Read a tile (TOKENS, FEATURES, CHANNELS)."""
    place, mask = _tile(token, N, start, d, d_v, FEATURES, CHANNELS)
    return tl.load(X + place, mask=mask, other=0.0).reshape(TOKENS, FEATURES, CHANNELS)


@triton.jit
def _store(Y, y, token, N, start, d, d_v: tl.constexpr, TOKENS: tl.constexpr,
           FEATURES: tl.constexpr, CHANNELS: tl.constexpr):
    """Write a tile (TOKENS, FEATURES, CHANNELS)."""
    place, mask = _tile(token, N, start, d, d_v, FEATURES, CHANNELS)
    tl.store(Y + place, y.to(Y.dtype.element_ty).reshape(TOKENS, FEATURES * CHANNELS), mask=mask)


@triton.jit(do_not_specialize=["N", "span_v", "span_beta"])
def _update(X, H, V, BETA, Y, READOUT, SCALE, N, d, span_v, span_beta, eps2, d_v: tl.constexpr,
            ERASE: tl.constexpr, NORMALIZE: tl.constexpr, TOKENS: tl.constexpr,
            FEATURES: tl.constexpr, CHANNELS: tl.constexpr, TILES: tl.constexpr,
            HELD: tl.constexpr):
    token = (tl.program_id(0).to(tl.int64) * TOKENS + tl.arange(0, TOKENS))[:, None]
    channel = tl.arange(0, CHANNELS)[None, :]
    inside = token < N
    pair = inside & (channel < d_v)
    v = tl.load(V + token // span_v * d_v + channel, mask=pair, other=0.0)
    beta = tl.load(BETA + token // span_beta, mask=inside, other=0.0)
    hs, xs = (), ()
    for i in tl.static_range(HELD):
        hs = hs + (_load(H, token, N, i * FEATURES, d, 1, TOKENS, FEATURES, 1),)
        xs = xs + (_load(X, token, N, i * FEATURES, d, d_v, TOKENS, FEATURES, CHANNELS),)
    square = tl.zeros([TOKENS, FEATURES, 1], tl.float32)
    along = tl.zeros([TOKENS, FEATURES, CHANNELS], tl.float32)
    for i in tl.static_range(HELD):
        h = hs[i].to(tl.float32)
        square += h * h
        along += h * xs[i].to(tl.float32)
    for i in range(HELD, TILES):
        h = _load(H, token, N, i * FEATURES, d, 1, TOKENS, FEATURES, 1).to(tl.float32)
        square += h * h
        along += h * _load(X, token, N, i * FEATURES, d, d_v, TOKENS, FEATURES,
                           CHANNELS).to(tl.float32)
    scale = tl.full([TOKENS, 1], 1.0, tl.float32)  # k = scale h
    if NORMALIZE:
        scale = inverse_length(tl.where(inside, tl.sum(square, axis=1) + eps2, 1.0))
    readout = tl.zeros([TOKENS, CHANNELS], tl.float32)  # kᵀX, which the backward pass reads
    if ERASE:
        readout = scale * tl.sum(along, axis=1)
    tl.store(SCALE + token, scale, mask=inside)
    tl.store(READOUT + token * d_v + channel, readout, mask=pair)
    w = (beta * scale * (v - readout))[:, None, :]
    for i in tl.static_range(HELD):
        y = xs[i].to(tl.float32) + hs[i].to(tl.float32) * w
        _store(Y, y, token, N, i * FEATURES, d, d_v, TOKENS, FEATURES, CHANNELS)
    for i in range(HELD, TILES):
        h = _load(H, token, N, i * FEATURES, d, 1, TOKENS, FEATURES, 1).to(tl.float32)
        x = _load(X, token, N, i * FEATURES, d, d_v, TOKENS, FEATURES, CHANNELS).to(tl.float32)
        _store(Y, x + h * w, token, N, i * FEATURES, d, d_v, TOKENS, FEATURES, CHANNELS)


@triton.jit(do_not_specialize=["N", "span_v", "span_beta"])
def _update_backward(GY, X, H, V, BETA, READOUT, SCALE, GX, GH, GV, GBETA, N, d, span_v, span_beta,
                     d_v: tl.constexpr, ERASE: tl.constexpr, NORMALIZE: tl.constexpr,
                     TOKENS: tl.constexpr, FEATURES: tl.constexpr, CHANNELS: tl.constexpr,
                     TILES: tl.constexpr, HELD: tl.constexpr):
    token = (tl.program_id(0).to(tl.int64) * TOKENS + tl.arange(0, TOKENS))[:, None]
    channel = tl.arange(0, CHANNELS)[None, :]
    inside = token < N
    pair = inside & (channel < d_v)
    gys, hs, xs = (), (), ()
    for i in tl.static_range(HELD):
        hs = hs + (_load(H, token, N, i * FEATURES, d, 1, TOKENS, FEATURES, 1),)
        gys = gys + (_load(GY, token, N, i * FEATURES, d, d_v, TOKENS, FEATURES, CHANNELS),)
        xs = xs + (_load(X, token, N, i * FEATURES, d, d_v, TOKENS, FEATURES, CHANNELS)
                   if ERASE else gys[i],)
    v = tl.load(V + token // span_v * d_v + channel, mask=pair, other=0.0)
    readout = tl.load(READOUT + token * d_v + channel, mask=pair, other=0.0)
    beta = tl.load(BETA + token // span_beta, mask=inside, other=0.0)
    scale = tl.load(SCALE + token, mask=inside, other=0.0)
    along = tl.zeros([TOKENS, FEATURES, CHANNELS], tl.float32)
    for i in tl.static_range(HELD):
        along += hs[i].to(tl.float32) * gys[i].to(tl.float32)
    for i in range(HELD, TILES):
        h = _load(H, token, N, i * FEATURES, d, 1, TOKENS, FEATURES, 1).to(tl.float32)
        along += h * _load(GY, token, N, i * FEATURES, d, d_v, TOKENS, FEATURES,
                           CHANNELS).to(tl.float32)
    p = scale * tl.sum(along, axis=1)  # kᵀ dY
    w = v - readout
    tl.store(GV + token * d_v + channel, beta * p, mask=pair)
    tl.store(GBETA + token, tl.sum(p * w, axis=1, keep_dims=True), mask=inside)
    shrink = tl.zeros([TOKENS, 1], tl.float32)
    if NORMALIZE:  # dh = scale (dk − k kᵀdk), and kᵀdk = β pᵀ(w − kᵀX)
        shrink = beta * scale * scale * tl.sum(p * (w - readout), axis=1, keep_dims=True)
    w, p = (beta * scale * w)[:, None, :], (beta * scale * p)[:, None, :]
    shrink = shrink[:, None, :]
    for i in tl.static_range(HELD):
        _gradients(GX, GH, gys[i], xs[i], hs[i], w, p, shrink, token, N, i * FEATURES, d, d_v,
                   ERASE, TOKENS, FEATURES, CHANNELS)
    for i in range(HELD, TILES):
        h = _load(H, token, N, i * FEATURES, d, 1, TOKENS, FEATURES, 1)
        gy = _load(GY, token, N, i * FEATURES, d, d_v, TOKENS, FEATURES, CHANNELS)
        x = _load(X, token, N, i * FEATURES, d, d_v, TOKENS, FEATURES, CHANNELS) if ERASE else gy
        _gradients(GX, GH, gy, x, h, w, p, shrink, token, N, i * FEATURES, d, d_v, ERASE, TOKENS,
                   FEATURES, CHANNELS)


@triton.jit
def _gradients(GX, GH, gy, x, h, w, p, shrink, token, N, start, d, d_v: tl.constexpr,
               ERASE: tl.constexpr, TOKENS: tl.constexpr, FEATURES: tl.constexpr,
               CHANNELS: tl.constexpr):
    """Write dX = dY − β k pᵀ and dk = β (dY w − X p) for a tile.

    Without erasure dX is dY, and is not written.
    """
    gy, h = gy.to(tl.float32), h.to(tl.float32)
    gh = gy * w
    if ERASE:
        _store(GX, gy - h * p, token, N, start, d, d_v, TOKENS, FEATURES, CHANNELS)
        gh -= x.to(tl.float32) * p
    gh = tl.sum(gh, axis=2, keep_dims=True) - shrink * h
    _store(GH, gh, token, N, start, d, 1, TOKENS, FEATURES, 1)


@triton.jit(do_not_specialize=["N"])
def _diagonal(X, U, BETA, ALPHA, Y, N, d, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = place < N.to(tl.int64) * d
    x = tl.load(X + place, mask=mask, other=0.0).to(tl.float32)
    u = tl.load(U + place, mask=mask, other=0.0).to(tl.float32)
    beta = tl.load(BETA + place, mask=mask, other=0.0).to(tl.float32)
    tl.store(Y + place, (x + beta * (u - tl.load(ALPHA) * x)).to(Y.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=["N"])
def _diagonal_backward(GY, X, U, BETA, ALPHA, GX, GU, GBETA, PARTS, N, d, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = place < N.to(tl.int64) * d
    gy = tl.load(GY + place, mask=mask, other=0.0).to(tl.float32)
    x = tl.load(X + place, mask=mask, other=0.0).to(tl.float32)
    u = tl.load(U + place, mask=mask, other=0.0).to(tl.float32)
    beta = tl.load(BETA + place, mask=mask, other=0.0).to(tl.float32)
    alpha = tl.load(ALPHA)
    gu = gy * beta
    tl.store(GX + place, (gy - alpha * gu).to(GX.dtype.element_ty), mask=mask)
    tl.store(GU + place, gu.to(GU.dtype.element_ty), mask=mask)
    tl.store(GBETA + place, (gy * (u - alpha * x)).to(GBETA.dtype.element_ty), mask=mask)
    tl.store(PARTS + tl.program_id(0), -tl.sum(gu * x, axis=0))
