"""W (x / rms x), from which the coefficients are made, and its gradients.

Each pass, forward and backward, reads the state once.

Is a kernel worthwhile? This table is for 4.3 TB/s and W with 24 rows, which a matrix unit pads to
32:

    features × tokens  one pass over x     float32 products  the same on matrix units  two passes:
                       bfloat16   float32  at 60 TFLOP/s     tf32 × 3  bfloat16 × 2    product, norm
    3072 × 65536       94 µs      187 µs   215 µs            78 µs     26 µs           187, 375 µs
    16384 × 8192       62 µs      125 µs   143 µs            52 µs     17 µs           125, 250 µs

With plain float32 products the arithmetic takes longer than the memory traffic, so a fused kernel
would not pay. It does pay when float32 numbers are sums of shorter ones, multiplied on matrix
units: bfloat16 data are exact, W and the gradient are sums of two bfloat16 numbers each, their
halves. Other data take three tf32 products, whose operands the compiler rounds. The operands of a
single tf32 product would be cut off, which makes sums too small by 7e-4.

Few tokens don't fill a device. Then programs share a token's features, and `_join` adds up what
they found. The backward pass begins with `_scale`, which brings the outputs' gradient into the form
in which every program reads it.

Legend: N tokens, D features per token, O outputs, padded to OUTPUTS; r = 1 / rms x. Outputs, W, r
and sums are float32.
"""

from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from geolab.kernels.launch import (
    INTERPRETED,
    buffer,
    cdiv,
    differentiate,
    op,
    power_of_two,
    require,
    sizes,
)

NUMBERS = 32768 if INTERPRETED else 2048  # outputs of tokens, in a program of `_join` or `_scale`


