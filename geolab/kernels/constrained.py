"""The kernels between two sublayers of mHC: `joined`'s, and what makes the coefficients,

    Z = H X + b ⊗ h    y = W (z / rms z)    logits = s ⊙ y + bias
                       a = σ(·) + ε    b′ = 2σ(·) + ε′    H′ = mix(·)    u = aᵀZ

Made by an operator each, the small tensors between W and u take most of a sublayer's launches.

Forward there are three launches: W is packed, the first phase makes Z and parts of y, and the
second one reads Z. In the second phase some programs make b′ and H′, one token or more per thread,
while all others read their tokens' Z, and need only a few sigmoids. Backward there are four: ∂a =
Z ∂u, then from ∂a, ∂b′ and ∂H′ the gradient of y, then the gradients of X, W and the write, then
the sums of programs' parts.

All gradients arrive at once, since one operator makes Z, u, b′ and H′. So it needs no ports, but
for the gradient of an X that isn't written.

FORM says how H′ is made of its K logits: "sinkhorn", its `guarded` form with ε, a mixture of K
matrices ("corners": see `polytope`), or not at all ("identity"): then H′ = I, and isn't stored.

Legend: N tokens, n streams, d features per stream, O = 2n + K logits; s has one number each for a,
b′ and H′. r = 1 / rms z. Rows of logits, of a, b′ and H′, are tiles as in `birkhoff`.
"""

import triton
import triton.language as tl
from torch import Tensor

from geolab.kernels import birkhoff, generate, guarded, joined, launch, polytope, streams, tiles
from geolab.kernels.launch import INTERPRETED, buffer, cdiv, expanded, power_of_two, sizes, twin
from geolab.kernels.tiles import ReadGradients
from geolab.kernels.totals import parts_of

WARPS = 4  # of the second phase, where programs read Z


