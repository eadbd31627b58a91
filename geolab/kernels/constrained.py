"""The kernels between two sublayers of mHC: `joined`'s, and what makes the coefficients,

    Z = H X + b ⊗ h    y = W (z / rms z)    logits = s ⊙ y + bias
                       a = σ(·)    b′ = 2σ(·)    H′ = Sinkhorn(exp ·)    u = aᵀZ

Made by an operator each, the small tensors between W and u take most of a sublayer's launches.

Forward there are three launches: W is packed, the first phase makes Z and parts of y, and the
second one reads Z. In the second phase some programs make b′ and H′, one token or more per thread,
while all others read their tokens' Z, and need only a few sigmoids. Backward there are four: ∂a =
Z ∂u, then from ∂a, ∂b′ and ∂H′ the gradient of y, then the gradients of X, W and the write, then
the sums of programs' parts.

With a norm, u is γ ⊙ aᵀZ / rms aᵀZ, by programs that hold whole tokens (see `normed`). The first
launch backward then makes the gradient of aᵀZ, too.

All gradients arrive at once, since one operator makes Z, u, b′ and H′. So it needs no ports, but
for the gradient of an X that isn't written.

Legend: N tokens, n streams, d features per stream, O = n² + 2n logits; s has one number each for a,
b′ and H′. r = 1 / rms z. Rows of logits, of a, b′ and H′, are tiles as in `birkhoff`.
"""

import triton
import triton.language as tl
from torch import Tensor

from geolab.kernels import birkhoff, generate, joined, launch, normed, streams, tiles
from geolab.kernels.launch import INTERPRETED, buffer, cdiv, expanded, power_of_two, sizes, twin
from geolab.kernels.tiles import ReadGradients
from geolab.kernels.totals import parts_of

WARPS = 4  # of the second phase, where programs read Z


@twin
def constrained_join(x: Tensor, given: Tensor | None, update: Tensor | None, weight: Tensor,
                     scale: Tensor, bias: Tensor, eps: float, iterations: int = 20,
                     order: str = "column-row", norm: tuple[Tensor, float] | None = None) -> tuple[
                         Tensor, Tensor, Tensor]:
    """Z, u and H′ above b′, as `operators.constrained_join`, for n up to 4.

    The forward pass moves (3n + 2) d numbers per token, and the backward pass (4n + 4) d; without a
    write (2n + 1) d, and (4n + 2) d. With a norm the backward pass moves d more.
    Raises: ValueError for a mix of devices; TypeError for a dtype that kernels don't read.
    """
    writes = {} if given is None else {"given": given, "update": update}
    gamma, guard = (None, 0.0) if norm is None else norm
    if gamma is not None:
        writes["norm"] = gamma
    launch.require("x", x=x, **writes, weight=weight, scale=scale, bias=bias)
    x, (*tokens, n, d) = x.contiguous(), x.shape
    if given is not None:
        given = expanded(given, *tokens, n + 1, n).float().contiguous()
        update = expanded(update, *tokens, d).contiguous()
    numbers = (t if t is None else t.float().contiguous() for t in (weight, scale, bias, gamma))
    z, u, made, *_ = _constrained_join(x, *numbers, eps, guard, iterations - 1,
                                       order == "row-column", given, update)
    return (joined.Ported.apply(x, z) if given is None else z), u, made


def _launch(x: Tensor, weight: Tensor, scale: Tensor, bias: Tensor, gamma: Tensor | None,
            eps: float, guard: float, steps: int, flip: bool, c: Tensor | None, h: Tensor | None,
            z: Tensor, u: Tensor, made: Tensor, a: Tensor, y: Tensor, r: Tensor) -> None:
    (N, n, d), O = sizes(x, 2), len(weight)
    sums, squares = joined.products(x, weight, eps, c, h, z, y, r)
    tile, power = {"num_warps": WARPS} | streams.reading(x, gamma), power_of_two(n)
    each = 1024 if INTERPRETED else 32 * tile["num_warps"] * min(n & -n, 4) // power
    reading = cdiv(N, tile["TOKENS"]) * cdiv(d, tile["FEATURES"])
    _enter[(cdiv(N, each) + reading,)](
        x if h is None else z, y, r, sums, squares, scale, bias, bias if gamma is None else gamma,
        a, made, u, N, eps, guard, d, len(sums) if sums is not y else 1, steps, flip, n, O,
        sums is not y, gamma is not None, each, power, **tile)