def rms_linear(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """W (x / rms x), as `operators.rms_linear`, for up to 128 outputs.

    The forward pass moves D numbers per token, and the backward pass 2D. From compute capability
    8.0 on, bfloat16 data meet W and the gradient in 16 bits.
    Raises: ValueError for a mix of devices; TypeError for a dtype that kernels don't read.
    """
    require("x", x=x, weight=weight)
    y, _ = _rms_linear(x.contiguous(), weight.float().contiguous(), eps)
    return y


@cache
def _device(device: torch.device) -> tuple[int, tuple[int, int]]:
    """How many multiprocessors a device has, and its compute capability: an H200's on a CPU."""
    if device.type != "cuda":
        return 132, (9, 0)
    found = torch.cuda.get_device_properties(device)
    return found.multi_processor_count, (found.major, found.minor)


def _products(dtype: torch.dtype, device: torch.device) -> str:
    """How data of this dtype are multiplied: see `_dot`.

    Matrix units for these formats came with compute capability 8.0. The interpreter has none.
    """
    if INTERPRETED or _device(device)[1] < (8, 0):
        return "ieee"
    return "halves" if dtype == torch.bfloat16 else "tf32x3"


def _padded(outputs: int) -> int:
    return max(16, power_of_two(outputs))


def _launch(x: Tensor, weight: Tensor, eps: float, y: Tensor, r: Tensor) -> None:
    (N, D), O, products = sizes(x, 1), len(weight), _products(x.dtype, x.device)
    # W is read once per tile of tokens, from the L2 cache: 3/8 of the bytes of x if there are 128
    tokens = 128
    features = 512 if INTERPRETED else 64 if products == "halves" else 32
    blocks = cdiv(N, tokens)
    # Two programs load 64 KB at a time, enough for a multiprocessor's share of the bandwidth
    multiprocessors, capability = _device(x.device)
    parts = min(max(1, 2 * multiprocessors // blocks), cdiv(D, 8 * features))
    share = cdiv(D, parts * features) * features
    parts = cdiv(D, share)
    sums, squares = (y, r) if parts == 1 else (buffer(parts, N, O, like=y),
                                               buffer(parts, N, like=y))
    # With 64 registers a multiprocessor has room for four programs, and 512 run at once. An A100
    # would spill some of them.
    registers = 64 if products == "halves" and O <= 32 and capability >= (9, 0) else None
    _forward[(blocks, parts)](x, weight, sums, squares, N, eps, D, share, O, _padded(O), tokens,
                              features, D % features == 0, products, num_warps=8, maxnreg=registers)
    if parts > 1:
        few = NUMBERS // _padded(O)
        _join[(cdiv(N, few),)](sums, squares, y, r, N, eps, D, parts, O, _padded(O), few)


def _launch_backward(grad: Tensor, x: Tensor, weight: Tensor, y: Tensor, r: Tensor, grad_x: Tensor,
                     grad_w: Tensor) -> None:
    """With a = r grad: grad_x = Wᵀa − x r ⟨a, y⟩ / D and grad_W = Σ a xᵀ.

    A program takes some features of many tokens, and writes a part of grad_W. The sum of these
    parts has a fixed order, so it is the same in every run.
    """
    (N, D), O, products = sizes(x, 1), len(weight), _products(x.dtype, x.device)
    halves = products == "halves"
    a, shrink = buffer(1 + halves, N, O, like=x if halves else y), buffer(N, like=y)
    few = NUMBERS // _padded(O)
    _scale[(cdiv(N, few),)](grad, y, r, a, shrink, N, D, O, _padded(O), few, products)
    tokens, features = (128, 512) if INTERPRETED else (32, 64)
    wide, small = cdiv(D, features), O <= 32
    # as many programs as run at once: 4 have room on a multiprocessor, or at least 2 in turn
    most = (4 if halves and small else 2) * _device(x.device)[0]
    parts = max(1, min(most // wide, cdiv(N, tokens)))
    parts_of_w = grad_w if parts == 1 else buffer(parts, O, D, like=grad_w)
    _backward[(wide, parts)](a, shrink, x, weight, grad_x, parts_of_w, N,
                             cdiv(N, parts * tokens) * tokens, D, O, _padded(O), tokens, features,
                             D % features == 0, products, num_warps=4 if small else 8)
    if parts > 1:
        torch.sum(parts_of_w, 0, out=grad_w)


@op("geolab::rms_linear", _launch)
def _rms_linear(x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    *tokens, _ = x.shape
    return buffer(*tokens, len(weight), like=weight), buffer(*tokens, like=weight)


@op("geolab::rms_linear_backward", _launch_backward)
def _rms_linear_backward(grad: Tensor, x: Tensor, weight: Tensor, y: Tensor,
                         r: Tensor) -> tuple[Tensor, Tensor]:
    return buffer(*x.shape, like=x), buffer(*weight.shape, like=weight)


differentiate(_rms_linear, _rms_linear_backward,
              keep=lambda inputs, outputs: (*inputs[:2], *outputs))


# ---------------------------------------------------------------- in Triton

@triton.jit
def _halves(x, PRODUCTS: tl.constexpr):
    """For "halves", x as a sum of two bfloat16 numbers; otherwise x itself, twice."""
    if PRODUCTS == "halves":
        high = x.to(tl.bfloat16)
        low = (x - high.to(tl.float32)).to(tl.bfloat16)
    else:
        high, low = x, x
    return high, low


@triton.jit
def _dot(a, b, total, PRODUCTS: tl.constexpr):
    """total + a b in float32; for "halves" a and b are bfloat16."""
    if PRODUCTS == "halves":
        total = tl.dot(a, b, total)
    else:
        total = tl.dot(a.to(tl.float32), b.to(tl.float32), total, input_precision=PRODUCTS)
    return total


@triton.jit(do_not_specialize=["N"])
def _forward(X, W, Y, R, N, eps, D, share, O: tl.constexpr, OUTPUTS: tl.constexpr,
             TOKENS: tl.constexpr, FEATURES: tl.constexpr, WHOLE: tl.constexpr,
             PRODUCTS: tl.constexpr):
    """W x and ‖x‖² of a share of the features, or all of y and r where there is one share.

    WHOLE says that tiles have no features beyond D.
    """
    row, output, column = tl.arange(0, TOKENS), tl.arange(0, OUTPUTS), tl.arange(0, FEATURES)
    token, first = tl.program_id(0).to(tl.int64) * TOKENS, tl.program_id(1) * share
    inside, known = row < N - token, (output < O)[None, :]
    X += token * D
    y = tl.zeros([TOKENS, OUTPUTS], tl.float32)
    # A thread adds up its own 16 bytes: fewer sums are fewer registers
    WIDTH: tl.constexpr = 128 // X.dtype.element_ty.primitive_bitwidth
    squares = tl.zeros([TOKENS, FEATURES // WIDTH], tl.float32)
    for start in range(first, tl.minimum(first + share, D), FEATURES):
        real = start + column < D
        x = tl.load(X + start + row[:, None] * D + column[None, :], other=0.0,
                    mask=inside[:, None] if WHOLE else inside[:, None] & real[None, :])
        w = tl.load(W + start + output[None, :] * D + column[:, None], other=0.0,
                    mask=known if WHOLE else known & real[:, None])
        high, low = _halves(w, PRODUCTS)
        y = _dot(x, high, y, PRODUCTS)
        if PRODUCTS == "halves":
            y = _dot(x, low, y, PRODUCTS)
        wide = x.to(tl.float32)
        squares += tl.sum(tl.reshape(wide * wide, [TOKENS, FEATURES // WIDTH, WIDTH]), axis=2)
    r = tl.sum(squares, axis=1)
    if tl.num_programs(1) == 1:
        r = tl.rsqrt(r / D + eps)
        y *= r[:, None]
    token += tl.program_id(1).to(tl.int64) * N
    tl.store(Y + token * O + row[:, None] * O + output[None, :], y, mask=inside[:, None] & known)
    tl.store(R + token + row, r, mask=inside)


@triton.jit(do_not_specialize=["N", "parts"])
def _join(SUMS, SQUARES, Y, R, N, eps, D, parts, O: tl.constexpr, OUTPUTS: tl.constexpr,
          TOKENS: tl.constexpr):
    """y and r, from W x and ‖x‖² of all shares of the features."""
    token, output = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS), tl.arange(0, OUTPUTS)
    place = token.to(tl.int64)[:, None] * O + output[None, :]
    inside = token < N
    known = inside[:, None] & (output < O)[None, :]
    y, squares = tl.zeros([TOKENS, OUTPUTS], tl.float32), tl.zeros([TOKENS], tl.float32)
    for part in range(parts):
        before = part * N.to(tl.int64)
        y += tl.load(SUMS + before * O + place, mask=known, other=0.0)
        squares += tl.load(SQUARES + before + token, mask=inside, other=0.0)
    r = tl.rsqrt(squares / D + eps)
    tl.store(Y + place, y * r[:, None], mask=known)
    tl.store(R + token, r, mask=inside)


@triton.jit(do_not_specialize=["N"])
def _scale(G, Y, R, A, SHRINK, N, D, O: tl.constexpr, OUTPUTS: tl.constexpr, TOKENS: tl.constexpr,
           PRODUCTS: tl.constexpr):
    """a = r grad, in halves if there are any, and r ⟨a, y⟩ / D."""
    token, output = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS), tl.arange(0, OUTPUTS)
    place = token.to(tl.int64)[:, None] * O + output[None, :]
    inside = token < N
    known = inside[:, None] & (output < O)[None, :]
    r = tl.load(R + token, mask=inside, other=0.0)
    a = tl.load(G + place, mask=known, other=0.0) * r[:, None]
    y = tl.load(Y + place, mask=known, other=0.0)
    high, low = _halves(a, PRODUCTS)
    tl.store(A + place, high, mask=known)
    if PRODUCTS == "halves":
        tl.store(A + N.to(tl.int64) * O + place, low, mask=known)
    tl.store(SHRINK + token, tl.sum(a * y, axis=1) * r / D, mask=inside)


@triton.jit(do_not_specialize=["N", "share"])
def _backward(A, SHRINK, X, W, GX, GW, N, share, D, O: tl.constexpr, OUTPUTS: tl.constexpr,
              TOKENS: tl.constexpr, FEATURES: tl.constexpr, WHOLE: tl.constexpr,
              PRODUCTS: tl.constexpr):
    """Wᵀa − shrink x for `share` tokens, and the sum of their x aᵀ.

    Its transpose is what Hopper's matrix units take: 64 features are a whole operand, 32 outputs
    are half of one.
    """
    row, output, column = tl.arange(0, TOKENS), tl.arange(0, OUTPUTS), tl.arange(0, FEATURES)
    token, feature = tl.program_id(1).to(tl.int64) * share, tl.program_id(0) * FEATURES
    tile, outputs = row[:, None] * D + column[None, :], row[:, None] * O + output[None, :]
    left = tl.minimum(N - token, share).to(tl.int32)  # tokens of this program; none may be left
    known, real = output < O, feature + column < D
    high, low = _halves(tl.load(W + output[:, None] * D + (feature + column)[None, :],
                                mask=known[:, None] & real[None, :], other=0.0), PRODUCTS)
    gw = tl.zeros([FEATURES, OUTPUTS], tl.float32)
    LOW = A + N.to(tl.int64) * O
    known, real = known[None, :], real[None, :]
    # The compiler fetches operands of products ahead of time. This one is fetched by hand.
    upcoming = tl.load(SHRINK + token + row, mask=row < left, other=0.0)
    for start in range(0, left, TOKENS):
        inside, begin = (start + row < left)[:, None], token + start
        shrink, after = upcoming, start + TOKENS + row
        mask = inside if WHOLE else inside & real
        x = tl.load((X + begin * D + feature) + tile, mask=mask, other=0.0)
        a = tl.load((A + begin * O) + outputs, mask=inside & known, other=0.0)
        upcoming = tl.load(SHRINK + token + after, mask=after < left, other=0.0)
        gx = _dot(a, high, tl.zeros([TOKENS, FEATURES], tl.float32), PRODUCTS)
        if PRODUCTS == "halves":
            b = tl.load((LOW + begin * O) + outputs, mask=inside & known, other=0.0)
            gx = _dot(b, high, _dot(a, low, gx, PRODUCTS), PRODUCTS)
        gx -= shrink[:, None] * x.to(tl.float32)
        tl.store((GX + begin * D + feature) + tile, gx.to(GX.dtype.element_ty), mask=mask)
        gw = _dot(tl.trans(x), a, gw, PRODUCTS)
        if PRODUCTS == "halves":
            gw = _dot(tl.trans(x), b, gw, PRODUCTS)
    GW += tl.program_id(1).to(tl.int64) * O * D + feature
    tl.store(GW + output[None, :] * D + column[:, None], gw,
             mask=known & (feature + column < D)[:, None])
