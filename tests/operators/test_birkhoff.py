import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from shared import normal
from torch.autograd.graph import saved_tensors_hooks
from torch.testing import assert_close

from geolab.operators import sinkhorn

CLOSE = dict(rtol=0, atol=1e-13)
AXES = {"column-row": (-2, -1), "row-column": (-1, -2)}  # the axes of the first and second sums
orders = st.sampled_from(list(AXES))
dtypes = st.sampled_from([torch.float32, torch.float64])
every_order = pytest.mark.parametrize("order", list(AXES))
every_form = pytest.mark.parametrize("form", ["dual", "log"])


def plain(logits, iterations=20, order="column-row"):
    """The definition, on matrices."""
    p = logits.exp()
    for _ in range(iterations):
        for axis in AXES[order]:
            p = p / p.sum(axis, keepdim=True)
    return p


def logarithmic(logits, iterations=20, order="column-row"):
    """The definition in logarithms, for logits of any size."""
    for _ in range(iterations):
        for axis in AXES[order]:
            logits = logits.log_softmax(axis)
    return logits.exp()


@st.composite
def cases(draw, largest=1e6):
    """Logits of size up to a million, an iteration count and an order.

    Either all logits differ by up to a million, or only rows and columns as a whole do.
    """
    apart, offset = (draw(st.sampled_from([s for s in (0, 1e-3, 1, 4, 10, 100, 1e3, 1e6)
                                           if s <= largest])) for _ in range(2))
    n, seed = draw(st.integers(1, 6)), draw(st.integers(0, 2**16))
    logits = apart * normal(40, n, n, seed=seed) + offset * (normal(40, n, 1, seed=seed + 1)
                                                             + normal(40, 1, n, seed=seed + 2))
    return logits.clamp(-largest, largest), draw(st.integers(1, 25)), draw(orders)


def exact(p, slack=8):
    """Tolerance for sums of n numbers up to 1.

    The last step of both forms divides by such a sum, or subtracts its logarithm.
    """
    return dict(rtol=0, atol=slack * p.shape[-1] * torch.finfo(p.dtype).eps)


# ---------------------------------------------------------------- the matrix


@every_form
@given(cases(), dtypes)
def test_sums_are_exact_where_normalised_last_and_bounded_elsewhere(form, case, dtype):
    logits, iterations, order = case
    p, n = sinkhorn(logits.to(dtype), iterations, order, form), logits.shape[-1]
    first, last = AXES[order]
    slack = exact(p)["atol"]
    assert p.dtype == dtype and p.isfinite().all() and (p >= 0).all() and p.is_contiguous()
    assert_close(p.sum(last), torch.ones_like(p.sum(last)), **exact(p))
    assert (p.sum(first) > 1 / n - slack).all() and (p.sum(first) < n + slack).all()


@every_form
@given(cases(), dtypes)
def test_it_is_the_definition_in_logarithms_for_logits_of_any_size(form, case, dtype):
    # The relative error of exp(x) is the absolute error of x: the size of the logits times eps.
    logits, iterations, order = case
    logits, size = logits.to(dtype), max(1, logits.abs().max().item())
    wanted = logarithmic(logits.double(), iterations, order)
    error = sinkhorn(logits, iterations, order, form).double() - wanted
    assert error.abs().max() < 4 * torch.finfo(dtype).eps * size


@given(st.integers(0, 2**16), st.integers(2, 6), st.floats(0, 1), dtypes, orders)
def test_within_its_range_the_dual_form_is_the_logarithmic_one_at_hundreds_of_iterations(
        seed, n, share, dtype, order):
    spread = share * {torch.float32: 80, torch.float64: 700}[dtype]
    logits = (spread * torch.rand(10, n, n, dtype=torch.float64,
                                  generator=torch.Generator().manual_seed(seed))).to(dtype)
    dual, log = (sinkhorn(logits, 300, order, form) for form in ("dual", "log"))
    assert_close(dual.sum(AXES[order][1]), torch.ones_like(dual[..., 0]), **exact(dual))
    # Rounding errors don't add up over iterations.
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
    definition = plain(logits, 1000, order)
    assert definition.isnan().any() or not torch.allclose(definition, wanted, atol=1e-5)


