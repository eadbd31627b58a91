import numpy as np
import pytest
import torch
import torch.nn.functional as F

from geolab.tasks import Sudoku
from geolab.tasks.sudoku import PUBLISHED_START, grids, triples, units

both_splits = pytest.mark.parametrize("split", ["published", "by grid"])


def rows(array):
    return set(map(tuple, array.tolist()))


def test_units_are_rows_columns_and_blocks_and_triples_are_triangles_inside_them():
    assert units().shape == (12, 4) and torch.bincount(units().flatten()).tolist() == [3] * 16
    assert units()[[1, 5, 10]].tolist() == [[4, 5, 6, 7], [1, 5, 9, 13], [8, 9, 12, 13]]
    found = {tuple(sorted(triple)) for triple in triples().tolist()}
    assert triples().shape == (48, 3) and len(found) == 48
    assert all(any(set(triple) <= set(unit) for unit in units().tolist()) for triple in found)


def test_there_are_288_grids_of_which_the_generator_reaches_96():
    every, reached = grids("all"), grids("published")
    assert every.shape == (288, 16) and reached.shape == (96, 16)
    assert (np.sort(every[:, units().numpy()]) == np.arange(4)).all()
    assert len(rows(every)) == 288 and rows(reached) < rows(every)
    assert tuple(sum(PUBLISHED_START, [])) in rows(reached)


@both_splits
def test_a_puzzle_shows_its_givens_and_nothing_else(split):
    task = Sudoku(split=split, givens=5)
    for part in ("train", "validation"):
        inputs, targets = task.sample(part)
        shown = inputs[..., 4] == 1
        assert inputs.shape[1:] == (16, 5)
        assert (shown.sum(1) == 5).all() and (inputs[..., :4].sum(-1) == 1).all()
        assert (inputs[..., :4].argmax(-1) == targets.where(shown, 0)).all()
        assert rows(targets) <= rows(grids("all"))


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


@both_splits
def test_the_ceiling_of_a_blind_model_is_what_counting_scores(split):
    task = Sudoku(split=split, validation=20_000)
    inputs, targets = task.sample("validation")
    counts = F.one_hot(targets, 4).double() * (inputs[..., 4:] == 0)
    loss, accuracy = task.blind_ceiling()
    assert task.baselines()["digits left over"] == pytest.approx(loss, abs=1e-3)
    right = (8 + counts.sum(1).max(1).values).mean().item() / 16
    assert right == pytest.approx(accuracy, abs=1e-3)


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
