"""X + β k (vᵀ − kᵀX) and X + β ⊙ (h − α X), with their gradients: one pass over the state each way.

Legend: N tokens, d features, d_v value channels: fast where it is a power of two, padded to one
elsewhere. Value and β belong each to a span of tokens in a row: 1, or more where tokens share them.
Data are read and written in the state's dtype; value, β, α, sums and their gradients are float32.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import custom_op

from geolab.kernels.launch import INTERPRETED, buffer, groups, on, require, rows, summed

# numbers per program of the diagonal update: each thread has 16 of each vector, in two loads
BLOCK = 32768 if INTERPRETED else 2048


def delta_update(x: Tensor, direction: Tensor, value: Tensor | float, beta: Tensor | float,
                 erase: bool = True, eps: float | None = None) -> Tensor:
    """X + β k (vᵀ − kᵀX), as `operators.delta_update`: (2 d_v + 1) d numbers moved per token, and
    (3 d_v + 2) d on the way back.

    With eps, k = h / sqrt(‖h‖² + eps²) is made on the way and never written. Without erasure the
    way back moves (d_v + 2) d.
    """
    value, beta = (t if isinstance(t, Tensor) else torch.full((), t, dtype=torch.float32,
                                                              device=x.device)
                   for t in (value, beta))
    require("x", x=x, direction=direction, value=value, beta=beta)
    axes = x.ndim - direction.ndim + 1  # 1 for a vector state, 2 for a matrix state
    d, d_v = (*x.shape[-axes:], 1)[:2]
    value = value.unsqueeze(-1) if axes == 1 else value.expand(torch.broadcast_shapes(value.shape,
                                                                                      (d_v,)))
    leading = torch.broadcast_shapes(x.shape[:-axes], direction.shape[:-1], value.shape[:-1],
                                     beta.shape)
    shape = (*leading, *x.shape[-axes:])
    h = rows(direction.to(x.dtype).expand(*leading, d), 1)
    state = rows(x.expand(shape), axes).view(len(h), d, d_v)
    return _delta_update(state, h, *groups(value, leading, 1), *groups(beta, leading, 0), erase,
                         eps)[0].view(shape)


def plan(d: int, d_v: int, most: int) -> dict:
    """Tiles of 8 numbers per thread, and the fewest warps that hold a token in 4 of them; small
    tokens share a program of 4 warps.

    Up to `most` tiles times warps, where two programs still fit a multiprocessor's registers, a
    token is held and nothing read twice. Of a longer one the first two tiles are; what both passes
    need of the others is read again, from a cache.
    """
    channels = triton.next_power_of_2(d_v)
    warps = min(triton.next_power_of_2(triton.cdiv(d * channels, 1024)), 16)
    features = min(triton.next_power_of_2(d), max(256 * warps // channels, 1))
    tiles = triton.cdiv(d, features)
    return dict(TOKENS=max((16 if INTERPRETED else 1) * 1024 // (features * channels), 1),
                FEATURES=features, CHANNELS=channels, TILES=tiles, HELD=tiles
                if tiles * warps <= most else 2, num_warps=max(warps, 4))


@custom_op("geolab::delta_update", mutates_args=())
def _delta_update(x: Tensor, h: Tensor, v: Tensor, span_v: int, beta: Tensor, span_beta: int,
                  erase: bool, eps: float | None) -> tuple[Tensor, Tensor, Tensor]:
    N, d, d_v = x.shape
    y, readout, scale = buffer(N, d, d_v, like=x), buffer(N, d_v, like=v), buffer(N, like=v)
    tiles = plan(d, d_v, most=64)
    if N:
        with on(x):
            _update[(triton.cdiv(N, tiles["TOKENS"]),)](x, h, v, beta, y, readout, scale, N, d,
                                                        span_v, span_beta, (eps or 0.0)**2, d_v,
                                                        erase, eps is not None, **tiles)
    return y, readout, scale


@custom_op("geolab::delta_update_backward", mutates_args=())
def _delta_update_backward(grad: Tensor, x: Tensor, h: Tensor, v: Tensor, span_v: int, beta: Tensor,
                           span_beta: int, readout: Tensor, scale: Tensor, erase: bool,
                           normalize: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    N, d, d_v = grad.shape
    grad_x = buffer(*grad.shape, like=grad) if erase else grad.new_empty(0)
    grad_h, grad_v, grad_beta = buffer(N, d, like=h), buffer(N, d_v, like=v), buffer(N, like=v)
    tiles = plan(d, d_v, most=32)
    if N:
        with on(grad):
            _update_backward[(triton.cdiv(N, tiles["TOKENS"]),)](grad, x, h, v, beta, readout,
                                                                 scale, grad_x, grad_h, grad_v,
                                                                 grad_beta, N, d, span_v, span_beta,
                                                                 d_v, erase, normalize, **tiles)
    return grad_x, grad_h, grad_v, grad_beta


@_delta_update.register_fake
def _(x, h, v, span_v, beta, span_beta, erase, eps):
    return torch.empty_like(x), v.new_empty(x.shape[0], x.shape[2]), v.new_empty(x.shape[0])


@_delta_update_backward.register_fake
def _(grad, x, h, v, span_v, beta, span_beta, readout, scale, erase, normalize):
    return torch.empty_like(grad) if erase else grad.new_empty(0), *map(torch.empty_like,
                                                                        (h, readout, scale))


def _keep(ctx, inputs, output):
    x, h, v, ctx.span_v, beta, ctx.span_beta, ctx.erase, eps = inputs
    ctx.normalize = eps is not None
    ctx.mark_non_differentiable(*output[1:])
    ctx.save_for_backward(x if ctx.erase else None, h, v, beta, *output[1:])


def _delta_vjp(ctx, grad, *_):
    x, h, v, beta, readout, scale = ctx.saved_tensors
    grad = grad.contiguous()
    grad_x, grad_h, grad_v, grad_beta = _delta_update_backward(grad, grad if x is None else x, h, v,
                                                               ctx.span_v, beta, ctx.span_beta,
                                                               readout, scale, ctx.erase,
                                                               ctx.normalize)
    return (grad_x if ctx.erase else grad, grad_h, summed(grad_v, ctx.span_v, v), None,
            summed(grad_beta, ctx.span_beta, beta), None, None, None)


_delta_update.register_autograd(_delta_vjp, setup_context=_keep)


def diagonal_update(x: Tensor, update: Tensor, beta: Tensor, alpha: Tensor) -> Tensor:
    """X + β ⊙ (h − α X), as `operators.diagonal_update`: 4 d numbers moved per token, and 7 d on
    the way back.
    """
    require("x", x=x, update=update, beta=beta, alpha=alpha)
    return _diagonal_update(*(rows(t.to(x.dtype), 1) for t in (x, update, beta)),
                            alpha.float().reshape(1)).view(x.shape)


@custom_op("geolab::diagonal_update", mutates_args=())
def _diagonal_update(x: Tensor, update: Tensor, beta: Tensor, alpha: Tensor) -> Tensor:
    y = buffer(*x.shape, like=x)
    if x.numel():
        with on(x):
            _diagonal[(triton.cdiv(x.numel(), BLOCK),)](x, update, beta, alpha, y, *x.shape, BLOCK)
    return y


@custom_op("geolab::diagonal_update_backward", mutates_args=())
def _diagonal_update_backward(grad: Tensor, x: Tensor, update: Tensor, beta: Tensor,
                              alpha: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    programs = triton.cdiv(x.numel(), BLOCK)
    grads, parts = [buffer(*x.shape, like=x) for _ in range(3)], buffer(programs, like=alpha)
    if programs:
        with on(x):
            _diagonal_backward[(programs,)](grad, x, update, beta, alpha, *grads, parts, *x.shape,
                                            BLOCK)
    return *grads, parts.sum().reshape(1)


@_diagonal_update.register_fake
def _(x, update, beta, alpha):
    return torch.empty_like(x)


@_diagonal_update_backward.register_fake
def _(grad, x, update, beta, alpha):
    return tuple(map(torch.empty_like, (grad, x, update, alpha)))


_diagonal_update.register_autograd(
    lambda ctx, grad: _diagonal_update_backward(grad.contiguous(), *ctx.saved_tensors),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))


@triton.jit
def _tile(token, N, start, d, d_v: tl.constexpr, FEATURES: tl.constexpr, CHANNELS: tl.constexpr):
    """Where FEATURES features from `start` lie, and which exist: on one axis, so that 16 bytes of a
    thread may span features.
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
    place, mask = _tile(token, N, start, d, d_v, FEATURES, CHANNELS)
    return tl.load(X + place, mask=mask, other=0.0).reshape(TOKENS, FEATURES, CHANNELS)


@triton.jit
def _store(Y, y, token, N, start, d, d_v: tl.constexpr, TOKENS: tl.constexpr,
           FEATURES: tl.constexpr, CHANNELS: tl.constexpr):
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
        scale = tl.rsqrt(tl.where(inside, tl.sum(square, axis=1) + eps2, 1.0))
    readout = tl.zeros([TOKENS, CHANNELS], tl.float32)  # kᵀX, which the way back can't find in time
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
        xs = xs + (_load(X, token, N, i * FEATURES, d, d_v, TOKENS, FEATURES, CHANNELS) if ERASE
                   else gys[i],)
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
    w, p, shrink = (beta * scale * w)[:, None, :], (beta * scale * p)[:, None, :], shrink[:, None,
                                                                                          :]
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
    """dX = dY − β k pᵀ and dk = β (dY w − X p) of a tile; without erasure dX is dY, and stays where
    it is.
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
