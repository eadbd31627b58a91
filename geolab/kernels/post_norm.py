"""γ ⊙ zᵢ / rms zᵢ of each stream of Z = H X + b ⊗ h: a norm behind the residual, in the pass that
writes.

A program holds whole tokens. So Z is never written, and the backward pass forms it again. With
e = zᵢ / rms zᵢ, and p = γ ⊙ g from the gradient g of stream i of the result,

    ∂zᵢ = (p − e ⟨e, p⟩ / d) / rms zᵢ        ∂X = Hᵀ∂Z        ∂h = bᵀ∂Z
    ∂γ = Σ g ⊙ e over all streams            ∂H = ∂Z Xᵀ       ∂b = ∂Z h

A layer norm also takes the mean off zᵢ, and off p in ∂zᵢ.

Legend: N tokens, n streams, d features per stream. ROWS counts the rows of coefficients of a token:
those of H and b; b alone, where H = I; or none, where Z = x + h.
"""

from math import ceil

import triton
import triton.language as tl
from torch import Tensor

from geolab.kernels import launch, tiles
from geolab.kernels.launch import expanded, twin
from geolab.kernels.normed import STAGES, whole
from geolab.kernels.totals import add_up, parts_of


@twin
def post_norm(x: Tensor, update: Tensor, given: Tensor | None, gamma: Tensor, eps: float,
              centred: bool) -> Tensor:
    """The norm of H X + b ⊗ h, as `operators.post_norm`, of tokens that a program holds, for n up
    to 4.

    The forward pass moves (2n + 1) d numbers per token, and the backward pass (3n + 2) d. Without
    coefficients x and h have one gradient, which is written once: it moves 4 d.
    Raises: ValueError for a mix of devices; TypeError for a dtype that kernels don't read.
    """
    launch.require("x", x=x, update=update, norm=gamma,
                   **({} if given is None else {"given": given}))
    *tokens, d = x.shape if given is None else x.shape[:-2] + x.shape[-1:]
    if given is not None:
        given = expanded(given, *tokens, *given.shape[-2:]).float().contiguous()
    return _post_norm(x.contiguous(), expanded(update, *tokens, d).contiguous(), given,
                      gamma.float().contiguous(), eps, centred)


def _sizes(x: Tensor, given: Tensor | None) -> tuple[int, int, int, int]:
    """N, n, d and ROWS."""
    d = x.shape[-1]
    if given is None:
        return x.shape[:-1].numel(), 1, d, 0
    return x.shape[:-2].numel(), x.shape[-2], d, given.shape[-2]


def _launch(x: Tensor, h: Tensor, given: Tensor | None, gamma: Tensor, eps: float, centred: bool,
            y: Tensor) -> None:
    N, n, d, rows = _sizes(x, given)
    tile = whole(d, x.element_size())
    _forward[(ceil(N / tile["TOKENS"]),)](
        x, h, gamma if given is None else given, gamma, y, N, d, eps, n, rows, centred, **tile)


