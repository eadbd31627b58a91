"""The second phase of `constrained`: a, b′, H′ and u of the numbers y, and the gradient of y.

Legend: as there. FORM is "identity", "sinkhorn", "guarded" or "corners", and K counts the logits of
H′. CORNERS are the matrices of a mixture, and F is the history of an iteration. With NORM a program
that reads holds whole tokens.
"""

import triton
import triton.language as tl

from geolab.kernels import birkhoff, guarded, normed, polytope, tiles


@triton.jit(do_not_specialize=["N", "parts", "steps"])
def _enter(Z, Y, R, SUMS, SQUARES, SCALE, BIAS, CORNERS, READ, GAMMA, A, MADE, U, N, eps, norm_eps,
           guard, write_guard, d, parts, steps, FLIP: tl.constexpr, FORM: tl.constexpr,
           n: tl.constexpr, O: tl.constexpr, JOIN: tl.constexpr, AHEAD: tl.constexpr,
           NORM: tl.constexpr, MATRICES: tl.constexpr, POWER: tl.constexpr, TOKENS: tl.constexpr,
           FEATURES: tl.constexpr):
    """Write a, b′ and H′ of some tokens, or u of a tile of tokens and features.

    With JOIN y and r come in parts, and are written whole, too. With AHEAD u is read with READ, and
    a is for the sublayer after.
    """
    making = tl.cdiv(N, MATRICES)
    if tl.program_id(0) < making:
        _make(Y, R, SUMS, SQUARES, SCALE, BIAS, CORNERS, A, MADE, N, eps, guard, write_guard, d,
              parts, steps, FLIP, FORM, n, O, JOIN, MATRICES, POWER)
    else:
        _read(Z, Y, SUMS, SQUARES, SCALE, BIAS, READ, GAMMA, U, tl.program_id(0) - making, N, eps,
              norm_eps, guard, d, parts, n, O, JOIN, AHEAD, NORM, TOKENS, FEATURES)


@triton.jit
def _make(Y, R, SUMS, SQUARES, SCALE, BIAS, CORNERS, A, MADE, N, eps, guard, write_guard, d, parts,
          steps, FLIP: tl.constexpr, FORM: tl.constexpr, n: tl.constexpr, O: tl.constexpr,
          JOIN: tl.constexpr, MATRICES: tl.constexpr, POWER: tl.constexpr):
    token = tl.program_id(0).to(tl.int64) * MATRICES + tl.arange(0, MATRICES)[:, None]
    column, inside = tl.arange(0, POWER)[None, :], token < N
    known = inside & (column < n)
    OF_B: tl.constexpr = 0 if FORM == "identity" else n * n
    place = token * (OF_B + n)
    r = 1.0
    if JOIN:
        r = tiles.inverse_length(_whole(SQUARES, token, inside, N, parts) / (n * d) + eps)
        tl.store(R + token, r, mask=inside)
    read = _logits(Y, SUMS, SCALE, BIAS, token, r, N, parts, 0, n, 0, O, JOIN, POWER)
    write = _logits(Y, SUMS, SCALE, BIAS, token, r, N, parts, n, n, 1, O, JOIN, POWER)
    rows = ()
    if FORM == "sinkhorn" or FORM == "guarded":
        for i in tl.static_range(n):
            rows += (_logits(Y, SUMS, SCALE, BIAS, token, r, N, parts, (i + 2) * n, n, 2, O, JOIN,
                             POWER),)
    tl.store(A + token * n + column, tl.sigmoid(read) + guard, mask=known)
    tl.store(MADE + place + OF_B + column, 2 * tl.sigmoid(write) + write_guard, mask=known)
    if FORM == "corners":
        K: tl.constexpr = O - 2 * n
        z = _logits(Y, SUMS, SCALE, BIAS, token, r, N, parts, 2 * n, K, 2, O, JOIN,
                    triton.next_power_of_2(K))
        birkhoff.store(MADE, polytope.mixture(z, CORNERS, n, K, POWER), place, inside, False, n,
                       POWER)
    elif FORM != "identity":
        if FLIP:
            rows = birkhoff.transposed(rows, n, POWER)
        if FORM == "guarded":
            rows = guarded.projected(rows, steps, guard, n, POWER)
        else:
            rows = birkhoff.projected(rows, steps, n, POWER)
        birkhoff.store(MADE, rows, place, inside, FLIP, n, POWER)