def _launch_backward(gz: Tensor, gu: Tensor, gmade: Tensor, x: Tensor, weight: Tensor,
                     scale: Tensor, bias: Tensor, gamma: Tensor | None, guard: float, steps: int,
                     flip: bool, c: Tensor | None, h: Tensor | None, z: Tensor, a: Tensor,
                     y: Tensor, r: Tensor, gx: Tensor, gw: Tensor, of_logits: Tensor,
                     of_gamma: Tensor, gc: Tensor, gh: Tensor) -> None:
    (N, n, d), O = sizes(x, 2), len(weight)
    ga, read, parts_gamma = buffer(*a.shape, like=a), x if h is None else z, None
    if gamma is None:
        streams.read_backward(gu, read, a, 1, ga)
    else:
        grad, gu = gu, buffer(*gu.shape, like=gu)
        parts_gamma = normed.backward(grad, read, a, 1, gamma, guard, None, ga, of_gamma, gu)
    scaled, form = generate.scaled_like(x, y)
    each, power = birkhoff.tile(n)
    programs = cdiv(N, each)
    parts = parts_of(of_logits, programs)
    _enter_backward[(programs,)](
        ga, gmade, y, r, scale, bias, *scaled, parts, birkhoff.history(programs, steps, n, y), N,
        n * d, steps, birkhoff.is_long(n, steps), flip, n, O, each, power, form, num_warps=1)
    joined.backward(scaled, ReadGradients(gz, gu, a), x, weight, c, h, gx, gw, gc, gh,
                    (parts, of_logits), (parts_gamma, None if gamma is None else of_gamma))


