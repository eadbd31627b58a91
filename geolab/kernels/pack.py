"""W in the form in which every program of `generate` reads it, and the halves of numbers."""

from math import ceil

import triton
import triton.language as tl
from torch import Tensor

from geolab.kernels.launch import INTERPRETED

PACK = 4096 if INTERPRETED else 64  # columns of W, in a program of `_pack`


def padded(outputs: int) -> int:
    """The outputs that a matrix unit computes."""
    return max(16, 1 << (outputs - 1).bit_length())


def packed(weight: Tensor, x: Tensor, products: str) -> Tensor:
    """Wᵀ for data x (N, n, d): itself, or its two halves in the dtype of x, (1 or 2, d, n, O), with
    n and O padded.
    """
    *_, n, d = x.shape
    O, split = len(weight), products == "halves"
    streams, outputs = 1 << (n - 1).bit_length(), padded(O)
    made = (x if split else weight).new_empty(1 + split, d, streams, outputs)
    _pack[(ceil(d * streams / PACK),)](weight, made, d, n, streams, O, outputs, PACK, products)
    return made


# ---------------------------------------------------------------- in Triton

@triton.jit
def _pack(W, PACKED, d, n: tl.constexpr, STREAMS: tl.constexpr, O: tl.constexpr,
          OUTPUTS: tl.constexpr, COLUMNS: tl.constexpr, PRODUCTS: tl.constexpr):
    """Write Wᵀ as `_forward` reads it, in halves for PRODUCTS = "halves". The streams of a feature
    are neighbours, and streams and outputs are padded with zeros.
    """
    side, output = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS), tl.arange(0, OUTPUTS)
    own, stream = side // STREAMS, side % STREAMS
    w = tl.load(W + (stream * d + own)[:, None] + output[None, :] * n * d, other=0.0,
                mask=((stream < n) & (own < d))[:, None] & (output < O)[None, :])
    high, low = halves(w, PRODUCTS)
    place, mask = side[:, None] * OUTPUTS + output[None, :], (own < d)[:, None]
    tl.store(PACKED + place, high, mask=mask)
    if PRODUCTS == "halves":
        tl.store(PACKED + d * STREAMS * OUTPUTS + place, low, mask=mask)


@triton.jit
def halves(x, PRODUCTS: tl.constexpr):
    """For "halves", x as a sum of two bfloat16 numbers; otherwise x itself, twice."""
    if PRODUCTS == "halves":
        high = x.to(tl.bfloat16)
        low = (x - high.to(tl.float32)).to(tl.bfloat16)
    else:
        high, low = x, x
    return high, low
