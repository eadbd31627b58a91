"""The Sinkhorn iteration with a guard, as DeepSeek-V4 has it, and its gradient.

    P = softmax down columns, + ε;   P ← P / (row sums + ε);   then P ← P / (column sums + ε) and
    P ← P / (row sums + ε), as often as asked

With a guard the factors of `birkhoff` depend on those before. So P itself is kept in registers, and
the divisors in memory: the backward pass multiplies by them, and has the P before each division.

Legend: as in `birkhoff`. F holds n + POWER divisors per step and matrix.
"""

import triton
import triton.language as tl


@triton.jit
def projected(x, steps, guard, n: tl.constexpr, POWER: tl.constexpr):
    """The rows of P, of the rows of logits x."""
    p, _ = _by_rows(_raised(softmax(x, n), guard, n, POWER), guard, n)
    for _ in range(steps):
        p, _ = _by_columns(p, guard, n)
        p, _ = _by_rows(p, guard, n)
    return p


@triton.jit
def projected_back(x, grad, F, steps, guard, n: tl.constexpr, MATRICES: tl.constexpr,
                   POWER: tl.constexpr):
    """The gradient with respect to the logits x, from that with respect to the rows of P."""
    entry = tl.arange(0, MATRICES)[:, None]
    F += tl.program_id(0).to(tl.int64) * steps * (n + POWER) * MATRICES + entry
    across = (n + tl.arange(0, POWER)[None, :]) * MATRICES
    start = softmax(x, n)
    p, first = _by_rows(_raised(start, guard, n, POWER), guard, n)
    for t in range(steps):
        own = F + t * (n + POWER) * MATRICES
        p, columns = _by_columns(p, guard, n)
        tl.store(own + across, columns)
        p, rows = _by_rows(p, guard, n)
        for i in tl.static_range(n):
            tl.store(own + i * MATRICES, rows[i])
    tl.debug_barrier()  # a lane may read numbers that another lane wrote
    for t in range(steps):
        own, rows = F + (steps - 1 - t) * (n + POWER) * MATRICES, ()
        for i in tl.static_range(n):
            rows = rows + (tl.load(own + i * MATRICES),)
        p, grad = _rows_back(p, grad, rows, n)
        p, grad = _columns_back(p, grad, tl.load(own + across), n)
    p, grad = _rows_back(p, grad, first, n)
    along = tl.zeros_like(grad[0])
    for i in tl.static_range(n):
        along += start[i] * grad[i]
    grad_x = ()
    for i in tl.static_range(n):
        grad_x = grad_x + (start[i] * (grad[i] - along),)
    return grad_x


@triton.jit
def softmax(x, n: tl.constexpr):
    """The softmax of each column."""
    top, total = x[0], tl.zeros_like(x[0])
    for i in tl.static_range(1, n):
        top = tl.maximum(top, x[i])
    for i in tl.static_range(n):
        total += tl.exp(x[i] - top)
    p = ()
    for i in tl.static_range(n):
        p = p + (tl.exp(x[i] - top) / total,)
    return p


@triton.jit
def _raised(p, guard, n: tl.constexpr, POWER: tl.constexpr):
    """P + ε, with zeros in the columns that a matrix doesn't have."""
    raised = ()
    for i in tl.static_range(n):
        raised = raised + (tl.where(tl.arange(0, POWER)[None, :] < n, p[i] + guard, 0.0),)
    return raised


@triton.jit
def _by_rows(p, guard, n: tl.constexpr):
    """P with its rows divided by their sums + ε, and these n columns of divisors."""
    divided, rows = (), ()
    for i in tl.static_range(n):
        rows = rows + (tl.sum(p[i], axis=1, keep_dims=True) + guard,)
        divided = divided + (p[i] / rows[i],)
    return divided, rows


@triton.jit
def _by_columns(p, guard, n: tl.constexpr):
    """P with its columns divided by their sums + ε, and this row of divisors."""
    total = p[0] + guard
    for i in tl.static_range(1, n):
        total += p[i]
    # of a column that a matrix doesn't have, ε alone would make the gradient larger in each round
    total = tl.where(tl.arange(0, p[0].shape[1])[None, :] < n, total, 1.0)
    divided = ()
    for i in tl.static_range(n):
        divided = divided + (p[i] / total,)
    return divided, total


@triton.jit
def _rows_back(p, grad, rows, n: tl.constexpr):
    """P and its gradient before its rows were divided."""
    before, moved = (), ()
    for i in tl.static_range(n):
        along = tl.sum(grad[i] * p[i], axis=1, keep_dims=True)
        before, moved = before + (p[i] * rows[i],), moved + ((grad[i] - along) / rows[i],)
    return before, moved


@triton.jit
def _columns_back(p, grad, columns, n: tl.constexpr):
    """P and its gradient before its columns were divided."""
    along = grad[0] * p[0]
    for i in tl.static_range(1, n):
        along += grad[i] * p[i]
    before, moved = (), ()
    for i in tl.static_range(n):
        before, moved = before + (p[i] * columns,), moved + ((grad[i] - along) / columns,)
    return before, moved
