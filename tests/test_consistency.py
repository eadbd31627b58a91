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


@given(SEED)
def test_a_mismatch_is_the_mean_squared_difference_of_paths_from_left_to_right(seed):
    (a, b, c, d), (f, g, h, k) = maps(4, seed=seed)
    x, one = batch(seed), torch.eye(3, dtype=torch.float64)
    for diagram, *ends in ((Diagram((f, g), ()), a @ b, one), (triangle(f, g, h), a @ b, c),
                           (square(f, g, h, k), a @ b, c @ d),
                           (Diagram((f,), (g,), (h,)), a, b, c)):
        apart = [(x @ (p - q)).square().mean() for i, p in enumerate(ends) for q in ends[:i]]
        assert_close(diagram.mismatch(x), sum(apart) / len(apart), rtol=1e-10, atol=0)


def test_a_flow_that_is_a_semigroup_closes_at_all_times_and_one_that_is_not_does_not():
    x = batch()
    decay = lambda x, t, s: x * torch.tensor(2.0, dtype=torch.float64) ** (s - t)
    linear = lambda x, t, s: x * (1 + s - t)
    assert semigroup(decay, 0.1, 0.4, 0.9).mismatch(x) < 1e-30
    # (1 + t₁ − t₃) against (1 + t₂ − t₃)(1 + t₁ − t₂): they differ by (t₃ − t₂)(t₂ − t₁)
    assert_close(semigroup(linear, 0.1, 0.4, 0.9).mismatch(x), (0.5 * 0.3 * x).square().mean())


def test_weights_scale_the_diagrams():
    _, (f, g) = maps(2)
    first, second, x = Diagram((f,), (g,)), Diagram((f, g), (g, f)), batch()
    one, other = first.mismatch(x), second.mismatch(x)
    assert diagrammatic_loss([first, second], x) == one + other
    assert_close(diagrammatic_loss([first, second], x, [0.5, 3]), 0.5 * one + 3 * other)


@given(SEED)
def test_a_group_is_the_diagram_that_reads_its_positions(seed):
    h, expected = batch(seed, 2, 16, 3), 0
    for group in triples().tolist():
        reading = Diagram(*((lambda h, i=i: h[:, i],) for i in group))
        # (m − 1)/2 of a mean over D features
        expected += reading.mismatch(h) * (len(group) - 1) / 2 * 3
    assert_close(agreement(h, triples()), expected, rtol=1e-10, atol=0)


RELU = Diagram((torch.relu,), (torch.abs,))


@pytest.mark.parametrize("call, error, message", [
    (lambda: agreement(batch(), torch.zeros(3, 1, dtype=torch.long)), ValueError,
     "two or more members, got (3, 1)"),
    (lambda: Diagram((), (lambda x: x[:, :2],), name="cut").mismatch(batch()), ValueError,
     "the paths of cut must end in one shape, got (5, 3) by path 0 and (5, 2) by path 1"),
    (lambda: Diagram((torch.relu,)), ValueError, "two or more paths, got 1"),
    (lambda: Diagram(torch.relu, (torch.abs,)), TypeError, "f is the path (f,)"),
    (lambda: diagrammatic_loss([RELU, RELU], batch(), [1.0]), ValueError, "got 1 for 2 diagrams"),
    (lambda: diagrammatic_loss([RELU], batch(), 0.5), ValueError,
     "weights must be one for each diagram, got the number 0.5"),
    (lambda: diagrammatic_loss([RELU], batch(), [float("nan")]), ValueError,
     "weights[0] must be a finite number, got nan"),
    (lambda: agreement(batch(), torch.ones(1, 2)), ValueError,
     "groups must be positions in int64, got torch.float32"),
    (lambda: diagrammatic_loss([], batch()), ValueError, "got 0 for 0 diagrams")])
def test_what_is_no_diagram_is_refused(call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call()
