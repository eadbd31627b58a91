"""u = Σ αₛ vₛ of a token's sources xₛ, αₛ ∝ exp(c wᵀxₛ / rms xₛ), and its gradient: one pass each.

A program holds whole tokens and meets their sources one after the other, with an online softmax.
The backward pass forms each logit lₛ again. With p = α, D = ⟨g, u⟩ and f = ⟨g, vₛ⟩ from the
gradient g of u, ∂lₛ = pₛ (f − D), and ∂xₛ = pₛ g + ∂lₛ (c w − lₛ xₛ r / d) r, for r = 1 / rms xₛ.

Where a later sublayer reads the same sources, `attend_on` gets the gradient G of all of them that
comes from there, as that of a port (see `joined`), and the kernel adds ∂xₛ to it on chip.

Legend: N tokens, n places, the first k of which are sources, d features. v is x, or with NORMED
r x; the factor multiplies u.
"""

from math import ceil

import triton
import triton.language as tl
from torch import Tensor

from geolab.kernels import launch, tiles
from geolab.kernels.joined import Ported
from geolab.kernels.launch import INTERPRETED, twin
from geolab.kernels.normed import whole
from geolab.kernels.totals import add_up, parts_of


@twin
def attend(x: Tensor, query: Tensor, sources: int, eps: float, scale: float, factor: float,
           normed: bool) -> Tensor:
    """u, as `operators.attend`, of tokens that a program holds.

    The forward pass moves (k + 1) d numbers per token, and the backward pass (k + n + 2) d.
    Raises: ValueError for a mix of devices; TypeError for a dtype that kernels don't read.
    """
    launch.require("x", x=x, query=query)
    return _attend(x.contiguous(), query.float().contiguous(), sources, eps, scale, factor,
                   normed)[0]


@twin
def attend_on(x: Tensor, query: Tensor, sources: int, eps: float, scale: float, factor: float,
              normed: bool) -> tuple[Tensor, Tensor]:
    """x and u, as `operators.attend_on`, of tokens that a program holds.

    The forward pass moves (k + 1) d numbers per token, and the backward pass (k + 2n + 2) d.
    Raises: ValueError for a mix of devices; TypeError for a dtype that kernels don't read.
    """
    launch.require("x", x=x, query=query)
    x = x.contiguous()
    u, port, _ = _attend_on(x, query.float().contiguous(), sources, eps, scale, factor, normed)
    return Ported.apply(x, port), u


def _launch(x: Tensor, query: Tensor, k: int, eps: float, scale: float, factor: float,
            normed: bool, u: Tensor, size: Tensor) -> None:
    N, n, d = x.shape[:-2].numel(), *x.shape[-2:]
    tile = whole(d, x.element_size())
    _forward[(ceil(N / tile["TOKENS"]),)](
        x, query, u, size, N, k, d, eps, scale, factor, n, normed, **tile)


def _launch_backward(grad: Tensor, later: Tensor | None, x: Tensor, query: Tensor, k: int,
                     eps: float, scale: float, factor: float, normed: bool, u: Tensor,
                     size: Tensor, gx: Tensor, of_query: Tensor) -> None:
    N, n, d = x.shape[:-2].numel(), *x.shape[-2:]
    tile = whole(d, x.element_size())
    at_once = 16 // tile["num_warps"] * launch.describe(x.device).multiprocessors
    share = ceil(ceil(N / tile["TOKENS"]) / (1 if INTERPRETED else at_once)) * tile["TOKENS"]
    programs = ceil(N / share)
    parts = parts_of(of_query, programs)
    _backward[(programs,)](grad, x, query, u, size, gx if later is None else later, gx, parts, N,
                           share, k, d, eps, scale, factor, n, normed, later is not None, **tile)
    add_up((parts, of_query))


@launch.op("geolab::attend", _launch)
def _attend(x: Tensor, query: Tensor, k: int, eps: float, scale: float, factor: float,
            normed: bool) -> tuple[Tensor, Tensor]:
    """Return u, and the logarithm of the sum of the exponentials."""
    *tokens, _, d = x.shape
    return x.new_empty((*tokens, d)), query.new_empty(tokens)


