"""A state in tiles of TOKENS × FEATURES: layouts, sizes and loads of tiles, and sums over features.

Legend: N tokens, n streams, d features per stream. A coefficient belongs to `span` consecutive
tokens.
"""

from functools import cache
from math import ceil
from typing import NamedTuple

import triton
import triton.language as tl
from torch import Tensor

from geolab.kernels.launch import INTERPRETED


class Layout(NamedTuple):
    """The way of a program along a state: it takes one tile of tokens × features per stream at a
    time.

    Those for bfloat16 were the fastest of some 150 for each pass on an H100. No clock has seen
    that of the joined backward pass: it is the fastest one at twice the features and the warps,
    so it writes half as many parts of ∂H and ∂b, and spills less.

    Arguments:
        tokens, features: the size of a tile.
        warps: the number of a program's warps.
        stages: the number of tiles that are in use or being loaded; with 1, loads go to registers.
        programs: the number of programs per multiprocessor.
    """

    tokens: int
    features: int
    warps: int
    stages: int = 2
    programs: int = 2


class Write(NamedTuple):
    """The write before a generator, for its forward pass: the state is H X + b ⊗ h."""

    coefficients: Tensor  # the rows of H, and then b: (N, n² + n); b alone, (N, n), where H = I
    update: Tensor        # h: (N, d)
    state: Tensor         # the buffer for Z: (N, n, d)


class WriteGradients(NamedTuple):
    """The same write for the backward pass."""

    coefficients: Tensor
    update: Tensor
    of_coefficients: Tensor  # the buffer for ∂H and ∂b
    of_update: Tensor        # the buffer for ∂h


class ReadGradients(NamedTuple):
    """The parts of the gradient of Z that don't come through y: G + a ⊗ ∂u."""

    of_state: Tensor  # G: (N, n, d)
    of_heard: Tensor  # ∂u: (N, d)
    weights: Tensor   # a: (N, n)


# cached: computing these takes as long as a launch

@cache
def across(d: int, bytes_each: int) -> dict[str, int]:
    """The tile of a program of 4 warps that takes one tile of the state.

    It has 16 bytes per thread and stream. Its width divides d where a power of two from 128 on
    does. A thread requests all data of its tile at once: 80 bytes for n = 4 and a vector h. With 16
    warps on a multiprocessor these are 40 KB, and about 25 KB are enough for its share of a GPU's
    bandwidth.
    """
    exact = d & -d
    return _tile(exact if exact >= 128 else d, bytes_each)


