"""The coefficients of JPmHC: a is the mean of the rows of a row-wise softmax of n² logits over τ, b
is s times the row sums of a column-wise one, and H the iteration Y ← I + K (I + Y) from I + 2K, K =
α/2 (W − Wᵀ), for n² logits W, or its limit (I − K)⁻¹ (I + K) for n = 4 (see `cayley`). Also their
gradients.

Legend: as in `constrained`. A matrix is a tuple of n rows, tiles (MATRICES, POWER) as in
`birkhoff`.
"""

import triton
import triton.language as tl

from geolab.kernels import birkhoff, cayley, guarded, logits, polytope, tiles


@triton.jit
def rows(Y, SUMS, BIAS, token, r, N, parts, first: tl.constexpr, n: tl.constexpr, O: tl.constexpr,
         JOIN: tl.constexpr, POWER: tl.constexpr):
    """The rows of n² logits; `first` counts rows."""
    found = ()
    for i in tl.static_range(n):
        found += (logits.logits(Y, SUMS, BIAS, BIAS, token, r, N, parts, (first + i) * n, n, 0, n,
                                O, "turn", JOIN, POWER),)
    return found


@triton.jit
def total(x, n: tl.constexpr):
    """The sums of the n numbers in each row of a tile."""
    real = tl.arange(0, x.shape[1])[None, :] < n
    return tl.sum(tl.where(real, x, 0.0), axis=1, keep_dims=True)


@triton.jit
def read(z, temperature, n: tl.constexpr):
    """a."""
    a = tl.zeros_like(z[0])
    for i in tl.static_range(n):
        a += polytope.softmax(z[i] / temperature, n) / n
    return a


@triton.jit
def heard(SUMS, BIAS, token, inside, r, N, parts, temperature, n: tl.constexpr, O: tl.constexpr):
    """a as a tuple of n numbers per token."""
    weights = ()
    for _ in tl.static_range(n):
        weights += (tl.zeros_like(r),)
    for i in tl.static_range(n):
        z, exps, top = (), (), tl.full(r.shape, float("-inf"), tl.float32)
        for j in tl.static_range(n):
            y = logits.whole(SUMS, token * O + i * n + j, inside, N * O, parts) * r
            z += ((y + tl.load(BIAS + i * n + j)) / temperature,)
            top = tl.maximum(top, z[j])
        size = tl.zeros_like(r)
        for j in tl.static_range(n):
            exps += (tl.exp(z[j] - top),)
            size += exps[j]
        added = ()
        for j in tl.static_range(n):
            added += (weights[j] + exps[j] / size / n,)
        weights = added
    return weights


@triton.jit
def shares(z, temperature, n: tl.constexpr):
    """The column-wise softmax."""
    scaled = ()
    for i in tl.static_range(n):
        scaled += (z[i] / temperature,)
    return guarded.softmax(scaled, n)


@triton.jit
def turned(w, alpha, steps, EXACT: tl.constexpr, n: tl.constexpr, POWER: tl.constexpr):
    """H."""
    k = _antisymmetric(w, alpha, n, POWER)
    if EXACT:
        y = _rows(cayley.rotated(_entries(birkhoff.transposed(k, n, POWER))))  # Kᵀ = −K
    else:
        y = _plus_identity(_plus(k, k, n), n, POWER)
        for _ in range(steps):
            y = _plus_identity(_times(k, _plus_identity(y, n, POWER), n, POWER), n, POWER)
    return y


@triton.jit
def _turned_back(grads, k, STEPS: tl.constexpr, EXACT: tl.constexpr, n: tl.constexpr,
                 POWER: tl.constexpr):
    """The gradient with respect to K, from that with respect to H."""
    if EXACT:
        w = birkhoff.transposed(k, n, POWER)
        gk = birkhoff.transposed(_rows(cayley.rotated_back(_entries(grads), _entries(w))), n, POWER)
    else:
        ys, gk = (_plus_identity(_plus(k, k, n), n, POWER),), ()
        for t in tl.static_range(STEPS - 1):
            ys += (_plus_identity(_times(k, _plus_identity(ys[t], n, POWER), n, POWER), n, POWER),)
        for i in tl.static_range(n):
            gk += (tl.zeros_like(k[i]),)
        for t in tl.static_range(STEPS):
            before = birkhoff.transposed(_plus_identity(ys[STEPS - 1 - t], n, POWER), n, POWER)
            gk = _plus(gk, _times(grads, before, n, POWER), n)
            grads = _times(birkhoff.transposed(k, n, POWER), grads, n, POWER)
        gk = _plus(gk, _plus(grads, grads, n), n)
    return gk


