"""What writes do along a state and over each other."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from shared import normal
from torch.testing import assert_close

from geolab.operators import delta_update, unit_direction
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


@given(st.integers(0, 10**6), st.floats(-1, 3))
def test_a_delta_step_has_its_rate(seed, beta):
    x, k = normal(4, 8, seed=seed), unit_direction(normal(4, 8, seed=seed + 1))
    new = delta_update(x[..., None], k, torch.zeros(4, 1, dtype=x.dtype),
                       torch.full((4,), beta, dtype=x.dtype))[..., 0]
    assert_close(delta_rate(x, new - x, k), torch.full((4,), beta).double())


@given(st.integers(0, 10**6))
def test_along_its_own_direction_a_write_is_a_delta_step(seed):
    x, write = normal(4, 8, seed=seed), normal(4, 8, seed=seed + 1)
    k = write / write.norm(dim=-1, keepdim=True)
    beta = delta_rate(x, write)
    assert_close(x + write, x - (beta * (k * x).sum(-1))[..., None] * k)
    assert_close(share_along(x, -0.25 * x), torch.full((4,), -0.25).double())


def test_who_takes_away_what_another_wrote_has_a_negative_cosine():
    first, second = normal(2, 5, 8, seed=0), normal(2, 5, 8, seed=1)
    found = between_writes([first, second, -second], center=False)
    assert found.cosine[2, 1] == pytest.approx(-1) and found.negative[2, 1] == 1
    assert found.cosine[1, 0] == pytest.approx(-found.cosine[2, 0])
    assert found.cosine[0, 1].isnan() and found.cosine[0, 0].isnan()


def test_what_is_written_everywhere_does_not_count_when_centred():
    first, second = normal(1, 50, 8, seed=0), normal(1, 50, 8, seed=1)
    moved = between_writes([first + 100, second - 100])
    assert_close(moved.cosine, between_writes([first, second]).cosine,
                               equal_nan=True)
    assert between_writes([first + 100, second - 100], center=False).cosine[1, 0] < -0.9


def test_a_token_s_jacobian_is_its_block_of_the_whole_one():
    W, x = normal(6, 6, seed=0), normal(1, 4, 6, seed=1)

    def f(x):
        return torch.tanh(x @ W) * x.mean(1, keepdim=True)

    whole = jacobian(f, x).unflatten(0, (4, 6)).unflatten(-1, (4, 6))
    for position in (2, -1, -4):
        assert_close(token_jacobian(f, x, position), whole[position, :, position])


@pytest.mark.parametrize("measure", [commutator_energy, asymmetry])
def test_positions_that_do_not_count_change_no_measure(measure):
    W, V = normal(6, 6, seed=0), normal(6, 6, seed=1)
    first, second = (lambda x: x + torch.tanh(x @ W)), (lambda x: x + torch.tanh(x @ V))
    x = normal(3, 5, 6, seed=2)
    loud = torch.cat([1000 * x[:, :1], x[:, 1:]], dim=1)
    alone = measure(first, second, x[:, 1:])
    assert_close(measure(first, second, loud, tokens=slice(1, None)), alone)
    assert_close(
        order_sensitivity({"a": first, "b": second}, loud, tokens=torch.arange(1, 5)),
        order_sensitivity({"a": first, "b": second}, x[:, 1:]))


