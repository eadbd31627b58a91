"""The Cayley transform of a skew-symmetric 4 × 4 matrix M, as a product of two quaternions.

M is a sum A + B of two commuting parts with A² = −|a|² I and B² = −|b|² I. A multiplies a quaternion by a from the left, B by b from
the right, and so does

    Q = (I + M)⁻¹ (I − M) = ((1 − f) I − 2A) ((1 + f) I − 2B) / D,    f = |a|² − |b|² = Pf(M),
    D = (1 − f)² + 4|a|² = (1 + f)² + 4|b|².

So Q is l r of the unit quaternions of (1 − f, −2a) and (1 + f, −2b), the pair. Each is normalised on its own: then Q is orthogonal
to rounding, even of parallel u and v, whose minors are nothing but rounding. Rank 2 is f = 0.

Rows of 16 numbers are too short for loops, and for batched matrix products. So between them the batch is the last axis: constant
tables take rows to columns and back, and the columns are cut into pieces whose intermediate values stay in the cache.
torch.compile fuses loops by itself, but not into a product with a table: it gets the entries one by one, and derives its own gradient.

Legend: N matrices; (N, 16) their entries, row after row; (8, N) pairs; (16, N) the products l_i r_j.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from geolab.operators.products import spread

PIECE = 8192  # matrices: 16 float32 numbers of each are half a megabyte


def cayley_of_skew(w: Tensor) -> Tensor:
    """Q of the skew-symmetric part of w: (..., 4, 4) -> (..., 4, 4)."""
    if torch.compiler.is_compiling():
        w = w.flatten(-2).unbind(-1)
        return _by_entries(lambda i, j: (w[4 * i + j] - w[4 * j + i]) / 2, planar=False)
    return _Skew.apply(w)


def cayley_of_plane(u: Tensor, v: Tensor, beta: Tensor) -> Tensor:
    """Q of β/2 (u vᵀ − v uᵀ): (..., 4), (..., 4) and (...) -> (..., 4, 4)."""
    if torch.compiler.is_compiling():
        u, v = u.unbind(-1), v.unbind(-1)
        return _by_entries(lambda i, j: beta / 2 * (u[i] * v[j] - u[j] * v[i]), planar=True)
    return _Plane.apply(u, v, beta)


class _Skew(Function):

    @staticmethod
    def forward(ctx, w: Tensor) -> Tensor:
        rows = w.reshape(-1, 16)
        q, pair = _in_pieces(_Skew.turn, (rows,), lambda: (torch.empty_like(rows), rows.new_empty(8, len(rows)).T))
        ctx.save_for_backward(pair)
        return q.view(w.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor) -> Tensor:
        rows = grad.reshape(-1, 16)
        grad_w, = _in_pieces(_Skew.pull, (*ctx.saved_tensors, rows), lambda: (torch.empty_like(rows),))
        return grad_w.view(grad.shape)

    @staticmethod
    def turn(w: Tensor, q: Tensor | None = None, pair: Tensor | None = None) -> tuple[Tensor, Tensor]:
        tables = _tables(w.dtype, w.device)
        parts = torch.addmm(tables.one, tables.split, w.T)                     # 1, −2a, 1, −2b
        pair = torch.addmm(parts, tables.pfaffian, parts.square(), out=None if pair is None else pair.T)
        return _multiply(tables, _units(tables, pair)[0], q), pair.T

    @staticmethod
    def pull(pair: Tensor, grad: Tensor, grad_w: Tensor | None = None) -> tuple[Tensor]:
        tables, pair = _tables(grad.dtype, grad.device), pair.T
        units, inverse = _units(tables, pair)
        slope = _across(tables, units, inverse, _slope(tables, units, grad))
        slope = torch.addcmul(slope, pair, tables.back @ slope)
        return torch.mm(slope.T, tables.split, out=grad_w),


class _Plane(Function):

    @staticmethod
    def forward(ctx, u: Tensor, v: Tensor, beta: Tensor) -> Tensor:
        ctx.save_for_backward(u, v, beta)
        rows = u.reshape(-1, 4), v.reshape(-1, 4), beta.reshape(-1)
        q, = _in_pieces(_Plane.turn, rows, lambda: (u.new_empty(len(rows[0]), 16),))
        return q.view(*u.shape, 4)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        u, v, beta = ctx.saved_tensors
        rows = u.reshape(-1, 4), v.reshape(-1, 4), beta.reshape(-1)
        grad_u, grad_v, grad_beta = _in_pieces(_Plane.pull, (*rows, grad.reshape(-1, 16)), lambda: tuple(map(torch.empty_like, rows)))
        return grad_u.view(u.shape), grad_v.view(v.shape), grad_beta.view(beta.shape)

    @staticmethod
    def turn(u: Tensor, v: Tensor, beta: Tensor, q: Tensor | None = None) -> tuple[Tensor]:
        tables = _tables(u.dtype, u.device)
        _, _, area = _Plane.minors(tables, u, v)
        return _multiply(tables, _units(tables, torch.addcmul(tables.one, area, beta))[0], q),

    @staticmethod
    def pull(u: Tensor, v: Tensor, beta: Tensor, grad: Tensor, grad_u: Tensor | None = None, grad_v: Tensor | None = None,
             grad_beta: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        tables, (left, right) = _tables(u.dtype, u.device), spread(4, u.dtype, u.device)
        a, b, area = _Plane.minors(tables, u, v)
        units, inverse = _units(tables, torch.addcmul(tables.one, area, beta))
        slope = _slope(tables, units, grad)
        # with β each unit quaternion turns towards (−β|a|², a), at right angles to it: ⟨across, area⟩ is the same, and cancels
        turn = torch.addcmul(area, tables.scalar @ area.square(), beta, value=-1)
        grad_beta = torch.sum((slope * turn).mul_(inverse).mul_(inverse.square()), 0, out=grad_beta)
        slope = tables.split.T @ (_across(tables, units, inverse, slope) * beta)
        return torch.mm((slope * b).T, left.T, out=grad_u), torch.mm((slope * a).T, right.T, out=grad_v), grad_beta

    @staticmethod
    def minors(tables: "_Tables", u: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """u_i and v_j at 4i + j, and −2a and −2b of u vᵀ − v uᵀ over 2: sums and differences of its minors."""
        left, right = spread(4, u.dtype, u.device)
        a, b = left.T @ u.T, right.T @ v.T
        return a, b, tables.split @ (a * b)


# ---------------------------------------------------------------- from the pair to Q, and back

def _units(tables: "_Tables", pair: Tensor) -> tuple[Tensor, Tensor]:
    """The unit quaternions l and r, and the inverses of the lengths they had, four times each: (8, N) both."""
    inverse = (tables.sum @ pair.square()).rsqrt_()
    return pair * inverse, inverse


def _multiply(tables: "_Tables", units: Tensor, q: Tensor | None) -> Tensor:
    """l r, in rows."""
    left, right = units.view(2, 4, -1).unbind()
    return torch.mm((left.unsqueeze(1) * right).view(16, -1).T, tables.product, out=q)


def _slope(tables: "_Tables", units: Tensor, grad: Tensor) -> Tensor:
    """The gradient by each number of l and r: (8, N)."""
    left, right = units.view(2, 4, -1).unbind()
    products = (tables.product @ grad.T).view(4, 4, -1)                        # ⟨G, l_i r_j⟩
    slope = tables.left @ (products * right).view(16, -1)
    return slope.addmm_(tables.right, products.mul_(left.unsqueeze(1)).view(16, -1))


def _across(tables: "_Tables", units: Tensor, inverse: Tensor, slope: Tensor) -> Tensor:
    """The gradient by the pair, (8, N): lengths have no effect."""
    along = tables.sum @ (units * slope)           # ⟨G, Q⟩, along l as along r
    return torch.addcmul(slope, units, along, value=-1).mul_(inverse)


def _in_pieces(compute: Callable[..., tuple[Tensor, ...]], rows: tuple[Tensor, ...],
               room: Callable[[], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """compute(*rows); on a CPU so few rows at a time that the cache holds what lies between, and their results in the `room` for all."""
    if len(rows[0]) <= PIECE or rows[0].device.type != "cpu":
        return compute(*rows)
    results = room()
    for piece in zip(*(t.split(PIECE) for t in (*rows, *results))):
        compute(*piece)
    return results


# ---------------------------------------------------------------- the two algebras

def _from_left(s, x, y, z) -> list[list]:
    """The matrix that multiplies a quaternion by s + xi + yj + zk from the left."""
    return [[s, -x, -y, -z], [x, s, -z, y], [y, z, s, -x], [z, -y, x, s]]


def _from_right(s, x, y, z) -> list[list]:
    return [[s, -x, -y, -z], [x, s, z, -y], [y, -z, s, x], [z, y, -x, s]]


def _by_entries(m: Callable[[int, int], Tensor], planar: bool) -> Tensor:
    """Q from the entries M_ij, (...) each. Of rank 2 the Pfaffian is 0, not what rounding leaves of it."""
    left = m(0, 1) + m(2, 3), m(0, 2) - m(1, 3), m(0, 3) + m(1, 2)             # −2a
    right = m(0, 1) - m(2, 3), m(0, 2) + m(1, 3), m(0, 3) - m(1, 2)            # −2b
    squares = _dot(left, left), _dot(right, right)
    f = 0 if planar else (squares[0] - squares[1]) / 4
    lengths = (square + (1 + sign * f) ** 2 for square, sign in zip(squares, (-1, 1)))
    inverse = [length.rsqrt() for length in lengths]
    left, right = ([x * scale for x in whole] for whole, scale in zip(((1 - f, *left), (1 + f, *right)), inverse))
    products = [[x * y for y in right] for x in left]
    rows, columns = _from_left(1, 2, 3, 4), list(zip(*_from_right(1, 2, 3, 4)))  # which number stands where, and its sign
    entries = [sum((1 if x * y > 0 else -1) * products[abs(x) - 1][abs(y) - 1] for x, y in zip(row, column))
               for row in rows for column in columns]
    return torch.stack(entries).movedim(0, -1).contiguous().unflatten(-1, (4, 4))


def _dot(xs: Sequence[Tensor], ys: Sequence[Tensor]) -> Tensor:
    return sum(x * y for x, y in zip(xs, ys))


class _Tables(NamedTuple):
    """Constant matrices that act on columns."""

    one: Tensor       # (8, 1): the pair 1, 1
    split: Tensor     # w -> the pair 0, −2a, 0, −2b
    pfaffian: Tensor  # squares of −2a and −2b -> the pair −f, 0, f, 0
    back: Tensor      # the gradient by that pair -> the one by the squares, twice
    sum: Tensor       # a pair -> the sum of each quaternion, in its four places
    scalar: Tensor    # a pair -> the sum of each quaternion, in the place of its scalar
    left: Tensor      # P_ij -> Σ_j P_ij, as l; transposed, it repeats l_i
    right: Tensor     # P_ij -> Σ_i P_ij, as r
    product: Tensor   # the matrix l r, flat -> its products with all l_i r_j; transposed and acting on rows: l_i r_j -> l r


@cache
@torch.inference_mode(False)
def _tables(dtype: torch.dtype, device: torch.device) -> _Tables:
    one, i, j, k = (1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0), (0.0, 0.0, 0.0, 1.0)
    lefts, rights = (torch.tensor([form(*unit) for unit in (one, i, j, k)]) for form in (_from_left, _from_right))
    scalar = torch.tensor([1.0, 0.0, 0.0, 0.0])
    vector = 1 - scalar
    eye, ones, none = torch.eye(4), torch.ones(1, 4), torch.zeros(4, 16)
    pfaffian = torch.kron(torch.tensor([[-1.0, 1.0], [1.0, -1.0]]), torch.outer(scalar, vector)) / 4
    tables = _Tables(one=scalar.repeat(2)[:, None],
                     split=-torch.cat([lefts, rights]).flatten(1) / 2 * vector.repeat(2)[:, None],
                     pfaffian=pfaffian, back=2 * pfaffian.T,
                     sum=torch.kron(torch.eye(2), torch.ones(4, 4)),
                     scalar=torch.kron(torch.eye(2), torch.outer(scalar, torch.ones(4))),
                     left=torch.cat([torch.kron(eye, ones), none]), right=torch.cat([none, torch.kron(ones, eye)]),
                     product=torch.einsum("aij,bjk->abik", lefts, rights).reshape(16, 16))
    return _Tables(*(table.to(device, dtype).contiguous() for table in tables))
