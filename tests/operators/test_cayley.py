"""Rotations: right to rounding at any magnitude of their generators, with their gradients."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from shared import normal
from test_formulas import eye, outer, plane, share, solved
from torch.autograd import gradcheck
from torch.testing import assert_close

from geolab.operators import cayley, cayley_iterated, cayley_rank2, cayley_skew4, skew

EPS = torch.finfo(torch.float32).eps
dtypes = st.sampled_from([torch.float32, torch.float64])
scales = st.integers(-6, 6).map(lambda power: 10.0**power)
seeds = st.integers(0, 2**16)


def defect(q):
    """The largest entry of QᵀQ − I, in units of the dtype's rounding."""
    return (q.mT @ q - eye(q)).abs().max().item() / torch.finfo(q.dtype).eps


@st.composite
def planes(draw):
    """Thirty pairs u, v and β of magnitudes up to 10⁶, v nearly parallel to u or far from it."""
    dtype, seed, n = draw(dtypes), draw(seeds), draw(st.sampled_from([4, 4, 4, 2, 3, 5, 8]))
    sizes = [draw(scales) for _ in range(3)]
    if draw(st.booleans()):  # otherwise most turns are by nearly 0 or nearly π
        sizes[2] = 1 / (sizes[0] * sizes[1])
    u, v = normal(30, n, seed=seed), normal(30, n, seed=seed + 1)
    if draw(st.booleans()):
        apart = draw(st.sampled_from([0, 1e-12, 1e-7, 1e-5, 1e-3]))
        v = 3 * u + apart * v
        sizes[2] /= draw(st.sampled_from([1, apart or 1]))
    found = u, v, normal(30, seed=seed + 2)
    return [(size * x).to(dtype) for size, x in zip(sizes, found, strict=True)]


@given(planes())
def test_rank2_is_orthogonal_and_right_at_any_magnitude(case):
    q = cayley_rank2(*case)
    assert q.dtype == case[0].dtype and q.isfinite().all() and defect(q) < 64
    if q.dtype == torch.float32:
        # A rounding error of u and v, over the sine of the angle between them, bounds how far it
        # turns their plane or changes their area. Float64 has the minors of these numbers exactly.
        u, v, beta = (x.double() for x in case)
        area = (outer(u, v) - outer(v, u)).square().sum((-2, -1)).div(2).sqrt()
        condition = u.norm(dim=-1) * v.norm(dim=-1) / area
        error = (q.double() - plane(u, v, beta)).abs().amax((-2, -1))
        assert (error <= 8 * q.shape[-1] * EPS * condition).all()


@st.composite
def skews(draw):
    """Thirty skew 4 × 4 matrices of magnitudes up to 10⁶, of rank 4 or nearly of rank 2."""
    dtype, seed, scale = draw(dtypes), draw(seeds), draw(scales)
    w = normal(30, 4, 4, seed=seed)
    if draw(st.booleans()):
        u, v = normal(2, 30, 4, seed=seed + 1)
        w = outer(u, v) + draw(st.sampled_from([0, 1e-9, 1e-3])) * w
    return (scale * skew(w)).to(dtype)


@given(skews())
def test_skew4_is_a_rotation_and_right_at_any_magnitude(w):
    q = cayley_skew4(w)
    assert q.dtype == w.dtype and q.isfinite().all() and defect(q) < 32
    wide, m = q.double(), w.double()
    assert (torch.linalg.det(wide) - 1).abs().max() <= 64 * torch.finfo(w.dtype).eps
    if w.dtype == torch.float32:
        # A rounding error of W moves Q by up to 2 ‖(I + W)⁻¹‖² ‖W‖ eps. This is much where one
        # pair of eigenvalues is large and the other is near 0.
        norm, smaller = torch.linalg.svdvals(m)[:, [0, -1]].mT
        error = (wide - solved(m)).abs().amax((-2, -1))
        assert (error <= 8 * EPS * (1 + norm / (1 + smaller**2))).all()


def test_skew4_reads_the_skew_part_alone():
    w = normal(5, 4, 4)
    assert_close(cayley_skew4(w), cayley_skew4((w - w.mT) / 2), rtol=0, atol=1e-12)


# ---------------------------------------------------------------- gradients