@triton.jit
def _read(Z, Y, SUMS, SQUARES, SCALE, BIAS, READ, GAMMA, U, program, N, eps, norm_eps, guard, d,
          parts, n: tl.constexpr, O: tl.constexpr, JOIN: tl.constexpr, AHEAD: tl.constexpr,
          NORM: tl.constexpr, TOKENS: tl.constexpr, FEATURES: tl.constexpr):
    across = tl.cdiv(d, FEATURES)
    token = (program // across).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    feature = program % across * FEATURES + tl.arange(0, FEATURES)
    inside = token < N
    mask = inside[:, None] & (feature < d)[None, :]
    z = tiles.vectors(Z, (token * n * d)[:, None] + feature[None, :], mask, d, n)
    if JOIN and not AHEAD:
        r = tiles.inverse_length(_whole(SQUARES, token, inside, N, parts) / (n * d) + eps)
    u = tl.zeros([TOKENS, FEATURES], tl.float32)
    for i in tl.static_range(n):
        if AHEAD:
            a = tl.load(READ + token * n + i, mask=inside, other=0.0)
        else:
            if JOIN:
                y = _whole(SUMS, token * O + i, inside, N * O, parts) * r
            else:
                y = tl.load(Y + token * O + i, mask=inside, other=0.0)
            a = tl.sigmoid(tl.load(SCALE) * y + tl.load(BIAS + i)) + guard
        u += a[:, None] * z[i].to(tl.float32)
    if NORM:
        u = normed.normed(u, GAMMA, feature, d, norm_eps)
    tl.store(U + (token * d)[:, None] + feature[None, :], u.to(U.dtype.element_ty), mask=mask)


@triton.jit
def _whole(PARTS, place, mask, size, parts):
    """The sum of the parts of a number, in their order."""
    total = tl.load(PARTS + place, mask=mask, other=0.0)
    for part in range(1, parts):
        total += tl.load(PARTS + part * size.to(tl.int64) + place, mask=mask, other=0.0)
    return total


@triton.jit
def _logits(Y, SUMS, SCALE, BIAS, token, r, N, parts, first: tl.constexpr, count: tl.constexpr,
            group: tl.constexpr, O: tl.constexpr, JOIN: tl.constexpr, WIDTH: tl.constexpr):
    """`count` logits s ⊙ y + bias of each token, from the first one on.

    With JOIN y comes in parts, and is written whole.
    """
    column = tl.arange(0, WIDTH)[None, :]
    place, known = token * O + first + column, (token < N) & (column < count)
    if JOIN:
        y = _whole(SUMS, place, known, N * O, parts) * r
        tl.store(Y + place, y, mask=known)
    else:
        y = tl.load(Y + place, mask=known, other=0.0)
    bias = tl.load(BIAS + first + column, mask=column < count, other=0.0)
    return tl.load(SCALE + group) * y + bias


@triton.jit(do_not_specialize=["N"])
def _enter_backward(GA, GMADE, Y, R, SCALE, BIAS, CORNERS, SCALED, SHRINK, PARTS, F, N, D, guard,
                    STEPS: tl.constexpr, LONG: tl.constexpr, FLIP: tl.constexpr,
                    FORM: tl.constexpr, n: tl.constexpr, O: tl.constexpr, MATRICES: tl.constexpr,
                    POWER: tl.constexpr, PRODUCTS: tl.constexpr):
    """Write the gradient of y as `generate._scale` does, and parts of the bias's and of s's."""
    token = tl.program_id(0).to(tl.int64) * MATRICES + tl.arange(0, MATRICES)[:, None]
    column, inside = tl.arange(0, POWER)[None, :], token < N
    known = inside & (column < n)
    OF_B: tl.constexpr = 0 if FORM == "identity" else n * n
    K: tl.constexpr = O - 2 * n
    COUNT: tl.constexpr = K if FORM == "corners" else n  # logits of a tile
    WIDTH: tl.constexpr = triton.next_power_of_2(COUNT)
    place = token * (OF_B + n)
    r = tl.load(R + token, mask=inside, other=0.0)
    PARTS += tl.program_id(0).to(tl.int64) * (O + (2 if FORM == "identity" else 3))
    along = tl.zeros_like(r)
    for i in tl.static_range(2):
        s = tl.sigmoid(_logits(Y, Y, SCALE, BIAS, token, r, N, 1, i * n, n, i, O, False, POWER))
        grad = tl.load(GA + token * n + column if i == 0 else GMADE + place + OF_B + column,
                       mask=known, other=0.0)
        found, total = _back(grad * (i + 1) * s * (1 - s), Y, r, SCALE, SCALED, PARTS, token, N,
                             i * n, n, i, O, PRODUCTS)
        along += found
        tl.store(PARTS + O + i + tl.arange(0, 1)[:, None], total)
    if FORM != "identity":
        of_scale = tl.zeros([1, 1], tl.float32)
        grads, rows = (), ()
        for i in tl.static_range(K // COUNT):
            rows += (_logits(Y, Y, SCALE, BIAS, token, r, N, 1, 2 * n + i * COUNT, COUNT, 2, O,
                             False, WIDTH),)
        if FLIP and FORM != "corners":
            rows = birkhoff.transposed(rows, n, POWER)
        if FORM == "sinkhorn":
            grads = birkhoff.projected_back(rows, GMADE, place, inside, F, STEPS, LONG, FLIP, n,
                                            MATRICES, POWER)
        elif FORM == "guarded":
            grads = guarded.projected_back(
                rows, birkhoff.load(GMADE, place, inside, FLIP, n, POWER), F, STEPS, guard, n,
                MATRICES, POWER)
        else:
            grads = (polytope.mixture_back(
                rows[0], birkhoff.load(GMADE, place, inside, False, n, POWER), CORNERS, n, K,
                POWER),)
        if FLIP and FORM != "corners":
            grads = birkhoff.transposed(grads, n, POWER)
        for i in tl.static_range(len(grads)):
            found, total = _back(grads[i], Y, r, SCALE, SCALED, PARTS, token, N,
                                 2 * n + i * COUNT, COUNT, 2, O, PRODUCTS)
            along += found
            of_scale += total
        tl.store(PARTS + O + 2 + tl.arange(0, 1)[:, None], of_scale)
    tl.store(SHRINK + token, along * r / D, mask=inside)


@triton.jit
def _back(grad, Y, r, SCALE, SCALED, PARTS, token, N, first: tl.constexpr, count: tl.constexpr,
          group: tl.constexpr, O: tl.constexpr, PRODUCTS: tl.constexpr):
    """Write the gradient of y times r, of `count` logits with this gradient, and their bias's.

    Returns: what these logits add to ⟨r ∂y, y⟩, and to the gradient of s.
    """
    column = tl.arange(0, grad.shape[1])[None, :]
    place, known = token * O + first + column, (token < N) & (column < count)
    y = tl.load(Y + place, mask=known, other=0.0)
    tl.store(PARTS + first + column, tl.sum(grad, axis=0, keep_dims=True), mask=column < count)
    scaled = tl.load(SCALE + group) * grad * r
    high, low = tiles.halves(scaled, PRODUCTS)
    tl.store(SCALED + place, high, mask=known)
    if PRODUCTS == "halves":
        tl.store(SCALED + N.to(tl.int64) * O + place, low, mask=known)
    total = tl.sum(tl.sum(grad * y, axis=1, keep_dims=True), axis=0, keep_dims=True)
    return tl.sum(scaled * y, axis=1, keep_dims=True), total
