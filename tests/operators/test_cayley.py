import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from shared import normal
from torch.autograd import gradcheck
from torch.testing import assert_close

from geolab.operators import cayley, cayley_rank2, cayley_skew4, skew

CLOSE = dict(rtol=0, atol=1e-12)
dtypes = st.sampled_from([torch.float32, torch.float64])
scales = st.integers(-6, 6).map(lambda power: 10.0**power)
seeds = st.integers(0, 2**16)


def generator_matrix(u, v, beta):
    """M = β/2 (u vᵀ − v uᵀ)."""
    outer = u.unsqueeze(-1) * v.unsqueeze(-2)
    return torch.as_tensor(beta, dtype=u.dtype)[..., None, None] / 2 * (outer - outer.mT)


def by_solving(m):
    identity = torch.eye(m.shape[-1], dtype=m.dtype)
    return torch.linalg.solve(identity + m, identity - m)


def fractions(t):
    """The numbers of a tensor, without rounding."""
    return [Fraction(x) for x in t.tolist()] if t.ndim == 1 else [fractions(row) for row in t]


def exact_generator(u, v, beta):
    """M = β/2 (u vᵀ − v uᵀ) for one pair, without rounding."""
    (u, v), half = map(fractions, (u, v)), Fraction(beta.item()) / 2
    return [[half * (x * b - y * a) for y, b in zip(u, v)] for x, a in zip(u, v)]


def solved_exactly(m):
    """(I + M)⁻¹ (I − M) by elimination in fractions.

    The pivots of I + M are not 0, since M is skew.
    """
    n = len(m)
    rows = [[(i == j) + m[i][j] for j in range(n)] + [(i == j) - m[i][j] for j in range(n)]
            for i in range(n)]
    for i in range(n):
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for k in set(range(n)) - {i}:
            rows[k] = [x - rows[k][i] * y for x, y in zip(rows[k], rows[i])]
    return [row[n:] for row in rows]


def rounded(matrix):
    return torch.tensor([[float(x) for x in row] for row in matrix], dtype=torch.float64)


def defect(q):
    """The largest entry of QᵀQ − I, in units of the dtype's rounding."""
    identity = torch.eye(q.shape[-1], dtype=q.dtype)
    return (q.mT @ q - identity).abs().max().item() / torch.finfo(q.dtype).eps


@st.composite
def planes(draw, dtype=None, magnitude=scales, least=2):
    """Thirty pairs u, v and β of magnitudes up to 10⁶, v nearly parallel to u or far from it."""
    dtype, seed = dtype or draw(dtypes), draw(seeds)
    # n = 4 is the usual case
    n = draw(st.sampled_from([n for n in (4, 4, 4, 2, 3, 5, 8) if n >= least]))
    sizes = [draw(magnitude) for _ in range(3)]
    if magnitude is scales and draw(st.booleans()):
        # otherwise most turns are by nearly 0 or nearly π
        sizes[2] = 1 / (sizes[0] * sizes[1])
    u, v = (size * normal(30, n, seed=seed + k, dtype=dtype) for k, size in enumerate(sizes[:2]))
    if draw(st.booleans()):
        v = 3 * u + draw(st.sampled_from([0, 1e-12, 1e-7, 1e-3])) * v
    return u, v, sizes[2] * normal(30, seed=seed + 2, dtype=dtype)


# ---------------------------------------------------------------- rank 2

def condition(u, v):
    """1 / sin of the angle between u and v.

    A rounding error of u and v, times this number, bounds how far it turns their plane or changes
    their area.
    """
    u, v = map(fractions, (u, v))
    square = sum(x * x for x in u) * sum(x * x for x in v)
    area = square - sum(x * y for x, y in zip(u, v)) ** 2
    return math.sqrt(square / area) if area else math.inf


def require_solved(u, v, beta):
    """Orthogonal to rounding, and what solving the equation gives, wherever it is well posed."""
    q = cayley_rank2(u, v, beta)
    assert q.dtype == u.dtype and q.isfinite().all() and defect(q) < 64
    for one, got in zip(zip(u[:3], v, beta), q.double()):
        tolerance = 8 * len(got) * torch.finfo(u.dtype).eps * condition(*one[:2])
        assert (got - rounded(solved_exactly(exact_generator(*one)))).abs().max() < tolerance


@given(planes())
def test_rank2_is_what_solving_gives_at_any_magnitude(plane):
    require_solved(*plane)


@pytest.mark.parametrize("n", [2, 3, 4, 5])
@pytest.mark.parametrize("where", ["apart", "parallel", "u vanishes", "beta vanishes",
                                   "both vanish"])
