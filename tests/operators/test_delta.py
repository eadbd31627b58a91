import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch.testing import assert_close

from geolab.operators import delta_matrix, delta_shortcut, delta_update, diagonal_update, householder_matrix, unit_direction

CLOSE = dict(rtol=0, atol=1e-12)
coordinates = st.floats(-1, 1)
betas = st.floats(-1, 3)


def tensors(*shape):
    return arrays(np.float64, shape, elements=coordinates).map(torch.from_numpy)


@st.composite
def directions(draw, most=8):
    """k of unit length, in 1 to `most` dimensions."""
    return unit_direction(draw(tensors(draw(st.integers(1, most))).filter(lambda h: h.norm() > 0.01)))


@st.composite
def updates(draw, channels):
    """A state X, its direction k, value v and β, with up to two leading axes; a vector state where channels is 0."""
    lead = draw(st.sampled_from([(), (2,), (2, 3)]))
    d = draw(st.integers(1, 5))
    inner = (draw(st.integers(1, channels)),) if channels else ()
    h = draw(tensors(*lead, d).filter(lambda h: (h.norm(dim=-1) > 0.01).all()))
    return (draw(tensors(*lead, d, *inner)), unit_direction(h), draw(tensors(*lead, *inner)),
            draw(arrays(np.float64, lead, elements=betas).map(torch.as_tensor)))


# ---------------------------------------------------------------- unit_direction

@given(tensors(3, 5), st.floats(1e-3, 1e3))
def test_unit_direction_without_guard_has_unit_length_and_no_scale(h, scale):
    assume((h.norm(dim=-1) > 0.01).all())
    k = unit_direction(h)
    assert_close(k.norm(dim=-1), torch.ones(3, dtype=torch.float64), **CLOSE)
    assert_close(unit_direction(scale * h), k, **CLOSE)
    assert (k * h).sum(-1).min() > 0  # it points where h points


@given(tensors(5), st.floats(1e-5, 1))
def test_unit_direction_with_a_guard_is_the_stated_formula(h, eps):
    k = unit_direction(h, eps)
    assert_close(k, h / math.sqrt((h @ h).item() + eps**2), **CLOSE)
    assert k.norm() < 1


def test_the_guard_keeps_value_and_gradient_finite_at_zero():
    h = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    k = unit_direction(h, eps=1e-5)
    k.sum().backward()
    assert_close(k.detach(), torch.zeros(3, dtype=torch.float64), rtol=0, atol=0)
    assert_close(h.grad, torch.full((3,), 1e5, dtype=torch.float64))


# ---------------------------------------------------------------- the matrix

@given(directions(), betas)
def test_eigenvalues_are_ones_and_one_minus_beta(k, beta):
    eigenvalues = torch.linalg.eigvalsh(delta_matrix(k, beta))
    expected = torch.tensor([1.0] * (len(k) - 1) + [1 - beta], dtype=torch.float64).sort().values
    assert_close(eigenvalues, expected, **CLOSE)
    assert_close(delta_matrix(k, beta) @ k, (1 - beta) * k, **CLOSE)


@given(directions(), betas)
def test_singular_values_and_determinant(k, beta):
    a = delta_matrix(k, beta)
    expected = torch.tensor([1.0] * (len(k) - 1) + [abs(1 - beta)], dtype=torch.float64).sort(descending=True).values
    assert_close(torch.linalg.svdvals(a), expected, **CLOSE)
    assert torch.linalg.det(a).item() == pytest.approx(1 - beta, abs=1e-12)


@given(directions(most=4), betas, st.integers(1, 3))
def test_lifted_to_several_value_channels_the_determinant_is_a_power(k, beta, channels):
    d = len(k)
    x = torch.zeros(d, channels, dtype=torch.float64)
    lifted = torch.autograd.functional.jacobian(lambda x: delta_shortcut(x, k, beta), x)
    det = torch.linalg.det(lifted.reshape(d * channels, d * channels))
    assert det.item() == pytest.approx((1 - beta) ** channels, abs=1e-12)


@given(directions(), betas)
def test_orthogonal_if_and_only_if_beta_is_zero_or_two(k, beta):
    # AᵀA − I = β (β − 2) k kᵀ, so the defect vanishes at 0 and at 2 and nowhere else
    a = delta_matrix(k, beta)
    defect = torch.linalg.matrix_norm(a.T @ a - torch.eye(len(k), dtype=torch.float64))
    assert defect.item() == pytest.approx(abs(beta * (beta - 2)), abs=1e-12)