@pytest.mark.parametrize("lead", [(), (0,), (3,), (2, 3)])
@every_order
def test_leading_axes_are_one_matrix_each(lead, order):
    logits = normal(*lead, 3, 3)
    together = sinkhorn(logits, 4, order)
    assert together.shape == logits.shape and together.is_contiguous()
    assert_close(together, plain(logits, 4, order), **CLOSE)


# ---------------------------------------------------------------- the gradient

def gradients(function, logits, *options):
    """The gradient for a random cotangent.

    For a constant cotangent it is nearly zero, and a wrong gradient would pass.
    """
    leaf = logits.clone().requires_grad_()
    return torch.autograd.grad(function(leaf, *options), leaf,
                               normal(*logits.shape, seed=7, dtype=logits.dtype))[0]


def relative(got, wanted):
    return ((got.double() - wanted).norm() / wanted.norm()).item()


@pytest.mark.parametrize("scale", [0.1, 1, 2, 4, 10])
@pytest.mark.parametrize("iterations", [1, 2, 20])
@every_order
def test_the_gradient_is_that_of_the_plain_definition(scale, iterations, order):
    logits = scale * normal(3, 40, 4, 4)
    wanted = gradients(plain, logits, iterations, order)
    assert relative(gradients(sinkhorn, logits, iterations, order), wanted) < 1e-13


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_gradient_at_large_logits_is_finite_and_right(dtype):
    logits = (300 * normal(300, 4, 4)).clamp(-1e3, 1e3)
    wanted = gradients(logarithmic, logits.to(dtype).double())
    assert wanted.norm() > 0.1
    for form in ("dual", "log"):
        got = gradients(sinkhorn, logits.to(dtype), 20, "column-row", form)
        assert got.isfinite().all()
        assert relative(got, wanted) < 1e4 * torch.finfo(dtype).eps


def test_the_backward_keeps_vectors_not_matrices():
    kept = []
    with saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        sinkhorn(normal(100, 4, 4).requires_grad_(), 50)
    sizes = {t.data_ptr(): t.numel() for t in kept}
    # Matrices are kept for the first iteration only, whatever the number of iterations.
    assert sum(size == 1600 for size in sizes.values()) <= 4
    assert all(size in (400, 1600) for size in sizes.values())


@pytest.mark.parametrize("spread", [1.0, 10.0, 100.0, 1e3, 1e4, 1e30])
def test_the_gradient_is_right_beside_the_cotangent_however_sharp_the_logits(spread):
    logits, cotangent = spread * normal(400, 4, 4), normal(400, 4, 4, seed=1)
    found = []
    for dtype in (torch.float32, torch.float64):
        leaf = logits.float().to(dtype).requires_grad_()
        found += torch.autograd.grad(sinkhorn(leaf), leaf, cotangent.to(dtype))
    errors = (found[0] - found[1]).norm(dim=(1, 2))
    assert (errors / cotangent.norm(dim=(1, 2))).max() < 3e-6


# ---------------------------------------------------------------- the guard in Sinkhorn

@pytest.mark.parametrize("size", [1.0, 10.0])
def test_the_guarded_iteration_is_the_released_one_on_the_transpose(size):
    logits, eps = size * normal(40, 4, 4), 1e-2
    c = logits.mT.softmax(-1) + eps
    c = c / (c.sum(-2, keepdim=True) + eps)
    for _ in range(6):
        c = c / (c.sum(-1, keepdim=True) + eps)
        c = c / (c.sum(-2, keepdim=True) + eps)
    assert_close(sinkhorn(logits, 7, eps=eps), c.mT, rtol=0, atol=1e-14)
    assert_close(sinkhorn(logits.mT, 7, "row-column", eps=eps), c, rtol=0, atol=1e-14)
    assert (sinkhorn(logits, 7) - c.mT).abs().max() > 1e-3
