import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from shared import ANYWHERE, normal, shaken
from torch import nn
from torch.testing import assert_close

from geolab.probes import (
    asymmetry,
    commutator,
    commutator_energy,
    commutator_factors,
    jacobian_commutator,
    linear_commutator,
    order_sensitivity,
    pairwise,
)
from geolab.residuals import make_residual

CLOSE = dict(rtol=0, atol=1e-12)
SEEDS = st.integers(0, 10_000)
D = 8


def norm(x):
    return nn.functional.layer_norm(x, x.shape[-1:], eps=1e-14)


def sublayer(seed, activation=torch.tanh, width=D):
    inner, outer = (normal(width, width, seed=2 * seed + k) / width**0.5 for k in (0, 1))
    return lambda x: activation(x @ inner) @ outer


def step(f, scale=1.0, pre=lambda x: x):
    return lambda x: x + scale * f(pre(x))


def post_ln(f):
    return lambda x: norm(x + f(x))


def linear(matrix):
    matrix = torch.as_tensor(matrix, dtype=torch.float64)
    return lambda x: x @ matrix.T


def double(x):
    return 2 * x


def shift(x):
    return x + 1


def test_energy_by_hand_is_a_ratio_of_sums_over_the_batch():
    """The second map acts first in the first term: R = (2x + 1) − 2 (x + 1)."""
    x = torch.tensor([[3.0, 4.0], [0.0, 5.0]], dtype=torch.float64)  # ‖x‖² = 50, ‖R‖² = 4
    assert_close(commutator(shift, double, x), torch.full_like(x, -1), **CLOSE)
    assert float(commutator_energy(shift, double, x)) == pytest.approx(4 / 50)
    assert float(commutator_energy(shift, double, x, eps=50)) == pytest.approx(4 / 100)


def require_finite_differences(maps, x):
    """Eq. 17 and eq. 18 are those of central differences."""
    assert not linear_commutator(*maps, x.requires_grad_()).requires_grad
    x = x.detach()

    def response(f, at):
        return (f(x + 1e-6 * at) - f(x - 1e-6 * at)).detach() / 2e-6 - at

    def second_order(step_of):
        one, two = ((f, step_of(f)) for f in maps)
        return response(one[0], two[1]) - response(two[0], one[1])

    assert_close(linear_commutator(*maps, x), second_order(lambda f: f(x).detach() - x),
                 rtol=1e-6, atol=1e-7)
    assert_close(jacobian_commutator(*maps, x), second_order(lambda f: response(f, x)),
                 rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ANYWHERE)
def test_eq_17_and_eq_18_are_those_of_finite_differences_for_every_residual(name):
    maps = []
    for index in (0, 1):
        torch.manual_seed(index)
        residual = shaken(make_residual(name, 8, 0, 1).double())
        maps.append(partial(residual, sublayer=sublayer(index)))
    x = residual.expand(normal(1, 3, residual.outer)).detach()
    require_finite_differences(maps, x + normal(*x.shape, seed=1))  # equal streams hide H


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("frozen", [True, False])
def test_they_go_through_attention_in_every_mode(training, frozen):
    attention = nn.MultiheadAttention(D, 2, batch_first=True).double()
    attention.train(training).requires_grad_(not frozen)
    attend = step(lambda x: attention(x, x, x, need_weights=False)[0])
    with torch.no_grad():
        require_finite_differences((attend, step(sublayer(0))), normal(2, 5, D))


@given(SEEDS, st.floats(-3, 2), st.sampled_from([torch.tanh, torch.relu, torch.sin]), st.booleans())
def test_the_factors_are_bounded_and_their_product_is_the_energy(seed, exponent, activation, after):
    maps = [sublayer(seed, activation), sublayer(seed + 1)]
    maps = [post_ln(f) for f in maps] if after else [step(f, 10**exponent) for f in maps]
    x = normal(3, D, seed=seed)
    factors = commutator_factors(*maps, x)
    assert -1e-12 <= factors.asymmetry <= 2 + 1e-12
    assert_close(math.prod(factors), commutator_energy(*maps, x, eps=0), rtol=1e-6, atol=0)
    share = order_sensitivity(dict(zip("ab", maps, strict=True)), x, about="sum")
    assert_close(2 * share, asymmetry(*maps, x), rtol=1e-6, atol=0)


def test_asymmetry_is_0_for_equal_responses_1_for_a_single_one_and_2_for_opposite_ones():
    x = normal(4, 2)
    diagonal = linear([[2, 0], [0, 3]]), linear([[5, 0], [0, -1]])
    anticommuting = step(linear([[0, 1], [1, 0]])), step(linear([[1, 0], [0, -1]]))
    for maps, wanted in ((diagonal, 0.0), ((double, shift), 1.0), (anticommuting, 2.0)):
        assert_close(asymmetry(*maps, x).item(), wanted, **CLOSE)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_asymmetry_is_nan_where_nothing_responds(dtype):
    x = normal(4, D).to(dtype)
    shifts = commutator_factors(shift, lambda x: x - math.pi, x)
    assert shifts.asymmetry.isnan() and shifts.interaction < 1e-12 and shifts.step > 0
    still = commutator_factors(lambda x: x, lambda x: x, x)
    assert still.asymmetry.isnan() and still.interaction.isnan() and still.step == 0


def test_order_sensitivity_by_hand():
    # ends at 3 and 4: variance ¼, squares of 2 and 3 about x, of 0 and 1 about 3
    x = torch.ones(1, 1, dtype=torch.float64)
    maps = {"shift": shift, "double": double}
    assert float(order_sensitivity(maps, x)) == pytest.approx(0.25 / 6.5)
    assert float(order_sensitivity(maps, x, about="sum")) == pytest.approx(0.25 / 0.5)


def test_pairwise_names_each_pair_once_in_the_order_given():
    found = pairwise({"C": shift, "A": double, "F": lambda x: 3 * x}, normal(2, D), lambda i, j,
                     x: (i(x) - j(x)).mean())
    assert list(found) == [("C", "A"), ("C", "F"), ("A", "F")]
    assert found["A", "F"] == pytest.approx(-float(normal(2, D).mean()))


@pytest.mark.parametrize("measure", [commutator_energy, asymmetry])
def test_positions_that_do_not_count_change_no_measure(measure):
    first, second, x = step(sublayer(0)), step(sublayer(1)), normal(3, 5, D, seed=2)
    loud = torch.cat([1000 * x[:, :1], x[:, 1:]], dim=1)
    alone = measure(first, second, x[:, 1:])
    assert_close(measure(first, second, loud, tokens=slice(1, None)), alone)
    maps = {"a": first, "b": second}
    assert_close(order_sensitivity(maps, loud, tokens=torch.arange(1, 5)),
                 order_sensitivity(maps, x[:, 1:]))
