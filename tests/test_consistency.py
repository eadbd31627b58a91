import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from geolab.consistency import Diagram, agreement, diagrammatic_loss, semigroup, square, triangle
from geolab.tasks.sudoku import triples, units

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
    rectify = Diagram((torch.relu,), (torch.abs,))
    identity = Diagram((torch.exp,), (torch.exp,), (torch.exp,))
    assert rectify.mismatch(torch.tensor([0.0, 2.0])) == 0
    assert rectify.mismatch(torch.tensor([0.0, -1e-3])) > 0
    assert identity.mismatch(batch()) == 0


@given(SEED, st.permutations(range(4)), st.permutations(range(5)))
def test_neither_the_order_of_paths_nor_of_examples_matters(seed, paths, rows):
    _, functions = maps(4, seed=seed)
    x = batch(seed)
    loss = Diagram(*((f,) for f in functions)).mismatch(x)
    assert_close(Diagram(*((functions[i],) for i in paths)).mismatch(x), loss, rtol=1e-12, atol=0)
    assert_close(Diagram(*((f,) for f in functions)).mismatch(x[list(rows)]), loss, rtol=1e-12,
                 atol=0)


@given(SEED, st.integers(2, 5))
def test_it_is_twice_the_variance_over_the_paths(seed, count):
    _, functions = maps(count, seed=seed)
    diagram = Diagram(*((f,) for f in functions))
    x = batch(seed)
    assert_close(diagram.mismatch(x), 2 * torch.stack(diagram.ends(x)).var(0).mean(), rtol=1e-10,
                 atol=0)


def test_a_square_of_maps_that_commute_has_none():
    turn = torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)
    a, b = (lambda x: x @ (turn + 2 * torch.eye(2))), (lambda x: x @ (3 * turn))
    flip = lambda x: x @ torch.diag(torch.tensor([1.0, -1.0], dtype=torch.float64))
    x = batch(2, 4, 2)
    assert square(a, b, b, a).mismatch(x) < 1e-28
    assert square(a, flip, flip, a).mismatch(x) > 0.1


def test_a_triangle_is_closed_by_the_composite():
    (a, b), (f, g) = maps(2)
    x = batch()
    assert triangle(f, g, lambda x: x @ (a @ b)).mismatch(x) < 1e-28
    assert_close(triangle(f, g, f).mismatch(x), (x @ a @ b - x @ a).square().mean())


def test_training_on_a_triangle_closes_it():
    """Ordinary gradients, to every map that learns: here h alone, whose optimum is f then g."""
    (a, b), (f, g) = maps(2)
    h = nn.Linear(3, 3, bias=False).double()
    diagram, x = triangle(f, g, h), batch(3, 50, 3)
    optimizer = torch.optim.LBFGS(h.parameters(), max_iter=50)

    def closure():
        optimizer.zero_grad()
        loss = diagrammatic_loss([diagram], x)
        loss.backward()
        return loss

    optimizer.step(closure)
    assert_close(h.weight.T, a @ b, rtol=0, atol=1e-4)


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


class TestAgreement:
    @given(SEED)
    def test_a_group_is_the_diagram_that_reads_its_positions(self, seed):
        h = batch(seed, 2, 16, 3)
        expected = 0
        for group in triples().tolist():
            reading = Diagram(*((lambda h, i=i: h[:, i],) for i in group))
            # (m − 1)/2 of a mean over D features
            expected += reading.mismatch(h) * (len(group) - 1) / 2 * 3
        assert_close(agreement(h, triples()), expected, rtol=1e-10, atol=0)

    @given(SEED, st.permutations(range(16)))
    def test_renaming_the_positions_changes_nothing(self, seed, order):
        h, order = batch(seed, 2, 16, 3), torch.tensor(order)
        assert_close(agreement(h[:, order], order.argsort()[triples()]), agreement(h, triples()),
                     rtol=1e-10, atol=0)

    def test_descending_it_makes_all_sixteen_cells_equal(self):
        """Each unit alone asks for four; the units connect."""
        h = batch(4, 1, 16, 3).requires_grad_()
        mean = h.detach().mean(1)
        for _ in range(200):
            gradient = torch.autograd.grad(agreement(h, triples()), h)[0]
            h = (h - 0.05 * gradient).detach().requires_grad_()
        assert agreement(h, units()) < 1e-12
        # their mean does not move
        assert_close(h, mean[:, None].expand_as(h), rtol=0, atol=1e-6)

    def test_rows_alone_do_not_connect(self):
        h = torch.arange(4.0).repeat_interleave(4)[None, :, None]           # a digit a row
        assert agreement(h, units()[:4]) == 0 < agreement(h, units())

    @given(SEED)
    def test_equal_cells_are_predicted_alike_so_a_solved_grid_disagrees(self, seed):
        """Under a readout that all cells share, whatever it is."""
        readout = nn.Linear(3, 4).double()
        h = batch(seed, 1, 1, 3).expand(1, 16, 3)
        assert agreement(h, triples()) < 1e-25
        prediction = readout(h).argmax(-1)[0]
        assert all(len(set(prediction[unit].tolist())) == 1 for unit in units())

    def test_groups_that_compare_nothing_are_refused(self):
        for groups, shape in ((torch.zeros(3, 1, dtype=torch.long), "(3, 1)"),
                              (torch.arange(4), "(4,)")):
            with pytest.raises(ValueError, match=re.escape(f"two or more members, got {shape}")):
                agreement(batch(0, 16, 3), groups)


def test_paths_that_end_in_different_shapes_are_refused():
    diagram = Diagram((), (lambda x: x[:, :2],), name="cut")
    message = "the paths of cut must end in one shape, got (5, 3) by path 0 and (5, 2) by path 1"
    with pytest.raises(ValueError, match=re.escape(message)):
        diagram.mismatch(batch())


def test_what_is_no_diagram_is_refused():
    with pytest.raises(ValueError, match="two or more paths, got 1"):
        Diagram((torch.relu,))
    with pytest.raises(TypeError, match=r"sequence of maps, got <built-in .*f is the path \(f,\)"):
        Diagram(torch.relu, (torch.abs,))
    diagram = Diagram((torch.relu,), (torch.abs,))
    with pytest.raises(ValueError, match="weights must be .*, got 1 for 2 diagrams"):
        diagrammatic_loss([diagram, diagram], batch(), [1.0])
    with pytest.raises(ValueError, match="got 0 for 0 diagrams"):
        diagrammatic_loss([], batch())
