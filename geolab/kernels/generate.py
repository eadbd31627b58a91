"""W (x / rms x), from which the coefficients are made, and its gradients. A pass reads x once.

Is a kernel worthwhile? This table is for 4.3 TB/s and W with 24 rows, which a matrix unit pads to
32:

    features × tokens  one pass over x     float32 products  the same on matrix units  two passes:
                       bfloat16   float32  at 60 TFLOP/s     tf32 × 3  bfloat16 × 2    product, norm
    3072 × 65536       94 µs      187 µs   215 µs            78 µs     26 µs           187, 375 µs
    16384 × 8192       62 µs      125 µs   143 µs            52 µs     17 µs           125, 250 µs

With plain float32 products the arithmetic would take longer than the memory traffic. So float32
numbers are split into sums of shorter ones, which matrix units multiply. For bfloat16 data, which
are exact, W and the gradient are sums of two bfloat16 numbers each, their halves. Other data take
three tf32 products, whose operands the compiler rounds. A single tf32 product would truncate its
operands, and its sums would be too small by 7e-4.

`packed` brings W into the form that every program reads, and `_scale` the gradient of the outputs.
Few tokens don't fill a device: then programs share their features, and `_join` adds up the results.

Legend: N tokens, D features each, O float32 outputs, padded to OUTPUTS; r = 1 / rms x.
"""

from math import ceil
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from geolab.kernels import launch, tiles
from geolab.kernels.launch import INTERPRETED, differentiate, op, require, twin
from geolab.kernels.pack import halves, packed, padded
from geolab.kernels.tiles import Layout, ReadGradients, Write, WriteGradients
from geolab.kernels.totals import add_up, parts_of

NUMBERS = 32768 if INTERPRETED else 2048  # outputs of tokens, in a program of `_join` or `_scale`
# for bfloat16 data and up to 32 outputs
FORWARD, BACKWARD = Layout(64, 128, 4, stages=3), Layout(32, 128, 8, stages=3)
SHARED = 113 * 2**10  # bytes of shared memory: FORWARD takes 80 KB on Hopper, 112 on Blackwell