@given(directions())
def test_the_three_named_gates(k):
    identity = torch.eye(len(k), dtype=torch.float64)
    assert_close(delta_matrix(k, 0), identity, rtol=0, atol=0)
    projection = delta_matrix(k, 1)
    assert_close(projection @ projection, projection, **CLOSE)
    assert_close(delta_matrix(k, 2), householder_matrix(k), rtol=0, atol=0)


# ---------------------------------------------------------------- the update

@given(updates(channels=0))
def test_update_of_a_vector_state_is_a_x_plus_beta_v_k(case):
    x, k, v, beta = case
    expected = (delta_matrix(k, beta) @ x.unsqueeze(-1)).squeeze(-1) + (beta * v).unsqueeze(-1) * k
    updated = delta_update(x, k, v, beta)
    assert updated.shape == x.shape
    assert_close(updated, expected, **CLOSE)
    assert_close(delta_shortcut(x, k, beta), (delta_matrix(k, beta) @ x.unsqueeze(-1)).squeeze(-1), **CLOSE)


@given(updates(channels=4))
def test_update_of_a_matrix_state_is_a_x_plus_beta_k_v(case):
    x, k, v, beta = case
    write = torch.einsum("...,...i,...j->...ij", beta, k, v)
    updated = delta_update(x, k, v, beta)
    assert updated.shape == x.shape
    assert_close(updated, delta_matrix(k, beta) @ x + write, **CLOSE)
    assert_close(delta_shortcut(x, k, beta), delta_matrix(k, beta) @ x, **CLOSE)


@given(st.sampled_from([0, 4]).flatmap(lambda channels: updates(channels=channels)))
def test_without_erasing_only_the_value_is_written(case):
    x, k, v, beta = case
    nothing = torch.zeros_like(x)
    assert_close(delta_update(x, k, v, beta, erase=False), x + delta_update(nothing, k, v, beta), **CLOSE)


@given(st.sampled_from([0, 4]).flatmap(lambda channels: updates(channels=channels)), st.floats(0.1, 3), st.floats(0, 1))
def test_with_a_guard_the_direction_is_normalised_on_the_way(case, length, eps):
    x, k, v, beta = case
    assert_close(delta_update(x, length * k, v, beta, eps=eps), delta_update(x, unit_direction(length * k, eps), v, beta), **CLOSE)


@given(updates(channels=4))
def test_the_readout_moves_towards_the_value_at_rate_beta(case):
    x, k, v, beta = case
    before, after = (torch.einsum("...i,...ij->...j", k, s) for s in (x, delta_update(x, k, v, beta)))
    assert_close(after, (1 - beta)[..., None] * before + beta[..., None] * v, **CLOSE)


@given(updates(channels=0))
def test_nothing_moves_across_the_direction(case):
    x, k, v, beta = case
    step = delta_update(x, k, v, beta) - x
    assert_close(step, (k * step).sum(-1, keepdim=True) * k, **CLOSE)


@given(updates(channels=3), st.floats(0.1, 3))
def test_the_law_holds_for_a_direction_of_any_length(case, length):
    x, k, v, beta = case
    k = length * k
    erased = v - torch.einsum("...i,...ij->...j", k, x)
    assert_close(delta_update(x, k, v, beta), x + torch.einsum("...,...i,...j->...ij", beta, k, erased), **CLOSE)


@pytest.mark.parametrize("inner", [(), (3,)])
def test_leading_axes_are_one_update_each(inner):
    generator = torch.Generator().manual_seed(0)
    x, h, v, beta = (torch.randn(2, 4, *shape, dtype=torch.float64, generator=generator)
                     for shape in [(5, *inner), (5,), inner, ()])
    k = unit_direction(h)
    together = delta_update(x, k, v, beta)
    for i in range(2):
        for j in range(4):
            assert_close(together[i, j], delta_update(x[i, j], k[i, j], v[i, j], beta[i, j]), **CLOSE)
    assert delta_matrix(k, beta).shape == (2, 4, 5, 5)


@given(tensors(2, 1, 4, 3), tensors(2, 1, 1, 3), arrays(np.float64, (2, 1, 1), elements=betas).map(torch.from_numpy))
def test_one_direction_for_all_positions_is_that_direction_at_each(x, k, beta):
    assert_close(delta_shortcut(x, k, beta), delta_shortcut(x, k.expand(2, 1, 4, 3), beta.expand(2, 1, 4)), **CLOSE)


def test_directions_broadcast_over_states():
    generator = torch.Generator().manual_seed(2)
    x, k = torch.randn(1, 5, 3, generator=generator), unit_direction(torch.randn(2, 1, 3, generator=generator))
    assert_close(delta_shortcut(x, k, 0.5), delta_shortcut(x.expand(2, 5, 3), k.expand(2, 5, 3), 0.5))


