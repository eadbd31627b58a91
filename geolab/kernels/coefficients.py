"""The second phase of `constrained`: a, b′, H′ and u of the numbers y, and the gradient of y.

Legend: as there. FORM is "identity", "sinkhorn", "guarded" or "corners", "turn" or "rotation" (see
`turn`), or a table, "free" or "tanh", where logit i of a, of b′ and of each row of H′ is of stream
i (see `hyper`). K counts the logits of H′. CORNERS are the matrices of a mixture, and F is the
history of an iteration. With NORM a program that reads holds whole tokens. NORMS is 0 where y is
divided by the RMS of the token. It is 1 or n where the mean of the token, or of each stream, is
taken from it, and it is divided by its deviation. Then the last NORMS of the O products W z are
sums of features, and in y their means.
"""

import triton
import triton.language as tl

from geolab.kernels import birkhoff, guarded, logits, normed, polytope, tiles, turn


@triton.jit(do_not_specialize=["N", "parts", "steps"])
def _enter(Z, Y, R, SUMS, SQUARES, SCALE, BIAS, CORNERS, READ, GAMMA, A, MADE, U, N, eps, norm_eps,
           guard, write_guard, d, parts, steps, FLIP: tl.constexpr, FORM: tl.constexpr,
           n: tl.constexpr, O: tl.constexpr, NORMS: tl.constexpr, JOIN: tl.constexpr,
           AHEAD: tl.constexpr, NORM: tl.constexpr, MATRICES: tl.constexpr, POWER: tl.constexpr,
           TOKENS: tl.constexpr, FEATURES: tl.constexpr):
    """Write a, b′ and H′ of some tokens, or u of a tile of tokens and features.

    With JOIN y and r come in parts, and are written whole, too. With AHEAD u is read with READ, and
    a is for the sublayer after.
    """
    making = tl.cdiv(N, MATRICES)
    if tl.program_id(0) < making:
        _make(Y, R, SUMS, SQUARES, SCALE, BIAS, CORNERS, A, MADE, N, eps, guard, write_guard, d,
              parts, steps, FLIP, FORM, n, O, NORMS, JOIN, MATRICES, POWER)
    else:
        _read(Z, Y, SUMS, SQUARES, SCALE, BIAS, READ, GAMMA, U, tl.program_id(0) - making, N, eps,
              norm_eps, guard, d, parts, FORM, n, O, NORMS, JOIN, AHEAD, NORM, TOKENS, FEATURES)


@triton.jit
def _make(Y, R, SUMS, SQUARES, SCALE, BIAS, CORNERS, A, MADE, N, eps, guard, write_guard, d, parts,
          steps, FLIP: tl.constexpr, FORM: tl.constexpr, n: tl.constexpr, O: tl.constexpr,
          NORMS: tl.constexpr, JOIN: tl.constexpr, MATRICES: tl.constexpr, POWER: tl.constexpr):
    token = tl.program_id(0).to(tl.int64) * MATRICES + tl.arange(0, MATRICES)[:, None]
    column, inside = tl.arange(0, POWER)[None, :], token < N
    known = inside & (column < n)
    OF_B: tl.constexpr = 0 if FORM == "identity" else n * n
    K: tl.constexpr = O - 2 * n - NORMS
    TURN: tl.constexpr = FORM == "turn" or FORM == "rotation"
    place = token * (OF_B + n)
    mean, r = 0.0, 1.0
    if JOIN:
        own = tl.arange(0, triton.next_power_of_2(NORMS if NORMS else 1))[None, :]
        lengths = inside & (own < (NORMS if NORMS else 1))
        mean, r = logits.norm(SUMS, SQUARES, token, own, lengths, N, d, eps, parts, n, O, NORMS)
        tl.store(R + token * (NORMS if NORMS else 1) + own, r, mask=lengths)
        if NORMS:
            tl.store(Y + token * O + (O - NORMS) + own, mean, mask=lengths)
    if TURN:
        read = turn.read(turn.rows(Y, SUMS, BIAS, token, r, N, parts, 0, n, O, JOIN, POWER), guard,
                         n)
        write = turn.rows(Y, SUMS, BIAS, token, r, N, parts, n, n, O, JOIN, POWER)
        tl.store(A + token * n + column, read, mask=known)
        shares = turn.shares(write, guard, n)
        for i in tl.static_range(n):
            b = tl.load(SCALE) * turn.total(shares[i], n)
            tl.store(MADE + place + OF_B + i, b, mask=inside)
    else:
        read = logits.logits(Y, SUMS, SCALE, BIAS, token, r, N, parts, 0, n, 0, n, O, FORM, JOIN,
                             POWER)
        write = logits.logits(Y, SUMS, SCALE, BIAS, token, r, N, parts, n, n, 1, n, O, FORM, JOIN,
                              POWER)
        tl.store(A + token * n + column, logits.weight(read, 1, guard, FORM), mask=known)
        tl.store(MADE + place + OF_B + column, logits.weight(write, 2, write_guard, FORM),
                 mask=known)
    if FORM == "corners":
        z = logits.logits(Y, SUMS, SCALE, BIAS, token, r, N, parts, 2 * n, K, 2, n, O, FORM, JOIN,
                    triton.next_power_of_2(K))
        birkhoff.store(MADE, polytope.mixture(z, CORNERS, n, K, POWER), place, inside, False, n,
                       POWER)
    elif TURN:
        rows = turn.rows(Y, SUMS, BIAS, token, r, N, parts, 2 * n, n, O, JOIN, POWER)
        birkhoff.store(MADE, turn.turned(rows, write_guard, steps, FORM == "rotation", n, POWER),
                       place, inside, False, n, POWER)
    elif FORM != "identity":
        rows = ()
        for i in tl.static_range(n):
            rows += (logits.logits(Y, SUMS, SCALE, BIAS, token, r, N, parts, (i + 2) * n, n, 2, n,
                                   O, FORM, JOIN, POWER),)
        if FLIP:
            rows = birkhoff.transposed(rows, n, POWER)
        if FORM == "guarded":
            rows = guarded.projected(rows, steps, guard, n, POWER)
        elif FORM == "sinkhorn":
            rows = birkhoff.projected(rows, steps, n, POWER)
        birkhoff.store(MADE, rows, place, inside, FLIP, n, POWER)


