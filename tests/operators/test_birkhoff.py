"""Doubly stochastic matrices: their sums, at logits of any size, and where a training begins."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from shared import normal
from test_formulas import sinkhorn as logarithmic
from torch.autograd.functional import jacobian
from torch.autograd.graph import saved_tensors_hooks
from torch.testing import assert_close

from geolab.operators import sinkhorn
from geolab.residuals.mixing import mixes

AXES = {"column-row": (-2, -1), "row-column": (-1, -2)}  # the axes of the first and second sums
orders = st.sampled_from(list(AXES))
dtypes = st.sampled_from([torch.float32, torch.float64])
every_form = pytest.mark.parametrize("form", ["dual", "log"])
every_order = pytest.mark.parametrize("order", AXES)


@st.composite
def cases(draw):
    """Logits up to a million, an iteration count and an order.

    Either all logits differ by so much, or only rows and columns as a whole do.
    """
    sizes = st.sampled_from([0, 1e-3, 1, 4, 10, 100, 1e3, 1e6])
    apart, offset = draw(sizes), draw(sizes)
    n, seed = draw(st.integers(1, 6)), draw(st.integers(0, 2**16))
    logits = apart * normal(40, n, n, seed=seed) + offset * (normal(40, n, 1, seed=seed + 1)
                                                             + normal(40, 1, n, seed=seed + 2))
    return logits.clamp(-1e6, 1e6), draw(st.integers(1, 25)), draw(orders)


@every_form
@given(cases(), dtypes)
def test_it_is_the_definition_and_sums_are_exact_where_normalised_last(form, case, dtype):
    logits, iterations, order = case
    logits, n, (first, last) = logits.to(dtype), logits.shape[-1], AXES[order]
    p, eps = sinkhorn(logits, iterations, order, form), torch.finfo(dtype).eps
    assert p.dtype == dtype and (p >= 0).all() and p.is_contiguous()
    assert_close(p.sum(last), torch.ones_like(p.sum(last)), rtol=0, atol=8 * n * eps)
    other = p.sum(first)
    assert (other > 1 / n - 8 * n * eps).all() and (other < n + 8 * n * eps).all()
    # the relative error of exp(x) is the absolute error of x: the size of the logits times eps
    error = p.double() - logarithmic(logits.double(), iterations, AXES[order])
    assert error.abs().max() < 4 * eps * max(1, logits.abs().max().item())


@given(st.integers(0, 2**16), st.integers(2, 6), st.floats(0, 1), dtypes, orders)
def test_rounding_errors_do_not_add_up_over_hundreds_of_iterations(seed, n, share, dtype, order):
    spread = share * {torch.float32: 80, torch.float64: 700}[dtype]
    generator = torch.Generator().manual_seed(seed)
    logits = (spread * torch.rand(10, n, n, dtype=torch.float64, generator=generator)).to(dtype)
    dual, log = (sinkhorn(logits, 300, order, form) for form in ("dual", "log"))
    assert_close(dual, log, rtol=0, atol=8 * torch.finfo(dtype).eps * max(1, spread))


@pytest.mark.parametrize("dtype, apart", [(torch.float32, 150), (torch.float64, 1000)])
@every_order
def test_entries_that_underflow_and_would_grow_back_need_the_logarithmic_form(dtype, apart, order):
    # Two rows compete for one column. Each must get half of its sum from the two other columns,
    # where its entries begin at exp(-apart).
    logits = torch.tensor([[0.0, -apart, -apart], [0.0, -apart, -apart], [0.0, 0.0, 0.0]],
                          dtype=dtype)
    wanted = torch.tensor([[0.5, 0.25, 0.25], [0.5, 0.25, 0.25], [0.0, 0.5, 0.5]], dtype=dtype)
    for form, right in (("log", True), ("dual", False)):
        p = sinkhorn(logits, 1000, order, form)
        assert torch.allclose(p, wanted, rtol=0, atol=1e-5) == right


def gradient(function, logits, cotangent, *options):
    leaf = logits.clone().requires_grad_()
    return torch.autograd.grad(function(leaf, *options), leaf, cotangent.to(leaf.dtype))[0]


@pytest.mark.parametrize("scale", [0.1, 2, 10])
@pytest.mark.parametrize("iterations", [1, 2, 20])
@every_order
def test_the_gradient_is_that_of_the_definition(scale, iterations, order):
    logits, cotangent = scale * normal(3, 40, 4, 4), normal(3, 40, 4, 4, seed=7)
    wanted = gradient(logarithmic, logits, cotangent, iterations, AXES[order])
    found = gradient(sinkhorn, logits, cotangent, iterations, order)
    assert (found - wanted).norm() < 1e-13 * wanted.norm()


@pytest.mark.parametrize("spread", [1.0, 100.0, 1e4, 1e30])
@every_form
def test_the_gradient_is_right_beside_the_cotangent_however_sharp_the_logits(spread, form):
    logits, cotangent = (spread * normal(400, 4, 4)).float(), normal(400, 4, 4, seed=1)
    wanted = gradient(logarithmic, logits.double(), cotangent)
    error = gradient(sinkhorn, logits, cotangent, 20, "column-row", form) - wanted
    assert (error.norm(dim=(1, 2)) / cotangent.norm(dim=(1, 2))).max() < 3e-6


def test_the_backward_keeps_vectors_but_for_the_first_iteration():
    kept = []
    with saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        sinkhorn(normal(100, 4, 4).requires_grad_(), 50)
    sizes = list({t.data_ptr(): t.numel() for t in kept}.values())
    assert set(sizes) == {400, 1600} and sizes.count(1600) <= 4


# ---------------------------------------------------------------- the other ways to the polytope

# the way, s, numbers per token, dimensions reached of 9
WAYS = [("permutations", 2, 24, 9), ("circulant", 2, 4, 3), ("kronecker", 2, 4, 2),
        ("orthostochastic", 1, 6, 6), ("orthostochastic", 2, 28, 9)]


@pytest.mark.parametrize("name, blocks, count, dimensions", WAYS, ids=str)
def test_a_way_is_exactly_doubly_stochastic_and_as_large_as_it_says(name, blocks, count,
                                                                    dimensions):
    way = mixes(blocks=blocks)[name]
    assert way.count(4) == count
    for size in (0.1, 1.0, 10.0):
        h = way.matrix(size * normal(50, count), 4)
        assert (h >= 0).all()
        for axis in (-1, -2):
            assert_close(h.sum(axis), torch.ones(50, 4, dtype=h.dtype), rtol=0, atol=1e-14)
    slopes = jacobian(lambda z: way.matrix(z, 4).flatten(), normal(count))
    assert torch.linalg.matrix_rank(slopes, rtol=1e-9) == dimensions


@pytest.mark.parametrize("name", mixes())
@pytest.mark.parametrize("streams", [2, 4])
def test_a_way_starts_near_the_identity_and_can_leave_it(name, streams):
    way = mixes()[name]
    z = way.start(streams, 8.0).double().requires_grad_()
    h = way.matrix(z, streams)
    away = h.detach()[~torch.eye(streams, dtype=bool)]
    assert away.max() < 6.1 * math.exp(-8) and h.diagonal().min() > 0.99
    # towards a transposition, the first step is no zero
    h[0, 1].backward()
    assert z.grad.norm() > 1e-5