@launch.op("geolab::constrained_join", _launch)
def _constrained_join(x: Tensor, weight: Tensor, scale: Tensor, bias: Tensor,
                      gamma: Tensor | None, eps: float, guard: float, steps: int, flip: bool,
                      c: Tensor | None, h: Tensor | None) -> tuple[
                          Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return Z, u, H′ above b′, a, y and r. If nothing is written, a port for the gradient of X
    stands in place of Z.
    """
    *tokens, n, d = x.shape
    z = buffer(1, like=x).expand(x.shape) if h is None else buffer(*x.shape, like=x)
    return (z, buffer(*tokens, d, like=x), *(buffer(*tokens, *shape, like=weight)
                                             for shape in ((n + 1, n), (n,), (len(weight),), ())))


@launch.op("geolab::constrained_join_backward", _launch_backward)
def _constrained_join_backward(
        gz: Tensor, gu: Tensor, gmade: Tensor, x: Tensor, weight: Tensor, scale: Tensor,
        bias: Tensor, gamma: Tensor | None, guard: float, steps: int, flip: bool, c: Tensor | None,
        h: Tensor | None, z: Tensor, a: Tensor, y: Tensor, r: Tensor) -> tuple[
            Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of X, W, the bias followed by s, γ, c and h."""
    others = [a.new_empty(0) if given is None else given for given in (gamma, c, h)]
    return (buffer(*x.shape, like=x), buffer(*weight.shape, like=weight),
            buffer(len(bias) + len(scale), like=bias),
            *(buffer(*of.shape, like=of) for of in others))


def _vjp(gz, gu, gmade, *kept):
    _, _, _, bias, gamma, *_, h, _, _, _, _ = kept
    gx, gw, of_logits, of_gamma, gc, gh = _constrained_join_backward(gz, gu, gmade, *kept)
    gb, gs = of_logits.tensor_split([len(bias)])
    return (gx, gw, gs, gb, None if gamma is None else of_gamma, None, None, None, None,
            *((gc, gh) if h is not None else ()))


def _kept(inputs, outputs):
    x, weight, scale, bias, gamma, _, guard, steps, flip, c, h = inputs
    z, _, _, a, y, r = outputs
    return (x, weight, scale, bias, gamma, guard, steps, flip, c, h, None if h is None else z, a,
            y, r)


launch.differentiate(_constrained_join, _vjp, keep=_kept, outputs=3)


# ---------------------------------------------------------------- in Triton

@triton.jit(do_not_specialize=["N", "parts", "steps"])
def _enter(Z, Y, R, SUMS, SQUARES, SCALE, BIAS, GAMMA, A, MADE, U, N, eps, guard, d, parts, steps,
           FLIP: tl.constexpr, n: tl.constexpr, O: tl.constexpr, JOIN: tl.constexpr,
           NORM: tl.constexpr, MATRICES: tl.constexpr, POWER: tl.constexpr, TOKENS: tl.constexpr,
           FEATURES: tl.constexpr):
    """Write a, b′ and H′ of some tokens, or u of a tile of tokens and features.

    With JOIN y and r come in parts, and are written whole, too.
    """
    making = tl.cdiv(N, MATRICES)
    if tl.program_id(0) < making:
        _make(Y, R, SUMS, SQUARES, SCALE, BIAS, A, MADE, tl.program_id(0), N, eps, d, parts, steps,
              FLIP, n, O, JOIN, MATRICES, POWER)
    else:
        _read(Z, Y, SUMS, SQUARES, SCALE, BIAS, GAMMA, U, tl.program_id(0) - making, N, eps, guard,
              d, parts, n, O, JOIN, NORM, TOKENS, FEATURES)


@triton.jit
def _make(Y, R, SUMS, SQUARES, SCALE, BIAS, A, MADE, program, N, eps, d, parts, steps,
          FLIP: tl.constexpr, n: tl.constexpr, O: tl.constexpr, JOIN: tl.constexpr,
          MATRICES: tl.constexpr, POWER: tl.constexpr):
    token = program.to(tl.int64) * MATRICES + tl.arange(0, MATRICES)[:, None]
    column, inside = tl.arange(0, POWER)[None, :], token < N
    known, place = inside & (column < n), token * (n * n + n)
    if JOIN:
        r = tiles.inverse_length(_whole(SQUARES, token, inside, N, parts) / (n * d) + eps)
        tl.store(R + token, r, mask=inside)
    logits = ()
    for i in tl.static_range(n + 2):
        at = token * O + i * n + column
        if JOIN:
            y = _whole(SUMS, at, known, N * O, parts) * r
            tl.store(Y + at, y, mask=known)
        else:
            y = tl.load(Y + at, mask=known, other=0.0)
        logits += (_logit(y, SCALE, BIAS, i, column, n),)
    tl.store(A + token * n + column, tl.sigmoid(logits[0]), mask=known)
    tl.store(MADE + place + n * n + column, 2 * tl.sigmoid(logits[1]), mask=known)
    rows = logits[2:]
    if FLIP:
        rows = birkhoff.transposed(rows, n, POWER)
    birkhoff.store(MADE, birkhoff.projected(rows, steps, n, POWER), place, inside, FLIP, n, POWER)


@triton.jit
def _read(Z, Y, SUMS, SQUARES, SCALE, BIAS, GAMMA, U, program, N, eps, guard, d, parts,
          n: tl.constexpr, O: tl.constexpr, JOIN: tl.constexpr, NORM: tl.constexpr,
          TOKENS: tl.constexpr, FEATURES: tl.constexpr):
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
        a = tl.sigmoid(tl.load(SCALE) * y + tl.load(BIAS + i))
        u += a[:, None] * z[i].to(tl.float32)
    if NORM:
        u = normed.normed(u, GAMMA, feature, d, guard)
    tl.store(U + (token * d)[:, None] + feature[None, :], u.to(U.dtype.element_ty), mask=mask)


@triton.jit
def _whole(PARTS, place, mask, size, parts):
    """The sum of the parts of a number, in their order."""
    total = tl.load(PARTS + place, mask=mask, other=0.0)
    for part in range(1, parts):
        total += tl.load(PARTS + part * size.to(tl.int64) + place, mask=mask, other=0.0)
    return total


@triton.jit
def _logit(y, SCALE, BIAS, i: tl.constexpr, column, n: tl.constexpr):
    """s ⊙ y + bias, in row i of the logits."""
    bias = tl.load(BIAS + i * n + column, mask=column < n, other=0.0)
    return tl.load(SCALE + (i if i < 2 else 2)) * y + bias


@triton.jit(do_not_specialize=["N"])
def _enter_backward(GA, GMADE, Y, R, SCALE, BIAS, SCALED, SHRINK, PARTS, F, N, D,
                    STEPS: tl.constexpr, LONG: tl.constexpr, FLIP: tl.constexpr, n: tl.constexpr,
                    O: tl.constexpr, MATRICES: tl.constexpr, POWER: tl.constexpr,
                    PRODUCTS: tl.constexpr):
    """Write the gradient of y as `generate._scale` does, and parts of the bias's and of s's."""
    token = tl.program_id(0).to(tl.int64) * MATRICES + tl.arange(0, MATRICES)[:, None]
    column, inside = tl.arange(0, POWER)[None, :], token < N
    known, place = inside & (column < n), token * (n * n + n)
    rows = ()
    for i in tl.static_range(n):
        y = tl.load(Y + token * O + (i + 2) * n + column, mask=known, other=0.0)
        rows += (_logit(y, SCALE, BIAS, i + 2, column, n),)
    if FLIP:
        rows = birkhoff.transposed(rows, n, POWER)
    grads = birkhoff.projected_back(rows, GMADE, place, inside, F, STEPS, LONG, FLIP, n, MATRICES,
                                    POWER)
    if FLIP:
        grads = birkhoff.transposed(grads, n, POWER)
    r = tl.load(R + token, mask=inside, other=0.0)
    along, total = tl.zeros_like(r), tl.zeros([1, 1], tl.float32)
    PARTS += tl.program_id(0).to(tl.int64) * (O + 3)
    for i in tl.static_range(n + 2):
        at = token * O + i * n + column
        y = tl.load(Y + at, mask=known, other=0.0)
        if i < 2:
            s = tl.sigmoid(_logit(y, SCALE, BIAS, i, column, n))
            grad = tl.load(GA + token * n + column if i == 0 else GMADE + place + n * n + column,
                           mask=known, other=0.0)
            grad *= (i + 1) * s * (1 - s)
        else:
            grad = grads[i - 2]
        tl.store(PARTS + i * n + column, tl.sum(grad, axis=0, keep_dims=True), mask=column < n)
        total += tl.sum(tl.sum(grad * y, axis=1, keep_dims=True), axis=0, keep_dims=True)
        if i < 2 or i == n + 1:
            tl.store(PARTS + O + (i if i < 2 else 2) + tl.arange(0, 1)[:, None], total)
            total = tl.zeros_like(total)
        scaled = tl.load(SCALE + (i if i < 2 else 2)) * grad * r
        along += tl.sum(scaled * y, axis=1, keep_dims=True)
        high, low = tiles.halves(scaled, PRODUCTS)
        tl.store(SCALED + at, high, mask=known)
        if PRODUCTS == "halves":
            tl.store(SCALED + N.to(tl.int64) * O + at, low, mask=known)
    tl.store(SHRINK + token, along * r / D, mask=inside)