@triton.jit
def _read(Z, Y, SUMS, SQUARES, SCALE, BIAS, READ, GAMMA, U, program, N, eps, norm_eps, guard, d,
          parts, FORM: tl.constexpr, n: tl.constexpr, O: tl.constexpr, NORMS: tl.constexpr,
          JOIN: tl.constexpr, AHEAD: tl.constexpr, NORM: tl.constexpr, TOKENS: tl.constexpr,
          FEATURES: tl.constexpr):
    TURN: tl.constexpr = FORM == "turn" or FORM == "rotation"
    across = tl.cdiv(d, FEATURES)
    token = (program // across).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    feature = program % across * FEATURES + tl.arange(0, FEATURES)
    inside = token < N
    mask = inside[:, None] & (feature < d)[None, :]
    z = tiles.vectors(Z, (token * n * d)[:, None] + feature[None, :], mask, d, n)
    if JOIN and not AHEAD and NORMS < 2:
        _, r = logits.norm(SUMS, SQUARES, token, 0, inside, N, d, eps, parts, n, O, NORMS)
    if TURN:
        weights = turn.heard(SUMS, BIAS, token, inside, r, N, parts, guard, n, O)
    u = tl.zeros([TOKENS, FEATURES], tl.float32)
    for i in tl.static_range(n):
        if TURN:
            a = weights[i]
        elif AHEAD:
            a = tl.load(READ + token * n + i, mask=inside, other=0.0)
        else:
            place = logits.place_of(0, i, n, FORM)
            if JOIN:
                if NORMS > 1:
                    _, r = logits.norm(SUMS, SQUARES, token, i, inside, N, d, eps, parts, n, O,
                                       NORMS)
                y = logits.whole(SUMS, token * O + place, inside, N * O, parts) * r
            else:
                y = tl.load(Y + token * O + place, mask=inside, other=0.0)
            scale = tl.load(SCALE + logits.group_of(0, FORM))
            a = logits.weight(scale * logits.bounded(y, FORM) + tl.load(BIAS + place), 1, guard,
                              FORM)
        u += a[:, None] * z[i].to(tl.float32)
    if NORM:
        u = normed.normed(u, GAMMA, feature, d, norm_eps)
    tl.store(U + (token * d)[:, None] + feature[None, :], u.to(U.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=["N"])
def _enter_backward(GA, GMADE, Y, R, SCALE, BIAS, CORNERS, SCALED, SHRINK, PARTS, F, N, d, guard,
                    write_guard, STEPS: tl.constexpr, LONG: tl.constexpr, FLIP: tl.constexpr,
                    FORM: tl.constexpr, n: tl.constexpr, O: tl.constexpr, NORMS: tl.constexpr,
                    SCALES: tl.constexpr, MATRICES: tl.constexpr, POWER: tl.constexpr,
                    PRODUCTS: tl.constexpr):
    """Write the gradient of y as `generate._scale` does, and parts of the bias's and of s's."""
    token = tl.program_id(0).to(tl.int64) * MATRICES + tl.arange(0, MATRICES)[:, None]
    column, inside = tl.arange(0, POWER)[None, :], token < N
    known = inside & (column < n)
    OF_B: tl.constexpr = 0 if FORM == "identity" else n * n
    LOGITS: tl.constexpr = O - NORMS
    K: tl.constexpr = LOGITS - 2 * n
    COUNT: tl.constexpr = K if FORM == "corners" else n  # logits of a tile
    WIDTH: tl.constexpr = triton.next_power_of_2(COUNT)
    LENGTHS: tl.constexpr = NORMS if NORMS else 1
    TURN: tl.constexpr = FORM == "turn" or FORM == "rotation"
    own = tl.arange(0, triton.next_power_of_2(LENGTHS))[None, :]
    lengths = inside & (own < LENGTHS)
    place = token * (OF_B + n)
    r = tl.load(R + token * LENGTHS + own, mask=lengths, other=0.0)
    PARTS += tl.program_id(0).to(tl.int64) * (LOGITS + SCALES)
    along, of_scale = tl.zeros_like(r), tl.zeros([1, 1], tl.float32)
    if TURN:
        along, of_scale = turn.back(GA, GMADE, Y, r, SCALE, BIAS, SCALED, PARTS, token, N, guard,
                                    write_guard, STEPS, FORM == "rotation", n, O, POWER, PRODUCTS)
        tl.store(PARTS + LOGITS + tl.arange(0, 1)[:, None], of_scale)
    for i in tl.static_range(0 if TURN else 2):
        grad = tl.load(GA + token * n + column if i == 0 else GMADE + place + OF_B + column,
                       mask=known, other=0.0)
        if NORMS == 0:
            s = tl.sigmoid(logits.logits(Y, Y, SCALE, BIAS, token, r, N, 1, i * n, n, i, n, O, FORM,
                                   False, POWER))
            grad = grad * (i + 1) * s * (1 - s)
        found, total = logits.back(grad, Y, r, SCALE, SCALED, PARTS, token, N, i * n, n, i, n, O,
                                   FORM, PRODUCTS)
        along += found
        if SCALES == 2 and OF_B and i == 0:
            of_scale += total  # a and H′ share a scale
        else:
            tl.store(PARTS + LOGITS + logits.group_of(i, FORM) + tl.arange(0, 1)[:, None], total)
    if FORM != "identity" and not TURN:
        grads, rows = (), ()
        if NORMS == 0:
            for i in tl.static_range(K // COUNT):
                rows += (logits.logits(Y, Y, SCALE, BIAS, token, r, N, 1, 2 * n + i * COUNT, COUNT,
                                       2, n, O, FORM, False, WIDTH),)
        if FLIP and FORM != "corners":
            rows = birkhoff.transposed(rows, n, POWER)
        if FORM == "sinkhorn":
            grads = birkhoff.projected_back(rows, GMADE, place, inside, F, STEPS, LONG, FLIP, n,
                                            MATRICES, POWER)
        else:
            grads = birkhoff.load(GMADE, place, inside, FLIP, n, POWER)
        if FORM == "guarded":
            grads = guarded.projected_back(rows, grads, F, STEPS, guard, n, MATRICES, POWER)
        elif FORM == "corners":
            grads = (polytope.mixture_back(rows[0], grads, CORNERS, n, K, POWER),)
        if FLIP and FORM != "corners":
            grads = birkhoff.transposed(grads, n, POWER)
        for i in tl.static_range(len(grads)):
            found, total = logits.back(grads[i], Y, r, SCALE, SCALED, PARTS, token, N,
                                 2 * n + i * COUNT, COUNT, 2, n, O, FORM, PRODUCTS)
            along += found
            of_scale += total
        tl.store(PARTS + LOGITS + logits.group_of(2, FORM) + tl.arange(0, 1)[:, None], of_scale)
    shrink = along * r / (d * (n // LENGTHS))
    tl.store(SHRINK + token * LENGTHS + own, shrink, mask=lengths)
    if NORMS:  # the gradient of each sum
        mean = tl.load(Y + token * O + LOGITS + own, mask=lengths, other=0.0)
        logits.store_halves(SCALED, shrink * mean, token * O + LOGITS + own, lengths, N, O,
                            PRODUCTS)