@cache
def along(d: int, bytes_each: int) -> dict[str, int]:
    """The tile of a program of 4 warps that goes along all d features, and sums over them.

    A token has about 4 tiles, and narrow ones where d allows. A warp that has a token to itself
    sums without the other warps. Long tokens take several warps, since otherwise the last programs
    would take long.
    """
    return _tile(max(ceil(d / 4), min(d, 512 // bytes_each)), bytes_each)


def _tile(features: int, bytes_each: int) -> dict[str, int]:
    numbers = 2048 // bytes_each
    features = max(min(1 << (features - 1).bit_length(), numbers), 8)
    # few and large programs are faster in the interpreter
    return dict(TOKENS=(32 if INTERPRETED else 1) * numbers // features, FEATURES=features)


@triton.jit
def inverse_length(square):
    """1 / √square, and NaN where the square has left the range of float32."""
    return tl.where(square == float("inf"), float("nan"), tl.rsqrt(square))


@triton.jit
def coefficients(A, token, inside, span, count: tl.constexpr, SHARED: tl.constexpr):
    """Read `count` numbers per token, as a tuple of columns (TOKENS, 1)."""
    numbers, owner = (), token
    if SHARED:
        owner = token // span  # a slow division, of 64 bits
    for i in tl.static_range(count):
        numbers += (tl.load(A + (owner * count + i)[:, None], mask=inside[:, None], other=0.0),)
    return numbers


@triton.jit
def vectors(X, place, mask, d, n: tl.constexpr):
    """Read the n vectors of each token, as a tuple of tiles. The first one lies at `place`."""
    streams = ()
    for i in tl.static_range(n):
        streams += (tl.load(X + place + i * d, mask=mask, other=0.0),)
    return streams


@triton.jit
def zeros(count: tl.constexpr, X, TOKENS: tl.constexpr, FEATURES: tl.constexpr):
    """The sums before anything is added: each has one number per 16 bytes of X."""
    PARTS: tl.constexpr = FEATURES * X.dtype.element_ty.primitive_bitwidth // 128
    sums = ()
    for _ in tl.static_range(count):
        sums += (tl.zeros([TOKENS, PARTS], tl.float32),)
    return sums


@triton.jit
def added(sums, place: tl.constexpr, a, b):
    """Add a b to the sum at `place`, and return all sums.

    A thread adds up its own 16 bytes, so no number moves between threads.
    """
    PARTS: tl.constexpr = sums[place].shape[1]
    part = tl.sum(tl.reshape(a * b, [a.shape[0], PARTS, a.shape[1] // PARTS]), axis=2)
    return sums[:place] + (sums[place] + part,) + sums[place + 1:]


@triton.jit
def side_by_side(tiles):
    """One tile (TOKENS, FEATURES · COUNT) of the numbers of several, feature by feature.

    COUNT is their number, padded to a power of two with tiles of zeros.
    """
    count: tl.constexpr = len(tiles)
    COUNT: tl.constexpr = triton.next_power_of_2(count)
    side = tiles
    for _ in tl.static_range(COUNT - count):
        side += (tl.zeros_like(tiles[0]),)
    for _ in tl.static_range(7):
        if len(side) > 1:
            pairs = ()
            for i in tl.static_range(len(side) // 2):
                pairs += (tl.join(side[i], side[i + len(side) // 2]),)
            side = pairs
    return tl.reshape(side[0], [tiles[0].shape[0], tiles[0].shape[1] * COUNT])


@triton.jit
def taken_apart(tile, COUNT: tl.constexpr):
    """The tiles that lie side by side in a tile; COUNT is a power of two."""
    tiles = (tile,)
    for _ in tl.static_range(6):
        if len(tiles) < COUNT:
            even, odd = (), ()
            for i in tl.static_range(len(tiles)):
                pair = tl.split(tl.reshape(
                    tiles[i], [tile.shape[0], tile.shape[1] // len(tiles) // 2, 2]))
                even, odd = even + (pair[0],), odd + (pair[1],)
            tiles = even + odd
    return tiles


@triton.jit
def store_sums(G, token, inside, sums):
    """Write the sums to G[token].

    They are put side by side, so that they cross lanes and warps together.
    """
    count: tl.constexpr = len(sums)
    COLUMNS: tl.constexpr = triton.next_power_of_2(count)
    side = tl.reshape(side_by_side(sums), [sums[0].shape[0], sums[0].shape[1], COLUMNS])
    total, column = tl.sum(side, axis=1), tl.arange(0, COLUMNS)
    tl.store(G + (token * count)[:, None] + column[None, :], total,
             mask=inside[:, None] & (column < count)[None, :])


@triton.jit
def product(a, b, total, PRODUCTS: tl.constexpr):
    """total + a b in float32; for "halves" a and b are bfloat16."""
    if PRODUCTS == "halves":
        total = tl.dot(a, b, total)
    else:
        total = tl.dot(a.to(tl.float32), b.to(tl.float32), total, input_precision=PRODUCTS)
    return total


@triton.jit
def written(c, x, u, i: tl.constexpr, n: tl.constexpr):
    """Stream i of H X + b ⊗ h, in the dtype of the state. H = I where c has b alone."""
    if len(c) == n:
        z = x[i].to(tl.float32) + c[i] * u
    else:
        z = c[n * n + i] * u
        for j in tl.static_range(n):
            z += c[i * n + j] * x[j].to(tl.float32)
    return z.to(x[0].dtype)
