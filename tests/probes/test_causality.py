import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from geolab.probes import future_influence, influence

T = 5


def vectors():
    return torch.randn(2, T, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def tokens():
    return torch.tensor([[3, 1, 4, 1, 5], [2, 7, 1, 8, 2]])


def mixed_by(matrix):
    """Output t is Σ_s matrix[t, s] · input s."""
    return lambda x: torch.einsum("ts,bsd->btd", matrix.to(x), x)


def over_tokens(f):
    return lambda tokens: f(F.one_hot(tokens, 10).double())


RUNNING_SUM = torch.ones(T, T).tril()
ONE_AHEAD = torch.eye(T) + torch.ones(T, T).tril(1).triu(1) * 1e-6
POOLED = torch.eye(T) + 1 / T


def test_influence_on_vectors_is_the_mixing_matrix_up_to_one_factor_a_row():
    matrix = torch.randn(T, T, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    measured = influence(mixed_by(matrix), vectors())
    assert measured.shape == (T, T)
    assert_close(measured / measured[:, :1], matrix.abs() / matrix[:, :1].abs())


def test_influence_on_tokens_is_the_change_that_a_replacement_makes():
    assert_close(influence(over_tokens(mixed_by(ONE_AHEAD)), tokens()), ONE_AHEAD.double())


@pytest.mark.parametrize("wrap, x", [(lambda f: f, vectors()), (over_tokens, tokens())],
                         ids=["vectors", "tokens"])
class TestFuture:
    def test_a_running_sum_reads_no_future(self, wrap, x):
        assert future_influence(wrap(mixed_by(RUNNING_SUM)), x) == 0

    @pytest.mark.parametrize("leaky", [ONE_AHEAD, POOLED])
    def test_a_leak_shows_even_a_faint_one(self, wrap, x, leaky):
        assert future_influence(wrap(mixed_by(leaky)), x) > 1e-7

    def test_a_leak_at_one_position_shows(self, wrap, x):
        matrix = RUNNING_SUM.clone()
        matrix[1, T - 1] = 1
        entries = influence(wrap(mixed_by(matrix)), x).triu(1).nonzero().tolist()
        assert entries == [[1, T - 1]]


def test_a_product_that_vanishes_in_value_but_not_in_derivative_shows():
    x = vectors()
    x[:, 1] = 0  # the next input is zero, yet its derivative is there
    assert future_influence(lambda x: x + x.roll(-1, dims=1).square() + x.roll(-1, dims=1), x) > 0


def test_x_is_left_alone():
    x = vectors().requires_grad_()
    influence(mixed_by(RUNNING_SUM), x)
    assert x.grad is None
    t = tokens()
    influence(over_tokens(mixed_by(RUNNING_SUM)), t)
    assert torch.equal(t, tokens())


def test_a_nan_is_no_proof():
    assert future_influence(lambda x: x.cumsum(1) * float("nan"), vectors()) != 0