def test_rank2_gradients(n, where):
    u, v, beta = normal(3, n), normal(3, n, seed=1), normal(3, seed=2)
    v = 2 * u if where == "parallel" else v
    u = 0 * u if where in ("u vanishes", "both vanish") else u
    v = 0 * v if where == "both vanish" else v
    beta = 0 * beta if where == "beta vanishes" else beta
    assert gradcheck(cayley_rank2, [t.clone().requires_grad_() for t in (u, v, beta)])


@pytest.mark.parametrize("n", [3, 4, 6])
@given(scale=st.sampled_from([1e-3, 1.0, 30.0]), seed=seeds)
def test_rank2_gradients_in_float32_are_those_of_float64(n, scale, seed):
    leaves = [(size * normal(50, *shape, seed=seed + k, dtype=torch.float32)).requires_grad_()
              for k, (size, shape) in enumerate([(scale, (n,)), (scale, (n,)), (1.0, ())])]
    cotangent = normal(50, n, n, seed=seed + 3)
    got = torch.autograd.grad(cayley_rank2(*leaves), leaves, cotangent.float())
    wide = [leaf.detach().double().requires_grad_() for leaf in leaves]
    wanted = torch.autograd.grad(by_solving(generator_matrix(*wide)), wide, cotangent)
    # for a scale of 30, the two terms of β's agree in their first three digits
    for g, w, limit in zip(got, wanted, (1e-4, 1e-4, 1e-5)):
        assert ((g.double() - w).norm() / w.norm()).item() < limit


@pytest.mark.parametrize("n", [3, 4])
@pytest.mark.parametrize("lead", [(), (0,), (2, 3)])
def test_rank2_takes_leading_axes_and_a_number(n, lead):
    u, v, beta = normal(*lead, n), normal(*lead, n, seed=1), normal(*lead, seed=2)
    together = cayley_rank2(u, v, beta)
    flat = cayley_rank2(u.view(-1, n), v.view(-1, n), beta.view(-1))
    assert_close(together, flat.view(*lead, n, n), **CLOSE)
    full = torch.full(lead, 0.7, dtype=torch.float64)
    assert_close(cayley_rank2(u, v, 0.7), cayley_rank2(u, v, full), rtol=0, atol=0)


