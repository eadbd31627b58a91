"""P = diag(f) K diag(g), the Sinkhorn iteration in its dual form, and its gradient.

A matrix stays in registers from its logits to P, and in the backward pass.

Legend: N matrices of n rows and columns; all numbers are float32. A program takes MATRICES
matrices, each as n rows. A row is a tile (MATRICES, POWER), where POWER is the smallest power of
two that is at least n. f is n columns (MATRICES, 1), and g is a tile like a row.

At n = 4 a thread owns a matrix: a row is one load of 16 bytes, and sums along rows and down columns
stay inside the thread.
"""

from math import ceil

import triton
import triton.language as tl
from torch import Tensor

from geolab.kernels.launch import INTERPRETED, differentiate, op, require, twin

# The backward pass keeps every fourth f in registers and forms those between again, so that one
# wave of programs holds 65536 matrices. All 19 at n = 4 would take 221 registers, and 1.7 waves.
EVERY = 4
# The numbers of the history in a thread's registers: up to 64 steps at n = 4, and 24 at n = 8.
KEPT = 80


@twin
def sinkhorn(logits: Tensor, iterations: int = 20, order: str = "column-row") -> Tensor:
    """The doubly stochastic P, as `operators.sinkhorn` in its dual form, for n up to 8.

    The forward pass moves 2n² numbers per matrix, and the backward pass 3n². The backward pass
    recomputes the history of f in registers, for up to 65 iterations at n = 4 and 25 at n = 8. For
    more iterations it also writes and reads n floats per iteration and matrix.
    Raises: TypeError for a dtype that kernels don't read.
    """
    require("logits", logits=logits)
    return _sinkhorn(logits.float().contiguous(), iterations - 1, order == "row-column")


