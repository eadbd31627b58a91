"""The logits of `coefficients`: their places, the lengths that y is divided by, and what is made of
one logit at a time.

Legend: as there.
"""

import triton
import triton.language as tl

from geolab.kernels import tiles


@triton.jit
def norm(SUMS, SQUARES, token, own, mask, N, d, eps, parts, n: tl.constexpr, O: tl.constexpr,
          NORMS: tl.constexpr):
    """The mean, 0 for NORMS = 0, and 1 / the deviation or RMS, of the token or its stream `own`."""
    COUNT: tl.constexpr = NORMS if NORMS else 1
    each = d * (n // COUNT)
    mean, square = 0.0, whole(SQUARES, token * COUNT + own, mask, N * COUNT, parts) / each
    if NORMS:
        mean = whole(SUMS, token * O + (O - NORMS) + own, mask, N * O, parts) / each
        square -= mean * mean
        square = tl.where(square < 0, 0.0, square)  # rounding; NaN stays
    return mean, tiles.inverse_length(square + eps)


@triton.jit
def whole(PARTS, place, mask, size, parts):
    """The sum of the parts of a number, in their order."""
    total = tl.load(PARTS + place, mask=mask, other=0.0)
    for part in range(1, parts):
        total += tl.load(PARTS + part * size.to(tl.int64) + place, mask=mask, other=0.0)
    return total


@triton.jit
def place_of(first: tl.constexpr, column, n: tl.constexpr, FORM: tl.constexpr):
    """The place of a column's logit, in a tile whose first logit is the `first` of all.

    A table has a row of n + 2 logits for each stream: b, a and its column of H. There a column of
    the tile stands for a stream.
    """
    if FORM == "free" or FORM == "tanh":
        row: tl.constexpr = 1 - first // n if first < 2 * n else first // n
        place = column * (n + 2) + row
    else:
        place = first + column
    return place


@triton.jit
def group_of(group: tl.constexpr, FORM: tl.constexpr):
    """The place in s of the number for a, b′ or H′, group 0, 1 or 2; a table has two, for b′ and
    for both others.
    """
    if FORM == "free" or FORM == "tanh":
        return 0 if group == 1 else 1
    else:
        return group


@triton.jit
def bounded(y, FORM: tl.constexpr):
    """The number that s multiplies."""
    if FORM == "tanh":
        y = 2 * tl.sigmoid(2 * y) - 1  # off by 6e-8, before it is added to a number of the table
    return y


@triton.jit
def weight(logit, most: tl.constexpr, guard, FORM: tl.constexpr):
    """A number of a or b′."""
    if FORM != "free" and FORM != "tanh":
        logit = most * tl.sigmoid(logit) + guard
    return logit


@triton.jit
def logits(Y, SUMS, SCALE, BIAS, token, r, N, parts, first: tl.constexpr, count: tl.constexpr,
            group: tl.constexpr, n: tl.constexpr, O: tl.constexpr, FORM: tl.constexpr,
            JOIN: tl.constexpr, WIDTH: tl.constexpr):
    """`count` logits s ⊙ y + bias of each token, from the first one on.

    With JOIN y comes in parts, and is written whole.
    """
    column = tl.arange(0, WIDTH)[None, :]
    own = place_of(first, column, n, FORM)
    place, known = token * O + own, (token < N) & (column < count)
    if JOIN:
        y = whole(SUMS, place, known, N * O, parts) * r
        tl.store(Y + place, y, mask=known)
    else:
        y = tl.load(Y + place, mask=known, other=0.0)
    y = bounded(y, FORM)
    if FORM != "turn":
        y *= tl.load(SCALE + group_of(group, FORM))
    return y + tl.load(BIAS + own, mask=column < count, other=0.0)


@triton.jit
def back(grad, Y, r, SCALE, SCALED, PARTS, token, N, first: tl.constexpr, count: tl.constexpr,
          group: tl.constexpr, n: tl.constexpr, O: tl.constexpr, FORM: tl.constexpr,
          PRODUCTS: tl.constexpr):
    """Write the gradient of y times r, of `count` logits with this gradient, and their bias's.

    Returns: what these logits add to ⟨r ∂y, y⟩, and to the gradient of s, which no `turn` has.
    """
    column = tl.arange(0, grad.shape[1])[None, :]
    own = place_of(first, column, n, FORM)
    place, known = token * O + own, (token < N) & (column < count)
    y = tl.load(Y + place, mask=known, other=0.0)
    tl.store(PARTS + own, tl.sum(grad, axis=0, keep_dims=True), mask=column < count)
    of_y = bounded(y, FORM)
    total = tl.sum(tl.sum(grad * of_y, axis=1, keep_dims=True), axis=0, keep_dims=True)
    scaled = grad * r
    if FORM != "turn":
        scaled = tl.load(SCALE + group_of(group, FORM)) * grad * r
    if FORM == "tanh":
        scaled *= 1 - of_y * of_y
    store_halves(SCALED, scaled, place, known, N, O, PRODUCTS)
    along = scaled * y
    if r.shape[1] == 1:
        along = tl.sum(along, axis=1, keep_dims=True)
    return along, total


@triton.jit
def store_halves(SCALED, scaled, place, mask, N, O: tl.constexpr, PRODUCTS: tl.constexpr):
    """Write numbers of the gradient of y, or their `pack.halves`."""
    if PRODUCTS == "halves":
        high = scaled.to(tl.bfloat16)
        low = (scaled - high.to(tl.float32)).to(tl.bfloat16)
        tl.store(SCALED + place, high, mask=mask)
        tl.store(SCALED + N.to(tl.int64) * O + place, low, mask=mask)
    else:
        tl.store(SCALED + place, scaled, mask=mask)
