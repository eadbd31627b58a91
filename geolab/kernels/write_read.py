"""A write, and what the next sublayer reads, where a doesn't depend on the state:

    Z = H X + b ⊗ h        u = aᵀZ, or its RMS norm

Forward a program has Z on chip when it reads. Backward a launch reads Z and ∂u for ∂a, and another
one forms ∂Z = G + a ⊗ ∂u, with G the gradient of Z from later sublayers, and takes it back through
the write (see `wide`).

Legend: as in `streams`. C has the rows of H, and then b.
"""

from math import ceil

import triton
import triton.language as tl
from torch import Tensor

from geolab.kernels import launch, normed, streams, tiles
from geolab.kernels.launch import expanded, twin
from geolab.kernels.totals import add_up
from geolab.kernels.wide import write_backward


@twin
def stream_write_read(x: Tensor, given: Tensor, update: Tensor, weights: Tensor,
                      norm: tuple[Tensor, float] | None = None) -> tuple[Tensor, Tensor]:
    """Z and u, as `operators.stream_write_read`, for n up to 8.

    The forward pass moves (2n + 2) d numbers per token, and the backward pass (4n + 4) d, with a
    norm d more.
    Raises: ValueError for a mix of devices; TypeError for a dtype that kernels don't read.
    """
    gamma, eps = (None, 0.0) if norm is None else norm
    launch.require("x", x=x, given=given, update=update, weights=weights,
                   **({} if gamma is None else {"norm": gamma}))
    *tokens, n, d = x.shape
    return _stream_write_read(
        x.contiguous(), expanded(given, *tokens, n + 1, n).float().contiguous(),
        expanded(update, *tokens, d).contiguous(),
        expanded(weights, *tokens, n).float().contiguous(),
        None if gamma is None else gamma.float().contiguous(), eps)


def _launch(x: Tensor, c: Tensor, h: Tensor, a: Tensor, gamma: Tensor | None, eps: float,
            z: Tensor, u: Tensor) -> None:
    N, n, d = x.shape[:-2].numel(), *x.shape[-2:]
    tile = streams.reading(x, gamma)
    programs = ceil(N / tile["TOKENS"]) * ceil(d / tile["FEATURES"])
    _write_read[(programs,)](x, c, h, a, a if gamma is None else gamma, z, u, N, d, eps, n,
                             gamma is not None, **tile)


def _launch_backward(gz: Tensor, gu: Tensor, x: Tensor, c: Tensor, h: Tensor, a: Tensor,
                     gamma: Tensor | None, eps: float, z: Tensor, of_x: Tensor, of_c: Tensor,
                     of_h: Tensor, of_a: Tensor, of_gamma: Tensor) -> None:
    if gamma is None:
        streams.read_backward(gu, z, a, 1, of_a)
    else:
        of_read = gu.new_empty(gu.shape)
        add_up((normed.backward(gu, z, a, 1, gamma, eps, None, of_a, of_gamma, of_read),
                of_gamma))
        gu = of_read
    write_backward(gz, x, c, h, of_x, of_c, of_h, (gu, a))


@launch.op("geolab::stream_write_read", _launch)
def _stream_write_read(x: Tensor, c: Tensor, h: Tensor, a: Tensor, gamma: Tensor | None,
                       eps: float) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty((*x.shape[:-2], x.shape[-1]))


@launch.op("geolab::stream_write_read_backward", _launch_backward)
def _stream_write_read_backward(
        gz: Tensor, gu: Tensor, x: Tensor, c: Tensor, h: Tensor, a: Tensor, gamma: Tensor | None,
        eps: float, z: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    return (*(of.new_empty(of.shape) for of in (x, c, h, a)),
            a.new_empty((0,) if gamma is None else gamma.shape))


def _vjp(gz, gu, x, c, h, a, gamma, eps, z):
    *found, of_gamma = _stream_write_read_backward(gz, gu, x, c, h, a, gamma, eps, z)
    return *found, None if gamma is None else of_gamma


launch.differentiate(_stream_write_read, _vjp, outputs=2,
                     keep=lambda inputs, outputs: (*inputs, outputs[0]))


# ---------------------------------------------------------------- in Triton

@triton.jit(do_not_specialize=["N"])
def _write_read(X, C, H, A, GAMMA, Z, U, N, d, eps, n: tl.constexpr, NORM: tl.constexpr,
                TOKENS: tl.constexpr, FEATURES: tl.constexpr):
    across = tl.cdiv(d, FEATURES)
    token = (tl.program_id(0) // across).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    feature = tl.program_id(0) % across * FEATURES + tl.arange(0, FEATURES)
    inside = token < N
    mask = inside[:, None] & (feature < d)[None, :]
    place = (token * n * d)[:, None] + feature[None, :]
    own = (token * d)[:, None] + feature[None, :]
    x = tiles.vectors(X, place, mask, d, n)
    h = tl.load(H + own, mask=mask, other=0.0).to(tl.float32)
    c = tiles.coefficients(C, token, inside, 1, n * n + n, False)
    a = tiles.coefficients(A, token, inside, 1, n, False)
    u = tl.zeros([TOKENS, FEATURES], tl.float32)
    for i in tl.static_range(n):
        z = tiles.written(c, x, h, i, n)
        tl.store(Z + place + i * d, z, mask=mask)
        u += a[i] * z.to(tl.float32)
    if NORM:
        u = normed.normed(u, GAMMA, feature, d, eps)
    tl.store(U + own, u.to(U.dtype.element_ty), mask=mask)
