"""u = Σᵢ σ(lᵢ) ⊙ x̂ᵢ / n of streams x̂ᵢ = (1 + wᵢ) ⊙ xᵢ / rms xᵢ, and its gradients.

The logits are made of x̂ by others in between. So two kernels run forward: one normalises, and one
reads. Backward the read's makes ∂l, from which the others make the part G of ∂x̂ that comes through
the logits. Then the norm's adds the rest on chip: with e = xᵢ / rms xᵢ, q = G + σ(lᵢ) ⊙ ∂u / n and
p = (1 + wᵢ) ⊙ q,

    ∂lᵢ = ∂u ⊙ x̂ᵢ ⊙ σ′(lᵢ) / n        ∂xᵢ = (p − e ⟨e, p⟩ / d) / rms xᵢ        ∂wᵢ = Σ q ⊙ e.

For this it gets ∂u and l as the gradients of two ports, as in `joined`.

Legend: N tokens, n streams, d features per stream. A program of the norm holds a stream of whole
tokens. Backward the n programs of a token are neighbours, so that ∂u comes from the L2 cache.
"""

from collections.abc import Callable
from math import ceil

import triton
import triton.language as tl
from torch import Tensor

from geolab.kernels import launch, tiles
from geolab.kernels.launch import INTERPRETED, expanded, twin
from geolab.kernels.normed import whole
from geolab.kernels.totals import add_up, parts_of


@twin
def gated_read(x: Tensor, weight: Tensor, gate: Callable[[Tensor], Tensor],
               eps: float) -> tuple[Tensor, Tensor]:
    """u and x̂, as `operators.gated_read`, of tokens that a program holds, for n up to 8.

    The forward pass moves (4n + 1) d numbers per token, and the backward pass (7n + 2) d, without
    what `gate` moves.
    Raises: ValueError for a mix of devices; TypeError for a dtype that kernels don't read.
    """
    launch.require("x", x=x, weight=weight)
    weight = expanded(weight, *x.shape[-2:]).float().contiguous()
    normed, *ports = _norm(x.contiguous(), weight, eps)
    normed = normed.flatten(-2)
    logits = gate(normed)
    launch.require("x", "logits", x=x, logits=logits)
    return _gated_read(normed.view_as(x), logits.reshape(x.shape).contiguous(), *ports), normed


# ---------------------------------------------------------------- the norm

def _launch_norm(x: Tensor, weight: Tensor, eps: float, normed: Tensor, *_: Tensor) -> None:
    N, n, d = x.shape[:-2].numel(), *x.shape[-2:]
    tile = whole(d, x.element_size())
    _normalise[(ceil(N / tile["TOKENS"]), n)](x, weight, normed, N, d, eps, n, **tile)


