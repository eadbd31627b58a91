"""Short vectors and small matrices in the registers of a thread.

A vector is a tuple of n numbers, and a matrix is a tuple of n² numbers, row by row. Each number is
a tensor with one entry per token, or per matrix. A thread holds all numbers of an entry.
"""

import triton
import triton.language as tl

from geolab.kernels.tiles import side_by_side, taken_apart


@triton.jit
def load_row(X, row, inside, count: tl.constexpr):
    """Read X[row] as a tuple of `count` numbers: 16 bytes at a time if that is a power of two."""
    numbers = ()
    if count & (count - 1):
        for i in tl.static_range(count):
            numbers += (tl.load(X + row * count + i, mask=inside, other=0.0),)
    else:
        tile = tl.load(X + row[:, None] * count + tl.arange(0, count)[None, :],
                       mask=inside[:, None], other=0.0)
        columns = taken_apart(tile, count)
        for i in tl.static_range(count):
            numbers += (tl.reshape(columns[i], [row.shape[0]]),)
    return numbers


@triton.jit
def store_row(X, row, inside, numbers):
    """Write the numbers to X[row], in the layout in which `load_row` reads them."""
    count: tl.constexpr = len(numbers)
    if count & (count - 1):
        for i in tl.static_range(count):
            tl.store(X + row * count + i, numbers[i], mask=inside)
    else:
        columns = ()
        for i in tl.static_range(count):
            columns += (tl.reshape(numbers[i], [row.shape[0], 1]),)
        tl.store(X + row[:, None] * count + tl.arange(0, count)[None, :], side_by_side(columns),
                 mask=inside[:, None])


@triton.jit
def dot(a, b):
    """aᵀb."""
    total = a[0] * b[0]
    for i in tl.static_range(1, len(a)):
        total += a[i] * b[i]
    return total


@triton.jit
def scaled(a, factor):
    """factor a."""
    product = ()
    for i in tl.static_range(len(a)):
        product += (a[i] * factor,)
    return product


@triton.jit
def plus(a, b, factor):
    """a + factor b."""
    total = ()
    for i in tl.static_range(len(a)):
        total += (a[i] + factor * b[i],)
    return total


@triton.jit
def times(matrix, a, n: tl.constexpr, transposed: tl.constexpr = False):
    """M a, or Mᵀa with `transposed`."""
    product = ()
    for i in tl.static_range(n):
        total = matrix[i if transposed else i * n] * a[0]
        for j in tl.static_range(1, n):
            total += matrix[j * n + i if transposed else i * n + j] * a[j]
        product += (total,)
    return product


@triton.jit
def length(a):
    """‖a‖, and NaN where its square has left the range of float32."""
    square = dot(a, a)
    return tl.sqrt_rn(tl.where(square == float("inf"), float("nan"), square))


@triton.jit
def unit(a):
    """a/‖a‖ and ‖a‖. Where a = 0, both are zeros."""
    r = length(a)
    e = scaled(a, tl.div_rn(1.0, tl.where(r == 0, 1.0, r)))
    # One Newton step removes the rounding error of the length.
    return plus(e, e, 0.5 - 0.5 * dot(e, e)), r
