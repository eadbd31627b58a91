import numpy as np
import pytest
import torch
import torch.nn.functional as F

from geolab.tasks import Sudoku
from geolab.tasks.sudoku import grids, triples, units

both_splits = pytest.mark.parametrize("split", ["published", "by grid"])


def rows(array):
    return set(map(tuple, array.tolist()))


def test_there_are_288_grids_of_which_the_generator_reaches_96():
    every, reached = grids("all"), grids("published")
    assert len(rows(every)) == len(every) == 288 and len(rows(reached)) == len(reached) == 96
    assert rows(reached) < rows(every)
    # a unit has each digit once, and a triangle of the regulariser lies inside a unit
    assert (np.sort(every[:, units().numpy()]) == np.arange(4)).all()
    within = [set(unit) for unit in units().tolist()]
    assert len({frozenset(triple) for triple in triples().tolist()}) == len(triples()) == 48
    assert all(any(set(triple) <= unit for unit in within) for triple in triples().tolist())


@both_splits
def test_a_puzzle_shows_its_givens_and_nothing_else(split):
    inputs, targets = Sudoku(split=split, givens=5).sample("train")
    shown = inputs[..., 4] == 1
    assert (shown.sum(1) == 5).all() and rows(targets) <= rows(grids("all"))
    assert torch.equal(inputs[..., :4].argmax(-1), targets.where(shown, 0))


@both_splits
def test_a_posterior_is_the_mean_of_the_grids_with_the_givens(split):
    task = Sudoku(split=split, givens=4, validation=30)
    inputs, targets = (t.numpy() for t in task.sample("validation"))
    every = grids("published" if split == "published" else "all")
    for puzzle, target, chance in zip(inputs, targets, task.bayes_predictor(torch.tensor(inputs)),
                                      strict=True):
        cells = puzzle[:, 4] == 1
        fitting = every[(every[:, cells] == target[cells]).all(1)]
        np.testing.assert_allclose(chance, np.eye(4)[fitting].mean(0), rtol=1e-12)


def test_published_validation_can_be_memorised_and_by_grid_can_not():
    for split, known in (("published", 200), ("by grid", 0)):
        train, validation = (Sudoku(split=split).sample(part).targets
                             for part in ("train", "validation"))
        assert sum(tuple(grid) in rows(train) for grid in validation.tolist()) == known
    parts = [rows(Sudoku(split="by grid").solutions(part)) for part in ("train", "validation")]
    assert rows(train) <= parts[0] and rows(validation) <= parts[1]
    assert not parts[0] & parts[1] and len(parts[0] | parts[1]) == 288


def test_accuracy_is_over_all_cells_or_over_blanks():
    task = Sudoku(givens=12, validation=50)
    inputs, targets = task.sample("validation")
    guess = F.one_hot(torch.where(inputs[..., 4] == 1, targets, (targets + 1) % 4), 4).double()
    assert task.accuracy(guess, targets) == 0.75 and task.accuracy(guess, targets, inputs) == 0
