import pytest
import torch
import torch.nn.functional as F
from shared import normal
from torch.testing import assert_close

from geolab.probes import future_influence, influence

T = 5
VECTORS = normal(2, T, 3)
TOKENS = torch.tensor([[3, 1, 4, 1, 5], [2, 7, 1, 8, 2]])


def mixed_by(matrix):
    """Output t is Σ_s matrix[t, s] · input s."""
    return lambda x: torch.einsum("ts,bsd->btd", matrix.to(x), x)


def over_tokens(f):
    return lambda tokens: f(F.one_hot(tokens, 10).double())


RUNNING_SUM = torch.ones(T, T).tril()
ONE_AHEAD = torch.eye(T) + torch.ones(T, T).tril(1).triu(1) * 1e-6
POOLED = torch.eye(T) + 1 / T


def test_influence_on_vectors_is_the_mixing_matrix_up_to_one_factor_a_row():
    matrix = normal(T, T, seed=1)
    measured = influence(mixed_by(matrix), VECTORS)
    assert measured.shape == (T, T)
    assert_close(measured / measured[:, :1], matrix.abs() / matrix[:, :1].abs())


def test_influence_on_tokens_is_the_change_that_a_replacement_makes():
    assert_close(influence(over_tokens(mixed_by(ONE_AHEAD)), TOKENS), ONE_AHEAD.double())


@pytest.mark.parametrize("wrap, x", [(lambda f: f, VECTORS), (over_tokens, TOKENS)],
                         ids=["vectors", "tokens"])
def test_the_future_is_read_by_a_leak_alone_even_by_a_faint_one(wrap, x):
    before = x.clone()
    assert future_influence(wrap(mixed_by(RUNNING_SUM)), x) == 0
    for leaky in (ONE_AHEAD, POOLED):
        assert future_influence(wrap(mixed_by(leaky)), x) > 1e-7
    matrix = RUNNING_SUM.clone()
    matrix[1, T - 1] = 1
    entries = influence(wrap(mixed_by(matrix)), x).triu(1).nonzero().tolist()
    assert entries == [[1, T - 1]]
    assert torch.equal(x, before)


def test_a_product_that_vanishes_in_value_but_not_in_derivative_shows():
    x = VECTORS.clone().requires_grad_()
    with torch.no_grad():
        x[:, 1] = 0  # the next input is zero, yet its derivative is there
    assert future_influence(lambda x: x + x.roll(-1, dims=1).square() + x.roll(-1, dims=1), x) > 0
    assert x.grad is None


def test_a_nan_is_no_proof():
    assert future_influence(lambda x: x.cumsum(1) * float("nan"), VECTORS) != 0
