"""The gradient of a write H X + b ⊗ h by itself: of five to eight streams, which one pass can't
take back together with the generator, or where no generator reads Z.

With eight streams, `joined`'s backward pass would hold 72 sums per token for H and b beside the
gradient of W. So the gradient of Z is written, and this kernel reads it:

    ∂X = Hᵀ∂Z        ∂h = bᵀ∂Z        ∂H = ∂Z Xᵀ        ∂b = ∂Z h

It moves (3n + 2) d numbers per token. If Z is also read as aᵀZ, it reads the gradient ∂u of that,
too, and adds a ⊗ ∂u to ∂Z on chip.

Legend: N tokens, n streams, d features per stream. C has the rows of H, and then b, of each token,
and GC their gradients: n + 1 rows of n float32 numbers.
"""

from math import ceil

import triton
import triton.language as tl
from torch import Tensor

from geolab.kernels import tiles


def write_backward(grad: Tensor, x: Tensor, c: Tensor, h: Tensor, of_x: Tensor, of_c: Tensor,
                   of_h: Tensor, read: tuple[Tensor, Tensor] | None = None) -> None:
    """Fill the gradients of X, of H above b, and of h, from that of Z.

    Arguments:
        read: ∂u and a.
    """
    N, n, d = x.shape[:-2].numel(), *x.shape[-2:]
    tile = tiles.along(d, x.element_size())
    _write_backward[(ceil(N / tile["TOKENS"]),)](
        grad, x, c, h, *(read or (h, c)), of_x, of_c, of_h, N, d, n, read is not None, **tile)


# ---------------------------------------------------------------- in Triton

@triton.jit(do_not_specialize=["N"])
def _write_backward(GZ, X, C, U, GV, A, GX, GC, GU, N, d, n: tl.constexpr, READ: tl.constexpr,
                    TOKENS: tl.constexpr, FEATURES: tl.constexpr):
    """Write the gradients; with READ that of v = aᵀZ, GV, belongs to that of Z."""
    token = tl.program_id(0).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    inside, row = token < N, token * (n + 1)
    c = ()
    for i in tl.static_range(n + 1):
        c += tiles.coefficients(C + i * n, row, inside, 1, n, False)
    if READ:
        a = tiles.coefficients(A, token, inside, 1, n, False)
    sums = tiles.zeros(n * n + n, X, TOKENS, FEATURES)
    for start in range(0, d, FEATURES):
        feature = start + tl.arange(0, FEATURES)
        mask = inside[:, None] & (feature < d)[None, :]
        place = (token * n * d)[:, None] + feature[None, :]
        own = (token * d)[:, None] + feature[None, :]
        gz = tiles.vectors(GZ, place, mask, d, n)
        if READ:
            v, whole = tl.load(GV + own, mask=mask, other=0.0).to(tl.float32), ()
            for i in tl.static_range(n):
                whole += (gz[i].to(tl.float32) + a[i] * v,)
            gz = whole
        x = tiles.vectors(X, place, mask, d, n)
        u = tl.load(U + own, mask=mask, other=0.0).to(tl.float32)
        gu = tl.zeros_like(u)
        for i in tl.static_range(n):
            gu += c[n * n + i] * gz[i].to(tl.float32)
            sums = tiles.added(sums, n * n + i, gz[i].to(tl.float32), u)
        tl.store(GU + own, gu.to(GU.dtype.element_ty), mask=mask)
        for j in tl.static_range(n):
            gx = tl.zeros_like(u)
            for i in tl.static_range(n):
                gx += c[i * n + j] * gz[i].to(tl.float32)
                sums = tiles.added(sums, i * n + j, gz[i].to(tl.float32), x[j].to(tl.float32))
            tl.store(GX + place + j * d, gx.to(GX.dtype.element_ty), mask=mask)
    for i in tl.static_range(n + 1):
        tiles.store_sums(GC + i * n, row, inside, sums[i * n:(i + 1) * n])