@pytest.mark.parametrize("n", [3, 4, 5, 8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_short_vector_does_not_count_as_zero(n, dtype):
    # The length of u is about 1e-5. v is nearly parallel to u, and long enough to turn their plane
    # by about a right angle.
    u, w = normal(30, n, dtype=dtype), normal(30, n, seed=1, dtype=dtype)
    u, v, beta = 1e-5 * u, 1e5 * (3 * u + 1e-5 * w), torch.full((30,), 1e5, dtype=dtype)
    require_solved(u, v, beta)


# ---------------------------------------------------------------- any skew 4 × 4 matrix

@st.composite
def skews(draw, magnitude=scales):
    """Thirty skew 4 × 4 matrices of magnitudes up to 10⁶, of rank 4 or nearly of rank 2."""
    dtype, seed, scale = draw(dtypes), draw(seeds), draw(magnitude)
    w = normal(30, 4, 4, seed=seed, dtype=dtype)
    if draw(st.booleans()):
        u, v = normal(2, 30, 4, seed=seed + 1, dtype=dtype)
        w = u.unsqueeze(-1) * v.unsqueeze(-2) + draw(st.sampled_from([0, 1e-9, 1e-3])) * w
    return scale * skew(w)


@given(skews())
def test_skew_is_skew_and_doubles_what_is(w):
    assert_close(skew(w.tril()), w, rtol=0, atol=0)
    assert_close(skew(w), 2 * w, rtol=0, atol=0)


def pfaffian(m):
    return m[0][1] * m[2][3] - m[0][2] * m[1][3] + m[0][3] * m[1][2]


@given(skews())
def test_skew4_is_a_rotation_and_what_solving_gives_at_any_magnitude(w):
    rotations, eps = cayley_skew4(w), torch.finfo(w.dtype).eps
    assert rotations.isfinite().all() and defect(rotations) < 32
    assert_close(torch.linalg.det(rotations.double()), torch.ones(30, dtype=torch.float64), rtol=0,
                 atol=64 * eps)
    # A rounding error of W moves Q by up to 2 ‖(I + W)⁻¹‖² ‖W‖ eps. This is much where one pair of
    # eigenvalues is large and the other is near 0.
    for m, q in zip(fractions(w[:3]), rotations.double()):
        norm = torch.linalg.matrix_norm(rounded(m), 2).item()
        smaller = abs(float(pfaffian(m))) / norm
        tolerance = 8 * eps * (1 + norm / (1 + smaller**2))
        assert (q - rounded(solved_exactly(m))).abs().max() < tolerance


def test_skew4_reads_the_skew_part_alone():
    w = normal(5, 4, 4)
    assert_close(cayley_skew4(w), cayley_skew4((w - w.mT) / 2), **CLOSE)
    assert_close(cayley_skew4(w + w.mT), torch.eye(4).double().expand(5, 4, 4), **CLOSE)


@given(scale=st.sampled_from([1e-3, 1.0, 30.0]), seed=seeds)
def test_skew4_gradients_in_float32_are_those_of_float64(scale, seed):
    w = scale * normal(50, 4, 4, seed=seed, dtype=torch.float32)
    cotangent = normal(50, 4, 4, seed=seed + 1)
    leaf, wide = w.requires_grad_(), w.detach().double().requires_grad_()
    got, = torch.autograd.grad(cayley_skew4(skew(leaf)), leaf, cotangent.float())
    wanted, = torch.autograd.grad(by_solving(skew(wide)), wide, cotangent)
    assert ((got.double() - wanted).norm() / wanted.norm()).item() < 1e-4


def test_skew4_at_zero_is_the_identity_and_alive():
    w = torch.zeros(4, 4, dtype=torch.float64, requires_grad=True)
    q = cayley_skew4(skew(w))
    assert_close(q.detach(), torch.eye(4).double(), rtol=0, atol=0)
    cotangent = normal(4, 4)
    assert_close(torch.autograd.grad(q, w, cotangent)[0], -2 * skew(cotangent), **CLOSE)


class Turn(torch.nn.Module):
    """cayley_skew4 as a module, which torch.export wants."""

    def forward(self, w):
        return cayley_skew4(w)


@pytest.mark.parametrize("first", [
    torch.func.grad(lambda w: cayley_skew4(w).sin().sum()),
    lambda w: torch.export.export(Turn(), (w,)),
    torch.inference_mode()(cayley_skew4),
], ids=["torch.func", "torch.export", "inference mode"])
def test_a_first_call_in_a_transform_does_not_spoil_a_later_one(first, monkeypatch):
    monkeypatch.setattr(cayley, "_made", {})
    w = skew(normal(3, 4, 4))
    first(w)
    cayley_rank2(w[0, 0].requires_grad_(), w[0, 1], 1.0).sum().backward()
    q = torch.func.vmap(lambda w: torch.func.jvp(Turn(), (w,), (w,))[0])(w)
    assert type(cayley_skew4(w)) is torch.Tensor
    assert_close(q.mT @ q, torch.eye(4, dtype=q.dtype).expand_as(q))


# ---------------------------------------------------------------- compiled, and strided

def both(call, arguments, cotangent):
    leaves = [t.clone().requires_grad_() for t in arguments]
    q = call(*leaves)
    return [q.detach(), *torch.autograd.grad(q, leaves, cotangent)]


def a_plane(n):
    return normal(2, 5, n), normal(2, 5, n, seed=1), normal(2, 5, seed=2)


CALLS = {"rank 2, n = 3": (cayley_rank2, a_plane(3)), "rank 2, n = 4": (cayley_rank2, a_plane(4)),
         "skew 4": (cayley_skew4, (normal(2, 5, 4, 4),))}


@pytest.mark.parametrize("name", CALLS)
def test_compiled_in_one_graph_it_is_the_same(name):
    torch.compiler.reset()  # the number of recompilations is limited, over all tests
    call, arguments = CALLS[name]
    n = arguments[0].shape[-1]
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    for scale in (1.0, 0.0):
        scaled, cotangent = [scale * t for t in arguments], normal(2, 5, n, n, seed=3)
        for got, wanted in zip(both(compiled, scaled, cotangent), both(call, scaled, cotangent)):
            assert_close(got, wanted, **CLOSE)
    if n == 3:
        return
    with torch.autocast("cpu", torch.bfloat16):
        q = compiled(*(t.bfloat16() for t in arguments))
    assert q.dtype == torch.float32 and defect(q) < 64
    *others, last = (t.float() for t in arguments)
    assert defect(compiled(*others, 1e6 * last)) < 64
    if others:  # parallel vectors, whose minors are only rounding
        assert defect(compiled(1e3 * others[0], 3e3 * others[0], 1e3 * last)) < 64


@pytest.mark.parametrize("name", list(CALLS)[1:])
def test_arguments_need_not_be_contiguous(name):
    call, arguments = CALLS[name]
    apart = [torch.stack([t, t], -1)[..., 0] for t in arguments]
    cotangent = normal(2, 5, 4, 4, seed=3).mT
    contiguous = both(call, arguments, cotangent.contiguous())
    for got, wanted in zip(both(call, apart, cotangent), contiguous, strict=True):
        assert_close(got, wanted, **CLOSE)