@triton.jit
def back(GA, GMADE, Y, r, SCALE, BIAS, SCALED, PARTS, token, N, temperature, alpha,
         STEPS: tl.constexpr, EXACT: tl.constexpr, n: tl.constexpr, O: tl.constexpr,
         POWER: tl.constexpr, PRODUCTS: tl.constexpr):
    """Write the gradient of y, and parts of the bias's, as `logits.back`.

    Returns: ⟨r ∂y, y⟩, and the gradient of s.
    """
    column, inside = tl.arange(0, POWER)[None, :], token < N
    place, s = token * (n * n + n), tl.load(SCALE)
    z = rows(Y, Y, BIAS, token, r, N, 1, 0, n, O, False, POWER)
    ga = tl.load(GA + token * n + column, mask=inside & (column < n), other=0.0)
    grads = ()
    for i in tl.static_range(n):
        p = polytope.softmax(z[i] / temperature, n)
        grads += (p * (ga - tl.sum(p * ga, axis=1, keep_dims=True)) / (n * temperature),)
    along = _all_back(grads, Y, r, SCALE, SCALED, PARTS, token, N, 0, n, O, PRODUCTS)

    p = shares(rows(Y, Y, BIAS, token, r, N, 1, n, n, O, False, POWER), temperature, n)
    gb, down, of_scale = (), tl.zeros_like(p[0]), tl.zeros([1, 1], tl.float32)
    for i in tl.static_range(n):
        gb += (tl.load(GMADE + place + n * n + i, mask=inside, other=0.0),)
        down += p[i] * gb[i]
        of_scale += tl.sum(gb[i] * total(p[i], n), axis=0, keep_dims=True)
    grads = ()
    for i in tl.static_range(n):
        grads += (tl.where(column < n, s * p[i] * (gb[i] - down) / temperature, 0.0),)
    along += _all_back(grads, Y, r, SCALE, SCALED, PARTS, token, N, n, n, O, PRODUCTS)

    k = _antisymmetric(rows(Y, Y, BIAS, token, r, N, 1, 2 * n, n, O, False, POWER), alpha, n,
                       POWER)
    gk = _turned_back(birkhoff.load(GMADE, place, inside, False, n, POWER), k, STEPS, EXACT, n,
                      POWER)
    along += _all_back(_antisymmetric(gk, alpha, n, POWER), Y, r, SCALE, SCALED, PARTS, token, N,
                       2 * n, n, O, PRODUCTS)
    return along, of_scale


@triton.jit
def _all_back(grads, Y, r, SCALE, SCALED, PARTS, token, N, first: tl.constexpr, n: tl.constexpr,
              O: tl.constexpr, PRODUCTS: tl.constexpr):
    along = tl.zeros_like(r)
    for i in tl.static_range(n):
        found, _ = logits.back(grads[i], Y, r, SCALE, SCALED, PARTS, token, N, (first + i) * n, n,
                               0, n, O, "turn", PRODUCTS)
        along += found
    return along


# ---------------------------------------------------------------- matrices

@triton.jit
def _antisymmetric(w, alpha, n: tl.constexpr, POWER: tl.constexpr):
    """α/2 (W − Wᵀ)."""
    other, k = birkhoff.transposed(w, n, POWER), ()
    for i in tl.static_range(n):
        k += (alpha / 2 * (w[i] - other[i]),)
    return k


@triton.jit
def _times(a, b, n: tl.constexpr, POWER: tl.constexpr):
    """A B."""
    column, product = tl.arange(0, POWER)[None, :], ()
    for i in tl.static_range(n):
        row = tl.zeros_like(b[0])
        for j in tl.static_range(n):
            row += tl.sum(tl.where(column == j, a[i], 0.0), axis=1, keep_dims=True) * b[j]
        product += (row,)
    return product


@triton.jit
def _plus(a, b, n: tl.constexpr):
    """A + B."""
    added = ()
    for i in tl.static_range(n):
        added += (a[i] + b[i],)
    return added


@triton.jit
def _plus_identity(a, n: tl.constexpr, POWER: tl.constexpr):
    """A + I."""
    column, added = tl.arange(0, POWER)[None, :], ()
    for i in tl.static_range(n):
        added += (a[i] + tl.where(column == i, 1.0, 0.0),)
    return added


@triton.jit
def _entries(a):
    """The 16 numbers of 4 × 4 matrices."""
    numbers = ()
    for i in tl.static_range(4):
        numbers += tiles.taken_apart(a[i], 4)
    return numbers


@triton.jit
def _rows(numbers):
    """The matrices of these numbers."""
    a = ()
    for i in tl.static_range(4):
        a += (tiles.side_by_side(numbers[4 * i:4 * i + 4]),)
    return a