def _launch_backward(grad: Tensor, x: Tensor, h: Tensor, given: Tensor | None, gamma: Tensor,
                     eps: float, centred: bool, gx: Tensor, gh: Tensor, of_given: Tensor,
                     of_gamma: Tensor) -> None:
    N, n, d, rows = _sizes(x, given)
    tile = whole(d, x.element_size())
    device, each = launch.describe(x.device), tile["TOKENS"] * tile["FEATURES"] * x.element_size()
    # of more streams a thread holds more numbers, so fewer programs run at once
    at_once = max(32 // n // tile["num_warps"], 1) * device.multiprocessors
    stages = STAGES if (STAGES - 1) * (2 * n + 1) * each + 2**10 <= device.shared else 1
    share = ceil(ceil(N / tile["TOKENS"]) / at_once) * tile["TOKENS"]
    programs = ceil(N / share)
    parts = parts_of(of_gamma, programs)
    _backward[(programs,)](
        grad, x, h, gamma if given is None else given, gamma, gx, gh, of_given, parts, N, share, d,
        eps, n, rows, centred, stages, **tile)
    add_up((parts, of_gamma))


@launch.op("geolab::post_norm", _launch)
def _post_norm(x: Tensor, h: Tensor, given: Tensor | None, gamma: Tensor, eps: float,
               centred: bool) -> Tensor:
    return x.new_empty(x.shape)


@launch.op("geolab::post_norm_backward", _launch_backward)
def _post_norm_backward(grad: Tensor, x: Tensor, h: Tensor, given: Tensor | None, gamma: Tensor,
                        eps: float, centred: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return (x.new_empty(x.shape), h.new_empty((0,) if given is None else h.shape),
            gamma.new_empty((0,) if given is None else given.shape), gamma.new_empty(gamma.shape))


def _vjp(grad, x, h, given, gamma, eps, centred):
    gx, gh, of_given, of_gamma = _post_norm_backward(grad, x, h, given, gamma, eps, centred)
    if given is None:
        return gx, gx.to(h.dtype), None, of_gamma
    return gx, gh, of_given, of_gamma


launch.differentiate(_post_norm, _vjp)


# ---------------------------------------------------------------- in Triton

@triton.jit
def _unit(c, x, h, i: tl.constexpr, n: tl.constexpr, inside, mask, d, eps, CENTRED: tl.constexpr):
    """Stream i of Z over its root mean square, and the inverse of that."""
    z = h.to(tl.float32)
    if len(c) <= n:
        z = x[i].to(tl.float32) + (c[i] * z if len(c) == n else z)
    else:
        z *= c[n * n + i]
        for j in tl.static_range(n):
            z += c[i * n + j] * x[j].to(tl.float32)
    if CENTRED:
        z = tl.where(mask, z - tl.sum(z, axis=1, keep_dims=True) / d, 0.0)
    square = tl.sum(z * z, axis=1, keep_dims=True) / d + eps
    r = tiles.inverse_length(tl.where(inside[:, None], square, 1.0))
    return z * r, r


@triton.jit(do_not_specialize=["N"])
def _forward(X, U, C, GAMMA, Y, N, d, eps, n: tl.constexpr, ROWS: tl.constexpr,
             CENTRED: tl.constexpr, TOKENS: tl.constexpr, FEATURES: tl.constexpr):
    token = tl.program_id(0).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    feature, inside = tl.arange(0, FEATURES), token < N
    mask = inside[:, None] & (feature < d)[None, :]
    place = (token * n * d)[:, None] + feature[None, :]
    x = tiles.vectors(X, place, mask, d, n)
    h = tl.load(U + (token * d)[:, None] + feature[None, :], mask=mask, other=0.0)
    c = tiles.coefficients(C, token, inside, 1, ROWS * n, False)
    gamma = tl.load(GAMMA + feature, mask=feature < d, other=0.0)[None, :]
    for i in tl.static_range(n):
        e, _ = _unit(c, x, h, i, n, inside, mask, d, eps, CENTRED)
        tl.store(Y + place + i * d, (gamma * e).to(Y.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=["N", "share"])
def _backward(G, X, U, C, GAMMA, GX, GU, GC, GGAMMA, N, share, d, eps, n: tl.constexpr,
              ROWS: tl.constexpr, CENTRED: tl.constexpr, STAGES: tl.constexpr,
              TOKENS: tl.constexpr, FEATURES: tl.constexpr):
    """Write the gradients of X, h and the coefficients, and a part of that of γ."""
    feature, first = tl.arange(0, FEATURES), tl.program_id(0).to(tl.int64) * share
    gamma = tl.load(GAMMA + feature, mask=feature < d, other=0.0)[None, :]
    total = tl.zeros([1, FEATURES], tl.float32)
    for start in tl.range(0, tl.minimum(N - first, share).to(tl.int32), TOKENS, num_stages=STAGES):
        token = first + start + tl.arange(0, TOKENS)
        inside = token < N
        mask = inside[:, None] & (feature < d)[None, :]
        place, own = ((token * n * d)[:, None] + feature[None, :],
                      (token * d)[:, None] + feature[None, :])
        g, x = tiles.vectors(G, place, mask, d, n), tiles.vectors(X, place, mask, d, n)
        h = tl.load(U + own, mask=mask, other=0.0)
        c = tiles.coefficients(C, token, inside, 1, ROWS * n, False)
        gz = ()
        for i in tl.static_range(n):
            e, r = _unit(c, x, h, i, n, inside, mask, d, eps, CENTRED)
            p = g[i].to(tl.float32)
            total += tl.sum(p * e, axis=0, keep_dims=True)
            p *= gamma
            along = e * (tl.sum(p * e, axis=1, keep_dims=True) / d)
            if CENTRED:
                along += tl.sum(p, axis=1, keep_dims=True) / d
            gz += (r * (p - along),)
        for j in tl.static_range(n):
            if ROWS > 1:
                gx = c[j] * gz[0]
                for i in tl.static_range(1, n):
                    gx += c[i * n + j] * gz[i]
            else:
                gx = gz[j]
            tl.store(GX + place + j * d, gx.to(GX.dtype.element_ty), mask=mask)
        if ROWS > 0:
            gh = c[(ROWS - 1) * n] * gz[0]
            for i in tl.static_range(1, n):
                gh += c[(ROWS - 1) * n + i] * gz[i]
            tl.store(GU + own, gh.to(GU.dtype.element_ty), mask=mask)
            sums = tiles.zeros(ROWS * n, X, TOKENS, FEATURES)
            for i in tl.static_range(n):
                sums = tiles.added(sums, (ROWS - 1) * n + i, gz[i], h.to(tl.float32))
                if ROWS > 1:
                    for j in tl.static_range(n):
                        sums = tiles.added(sums, i * n + j, gz[i], x[j].to(tl.float32))
            tiles.store_sums(GC, token, inside, sums)
    tl.store(GGAMMA + tl.program_id(0) * d + feature[None, :], total, mask=(feature < d)[None, :])