def tile(n: int) -> tuple[int, int]:
    """Matrices per program, and the smallest power of two that is at least n.

    A program is one warp, so that 8192 matrices make enough programs. A lane reads as much of a row
    as one load takes: 4 numbers at n = 4 and 8, one number at odd n. Other lanes read the rest of
    the row.
    """
    power = 1 << (n - 1).bit_length()
    return (1024 if INTERPRETED else 32 * min(n & -n, 4) // power), power


def _launch(x: Tensor, steps: int, flip: bool, p: Tensor) -> None:
    N, n, _ = x.shape[:-2].numel(), *x.shape[-2:]
    matrices, power = tile(n)
    _scale[(ceil(N / matrices),)](x, p, N, steps, flip, n, matrices, power, num_warps=1)


def _launch_backward(grad: Tensor, x: Tensor, steps: int, flip: bool, grad_x: Tensor) -> None:
    N, n, _ = x.shape[:-2].numel(), *x.shape[-2:]
    matrices, power = tile(n)
    programs = ceil(N / matrices)
    _scale_backward[(programs,)](grad, x, grad_x, history(programs, steps, n, x), N, steps,
                                 is_long(n, steps), flip, n, matrices, power, EVERY, num_warps=1)


def is_long(n: int, steps: int) -> bool:
    """Return whether the history of the backward pass is too long for registers."""
    return n * (ceil(steps / EVERY) + EVERY) > KEPT


def history(programs: int, steps: int, n: int, like: Tensor) -> Tensor:
    """Memory for the history of f, if registers don't hold it."""
    return like.new_empty(programs, steps, n, tile(n)[0]) if is_long(n, steps) else like


@op("geolab::sinkhorn", _launch)
def _sinkhorn(x: Tensor, steps: int, flip: bool) -> Tensor:
    return x.new_empty(x.shape)


@op("geolab::sinkhorn_backward", _launch_backward)
def _sinkhorn_backward(grad: Tensor, x: Tensor, steps: int, flip: bool) -> Tensor:
    return x.new_empty(x.shape)


differentiate(_sinkhorn, _sinkhorn_backward)


# ---------------------------------------------------------------- in Triton

@triton.jit(do_not_specialize=["N", "steps"])
def _scale(X, P, N, steps, FLIP: tl.constexpr, n: tl.constexpr, MATRICES: tl.constexpr,
           POWER: tl.constexpr):
    matrix = tl.program_id(0).to(tl.int64) * MATRICES + tl.arange(0, MATRICES)[:, None]
    place, inside = matrix * n * n, matrix < N
    p = projected(load(X, place, inside, FLIP, n, POWER), steps, n, POWER)
    store(P, p, place, inside, FLIP, n, POWER)


@triton.jit(do_not_specialize=["N"])
def _scale_backward(GP, X, GX, F, N, STEPS: tl.constexpr, LONG: tl.constexpr, FLIP: tl.constexpr,
                    n: tl.constexpr, MATRICES: tl.constexpr, POWER: tl.constexpr,
                    EVERY: tl.constexpr):
    matrix = tl.program_id(0).to(tl.int64) * MATRICES + tl.arange(0, MATRICES)[:, None]
    place, inside = matrix * n * n, matrix < N
    grad_x = projected_back(load(X, place, inside, FLIP, n, POWER), GP, place, inside, F, STEPS,
                            LONG, FLIP, n, MATRICES, POWER, EVERY)
    store(GX, grad_x, place, inside, FLIP, n, POWER)


@triton.jit
def projected(x, steps, n: tl.constexpr, POWER: tl.constexpr):
    """The rows of P, of the rows of logits x."""
    k, _ = _first(x, n, POWER)
    f, g = _ones(k, n), tl.full([k[0].shape[0], POWER], 1.0, tl.float32)
    for _ in range(steps):
        g = _by_columns(k, f, n, POWER)
        f = _by_rows(k, g, n)
    p = ()
    for i in tl.static_range(n):
        p = p + (k[i] * f[i] * g,)
    return p


@triton.jit
def projected_back(x, GP, place, inside, F, STEPS: tl.constexpr, LONG: tl.constexpr,
                   FLIP: tl.constexpr, n: tl.constexpr, MATRICES: tl.constexpr,
                   POWER: tl.constexpr, EVERY: tl.constexpr = 4):
    """The gradient with respect to the logits x, from that with respect to P, at `place`.

    Registers hold the f before each EVERY steps, or with LONG this program's part of F holds all f.
    """
    PARTS: tl.constexpr = (STEPS + EVERY - 1) // EVERY
    REST: tl.constexpr = STEPS - (PARTS - 1) * EVERY  # the steps of the first part
    k, sums = _first(x, n, POWER)
    if LONG:
        F += tl.program_id(0).to(tl.int64) * STEPS * n * MATRICES + tl.arange(0, MATRICES)[:, None]
        f, g = _ones(k, n), tl.full([MATRICES, POWER], 1.0, tl.float32)
        for t in range(STEPS):
            for i in tl.static_range(n):
                tl.store(F + (t * n + i) * MATRICES, f[i])
            g = _by_columns(k, f, n, POWER)
            f = _by_rows(k, g, n)
        tl.debug_barrier()  # a lane may read numbers that another lane wrote
        grad_k, grad_f, grad_g = _last_back(k, f, g, load(GP, place, inside, FLIP, n, POWER), n)
        for t in range(STEPS):
            before = ()
            for i in tl.static_range(n):
                before = before + (tl.load(F + ((STEPS - 1 - t) * n + i) * MATRICES),)
            grad_k, grad_f = _step_back(k, before, f, grad_k, grad_f, grad_g, n, POWER)
            f, grad_g = before, tl.zeros_like(grad_g)
    else:
        grad_k = load(GP, place, inside, FLIP, n, POWER)
        if STEPS:
            f, g, kept = _ones(k, n), tl.full([MATRICES, POWER], 1.0, tl.float32), ()
            for part in tl.static_range(PARTS):
                kept = kept + (f,)
                for _ in range(EVERY if part else REST):
                    g = _by_columns(k, f, n, POWER)
                    f = _by_rows(k, g, n)
            grad_k, grad_f, grad_g = _last_back(k, f, g, grad_k, n)
            for turn in range(PARTS - 1):
                start = kept[PARTS - 1]
                for part in tl.static_range(1, PARTS - 1):
                    start = _chosen(PARTS - 1 - turn == part, kept[part], start, n)
                grad_k, grad_f = _part_back(k, start, f, grad_k, grad_f, grad_g, EVERY, n, POWER)
                f, grad_g = start, tl.zeros_like(grad_g)
            grad_k, _ = _part_back(k, kept[0], f, grad_k, grad_f, grad_g, REST, n, POWER)
    return _first_back(k, sums, grad_k, n)


@triton.jit
def _first(x, n: tl.constexpr, POWER: tl.constexpr):
    """exp(x) with its columns normalised, then its rows, in logarithms.

    Returns K, and the sums of the rows before they are normalised.
    """
    top, total = x[0], tl.zeros_like(x[0])
    for i in tl.static_range(1, n):
        top = tl.maximum(top, x[i])
    for i in tl.static_range(n):
        total += tl.exp(x[i] - top)
    k, sums = (), ()
    for i in tl.static_range(n):
        row = tl.where(tl.arange(0, POWER)[None, :] < n, x[i] - top - tl.log(total), float("-inf"))
        high = tl.max(row, axis=1, keep_dims=True)
        row = tl.exp(row - high)
        total_of_row = tl.sum(row, axis=1, keep_dims=True)
        k, sums = k + (row / total_of_row,), sums + (tl.exp(high) * total_of_row,)
    return k, sums


@triton.jit
def _first_back(k, sums, grad_k, n: tl.constexpr):
    """The gradient with respect to x, from the gradient with respect to K."""
    grad, down = (), tl.zeros_like(k[0])
    for i in tl.static_range(n):
        grad = grad + (k[i] * (grad_k[i] - tl.sum(k[i] * grad_k[i], axis=1, keep_dims=True)),)
        down += grad[i]
    grad_x = ()
    for i in tl.static_range(n):
        grad_x = grad_x + (grad[i] - k[i] * sums[i] * down,)
    return grad_x


@triton.jit
def _by_columns(k, f, n: tl.constexpr, POWER: tl.constexpr):
    """g = 1 / Kᵀf."""
    total = k[0] * f[0]
    for i in tl.static_range(1, n):
        total += k[i] * f[i]
    return _inverse(tl.where(tl.arange(0, POWER)[None, :] < n, total, 1.0))


@triton.jit
def _by_rows(k, g, n: tl.constexpr):
    """f = 1 / K g."""
    f = ()
    for i in tl.static_range(n):
        f = f + (_inverse(tl.sum(k[i] * g, axis=1, keep_dims=True)),)
    return f


@triton.jit
def _inverse(x):
    """1 / x for x > 0, in two instructions. A division takes more, which scale x."""
    root = tl.rsqrt(x)
    return root * root


@triton.jit
def _last_back(k, f, g, grad_p, n: tl.constexpr):
    """The gradients of P = diag(f) K diag(g) with respect to K, f and g."""
    grad_k, grad_f, grad_g = (), (), tl.zeros_like(g)
    for i in tl.static_range(n):
        grad_k = grad_k + (grad_p[i] * f[i] * g,)
        grad_f = grad_f + (tl.sum(grad_p[i] * k[i] * g, axis=1, keep_dims=True),)
        grad_g += grad_p[i] * k[i] * f[i]
    return grad_k, grad_f, grad_g


@triton.jit
def _step_back(k, before, f, grad_k, grad_f, grad_g, n: tl.constexpr, POWER: tl.constexpr):
    """Go back through f = 1 / K g and then through g = 1 / Kᵀ before.

    Returns the gradient with respect to K, to which this step adds its share, and the gradient with
    respect to `before`.
    """
    g = _by_columns(k, before, n, POWER)
    by_rows, added, grad_before = (), (), ()
    for i in tl.static_range(n):
        by_rows = by_rows + (-grad_f[i] * f[i] * f[i],)
        grad_g += k[i] * by_rows[i]
    by_columns = -grad_g * g * g
    for i in tl.static_range(n):
        added = added + (grad_k[i] + by_rows[i] * g + before[i] * by_columns,)
        grad_before = grad_before + (tl.sum(k[i] * by_columns, axis=1, keep_dims=True),)
    return added, grad_before


@triton.jit
def _part_back(k, start, f, grad_k, grad_f, grad_g, STEPS: tl.constexpr, n: tl.constexpr,
               POWER: tl.constexpr):
    """Go back through the STEPS steps that led from `start` to f."""
    fs = (start,)
    for t in tl.static_range(STEPS - 1):
        fs = fs + (_by_rows(k, _by_columns(k, fs[t], n, POWER), n),)
    fs = fs + (f,)
    for t in tl.static_range(STEPS):
        grad_k, grad_f = _step_back(k, fs[STEPS - 1 - t], fs[STEPS - t], grad_k, grad_f, grad_g, n,
                                    POWER)
        grad_g = tl.zeros_like(grad_g)
    return grad_k, grad_f


@triton.jit
def _chosen(condition, a, b, n: tl.constexpr):
    """The columns a if the condition holds, else b."""
    chosen = ()
    for i in tl.static_range(n):
        chosen = chosen + (tl.where(condition, a[i], b[i]),)
    return chosen


@triton.jit
def _ones(k, n: tl.constexpr):
    """The first f: n columns of ones."""
    f = ()
    for _ in tl.static_range(n):
        f = f + (tl.full([k[0].shape[0], 1], 1.0, tl.float32),)
    return f


@triton.jit
def load(X, place, inside, FLIP: tl.constexpr, n: tl.constexpr, POWER: tl.constexpr):
    """The rows of the matrices that begin at `place`, or their columns with FLIP."""
    column = tl.arange(0, POWER)[None, :]
    x = ()
    for i in tl.static_range(n):
        x = x + (tl.load(X + place + i * n + column, mask=inside & (column < n), other=0.0),)
    if FLIP:
        x = transposed(x, n, POWER)
    return x


@triton.jit
def store(X, x, place, inside, FLIP: tl.constexpr, n: tl.constexpr, POWER: tl.constexpr):
    """Write matrices in the layout in which `load` reads them."""
    column = tl.arange(0, POWER)[None, :]
    if FLIP:
        x = transposed(x, n, POWER)
    for i in tl.static_range(n):
        tl.store(X + place + i * n + column, x[i], mask=inside & (column < n))


@triton.jit
def transposed(x, n: tl.constexpr, POWER: tl.constexpr):
    """Turn the rows into columns.

    The compiler knows which lane and register hold an entry, so at n = 4 this costs no selection.
    """
    column = tl.arange(0, POWER)[None, :]
    columns = ()
    for j in tl.static_range(n):
        tile = tl.zeros_like(x[0])
        for i in tl.static_range(n):
            tile = tl.where(column == i, tl.sum(tl.where(column == j, x[i], 0.0), axis=1,
                                                keep_dims=True), tile)
        columns = columns + (tile,)
    return columns