@launch.op("geolab::attend_on", lambda *given: _launch(*given[:-2], given[-1]))
def _attend_on(x: Tensor, query: Tensor, k: int, eps: float, scale: float, factor: float,
               normed: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return the port of G between u and the logarithm."""
    *tokens, _, d = x.shape
    return x.new_empty((*tokens, d)), x.new_empty(1).expand(x.shape), query.new_empty(tokens)


@launch.op("geolab::attend_backward", _launch_backward)
def _attend_backward(grad: Tensor, later: Tensor | None, x: Tensor, query: Tensor, k: int,
                     eps: float, scale: float, factor: float, normed: bool, u: Tensor,
                     size: Tensor) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), query.new_empty(query.shape)


launch.differentiate(_attend, lambda grad, *kept: _attend_backward(grad, None, *kept),
                     lambda inputs, outputs: (*inputs, *outputs))
launch.differentiate(_attend_on, _attend_backward,
                     lambda inputs, outputs: (*inputs, outputs[0], outputs[2]), outputs=2)


# ---------------------------------------------------------------- in Triton

@triton.jit
def _logit(x, w, mask, d, eps, scale):
    """1 / rms x and c wᵀx / rms x, (TOKENS, 1)."""
    square = tl.sum(x * x, axis=1, keep_dims=True) / d + eps
    r = tiles.inverse_length(tl.where(mask, square, 1.0))
    return r, tl.sum(x * w, axis=1, keep_dims=True) * r * scale


@triton.jit(do_not_specialize=["N", "k"])
def _forward(X, W, U, SIZE, N, k, d, eps, scale, factor, n: tl.constexpr, NORMED: tl.constexpr,
             TOKENS: tl.constexpr, FEATURES: tl.constexpr):
    """Write u, and log Σ exp l."""
    token, feature = tl.program_id(0).to(tl.int64) * TOKENS + tl.arange(0, TOKENS), tl.arange(
        0, FEATURES)
    inside = (token < N)[:, None]
    mask = inside & (feature < d)[None, :]
    place = (token * n * d)[:, None] + feature[None, :]
    w = tl.load(W + feature, mask=feature < d, other=0.0)[None, :]
    u = tl.zeros([TOKENS, FEATURES], tl.float32)
    top, total = tl.full([TOKENS, 1], float("-inf"), tl.float32), tl.zeros([TOKENS, 1], tl.float32)
    for s in range(k):
        x = tl.load(X + place + s * d, mask=mask, other=0.0).to(tl.float32)
        r, logit = _logit(x, w, inside, d, eps, scale)
        higher = tl.maximum(top, logit, propagate_nan=tl.PropagateNan.ALL)
        shrink, p = tl.exp(top - higher), tl.exp(logit - higher)
        total = total * shrink + p
        u = u * shrink + (p * r if NORMED else p) * x
        top = higher
    u = u * (factor / total)
    tl.store(U + (token * d)[:, None] + feature[None, :], u.to(U.dtype.element_ty), mask=mask)
    tl.store(SIZE + token[:, None], top + tl.log(total), mask=inside)


@triton.jit(do_not_specialize=["N", "share", "k"])
def _backward(G, X, W, U, SIZE, LATER, GX, GW, N, share, k, d, eps, scale, factor, n: tl.constexpr,
              NORMED: tl.constexpr, ADDED: tl.constexpr, TOKENS: tl.constexpr,
              FEATURES: tl.constexpr):
    """Write the gradient of X and a part of that of w. In places without a source the gradient of X
    is that of later sublayers, or zero.
    """
    feature, first = tl.arange(0, FEATURES), tl.program_id(0).to(tl.int64) * share
    w = tl.load(W + feature, mask=feature < d, other=0.0)[None, :]
    gw = tl.zeros([1, FEATURES], tl.float32)
    for start in range(0, tl.minimum(N - first, share).to(tl.int32), TOKENS):
        token = first + start + tl.arange(0, TOKENS)
        inside = (token < N)[:, None]
        mask = inside & (feature < d)[None, :]
        own = (token * d)[:, None] + feature[None, :]
        place = (token * n * d)[:, None] + feature[None, :]
        g = tl.load(G + own, mask=mask, other=0.0).to(tl.float32)
        u = tl.load(U + own, mask=mask, other=0.0).to(tl.float32)
        size = tl.load(SIZE + token[:, None], mask=inside, other=0.0)
        along = tl.sum(g * u, axis=1, keep_dims=True)
        for s in range(k):
            x = tl.load(X + place + s * d, mask=mask, other=0.0).to(tl.float32)
            r, logit = _logit(x, w, inside, d, eps, scale)
            p, heard = tl.exp(logit - size), factor * tl.sum(g * x, axis=1, keep_dims=True)
            if NORMED:
                heard *= r
            of_logit = p * (heard - along)
            # r also divides v
            of_r = of_logit * logit + (p * heard if NORMED else 0.0)
            gx = ((p * factor * r if NORMED else p * factor) * g
                  + (of_logit * scale * r) * w - (of_r * r * r / d) * x)
            gw += tl.sum((of_logit * scale * r) * x, axis=0, keep_dims=True)
            if ADDED:
                gx += tl.load(LATER + place + s * d, mask=mask, other=0.0).to(tl.float32)
            tl.store(GX + place + s * d, gx.to(GX.dtype.element_ty), mask=mask)
        for s in range(k, n):
            gx = tl.zeros_like(g)
            if ADDED:
                gx += tl.load(LATER + place + s * d, mask=mask, other=0.0).to(tl.float32)
            tl.store(GX + place + s * d, gx.to(GX.dtype.element_ty), mask=mask)
    tl.store(GW + tl.program_id(0) * d + feature[None, :], gw, mask=(feature < d)[None, :])
