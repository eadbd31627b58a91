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
units: bfloat16 data are exact and W is a sum of two bfloat16 numbers; float32 data take three tf32
products.

Legend: N tokens, D features per token, O outputs, padded to OUTPUTS; r = 1 / rms x. Outputs, W, r
and sums are float32.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from geolab.kernels.launch import INTERPRETED, buffer, differentiate, op, require, rows

# (tokens, features) of a tile of the backward pass. With 64 tokens, float32 products spill
# registers.
TILE_BACK = (128, 512) if INTERPRETED else (32, 64)
PROGRAMS = 528  # of the backward pass: 4 for each of 132 multiprocessors


def rms_linear(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """W (x / rms x), as `operators.rms_linear`, for up to 128 outputs.

    The forward pass moves D numbers per token, and the backward pass 2D. From compute capability
    8.0 on, bfloat16 data meet W in 16 bits. Their own gradient, which is rounded to 8 bits, comes
    from products in 11 bits.
    Raises: ValueError for a mix of devices; TypeError for a dtype that kernels don't read.
    """
    require("x", x=x, weight=weight)
    y, _ = _rms_linear(rows(x, 1), weight.float().contiguous(), eps)
    return y.view(*x.shape[:-1], len(weight))


def _products(x: Tensor) -> str:
    """How x is multiplied: see `_dot`.

    Matrix units for these formats came with compute capability 8.0. The interpreter has none.
    """
    if INTERPRETED or x.is_cuda and torch.cuda.get_device_capability(x.device) < (8, 0):
        return "ieee"
    return "bf16x2" if x.dtype == torch.bfloat16 else "tf32x3"


def _padded(outputs: int) -> int:
    return max(16, triton.next_power_of_2(outputs))


def _launch(x: Tensor, weight: Tensor, eps: float, y: Tensor, r: Tensor) -> None:
    (N, D), O = x.shape, len(weight)
    # A row of a tile is a cache line. This takes 128 registers, so four programs run at once.
    tokens, features = (128, 512) if INTERPRETED else (64, 128 // x.element_size())
    _forward[(triton.cdiv(N, tokens),)](x, weight, y, r, N, eps, D, O, _padded(O), tokens, features,
                                        _products(x))


def _launch_backward(grad: Tensor, x: Tensor, weight: Tensor, y: Tensor, r: Tensor, grad_x: Tensor,
                     grad_w: Tensor) -> None:
    """With a = r grad: grad_x = Wᵀa − x r² ⟨grad, y⟩ / D and grad_W = Σ a xᵀ.

    Programs write parts of grad_W. Their sum has a fixed order, so it is the same in every run.
    """
    (N, D), O = x.shape, len(weight)
    tokens, features = TILE_BACK
    wide = triton.cdiv(D, features)
    parts = max(1, min(triton.cdiv(PROGRAMS, wide), triton.cdiv(N, tokens)))
    a, shrink = grad * r[:, None], (grad * y).sum(1) * r * r / D
    parts_of_w = buffer(parts, O, D, like=weight)
    _backward[(wide, parts)](a, shrink, x, weight, grad_x, parts_of_w, N,
                             triton.cdiv(N, parts * tokens) * tokens, D, O, _padded(O), tokens,
                             features, _products(x))
    torch.sum(parts_of_w, 0, out=grad_w)


@op("geolab::rms_linear", _launch)
def _rms_linear(x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    return buffer(len(x), len(weight), like=weight), buffer(len(x), like=weight)


@op("geolab::rms_linear_backward", _launch_backward)
def _rms_linear_backward(grad: Tensor, x: Tensor, weight: Tensor, y: Tensor,
                         r: Tensor) -> tuple[Tensor, Tensor]:
    return buffer(*x.shape, like=x), buffer(*weight.shape, like=weight)


differentiate(_rms_linear, _rms_linear_backward,
              keep=lambda inputs, outputs: (*inputs[:2], *outputs))


# ---------------------------------------------------------------- in Triton

@triton.jit
def _dot(a, b, PRODUCTS: tl.constexpr, EXACT: tl.constexpr):
    """a b in float32.

    For "bf16x2" the operand EXACT is bfloat16. The other one is float32, and is split into a sum of
    two bfloat16 numbers.
    """
    if PRODUCTS != "bf16x2":
        product = tl.dot(a.to(tl.float32), b.to(tl.float32), input_precision=PRODUCTS)
    elif EXACT == "a":
        high = b.to(tl.bfloat16)
        product = tl.dot(a, high) + tl.dot(a, (b - high.to(tl.float32)).to(tl.bfloat16))
    else:
        high = a.to(tl.bfloat16)
        product = tl.dot(high, b) + tl.dot((a - high.to(tl.float32)).to(tl.bfloat16), b)
    return product


@triton.jit(do_not_specialize=["N"])
def _forward(X, W, Y, R, N, eps, D, O: tl.constexpr, OUTPUTS: tl.constexpr, TOKENS: tl.constexpr,
             FEATURES: tl.constexpr, PRODUCTS: tl.constexpr):
    token = tl.program_id(0).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    output = tl.arange(0, OUTPUTS)
    inside = token < N
    y, squares = tl.zeros([TOKENS, OUTPUTS], tl.float32), tl.zeros([TOKENS, FEATURES], tl.float32)
    for start in range(0, D, FEATURES):
        feature = start + tl.arange(0, FEATURES)
        x = tl.load(X + token[:, None] * D + feature[None, :],
                    mask=inside[:, None] & (feature < D)[None, :], other=0.0)
        w = tl.load(W + output[None, :] * D + feature[:, None],
                    mask=(output < O)[None, :] & (feature < D)[:, None], other=0.0)
        y += _dot(x, w, PRODUCTS, "a")
        squares += x.to(tl.float32) * x.to(tl.float32)
    r = tl.rsqrt(tl.sum(squares, axis=1) / D + eps)
    tl.store(Y + token[:, None] * O + output[None, :], y * r[:, None],
             mask=inside[:, None] & (output < O)[None, :])
    tl.store(R + token, r, mask=inside)


@triton.jit(do_not_specialize=["N", "share"])
def _backward(A, SHRINK, X, W, GX, GW, N, share, D, O: tl.constexpr, OUTPUTS: tl.constexpr,
              TOKENS: tl.constexpr, FEATURES: tl.constexpr, PRODUCTS: tl.constexpr):
    part = tl.program_id(1).to(tl.int64)
    feature, output = tl.program_id(0) * FEATURES + tl.arange(0, FEATURES), tl.arange(0, OUTPUTS)
    known = (output < O)[:, None] & (feature < D)[None, :]
    w = tl.load(W + output[:, None] * D + feature[None, :], mask=known, other=0.0)
    gw = tl.zeros([OUTPUTS, FEATURES], tl.float32)
    for start in range(0, share, TOKENS):
        token = part * share + start + tl.arange(0, TOKENS)
        inside = token < N
        place = token[:, None] * D + feature[None, :]
        mask = inside[:, None] & (feature < D)[None, :]
        a = tl.load(A + token[:, None] * O + output[None, :],
                    mask=inside[:, None] & (output < O)[None, :], other=0.0)
        x = tl.load(X + place, mask=mask, other=0.0)
        gx = tl.dot(a, w, input_precision="tf32" if PRODUCTS == "bf16x2" else PRODUCTS)
        gx -= tl.load(SHRINK + token, mask=inside, other=0.0)[:, None] * x.to(tl.float32)
        tl.store(GX + place, gx.to(GX.dtype.element_ty), mask=mask)
        gw += _dot(tl.trans(a), x, PRODUCTS, "b")
    tl.store(GW + (part * O + output)[:, None] * D + feature[None, :], gw, mask=known)