@pytest.mark.parametrize("inner", [(), (3,)])
def test_numbers_stand_for_tensors(inner):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 5, *inner, dtype=torch.float64, generator=generator)
    k = unit_direction(torch.randn(2, 5, dtype=torch.float64, generator=generator))
    full = delta_update(x, k, torch.full((2, *inner), 0.3, dtype=torch.float64), torch.full((2,), 1.7, dtype=torch.float64))
    assert_close(delta_update(x, k, 0.3, 1.7), full, rtol=0, atol=0)
    assert_close(delta_matrix(k, 1.7), delta_matrix(k, torch.full((2,), 1.7, dtype=torch.float64)), rtol=0, atol=0)


def test_gradients():
    generator = torch.Generator().manual_seed(1)

    def leaf(*shape):
        return torch.randn(*shape, dtype=torch.float64, generator=generator, requires_grad=True)

    check, h, beta = torch.autograd.gradcheck, leaf(2, 3), leaf(2)
    assert check(unit_direction, h)
    assert check(lambda h: unit_direction(h, 0.1), h)
    assert check(lambda h, beta: delta_matrix(unit_direction(h), beta), (h, beta))
    assert check(delta_update, (leaf(2, 3), h, leaf(2), beta))
    assert check(delta_update, (leaf(2, 3, 4), h, leaf(2, 4), beta))
    assert check(lambda *case: delta_update(*case, eps=0.1), (leaf(2, 3, 4), h, leaf(2, 4), beta))
    assert check(delta_shortcut, (leaf(2, 3), h, beta))
    assert check(delta_shortcut, (leaf(2, 5, 3), leaf(2, 1, 3), leaf(2, 1)))


# ---------------------------------------------------------------- errors

# ---------------------------------------------------------------- every feature at a rate of its own

def diagonal_case(seed):
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(shape, dtype=torch.float64, generator=generator) for shape in [(2, 3, 4)] * 3 + [()])


@given(st.integers(0, 2**16))
def test_the_diagonal_update_scales_each_feature_and_adds_its_share(seed):
    x, update, beta, alpha = diagonal_case(seed)
    shortcut = torch.diag_embed(1 - alpha * beta)
    assert_close(diagonal_update(x, update, beta, alpha), (shortcut @ x.unsqueeze(-1)).squeeze(-1) + beta * update, **CLOSE)


def test_the_diagonal_update_has_first_and_second_derivatives():
    case = [t.requires_grad_() for t in diagonal_case(0)]
    assert torch.autograd.gradcheck(diagonal_update, case)
    assert torch.autograd.gradgradcheck(diagonal_update, case)


def test_the_diagonal_update_refuses_other_shapes():
    x, update, beta, alpha = diagonal_case(0)
    with pytest.raises(ValueError, match=r"update must have the shape of x, \(2, 3, 4\), got \(3, 4\)"):
        diagonal_update(x, update[0], beta, alpha)
    with pytest.raises(ValueError, match=r"beta must have the shape of x, \(2, 3, 4\), got \(2, 3, 1\)"):
        diagonal_update(x, update, beta[..., :1], alpha)
    with pytest.raises(ValueError, match=r"alpha must be one number, got shape \(2,\)"):
        diagonal_update(x, update, beta, alpha.expand(2))


def test_delta_matrix_refuses_a_direction_of_another_length():
    with pytest.raises(ValueError, match=r"direction must have unit length .*got length 0\.5;"):
        delta_matrix(torch.tensor([0.3, 0.4]), 1.0)


@pytest.mark.parametrize("x, message", [
    (torch.ones(2, 4), r"direction must have 4 features .*got shape \(2, 3\)"),
    (torch.ones(2, 4, 5), r"direction must have 4 features .*got shape \(2, 3\)"),
    (torch.ones(3), r"got \(3,\) with direction \(2, 3\)"),
    (torch.ones(1, 2, 3, 4), r"got \(1, 2, 3, 4\) with direction \(2, 3\)"),
])
def test_state_and_direction_must_agree(x, message):
    for call in (lambda k: delta_update(x, k, 0.0, torch.ones(2)), lambda k: delta_shortcut(x, k, torch.ones(2))):
        with pytest.raises(ValueError, match=message):
            call(unit_direction(torch.ones(2, 3)))


def test_beta_with_an_axis_too_many_is_refused():
    with pytest.raises(ValueError, match=r"beta must be one number a direction, got \(2, 1\) with direction \(2, 3\)"):
        delta_update(torch.ones(2, 3), unit_direction(torch.ones(2, 3)), 0.0, torch.ones(2, 1))
