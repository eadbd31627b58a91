import pytest
import torch
import torch.nn.functional as F
from shared import normal
from torch.testing import assert_close

from geolab.probes import future_influence, influence

T = 5
VECTORS = normal(2, T, 3)
TOKENS = torch.tensor([[0, 1, 1, 0, 1]])  # one sequence, so that each token's change shows


def mixed_by(matrix):
    """Output t is Σ_s matrix[t, s] · input s."""
    return lambda x: torch.einsum("ts,bsd->btd", matrix.to(x), x)


def over_tokens(f):
    return lambda tokens: f(F.one_hot(tokens, 2).double())


RUNNING_SUM = torch.ones(T, T).tril()
ONE_AHEAD = torch.eye(T) + torch.ones(T, T).tril(1).triu(1) * 1e-6


def test_influence_is_the_mixing_matrix_for_vectors_up_to_one_factor_a_row():
    matrix = normal(T, T, seed=1)
    measured = influence(mixed_by(matrix), VECTORS)
    assert_close(measured / measured[:, :1], matrix.abs() / matrix[:, :1].abs())
    assert_close(influence(over_tokens(mixed_by(ONE_AHEAD)), TOKENS), ONE_AHEAD.double())


@pytest.mark.parametrize("wrap, x", [(lambda f: f, VECTORS), (over_tokens, TOKENS)],
                         ids=["vectors", "tokens"])
def test_the_future_is_read_by_a_leak_alone_even_by_a_faint_one(wrap, x):
    before = x.clone()
    assert future_influence(wrap(mixed_by(RUNNING_SUM)), x) == 0
    assert future_influence(wrap(mixed_by(ONE_AHEAD)), x) > 1e-7
    matrix = RUNNING_SUM.clone()
    matrix[1, T - 1] = 1
    entries = influence(wrap(mixed_by(matrix)), x).triu(1).nonzero().tolist()
    assert entries == [[1, T - 1]]
    assert torch.equal(x, before)


def test_a_product_that_vanishes_in_value_but_not_in_derivative_shows():
    x = VECTORS.clone()
    x[:, 1] = 0  # the next input is zero, yet its derivative is there
    x.requires_grad_()
    assert future_influence(lambda x: x + x.roll(-1, dims=1).square() + x.roll(-1, dims=1), x) > 0
    assert x.grad is None


def test_a_nan_is_no_proof():
    assert future_influence(lambda x: x.cumsum(1) * float("nan"), VECTORS) != 0


def test_a_model_that_reads_nothing_has_no_influence():
    bias = torch.ones(1, requires_grad=True)
    assert not influence(lambda x: bias.expand(x.shape), VECTORS).any()
    with pytest.raises(ValueError, match="^x must be vectors .* with T ≥ 1, got"):
        influence(lambda x: x, VECTORS[:, :0])