@twin
def rms_linear(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """W (x / rms x), as `operators.rms_linear`, for up to 128 outputs.

    The forward pass moves D numbers per token, and the backward pass 2D. Where matrix units take
    bfloat16, such data are multiplied with the 16-bit halves of W and of the gradient.
    Raises: ValueError for a mix of devices; TypeError for a dtype that kernels don't read.
    """
    require("x", x=x, weight=weight)
    return _rms_linear(x.contiguous(), weight.float().contiguous(), eps)[0]


def _products(dtype: torch.dtype, device: torch.device) -> str:
    """Choose the form of products for data of this dtype: see `tiles.product`."""
    found = launch.describe(device)
    return ("halves" if dtype == torch.bfloat16 and found.halves
            else "tf32x3" if found.tf32 else "ieee")


def _launch(x: Tensor, weight: Tensor, eps: float, y: Tensor, r: Tensor) -> None:
    found = state_forward(x.unsqueeze(-2), weight, eps, y, r, None, layout_of(x, weight))
    join(x, eps, y, r, *found)


def layout_of(x: Tensor, weight: Tensor) -> Layout:
    """The layout of the forward pass for tokens without a write."""
    split = _products(x.dtype, x.device) == "halves"
    large = split and len(weight) <= 32 and launch.describe(x.device).shared >= SHARED
    return FORWARD if large else Layout(128, 64 if split else 32, 8)


def state_forward(x: Tensor, weight: Tensor, eps: float, y: Tensor, r: Tensor,
                  write: Write | None, layout: Layout, norms: int = 0) -> tuple[Tensor, Tensor]:
    """Fill y and r for x (N, n, d), or for the state Z that `write` makes of it: see `_forward`.

    With `norms`, 1 or n, there are so many lengths, and y isn't divided by them.
    Each tile of tokens reads W once, from the L2 cache: padded, all of x's bytes if there are 64.
    Returns: y and r, or parts of W z and ‖z‖² with `norms`, or if programs share features.
    """
    N, n, d = x.shape[:-2].numel(), *x.shape[-2:]
    O, products = len(weight), _products(x.dtype, x.device)
    tokens, features = (64, 512) if INTERPRETED else layout[:2]
    blocks, at_once = ceil(N / tokens), layout.programs * launch.describe(x.device).multiprocessors
    parts = min(max(1, at_once // blocks), ceil(d / (4 * features)))
    share = ceil(d / (parts * features)) * features
    parts = ceil(d / share)
    sums, squares = (y, r) if parts == 1 and not norms else (
        y.new_empty(parts, N, O), y.new_empty(parts, N, max(norms, 1)))
    _forward[(blocks, parts)](
        x, packed(weight, x, products), sums, squares, *(write or (y, x, x)), N, eps, d, share,
        n, O, padded(O), norms, WRITE=0 if write is None else write.coefficients.numel() // N,
        TOKENS=tokens, FEATURES=features, WHOLE=d % features == 0, STAGES=layout.stages,
        PRODUCTS=products, num_warps=layout.warps)
    return sums, squares


def join(x: Tensor, eps: float, y: Tensor, r: Tensor, sums: Tensor, squares: Tensor) -> None:
    """Fill y and r with what `state_forward` returned, if these are parts, for x (N, D)."""
    if sums is not y:
        N, D, O = x.shape[:-1].numel(), x.shape[-1], y.shape[-1]
        few = NUMBERS // padded(O)
        _join[(ceil(N / few),)](sums, squares, y, r, N, eps, D, len(sums), O, padded(O), few)


def _launch_backward(grad: Tensor, x: Tensor, weight: Tensor, y: Tensor, r: Tensor, grad_x: Tensor,
                     grad_w: Tensor) -> None:
    small, products = len(weight) <= 32, _products(x.dtype, x.device)
    layout = BACKWARD if small and products == "halves" else Layout(32, 64, 4 if small else 8)
    state_backward(scale(grad, x, y, r), x.unsqueeze(-2), weight, grad_x, grad_w, None, None,
                   layout)


class Scaled(NamedTuple):
    """The gradient of y as every program reads it."""

    a: Tensor       # r grad, or its two halves: (1 or 2, N, O)
    shrink: Tensor  # r ⟨a, y⟩ / D: (N,), or of each stream: (N, n)


def scaled_like(x: Tensor, y: Tensor, r: Tensor) -> tuple[Scaled, str]:
    """Memory for the gradient of y, and the form of its products with the data x."""
    products = _products(x.dtype, x.device)
    split = products == "halves"
    a = (x if split else y).new_empty(1 + split, y.shape[:-1].numel(), y.shape[-1])
    return Scaled(a, y.new_empty(r.shape)), products


def scale(grad: Tensor, x: Tensor, y: Tensor, r: Tensor) -> Scaled:
    """Bring the gradient of y into this form, for x (N, D)."""
    N, D, O = x.shape[:-1].numel(), x.shape[-1], y.shape[-1]
    made, products = scaled_like(x, y, r)
    few = NUMBERS // padded(O)
    _scale[(ceil(N / few),)](grad, y, r, *made, N, D, O, padded(O), few, products)
    return made


def state_backward(scaled: Scaled, x: Tensor, weight: Tensor, grad_x: Tensor, grad_w: Tensor,
                   read: ReadGradients | None, write: WriteGradients | None, layout: Layout,
                   *others: tuple[Tensor, Tensor]) -> None:
    """Fill grad_x = Wᵀa − x r ⟨a, y⟩ / D and grad_W = Σ a xᵀ, with a = r grad, and the buffers in
    `write`: see `_backward`.

    A program takes some features of many tokens. It writes a part of grad_W, and a part of ∂H and
    ∂b of each token. The parts are added in a fixed order, so the sums are the same in every run.

    Arguments:
        others: (parts, total), up to two more sums that the last launch takes.
    """
    N, n, d, O = x.shape[:-2].numel(), *x.shape[-2:], len(weight)
    tokens, features = (64, 512) if INTERPRETED else layout[:2]
    wide, at_once = ceil(d / features), layout.programs * launch.describe(x.device).multiprocessors
    parts = max(1, min(at_once // wide, ceil(N / tokens)))
    given, update, of_given, of_update = write or (weight, x, None, grad_x)
    of_w, of_c = parts_of(grad_w, parts), None if write is None else parts_of(of_given, wide)
    _backward[(wide, parts)](
        *scaled, x, weight, grad_x, of_w, *(read or (x, x, weight)), C=given, U=update,
        GC=of_w if of_c is None else of_c, GH=of_update, N=N, d=d, n=n, O=O, OUTPUTS=padded(O),
        share=ceil(N / (parts * tokens)) * tokens, NORMS=scaled.shrink.numel() // N,
        READ=read is not None, WRITE=0 if write is None else given.numel() // N, TOKENS=tokens,
        FEATURES=features, WHOLE=d % features == 0, STAGES=layout.stages,
        PRODUCTS=_products(x.dtype, x.device), num_warps=layout.warps)
    add_up((of_w, grad_w), (of_c, of_given), *others)


@op("geolab::rms_linear", _launch)
def _rms_linear(x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    return weight.new_empty((*x.shape[:-1], len(weight))), weight.new_empty(x.shape[:-1])


@op("geolab::rms_linear_backward", _launch_backward)
def _rms_linear_backward(grad: Tensor, x: Tensor, weight: Tensor, y: Tensor,
                         r: Tensor) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), weight.new_empty(weight.shape)


differentiate(_rms_linear, _rms_linear_backward,
              keep=lambda inputs, outputs: (*inputs[:2], *outputs))


# ---------------------------------------------------------------- in Triton

@triton.jit(do_not_specialize=["N"])
def _forward(X, W, Y, R, C, U, Z, N, eps, d, share, n: tl.constexpr, O: tl.constexpr,
             OUTPUTS: tl.constexpr, NORMS: tl.constexpr, WRITE: tl.constexpr, TOKENS: tl.constexpr,
             FEATURES: tl.constexpr, WHOLE: tl.constexpr, STAGES: tl.constexpr,
             PRODUCTS: tl.constexpr):
    """Write W z and ‖z‖² of a share of each stream's features, or y and r if there is one share.

    With NORMS, it is W z and ‖z‖² in any case; n of them are those of the streams.
    With WRITE, Z is H X + b ⊗ h, and is written too. Otherwise Z is X. WRITE is how many
    numbers H and b have: only n where H = I. WHOLE says that tiles have no features beyond d.
    """
    STREAMS: tl.constexpr = triton.next_power_of_2(n)
    COUNT: tl.constexpr = NORMS if NORMS else 1
    row, output, feature = tl.arange(0, TOKENS), tl.arange(0, OUTPUTS), tl.arange(0, FEATURES)
    side = tl.arange(0, FEATURES * STREAMS)
    token, first = tl.program_id(0).to(tl.int64) * TOKENS + row, tl.program_id(1) * share
    inside = token < N
    if WRITE:
        c = tiles.coefficients(C, token, inside, 1, WRITE, False)
    y, squares = tl.zeros([TOKENS, OUTPUTS], tl.float32), tiles.zeros(COUNT, X, TOKENS, FEATURES)
    for start in tl.range(first, tl.minimum(first + share, d), FEATURES, num_stages=STAGES):
        mask = inside[:, None] if WHOLE else inside[:, None] & (start + feature < d)[None, :]
        place = (token * n * d)[:, None] + (start + feature)[None, :]
        x = tiles.vectors(X, place, mask, d, n)
        if WRITE:
            u = tl.load(U + (token * d)[:, None] + (start + feature)[None, :], mask=mask,
                        other=0.0).to(tl.float32)
        zs = ()
        for i in tl.static_range(n):
            z = x[i]
            if WRITE:
                z = tiles.written(c, x, u, i, n)
                tl.store(Z + place + i * d, z, mask=mask)
            wide = z.to(tl.float32)
            squares = tiles.added(squares, i if NORMS > 1 else 0, wide, wide)
            zs += (z,)
        column = start * STREAMS + side
        packed = W + column[:, None] * OUTPUTS + output[None, :]
        known = (column < d * STREAMS)[:, None]
        high = tl.load(packed) if WHOLE else tl.load(packed, mask=known, other=0.0)
        z = tiles.side_by_side(zs)
        y = tiles.product(z, high, y, PRODUCTS)
        if PRODUCTS == "halves":
            packed += d * STREAMS * OUTPUTS
            low = tl.load(packed) if WHOLE else tl.load(packed, mask=known, other=0.0)
            y = tiles.product(z, low, y, PRODUCTS)
    own = token + tl.program_id(1).to(tl.int64) * N
    for i in tl.static_range(COUNT):
        r = tl.sum(squares[i], axis=1)
        if NORMS == 0 and tl.num_programs(1) == 1:
            r = tiles.inverse_length(r / (n * d) + eps)
            y *= r[:, None]
        tl.store(R + own * COUNT + i, r, mask=inside)
    tl.store(Y + (own * O)[:, None] + output[None, :], y,
             mask=inside[:, None] & (output < O)[None, :])


@triton.jit(do_not_specialize=["N", "parts"])
def _join(SUMS, SQUARES, Y, R, N, eps, D, parts, O: tl.constexpr, OUTPUTS: tl.constexpr,
          TOKENS: tl.constexpr):
    """Write y and r, from W x and ‖x‖² of all shares of the features."""
    token, output = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS), tl.arange(0, OUTPUTS)
    place = token.to(tl.int64)[:, None] * O + output[None, :]
    inside = token < N
    known = inside[:, None] & (output < O)[None, :]
    y, squares = tl.zeros([TOKENS, OUTPUTS], tl.float32), tl.zeros([TOKENS], tl.float32)
    for part in range(parts):
        before = part * N.to(tl.int64)
        y += tl.load(SUMS + before * O + place, mask=known, other=0.0)
        squares += tl.load(SQUARES + before + token, mask=inside, other=0.0)
    r = tiles.inverse_length(squares / D + eps)
    tl.store(Y + place, y * r[:, None], mask=known)
    tl.store(R + token, r, mask=inside)


@triton.jit(do_not_specialize=["N"])
def _scale(G, Y, R, A, SHRINK, N, D, O: tl.constexpr, OUTPUTS: tl.constexpr, TOKENS: tl.constexpr,
           PRODUCTS: tl.constexpr):
    """Write a = r grad, in halves for PRODUCTS = "halves", and r ⟨a, y⟩ / D."""
    token, output = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS), tl.arange(0, OUTPUTS)
    place = token.to(tl.int64)[:, None] * O + output[None, :]
    inside = token < N
    known = inside[:, None] & (output < O)[None, :]
    r = tl.load(R + token, mask=inside, other=0.0)
    a = tl.load(G + place, mask=known, other=0.0) * r[:, None]
    y = tl.load(Y + place, mask=known, other=0.0)
    high, low = halves(a, PRODUCTS)
    tl.store(A + place, high, mask=known)
    if PRODUCTS == "halves":
        tl.store(A + N.to(tl.int64) * O + place, low, mask=known)
    tl.store(SHRINK + token, tl.sum(a * y, axis=1) * r / D, mask=inside)


@triton.jit(do_not_specialize=["N", "share"])
def _backward(SCALED, SHRINK, X, W, GX, GW, GZ, GU, A, C, U, GC, GH, N, share, d, n: tl.constexpr,
              O: tl.constexpr, OUTPUTS: tl.constexpr, NORMS: tl.constexpr, READ: tl.constexpr,
              WRITE: tl.constexpr, TOKENS: tl.constexpr, FEATURES: tl.constexpr,
              WHOLE: tl.constexpr, STAGES: tl.constexpr, PRODUCTS: tl.constexpr):
    """Write ∂X and parts of ∂W; with WRITE also ∂h, and parts of ∂b, and of ∂H unless H = I.

    Without WRITE, Z is X. With READ, GZ and a ⊗ ∂u are added to the gradient through y.
    """
    STREAMS: tl.constexpr = triton.next_power_of_2(n)
    row, output = tl.arange(0, TOKENS), tl.arange(0, OUTPUTS)
    begin = tl.program_id(0) * FEATURES
    feature, side = begin + tl.arange(0, FEATURES), tl.arange(0, FEATURES * STREAMS)
    own, stream = begin + side // STREAMS, side % STREAMS
    first = tl.program_id(1).to(tl.int64) * share
    left = tl.minimum(N - first, share).to(tl.int32)  # tokens of this program; none may be left
    known, real = output < O, (stream < n) & (own < d)
    high, low = halves(tl.load(W + (output * n * d)[:, None] + (stream * d + own)[None, :],
                               mask=known[:, None] & real[None, :], other=0.0), PRODUCTS)
    gw = tl.zeros([FEATURES * STREAMS, OUTPUTS], tl.float32)
    LOW = SCALED + N.to(tl.int64) * O
    for start in tl.range(0, left, TOKENS, num_stages=STAGES):
        inside, token = start + row < left, first + start + row
        mask = inside[:, None] if WHOLE else inside[:, None] & (feature < d)[None, :]
        place = (token * n * d)[:, None] + feature[None, :]
        single = (token * d)[:, None] + feature[None, :]
        outputs, there = (token * O)[:, None] + output[None, :], inside[:, None] & known[None, :]
        s = tl.load(SCALED + outputs, mask=there, other=0.0)
        g = tiles.product(s, high, tl.zeros([TOKENS, FEATURES * STREAMS], tl.float32), PRODUCTS)
        if PRODUCTS == "halves":
            t = tl.load(LOW + outputs, mask=there, other=0.0)
            g = tiles.product(t, high, tiles.product(s, low, g, PRODUCTS), PRODUCTS)
        through = tiles.taken_apart(g, STREAMS)
        x = tiles.vectors(X, place, mask, d, n)
        if READ:
            gu = tl.load(GU + single, mask=mask, other=0.0).to(tl.float32)
            a = tiles.coefficients(A, token, inside, 1, n, False)
        shrink = tiles.coefficients(SHRINK, token, inside, 1, NORMS, False)
        zs, gx = (), ()
        if WRITE:
            u = tl.load(U + single, mask=mask, other=0.0).to(tl.float32)
            c = tiles.coefficients(C, token, inside, 1, WRITE, False)
            gh, sums = tl.zeros_like(u), tiles.zeros(WRITE, X, TOKENS, FEATURES)
            for _ in tl.static_range(n if n < WRITE else 0):
                gx += (tl.zeros_like(u),)
        for i in tl.static_range(n):
            z = tiles.written(c, x, u, i, n) if WRITE else x[i]
            zs += (z,)
            gz = through[i] - shrink[i if NORMS > 1 else 0] * z.to(tl.float32)
            if READ:
                gz += a[i] * gu + tl.load(GZ + place + i * d, mask=mask, other=0.0).to(tl.float32)
            if WRITE:
                gh += c[WRITE - n + i] * gz
                sums = tiles.added(sums, WRITE - n + i, gz, u)
            if n < WRITE:
                moved = ()
                for j in tl.static_range(n):
                    moved += (gx[j] + c[i * n + j] * gz,)
                    sums = tiles.added(sums, i * n + j, gz, x[j].to(tl.float32))
                gx = moved
            else:
                gx += (gz,)
        for j in tl.static_range(n):
            tl.store(GX + place + j * d, gx[j].to(GX.dtype.element_ty), mask=mask)
        if WRITE:
            tl.store(GH + single, gh.to(GH.dtype.element_ty), mask=mask)
            tiles.store_sums(GC, tl.program_id(0).to(tl.int64) * N + token, inside, sums)
        z = tl.trans(tiles.side_by_side(zs))
        gw = tiles.product(z, s, gw, PRODUCTS)
        if PRODUCTS == "halves":
            gw = tiles.product(z, t, gw, PRODUCTS)
    GW += tl.program_id(1).to(tl.int64) * O * n * d
    tl.store(GW + (stream * d + own)[:, None] + (output * n * d)[None, :], gw,
             mask=real[:, None] & known[None, :])