def _launch_norm_backward(grad: Tensor, gu: Tensor, logits: Tensor, x: Tensor, weight: Tensor,
                          eps: float, gx: Tensor, gw: Tensor) -> None:
    N, n, d = x.shape[:-2].numel(), *x.shape[-2:]
    tile = whole(d, x.element_size())
    at_once = 16 // tile["num_warps"] * launch.describe(x.device).multiprocessors
    most = 1 if INTERPRETED else max(at_once // n, 1)
    share = ceil(ceil(N / tile["TOKENS"]) / most) * tile["TOKENS"]
    programs = ceil(N / share)
    parts = parts_of(gw, programs)
    _normalise_backward[(n, programs)](grad, gu, logits, x, weight, gx, parts, N, share, d, eps, n,
                                     **tile)
    add_up((parts, gw))


@launch.op("geolab::gated_read_norm", _launch_norm)
def _norm(x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return x̂, and the ports of ∂u and l, which take no memory."""
    *tokens, _, d = x.shape
    return x.new_empty(x.shape), x.new_empty(1).expand(*tokens, d), x.new_empty(1).expand(x.shape)


@launch.op("geolab::gated_read_norm_backward", _launch_norm_backward)
def _norm_backward(grad: Tensor, gu: Tensor, logits: Tensor, x: Tensor, weight: Tensor,
                   eps: float) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), weight.new_empty(weight.shape)


launch.differentiate(_norm, _norm_backward, outputs=3)


# ---------------------------------------------------------------- the read

def _launch_read(normed: Tensor, logits: Tensor, u_port: Tensor, l_port: Tensor,
                 u: Tensor) -> None:
    N, n, d = normed.shape[:-2].numel(), *normed.shape[-2:]
    tile = tiles.across(d, normed.element_size())
    programs = ceil(N / tile["TOKENS"]) * ceil(d / tile["FEATURES"])
    _read[(programs,)](normed, logits, u, N, d, n, **tile)


def _launch_read_backward(gu: Tensor, normed: Tensor, logits: Tensor, of_logits: Tensor) -> None:
    N, n, d = normed.shape[:-2].numel(), *normed.shape[-2:]
    tile = tiles.across(d, normed.element_size())
    programs = ceil(N / tile["TOKENS"]) * ceil(d / tile["FEATURES"])
    _read_backward[(programs,)](gu, normed, logits, of_logits, N, d, n, **tile)


@launch.op("geolab::gated_read", _launch_read)
def _gated_read(normed: Tensor, logits: Tensor, u_port: Tensor, l_port: Tensor) -> Tensor:
    return normed.new_empty(u_port.shape)


@launch.op("geolab::gated_read_backward", _launch_read_backward)
def _gated_read_backward(gu: Tensor, normed: Tensor, logits: Tensor) -> Tensor:
    return logits.new_empty(logits.shape)


def _read_vjp(gu, normed, logits):
    return None, _gated_read_backward(gu, normed, logits), gu, logits


launch.differentiate(_gated_read, _read_vjp, keep=lambda inputs, outputs: inputs[:2])


# ---------------------------------------------------------------- in Triton

@triton.jit(do_not_specialize=["N"])
def _normalise(X, W, Y, N, d, eps, n: tl.constexpr, TOKENS: tl.constexpr, FEATURES: tl.constexpr):
    """Write x̂ of one stream."""
    token = tl.program_id(0).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    feature, stream = tl.arange(0, FEATURES), tl.program_id(1)
    inside = (token < N)[:, None]
    mask = inside & (feature < d)[None, :]
    place = ((token * n + stream) * d)[:, None] + feature[None, :]
    x = tl.load(X + place, mask=mask, other=0.0).to(tl.float32)
    square = tl.where(inside, tl.sum(x * x, axis=1, keep_dims=True) / d + eps, 1.0)
    w = 1 + tl.load(W + stream * d + feature, mask=feature < d, other=0.0)[None, :]
    y = w * tiles.inverse_length(square) * x
    tl.store(Y + place, y.to(Y.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=["N", "share"])
def _normalise_backward(G, GU, L, X, W, GX, GW, N, share, d, eps, n: tl.constexpr,
                        TOKENS: tl.constexpr, FEATURES: tl.constexpr):
    """Write ∂X and a part of ∂w, of one stream."""
    feature, stream = tl.arange(0, FEATURES), tl.program_id(0)
    first, real = tl.program_id(1).to(tl.int64) * share, feature < d
    w = 1 + tl.load(W + stream * d + feature, mask=real, other=0.0)[None, :]
    total = tl.zeros([1, FEATURES], tl.float32)
    for start in range(0, tl.minimum(N - first, share).to(tl.int32), TOKENS):
        token = first + start + tl.arange(0, TOKENS)
        inside = (token < N)[:, None]
        mask = inside & real[None, :]
        place = ((token * n + stream) * d)[:, None] + feature[None, :]
        gu = tl.load(GU + (token * d)[:, None] + feature[None, :], mask=mask,
                     other=0.0).to(tl.float32)
        x = tl.load(X + place, mask=mask, other=0.0).to(tl.float32)
        gate = tl.sigmoid(tl.load(L + place, mask=mask, other=0.0).to(tl.float32))
        g = tl.load(G + place, mask=mask, other=0.0).to(tl.float32) + gate * gu / n
        square = tl.sum(x * x, axis=1, keep_dims=True) / d + eps
        r = tiles.inverse_length(tl.where(inside, square, 1.0))
        e = x * r
        total += tl.sum(g * e, axis=0, keep_dims=True)
        p = g * w
        along = tl.sum(p * e, axis=1, keep_dims=True) / d
        tl.store(GX + place, (r * (p - e * along)).to(GX.dtype.element_ty), mask=mask)
    tl.store(GW + (tl.program_id(1) * n + stream) * d + feature[None, :], total,
             mask=real[None, :])


@triton.jit(do_not_specialize=["N"])
def _read(X, L, U, N, d, n: tl.constexpr, TOKENS: tl.constexpr, FEATURES: tl.constexpr):
    across = tl.cdiv(d, FEATURES)
    token = (tl.program_id(0) // across).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    feature = tl.program_id(0) % across * FEATURES + tl.arange(0, FEATURES)
    mask = (token < N)[:, None] & (feature < d)[None, :]
    place = (token * n * d)[:, None] + feature[None, :]
    x, logits = tiles.vectors(X, place, mask, d, n), tiles.vectors(L, place, mask, d, n)
    u = tl.zeros([TOKENS, FEATURES], tl.float32)
    for i in tl.static_range(n):
        u += tl.sigmoid(logits[i].to(tl.float32)) * x[i].to(tl.float32)
    tl.store(U + (token * d)[:, None] + feature[None, :], (u / n).to(U.dtype.element_ty),
             mask=mask)


@triton.jit(do_not_specialize=["N"])
def _read_backward(GU, X, L, GL, N, d, n: tl.constexpr, TOKENS: tl.constexpr,
                   FEATURES: tl.constexpr):
    across = tl.cdiv(d, FEATURES)
    token = (tl.program_id(0) // across).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    feature = tl.program_id(0) % across * FEATURES + tl.arange(0, FEATURES)
    mask = (token < N)[:, None] & (feature < d)[None, :]
    place = (token * n * d)[:, None] + feature[None, :]
    gu = tl.load(GU + (token * d)[:, None] + feature[None, :], mask=mask, other=0.0).to(tl.float32)
    x, logits = tiles.vectors(X, place, mask, d, n), tiles.vectors(L, place, mask, d, n)
    for i in tl.static_range(n):
        gate = tl.sigmoid(logits[i].to(tl.float32))
        of_logit = gu * x[i].to(tl.float32) * (gate * (1 - gate)) / n
        tl.store(GL + place + i * d, of_logit.to(GL.dtype.element_ty), mask=mask)
