"""A state in tiles of TOKENS × FEATURES: how large they are, what is loaded into them, and sums
over features.

Legend: N tokens, n streams, d features per stream. A coefficient belongs to `span` tokens in a row.
"""

import triton
import triton.language as tl
from torch import Tensor

from geolab.kernels.launch import INTERPRETED


def across(x: Tensor) -> dict[str, int]:
    """For programs of 4 warps that take one tile of x (N, n, d): 16 bytes per thread, as wide as
    divides d.

    A thread has all that its tile needs on the way at once: for n = 4 and a vector h, 80 bytes.
    With 16 warps on a multiprocessor that is 40 KB, where its share of a GPU's bandwidth needs
    about 25.
    """
    d = x.shape[-1]
    exact = d & -d
    return _tile(x, exact if exact >= 128 else d)


def along(x: Tensor) -> dict[str, int]:
    """For programs of 4 warps that go along all d features in tiles, and sum over them: 4 tiles of
    a token, narrow ones where d allows.

    A warp that has a token to itself sums without the others. Long tokens take more warps, or the
    last programs would run long.
    """
    d, warp = x.shape[-1], 512 // x.element_size()
    return _tile(x, max(triton.cdiv(d, 4), min(d, warp)))


def _tile(x: Tensor, features: int) -> dict[str, int]:
    numbers = 2048 // x.element_size()
    features = max(min(triton.next_power_of_2(features), numbers), 8)
    # the interpreter wants few programs
    return dict(TOKENS=(32 if INTERPRETED else 1) * numbers // features, FEATURES=features)


@triton.jit
def coefficients(A, token, inside, span, count: tl.constexpr, SHARED: tl.constexpr):
    """The numbers of each token, a tuple of columns (TOKENS, 1)."""
    numbers, owner = (), token
    if SHARED:
        owner = token // span  # of 64 bits, a long division
    for i in tl.static_range(count):
        numbers += (tl.load(A + (owner * count + i)[:, None], mask=inside[:, None], other=0.0),)
    return numbers


@triton.jit
def vectors(X, place, mask, d, n: tl.constexpr):
    """The n vectors of each token, a tuple of tiles; `place` is where the first one lies."""
    streams = ()
    for i in tl.static_range(n):
        streams += (tl.load(X + place + i * d, mask=mask, other=0.0),)
    return streams


@triton.jit
def zeros(count: tl.constexpr, X, TOKENS: tl.constexpr, FEATURES: tl.constexpr):
    """Sums to begin with: of each, one number for 16 bytes of X."""
    sums = ()
    for _ in tl.static_range(count):
        sums += (tl.zeros([TOKENS, FEATURES * X.dtype.element_ty.primitive_bitwidth // 128],
                          tl.float32),)
    return sums


@triton.jit
def added(sums, place: tl.constexpr, a, b):
    """The sums, one of them increased by a b.

    A thread adds up its own 16 bytes, and no number moves.
    """
    PARTS: tl.constexpr = sums[place].shape[1]
    part = tl.sum(tl.reshape(a * b, [a.shape[0], PARTS, a.shape[1] // PARTS]), axis=2)
    return sums[:place] + (sums[place] + part,) + sums[place + 1:]


@triton.jit
def store_sums(G, token, inside, sums):
    """G[token] becomes the sums.

    All lie side by side, padded to a power of two: they cross lanes and warps together.
    """
    count: tl.constexpr = len(sums)
    COLUMNS: tl.constexpr = triton.next_power_of_2(count)
    side = sums
    for _ in tl.static_range(COLUMNS - count):
        side += (tl.zeros_like(sums[0]),)
    for _ in tl.static_range(6):
        if len(side) > 1:
            pairs = ()
            for i in tl.static_range(len(side) // 2):
                pairs += (tl.join(side[i], side[i + len(side) // 2]),)
            side = pairs
    total = tl.sum(tl.reshape(side[0], [sums[0].shape[0], sums[0].shape[1], COLUMNS]), axis=1)
    column = tl.arange(0, COLUMNS)
    tl.store(G + (token * count)[:, None] + column[None, :], total,
             mask=inside[:, None] & (column < count)[None, :])
