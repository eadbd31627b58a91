import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from geolab.consistency import Diagram, agreement, diagrammatic_loss, semigroup, square, triangle
from geolab.tasks.sudoku import triples

SEED = st.integers(0, 2**31)


def maps(count, width=3, seed=0):
    """Random linear maps, as matrices and as functions."""
    matrices = torch.randn(count, width, width, dtype=torch.float64,
                           generator=torch.Generator().manual_seed(seed))
    return matrices, [lambda x, m=m: x @ m for m in matrices]


def batch(seed=1, *shape):
    return torch.randn(shape or (5, 3), dtype=torch.float64,
                       generator=torch.Generator().manual_seed(seed))


def rectify():
    return Diagram((torch.relu,), (torch.abs,))


@given(SEED)
def test_maps_are_applied_left_to_right(seed):
    (a, b), functions = maps(2, seed=seed)
    x = batch(seed)
    end, start = Diagram(functions, ()).ends(x)
    assert_close(end, x @ a @ b, rtol=1e-12, atol=1e-12)
    assert start is x                                        # the empty path is the identity


@given(SEED)
def test_a_mismatch_of_two_paths_is_their_mean_squared_difference(seed):
    (a, b), (f, g) = maps(2, seed=seed)
    x = batch(seed)
    assert_close(Diagram((f,), (g,)).mismatch(x), (x @ (a - b)).norm() ** 2 / x.numel())


def test_it_is_zero_exactly_where_the_paths_agree():
    identity = Diagram((torch.exp,), (torch.exp,), (torch.exp,))
    assert rectify().mismatch(torch.tensor([0.0, 2.0])) == 0
    assert rectify().mismatch(torch.tensor([0.0, -1e-3])) > 0
    assert identity.mismatch(batch()) == 0


def test_a_triangle_and_a_square_are_their_two_paths():
    (a, b, c, d), functions = maps(4)
    x = batch()
    for diagram, last in ((triangle(*functions[:3]), x @ c), (square(*functions), x @ c @ d)):
        assert_close(diagram.ends(x), (x @ a @ b, last))


def test_a_flow_that_is_a_semigroup_closes_at_all_times_and_one_that_is_not_does_not():
    x = batch()
    decay = lambda x, t, s: x * torch.tensor(2.0, dtype=torch.float64) ** (s - t)
    linear = lambda x, t, s: x * (1 + s - t)
    assert semigroup(decay, 0.1, 0.4, 0.9).mismatch(x) < 1e-30
    # (1 + t₁ − t₃) against (1 + t₂ − t₃)(1 + t₁ − t₂): they differ by (t₃ − t₂)(t₂ − t₁)
    assert_close(semigroup(linear, 0.1, 0.4, 0.9).mismatch(x), (0.5 * 0.3 * x).square().mean())


def test_weights_scale_the_diagrams():
    _, (f, g) = maps(2)
    first, second = Diagram((f,), (g,)), Diagram((f, g), (g, f))
    x = batch()
    assert diagrammatic_loss([first, second], x) == first.mismatch(x) + second.mismatch(x)
    assert_close(diagrammatic_loss([first, second], x, [0.5, 3]), 0.5 * first.mismatch(x)
                 + 3 * second.mismatch(x))


@given(SEED)
def test_a_group_is_the_diagram_that_reads_its_positions(seed):
    h = batch(seed, 2, 16, 3)
    expected = 0
    for group in triples().tolist():
        reading = Diagram(*((lambda h, i=i: h[:, i],) for i in group))
        # (m − 1)/2 of a mean over D features
        expected += reading.mismatch(h) * (len(group) - 1) / 2 * 3
    assert_close(agreement(h, triples()), expected, rtol=1e-10, atol=0)


@pytest.mark.parametrize("call, error, message", [
    *((lambda groups=groups: agreement(batch(0, 16, 3), groups), ValueError,
       f"two or more members, got {shape}") for groups, shape in (
           (torch.zeros(3, 1, dtype=torch.long), "(3, 1)"), (torch.arange(4), "(4,)"))),
    (lambda: Diagram((), (lambda x: x[:, :2],), name="cut").mismatch(batch()), ValueError,
     "the paths of cut must end in one shape, got (5, 3) by path 0 and (5, 2) by path 1"),
    (lambda: Diagram((torch.relu,)), ValueError, "two or more paths, got 1"),
    (lambda: Diagram(torch.relu, (torch.abs,)), TypeError, "f is the path (f,)"),
    (lambda: diagrammatic_loss([rectify(), rectify()], batch(), [1.0]), ValueError,
     "got 1 for 2 diagrams"),
    (lambda: diagrammatic_loss([], batch()), ValueError, "got 0 for 0 diagrams"),
])
def test_what_is_no_diagram_is_refused(call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call()
