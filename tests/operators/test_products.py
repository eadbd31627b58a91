import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from geolab.operators import outer, spread

CLOSE = dict(rtol=0, atol=1e-12)


def normal(*shape, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@given(st.integers(1, 6), st.sampled_from([(), (3,), (2, 5)]), st.integers(0, 100))
def test_it_is_the_outer_product_in_rows(n, lead, seed):
    a, b = normal(*lead, n, seed=seed), normal(*lead, n, seed=seed + 1)
    assert_close(outer(a, b).unflatten(-1, (n, n)), torch.einsum("...i,...j->...ij", a, b), rtol=0, atol=0)


@given(st.integers(1, 6))
def test_the_transposed_tables_sum_rows_and_columns(n):
    matrix, (left, right) = normal(7, n, n), spread(n, torch.float64, torch.device("cpu"))
    assert_close(matrix.flatten(-2) @ left.T, matrix.sum(-1), **CLOSE)
    assert_close(matrix.flatten(-2) @ right.T, matrix.sum(-2), **CLOSE)


def test_gradients():
    assert torch.autograd.gradcheck(outer, (normal(2, 3).requires_grad_(), normal(2, 3, seed=1).requires_grad_()))


def test_compiled_in_one_graph_it_is_the_same():
    a, b = normal(2, 5, 3), normal(2, 5, 3, seed=1)
    assert_close(torch.compile(outer, fullgraph=True, backend="aot_eager")(a, b), outer(a, b), rtol=0, atol=0)
