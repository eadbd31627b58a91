"""H = Σ_k softmax(z)_k C_k, a mixture of given matrices such as permutations, and its gradient.

Legend: K matrices C_k of n rows and columns, (K, n, n), float32. Tokens are rows of tiles: z is
(MATRICES, COUNT), and a row of H is (MATRICES, POWER). COUNT and POWER are the smallest powers of
two that are at least K and n.
"""

import triton
import triton.language as tl


@triton.jit
def mixture(z, C, n: tl.constexpr, K: tl.constexpr, POWER: tl.constexpr):
    """The rows of H."""
    p, rows = softmax(z, K), ()
    for i in tl.static_range(n):
        rows = rows + (tl.sum(p[:, :, None] * _corner_rows(C, i, n, K, POWER), axis=1),)
    return rows


@triton.jit
def mixture_back(z, grad, C, n: tl.constexpr, K: tl.constexpr, POWER: tl.constexpr):
    """The gradient with respect to z, from that with respect to the rows of H."""
    p, of_p = softmax(z, K), tl.zeros_like(z)
    for i in tl.static_range(n):
        of_p += tl.sum(grad[i][:, None, :] * _corner_rows(C, i, n, K, POWER), axis=2)
    return p * (of_p - tl.sum(p * of_p, axis=1, keep_dims=True))


@triton.jit
def softmax(z, K: tl.constexpr):
    """The softmax of the first K numbers of each row."""
    z = tl.where(tl.arange(0, z.shape[1])[None, :] < K, z, float("-inf"))
    z = tl.exp(z - tl.max(z, axis=1, keep_dims=True))
    return z / tl.sum(z, axis=1, keep_dims=True)


@triton.jit
def _corner_rows(C, i: tl.constexpr, n: tl.constexpr, K: tl.constexpr, POWER: tl.constexpr):
    """Row i of every C_k, (1, COUNT, POWER)."""
    k, column = tl.arange(0, triton.next_power_of_2(K))[None, :, None], tl.arange(0, POWER)
    column = column[None, None, :]
    return tl.load(C + (k * n + i) * n + column, mask=(k < K) & (column < n), other=0.0)