@twin
def constrained_join(x: Tensor, given: Tensor | None, update: Tensor | None, weight: Tensor,
                     scale: Tensor, bias: Tensor, eps: float, iterations: int = 20,
                     order: str = "column-row", guard: float = 0.0, write_guard: float = 0.0,
                     corners: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Z, u and H′ above b′, as `operators.constrained_join`, for n up to 4, and to 8 where H = I.

    The forward pass moves (3n + 2) d numbers per token, and the backward pass (4n + 4) d; without a
    write (2n + 1) d, and (4n + 2) d.
    Raises: ValueError for a mix of devices; TypeError for a dtype that kernels don't read.
    """
    writes = {} if given is None else {"given": given, "update": update}
    launch.require("x", x=x, **writes, weight=weight, scale=scale, bias=bias)
    x, (*tokens, _, d) = x.contiguous(), x.shape
    if given is not None:
        given = expanded(given, *tokens, *given.shape[-2:]).float().contiguous()
        update = expanded(update, *tokens, d).contiguous()
    numbers = (t.float().contiguous() for t in (weight, scale, bias))
    if corners is not None:
        corners = corners.to(x.device).float().contiguous()
    z, u, made, *_ = _constrained_join(x, *numbers, given, update, corners, eps, iterations - 1,
                                       order == "row-column", guard, write_guard)
    return (joined.Ported.apply(x, z) if given is None else z), u, made


def _form(n: int, O: int, guard: float, corners: Tensor | None) -> str:
    if 2 * n == O:
        return "identity"
    if corners is not None:
        return "corners"
    return "guarded" if guard else "sinkhorn"


def _launch(x: Tensor, weight: Tensor, scale: Tensor, bias: Tensor, c: Tensor | None,
            h: Tensor | None, corners: Tensor | None, eps: float, steps: int, flip: bool,
            guard: float, write_guard: float, z: Tensor, u: Tensor, made: Tensor, a: Tensor,
            y: Tensor, r: Tensor) -> None:
    (N, n, d), O = sizes(x, 2), len(weight)
    sums, squares = joined.products(x, weight, eps, c, h, z, y, r)
    tile, power = tiles.across(x), power_of_two(n)
    each = 1024 if INTERPRETED else 32 * WARPS * min(n & -n, 4) // power
    reading = cdiv(N, tile["TOKENS"]) * cdiv(d, tile["FEATURES"])
    _enter[(cdiv(N, each) + reading,)](
        x if h is None else z, y, r, sums, squares, scale, bias, bias if corners is None
        else corners, a, made, u, N, eps, guard, write_guard, d, len(sums) if sums is not y else 1,
        steps, flip, _form(n, O, guard, corners), n, O, sums is not y, each, power, **tile,
        num_warps=WARPS)


def _launch_backward(gz: Tensor, gu: Tensor, gmade: Tensor, x: Tensor, weight: Tensor,
                     scale: Tensor, bias: Tensor, c: Tensor | None, h: Tensor | None,
                     corners: Tensor | None, steps: int, flip: bool, guard: float, z: Tensor,
                     a: Tensor, y: Tensor, r: Tensor, gx: Tensor, gw: Tensor, of_logits: Tensor,
                     gc: Tensor, gh: Tensor) -> None:
    (N, n, d), O = sizes(x, 2), len(weight)
    ga = buffer(*a.shape, like=a)
    streams._launch_read_backward(gu, x if h is None else z, a, 1, ga)
    scaled, form = generate.scaled_like(x, y)
    each, power = birkhoff.tile(n)
    programs = cdiv(N, each)
    parts, made_by = parts_of(of_logits, programs), _form(n, O, guard, corners)
    history = (buffer(programs, steps, n + power, each, like=y) if made_by == "guarded"
               else birkhoff.history(programs, steps, n, y) if made_by == "sinkhorn" else y)
    _enter_backward[(programs,)](
        ga, gmade, y, r, scale, bias, bias if corners is None else corners, *scaled, parts,
        history, N, n * d, guard, steps, birkhoff.is_long(n, steps), flip, made_by, n, O, each,
        power, form, num_warps=1)
    joined.backward(scaled, ReadGradients(gz, gu, a), x, weight, c, h, gx, gw, gc, gh,
                    (parts, of_logits))


@launch.op("geolab::constrained_join", _launch)
def _constrained_join(x: Tensor, weight: Tensor, scale: Tensor, bias: Tensor, c: Tensor | None,
                      h: Tensor | None, corners: Tensor | None, eps: float, steps: int, flip: bool,
                      guard: float, write_guard: float) -> tuple[
                          Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return Z, u, H′ above b′, a, y and r. If nothing is written, a port for the gradient of X
    stands in place of Z.
    """
    *tokens, n, d = x.shape
    z = buffer(1, like=x).expand(x.shape) if h is None else buffer(*x.shape, like=x)
    rows = 1 if len(weight) == 2 * n else n + 1
    return (z, buffer(*tokens, d, like=x), *(buffer(*tokens, *shape, like=weight)
                                             for shape in ((rows, n), (n,), (len(weight),), ())))


@launch.op("geolab::constrained_join_backward", _launch_backward)
def _constrained_join_backward(
        gz: Tensor, gu: Tensor, gmade: Tensor, x: Tensor, weight: Tensor, scale: Tensor,
        bias: Tensor, c: Tensor | None, h: Tensor | None, corners: Tensor | None, steps: int,
        flip: bool, guard: float, z: Tensor, a: Tensor, y: Tensor,
        r: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of X, W, the bias followed by s, c and h."""
    written = [a.new_empty(0) if given is None else given for given in (c, h)]
    return (buffer(*x.shape, like=x), buffer(*weight.shape, like=weight),
            buffer(len(bias) + len(scale), like=bias),
            *(buffer(*of.shape, like=of) for of in written))


def _vjp(gz, gu, gmade, x, weight, scale, bias, c, h, *kept):
    gx, gw, of_logits, gc, gh = _constrained_join_backward(gz, gu, gmade, x, weight, scale, bias,
                                                           c, h, *kept)
    gb, gs = of_logits.tensor_split([len(bias)])
    return gx, gw, gs, gb, *((gc, gh) if h is not None else ())


def _kept(inputs, outputs):
    *tensors, _, steps, flip, guard, _ = inputs
    z, _, _, a, y, r = outputs
    return *tensors, steps, flip, guard, None if inputs[5] is None else z, a, y, r


launch.differentiate(_constrained_join, _vjp, keep=_kept, outputs=3)


# ---------------------------------------------------------------- in Triton

@triton.jit(do_not_specialize=["N", "parts", "steps"])
def _enter(Z, Y, R, SUMS, SQUARES, SCALE, BIAS, CORNERS, A, MADE, U, N, eps, guard, write_guard, d,
           parts, steps, FLIP: tl.constexpr, FORM: tl.constexpr, n: tl.constexpr, O: tl.constexpr,
           JOIN: tl.constexpr, MATRICES: tl.constexpr, POWER: tl.constexpr, TOKENS: tl.constexpr,
           FEATURES: tl.constexpr):
    """Write a, b′ and H′ of some tokens, or u of a tile of tokens and features.

    With JOIN y and r come in parts, and are written whole, too.
    """
    making = tl.cdiv(N, MATRICES)
    if tl.program_id(0) < making:
        _make(Y, R, SUMS, SQUARES, SCALE, BIAS, CORNERS, A, MADE, N, eps, guard, write_guard, d,
              parts, steps, FLIP, FORM, n, O, JOIN, MATRICES, POWER)
    else:
        _read(Z, Y, SUMS, SQUARES, SCALE, BIAS, U, tl.program_id(0) - making, N, eps, guard, d,
              parts, n, O, JOIN, TOKENS, FEATURES)


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
def _read(Z, Y, SUMS, SQUARES, SCALE, BIAS, U, program, N, eps, guard, d, parts, n: tl.constexpr,
          O: tl.constexpr, JOIN: tl.constexpr, TOKENS: tl.constexpr, FEATURES: tl.constexpr):
    across = tl.cdiv(d, FEATURES)
    token = (program // across).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    feature = program % across * FEATURES + tl.arange(0, FEATURES)
    inside = token < N
    mask = inside[:, None] & (feature < d)[None, :]
    z = tiles.vectors(Z, (token * n * d)[:, None] + feature[None, :], mask, d, n)
    if JOIN:
        r = tiles.inverse_length(_whole(SQUARES, token, inside, N, parts) / (n * d) + eps)
    u = tl.zeros([TOKENS, FEATURES], tl.float32)
    for i in tl.static_range(n):
        if JOIN:
            y = _whole(SUMS, token * O + i, inside, N * O, parts) * r
        else:
            y = tl.load(Y + token * O + i, mask=inside, other=0.0)
        a = tl.sigmoid(tl.load(SCALE) * y + tl.load(BIAS + i)) + guard
        u += a[:, None] * z[i].to(tl.float32)
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
        if FORM == "sinkhorn":
            if FLIP:
                rows = birkhoff.transposed(rows, n, POWER)
            grads = birkhoff.projected_back(rows, GMADE, place, inside, F, STEPS, LONG, FLIP, n,
                                            MATRICES, POWER)
        elif FORM == "guarded":
            if FLIP:
                rows = birkhoff.transposed(rows, n, POWER)
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
