"""γ ⊙ u / rms u of a read u = aᵀX: the RMS norm of a sublayer, in the pass that reads.

A program holds whole tokens. So u is never written, and the backward pass forms it again. With
e = u / rms u, and p = γ ⊙ g from the gradient g of the result,

    ∂u = (p − e ⟨e, p⟩ / d) / rms u        ∂aᵢ = ⟨xᵢ, ∂u⟩        ∂γ = Σ g ⊙ e over all tokens.

Legend: N tokens, n streams, d features per stream; a coefficient belongs to `span` consecutive
tokens.
"""

from functools import cache
from math import ceil

import triton
import triton.language as tl
from torch import Tensor

from geolab.kernels import launch, tiles
from geolab.kernels.launch import INTERPRETED
from geolab.kernels.totals import parts_of

STAGES = 3  # a program loads two tokens while it computes with a third


@cache
def whole(d: int, bytes_each: int) -> dict[str, int]:
    """The tile of a program that holds whole tokens, with 16 bytes per thread and stream, or more
    where 16 warps don't hold a token.
    """
    features = max(1 << (d - 1).bit_length(), 8)
    warps = max(min(features * bytes_each // 512, 16), 4)
    tokens = max(warps * 512 // (features * bytes_each), 1)
    return dict(TOKENS=(32 if INTERPRETED else 1) * tokens, FEATURES=features, num_warps=warps)


def backward(grad: Tensor, x: Tensor, a: Tensor, span: int, gamma: Tensor, eps: float,
             of_x: Tensor | None, of_a: Tensor, of_gamma: Tensor,
             of_u: Tensor | None) -> Tensor:
    """Fill the gradients of X and a, or of a and u, and return parts of that of γ."""
    N, n, d = x.shape[:-2].numel(), *x.shape[-2:]
    tile = whole(d, x.element_size())
    device, each = launch.describe(x.device), tile["TOKENS"] * tile["FEATURES"] * x.element_size()
    at_once = 16 // tile["num_warps"] * device.multiprocessors
    stages = STAGES if (STAGES - 1) * (n + 1) * each + 2**10 <= device.shared else 1
    share = ceil(ceil(N / tile["TOKENS"]) / at_once) * tile["TOKENS"]
    programs = ceil(N / share)
    parts = parts_of(of_gamma, programs)
    _normed_backward[(programs,)](
        grad, x, a, gamma, grad if of_x is None else of_x, of_a, grad if of_u is None else of_u,
        parts, N, share, d, span, eps, n, of_x is not None, span > 1, stages, **tile)
    return parts


# ---------------------------------------------------------------- in Triton

@triton.jit
def normed(u, GAMMA, feature, d, eps):
    """γ ⊙ u / rms u of whole tokens (TOKENS, FEATURES)."""
    r = tiles.inverse_length(tl.sum(u * u, axis=1, keep_dims=True) / d + eps)
    return u * r * tl.load(GAMMA + feature, mask=feature < d, other=0.0)[None, :]


@triton.jit(do_not_specialize=["N", "share", "span"])
def _normed_backward(G, X, A, GAMMA, GX, GA, GU, GGAMMA, N, share, d, span, eps, n: tl.constexpr,
                     STATE: tl.constexpr, SHARED: tl.constexpr, STAGES: tl.constexpr,
                     TOKENS: tl.constexpr, FEATURES: tl.constexpr):
    """Write the gradients of X and a with STATE, else of a and u, and a part of that of γ."""
    feature, first = tl.arange(0, FEATURES), tl.program_id(0).to(tl.int64) * share
    gamma = tl.load(GAMMA + feature, mask=feature < d, other=0.0)[None, :]
    total = tl.zeros([1, FEATURES], tl.float32)
    for start in tl.range(0, tl.minimum(N - first, share).to(tl.int32), TOKENS, num_stages=STAGES):
        token = first + start + tl.arange(0, TOKENS)
        inside = token < N
        mask = inside[:, None] & (feature < d)[None, :]
        place, own = ((token * n * d)[:, None] + feature[None, :],
                      (token * d)[:, None] + feature[None, :])
        x = tiles.vectors(X, place, mask, d, n)
        g = tl.load(G + own, mask=mask, other=0.0).to(tl.float32)
        a = tiles.coefficients(A, token, inside, span, n, SHARED)
        u = a[0] * x[0].to(tl.float32)
        for i in tl.static_range(1, n):
            u += a[i] * x[i].to(tl.float32)
        square, along = tl.sum(u * u, axis=1, keep_dims=True), u * g
        shrink = tl.sum(along * gamma, axis=1, keep_dims=True) / d
        r = tiles.inverse_length(tl.where(inside[:, None], square / d + eps, 1.0))
        total += tl.sum(along * r, axis=0, keep_dims=True)
        g = r * (gamma * g - u * (r * r * shrink))
        sums = tiles.zeros(n, X, TOKENS, FEATURES)
        for i in tl.static_range(n):
            sums = tiles.added(sums, i, g, x[i].to(tl.float32))
            if STATE:
                tl.store(GX + place + i * d, (a[i] * g).to(GX.dtype.element_ty), mask=mask)
        tiles.store_sums(GA, token, inside, sums)
        if not STATE:
            tl.store(GU + own, g.to(GU.dtype.element_ty), mask=mask)
    tl.store(GGAMMA + tl.program_id(0) * d + feature[None, :], total, mask=(feature < d)[None, :])
