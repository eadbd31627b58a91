"""What writes do along a state and over each other."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from geolab.operators import delta_update
from geolab.probes import (
    asymmetry,
    between_writes,
    commutator_energy,
    delta_rate,
    jacobian,
    order_sensitivity,
    share_along,
    token_jacobian,
)


def draw(seed, *shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@given(st.integers(0, 10**6), st.floats(-1, 3))
def test_a_delta_step_has_its_rate(seed, beta):
    x, k = draw(seed, 4, 8), torch.nn.functional.normalize(draw(seed + 1, 4, 8), dim=-1)
    new = delta_update(x[..., None], k, torch.zeros(4, 1, dtype=x.dtype),
                       torch.full((4,), beta, dtype=x.dtype))[..., 0]
    torch.testing.assert_close(delta_rate(x, new - x, k), torch.full((4,), beta).double())


@given(st.integers(0, 10**6))
def test_along_its_own_direction_a_write_is_a_delta_step(seed):
    x, write = draw(seed, 4, 8), draw(seed + 1, 4, 8)
    k = write / write.norm(dim=-1, keepdim=True)
    beta = delta_rate(x, write)
    torch.testing.assert_close(x + write, x - (beta * (k * x).sum(-1))[..., None] * k)
    torch.testing.assert_close(share_along(x, -0.25 * x), torch.full((4,), -0.25).double())


def test_who_takes_away_what_another_wrote_has_a_negative_cosine():
    first, second = draw(0, 2, 5, 8), draw(1, 2, 5, 8)
    found = between_writes([first, second, -second], center=False)
    assert found.cosine[2, 1] == pytest.approx(-1) and found.negative[2, 1] == 1
    assert found.cosine[1, 0] == pytest.approx(-found.cosine[2, 0])
    assert found.cosine[0, 1].isnan() and found.cosine[0, 0].isnan()


def test_what_is_written_everywhere_does_not_count_when_centred():
    first, second = draw(0, 1, 50, 8), draw(1, 1, 50, 8)
    moved = between_writes([first + 100, second - 100])
    torch.testing.assert_close(moved.cosine, between_writes([first, second]).cosine,
                               equal_nan=True)
    assert between_writes([first + 100, second - 100], center=False).cosine[1, 0] < -0.9


def test_a_token_s_jacobian_is_its_block_of_the_whole_one():
    W, x = draw(0, 6, 6), draw(1, 1, 4, 6)

    def f(x):
        return torch.tanh(x @ W) * x.mean(1, keepdim=True)

    whole = jacobian(f, x).unflatten(0, (4, 6)).unflatten(-1, (4, 6))
    torch.testing.assert_close(token_jacobian(f, x, 2), whole[2, :, 2])


@pytest.mark.parametrize("measure", [commutator_energy, asymmetry])
def test_positions_that_do_not_count_change_no_measure(measure):
    W, V = draw(0, 6, 6), draw(1, 6, 6)
    first, second = (lambda x: x + torch.tanh(x @ W)), (lambda x: x + torch.tanh(x @ V))
    x = draw(2, 3, 5, 6)
    loud = torch.cat([1000 * x[:, :1], x[:, 1:]], dim=1)
    alone = measure(first, second, x[:, 1:])
    torch.testing.assert_close(measure(first, second, loud, tokens=slice(1, None)), alone)
    torch.testing.assert_close(
        order_sensitivity({"a": first, "b": second}, loud, tokens=torch.arange(1, 5)),
        order_sensitivity({"a": first, "b": second}, x[:, 1:]))


def test_a_token_counts_from_the_end_too_and_has_to_be_there():
    x, W = torch.randn(1, 4, 3).double(), torch.randn(3, 3).double()
    for position in (-1, -4, 2):
        torch.testing.assert_close(token_jacobian(lambda x: x @ W, x, position), W.T)
    for position in (4, -5):
        with pytest.raises(ValueError, match="position must be one of 4 tokens, from -4 to 3"):
            token_jacobian(lambda x: x @ W, x, position)