@pytest.mark.parametrize("n", [2, 3, 4, 5])
@pytest.mark.parametrize("where", ["parallel", "u vanishes", "beta vanishes", "both vanish"])
def test_rank2_has_gradients_where_it_is_the_identity(n, where):
    u, v, beta = normal(3, n), normal(3, n, seed=1), normal(3, seed=2)
    v = 2 * u if where == "parallel" else v
    u = 0 * u if where in ("u vanishes", "both vanish") else u
    v = 0 * v if where == "both vanish" else v
    beta = 0 * beta if where == "beta vanishes" else beta
    assert gradcheck(cayley_rank2, [t.clone().requires_grad_() for t in (u, v, beta)])


def test_skew4_has_a_gradient_at_zero():
    w = torch.zeros(4, 4, dtype=torch.float64, requires_grad=True)
    q, cotangent = cayley_skew4(skew(w)), normal(4, 4)
    assert torch.equal(q, eye(q))
    assert_close(torch.autograd.grad(q, w, cotangent)[0], -2 * skew(cotangent))


def generator(u, v, beta):
    return share(beta) / 2 * (outer(u, v) - outer(v, u))


@pytest.mark.parametrize("n", [3, 4, 6])
@given(scale=st.sampled_from([1e-3, 1.0, 30.0]), seed=seeds)
def test_gradients_in_float32_keep_their_digits(n, scale, seed):
    sizes = [(scale, (n,)), (scale, (n,)), (1.0, ())]
    pairs = [size * normal(50, *shape, seed=seed + k) for k, (size, shape) in enumerate(sizes)]
    # for a scale of 30, the two terms of β's gradient agree in their first three digits
    cases = [(cayley_rank2, generator, pairs, (1e-4, 1e-4, 1e-5))]
    if n == 4:
        cases.append((lambda w: cayley_skew4(skew(w)), skew, [scale * normal(50, 4, 4, seed=seed)],
                      (1e-4,)))
    cotangent = normal(50, n, n, seed=seed + 3)
    for ours, made, inputs, limits in cases:
        leaves = [x.float().requires_grad_() for x in inputs]
        wide = [x.detach().double().requires_grad_() for x in leaves]
        got = torch.autograd.grad(ours(*leaves), leaves, cotangent.float())
        wanted = torch.autograd.grad(solved(made(*wide)), wide, cotangent)
        for one, exact, limit in zip(got, wanted, limits, strict=True):
            assert (one.double() - exact).norm() < limit * exact.norm()


# ---------------------------------------------------------------- constant tables

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
    assert_close(q.mT @ q, eye(q).expand_as(q))


PLANE = normal(2, 5, 4), normal(2, 5, 4, seed=1), normal(2, 5, seed=2)
CALLS = [(cayley_rank2, PLANE), (cayley_skew4, (normal(2, 5, 4, 4),))]


@pytest.mark.parametrize("call, inputs", CALLS, ids=["rank 2", "skew 4"])
def test_compiled_it_has_the_same_gradients_and_leaves_autocast(call, inputs):
    torch.compiler.reset()  # the number of recompilations is limited, over all tests
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    for scale in (1.0, 0.0):
        leaves = [(scale * x).requires_grad_() for x in inputs]
        found, wanted = ([q := run(*leaves), *torch.autograd.grad(q.sin().sum(), leaves)]
                         for run in (compiled, call))
        assert_close(found, wanted, rtol=0, atol=1e-12)
    with torch.autocast("cpu", torch.bfloat16):
        q = compiled(*(x.bfloat16() for x in inputs))
    assert q.dtype == torch.float32 and defect(q) < 64


# ---------------------------------------------------------------- JPmHC's iteration

@given(st.integers(2, 6), scales, seeds, dtypes, st.floats(0.01, 2))
def test_how_far_from_orthogonal_the_iteration_is(n, size, seed, dtype, alpha):
    w = size * skew(normal(n, n, seed=seed, dtype=dtype))
    k, eps = alpha / 2 * w.double(), torch.finfo(dtype).eps
    norm, fourth = torch.linalg.matrix_norm(k, 2).item(), torch.linalg.matrix_power(k, 4)
    for steps, expected in ((1, 4 * fourth), (2, -4 * fourth @ (eye(k) + k @ k))):
        y = cayley_iterated(w, steps, alpha)
        later = cayley_iterated(w, steps + 1, alpha, start="identity")
        assert_close(later, y, rtol=0, atol=8 * eps * y.abs().max().item())
        # Y is a polynomial of degree steps + 1 in K
        rounding = 8 * n * eps * (1 + norm) ** (2 * steps + 2)
        assert_close(y.double().T @ y.double() - eye(k), expected, rtol=0, atol=rounding)
