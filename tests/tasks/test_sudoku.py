import math

import numpy as np
import pytest
import torch

from geolab.tasks import Sudoku
from geolab.tasks.sudoku import PUBLISHED_START, grids, triples, units


def test_every_cell_lies_in_a_row_a_column_and_a_block():
    assert units().shape == (12, 4) and torch.bincount(units().flatten()).tolist() == [3] * 16
    assert units()[[1, 5, 10]].tolist() == [[4, 5, 6, 7], [1, 5, 9, 13], [8, 9, 12, 13]]


def test_there_are_288_grids_of_which_the_generator_reaches_96():
    every, reached = grids("all"), grids("published")
    assert every.shape == (288, 16) and reached.shape == (96, 16)
    for grid in every:
        assert all(set(grid[unit]) == {0, 1, 2, 3} for unit in units().numpy())
    known = set(map(tuple, every.tolist()))
    assert len(known) == 288 and set(map(tuple, reached.tolist())) < known
    assert tuple(sum(PUBLISHED_START, [])) in set(map(tuple, reached.tolist()))


@pytest.mark.parametrize("split", ["published", "by grid"])
class TestBothSplits:
    def test_a_puzzle_shows_its_givens_and_nothing_else(self, split):
        task = Sudoku(split=split, givens=5)
        for part, count in (("train", 600), ("validation", 200)):
            inputs, targets = task.sample(part)
            assert inputs.shape == (count, 16, 5) and inputs.dtype == torch.float32
            assert targets.shape == (count, 16) and targets.dtype == torch.int64
            given_cells = inputs[..., 4] == 1
            assert (given_cells.sum(1) == 5).all() and (inputs[..., :4].sum(-1) == 1).all()
            assert (inputs[..., :4].argmax(-1)[given_cells] == targets[given_cells]).all()
            assert (inputs[..., :4].argmax(-1)[~given_cells] == 0).all()
            assert set(map(tuple, targets.tolist())) <= set(map(tuple, grids("all").tolist()))


    def test_the_floor_is_what_the_posterior_scores(self, split):
        """The losses are over all grids of the task: "by grid" has them in two parts."""
        task = Sudoku(split=split, train=30_000, validation=10_000)
        losses = []
        for part in ("train", "validation"):
            inputs, targets = task.sample(part)
            chance = task.bayes_predictor(inputs).gather(2, targets[..., None])
            losses.append(-chance.log().mean((1, 2)))
        losses = torch.cat(losses)
        assert abs(losses.mean() - task.bayes_floor()) < 4 * losses.std() / 200

    def test_a_posterior_is_the_mean_of_the_grids_with_the_givens(self, split):
        task = Sudoku(split=split, givens=4, validation=30)
        inputs, targets = task.sample("validation")
        every = grids("published" if split == "published" else "all")
        chances = task.bayes_predictor(inputs)
        for puzzle, target, chance in zip(inputs.numpy(), targets.numpy(), chances.numpy(),
                                          strict=True):
            cells = puzzle[:, 4] == 1
            fitting = every[(every[:, cells] == target[cells]).all(1)]
            np.testing.assert_allclose(chance, np.eye(4)[fitting].mean(0), rtol=1e-12)


    def test_baselines_stand_in_the_order_of_what_they_know(self, split):
        scores = Sudoku(split=split, validation=2000).baselines()
        assert scores["uniform"] == pytest.approx(math.log(4) / 2)
        assert scores["all completions"] < scores["candidates"] < scores["digits left over"]
        assert scores["digits left over"] < scores["uniform"]

    def test_the_ceiling_of_a_blind_model_is_what_counting_scores(self, split):
        task = Sudoku(split=split, validation=20_000)
        inputs, targets = task.sample("validation")
        counts = torch.nn.functional.one_hot(targets, 4).double() * (inputs[..., 4:] == 0)
        loss, accuracy = task.blind_ceiling()
        assert task.baselines()["digits left over"] == pytest.approx(loss, abs=1e-3)
        right = (8 + counts.sum(1).max(1).values).mean().item() / 16
        assert right == pytest.approx(accuracy, abs=1e-3)


def test_the_shares_that_the_chapter_prints():
    published, by_grid = Sudoku(), Sudoku(split="by grid")
    assert published.unique_share() == pytest.approx(0.99891, abs=1e-5)
    assert by_grid.unique_share() == pytest.approx(0.79886, abs=1e-5)
    assert published.bayes_floor() == pytest.approx(3.770e-4, abs=1e-7)
    assert by_grid.bayes_floor() == pytest.approx(0.036525, abs=1e-6)
    loss, accuracy = published.blind_ceiling()
    assert loss == pytest.approx(0.63429, abs=1e-5) and accuracy == pytest.approx(0.69079, abs=1e-5)


def test_published_validation_can_be_memorised_and_by_grid_can_not():
    for split, known in (("published", 200), ("by grid", 0)):
        task = Sudoku(split=split)
        train, validation = ([tuple(grid) for grid in task.sample(part).targets.tolist()]
                             for part in ("train", "validation"))
        seen = sum(grid in train for grid in validation)
        assert seen == known
        if split == "by grid":
            parts = [set(map(tuple, task.solutions(part).tolist()))
                     for part in ("train", "validation")]
            assert set(train) <= parts[0] and set(validation) <= parts[1]
            assert not parts[0] & parts[1] and len(parts[0] | parts[1]) == 288


def test_accuracy_over_all_cells_and_over_blanks():
    task = Sudoku(givens=12, validation=50)
    inputs, targets = task.sample("validation")
    guess = torch.where(inputs[..., 4] == 1, targets, (targets + 1) % 4)
    guess = torch.nn.functional.one_hot(guess, 4).double()
    assert task.accuracy(guess, targets) == 0.75 and task.accuracy(guess, targets, inputs) == 0
    assert task.loss(torch.zeros(50, 16, 4), targets).item() == pytest.approx(math.log(4))


def test_triples_are_the_triangles_inside_a_unit():
    found = {tuple(sorted(triple)) for triple in triples().tolist()}
    assert triples().shape == (48, 3) and len(found) == 48
    assert all(any(set(triple) <= set(unit) for unit in units().tolist()) for triple in found)
