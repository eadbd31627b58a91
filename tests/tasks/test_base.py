import numpy as np
import pytest
import torch
from torch.testing import assert_close

from geolab.tasks import (Copy, Denoising, Echo, Gyroscope, Moons, NearPi, Negation, Pairs, RandomTokens, Reflection, Sudoku,
                          Text, Words)
from geolab.tasks.base import float32, least_squares


SMALL = {"train": 20, "validation": 10}


@pytest.mark.parametrize("task", [Echo(dim=4, length=6, **SMALL), Echo(dim=4, length=6, noise=0.1, drift=0.1, **SMALL),
                                  Echo(dim=4, length=6, drift=0.1, per_sequence=True, **SMALL),
                                  Negation(dim=4, **SMALL), Gyroscope(dim=4, length=6, **SMALL),
                                  Gyroscope(dim=4, length=6, noise=0.1, **SMALL), NearPi(dim=4, length=6, **SMALL),
                                  NearPi(dim=4, length=6, per_sequence=True, noise=0.1, **SMALL),
                                  Reflection(dim=4, pairs=3, **SMALL)])
class TestEveryTask:
    def test_pairs_are_float32_examples(self, task):
        for split, count in (("train", 20), ("validation", 10)):
            pairs = task.sample(split)
            assert isinstance(pairs, Pairs) and pairs.inputs.dtype == pairs.targets.dtype == torch.float32
            assert len(pairs.inputs) == len(pairs.targets) == count and pairs.inputs.shape == pairs.targets.shape

    def test_the_same_call_gives_the_same_data_and_another_seed_other_data(self, task):
        for split in ("train", "validation"):
            first, again, other = task.sample(split), task.sample(split), task.sample(split, seed=7)
            assert torch.equal(first.inputs, again.inputs) and torch.equal(first.targets, again.targets)
            assert not (first.inputs == other.inputs).any()
            assert torch.equal(other.inputs, task.sample(split, seed=7).inputs)

    def test_no_example_is_in_both_splits(self, task):
        train, validation = (task.sample(split).inputs.flatten(1) for split in ("train", "validation"))
        assert torch.cdist(train.double(), validation.double()).min() > 1e-4

    def test_data_leave_the_global_generators_alone(self, task):
        torch.manual_seed(0), np.random.seed(0)
        expected = torch.rand(1), np.random.rand()
        torch.manual_seed(0), np.random.seed(0)
        task.sample("train")
        assert (torch.rand(1), np.random.rand()) == expected

    def test_the_loss_is_the_mean_squared_error_a_coordinate(self, task):
        x, y = task.sample("train")
        step = 2 if isinstance(task, Reflection) else 1  # every second position is scored
        difference = (x.double() - y.double())[:, ::step] if x.ndim == 3 else x.double() - y.double()
        expected = (difference ** 2).sum() / difference.numel()
        assert task.loss(x, y).item() == pytest.approx(expected.item(), rel=1e-5)

    def test_an_unknown_split_is_refused(self, task):
        with pytest.raises(ValueError, match="split must be 'train' or 'validation', got 'test'"):
            task.sample("test")


NAN, INF = float("nan"), float("inf")
REFUSED = {  # wanted: (task, field, value)
    "at least 0": [(Echo, "noise", -1), (Gyroscope, "noise", -1), (NearPi, "noise", -1), (Reflection, "noise", -1),
                   (Echo, "drift", -1)],
    "at least 1": [(Echo, "dim", 0), (Negation, "dim", 0), (Reflection, "dim", 0), (Reflection, "pairs", 0), (Copy, "half", 0),
                   (Copy, "alphabet", 0), (RandomTokens, "vocabulary", 0), (RandomTokens, "length", 0), (Moons, "points", 0),
                   (NearPi, "planes", 0), (Text, "size", 0), (Words, "size", 0)],
    "at least 2": [(Echo, "length", 1), (Gyroscope, "length", 1), (NearPi, "length", 1), (Gyroscope, "dim", 1),
                   (NearPi, "dim", 1)],
    "a whole number": [(Echo, "dim", 8.0), (Sudoku, "givens", 2.5), (Copy, "half", True)],
    "a finite number": [(Echo, "noise", NAN), (Echo, "drift", NAN), (NearPi, "angle", NAN), (Gyroscope, "slowest", NAN),
                        (Gyroscope, "fastest", INF)],
    "below fastest = 2.5": [(Gyroscope, "slowest", 3.0), (Gyroscope, "slowest", 2.5)],
}


@pytest.mark.parametrize("task, field, value, wanted", [(*row, wanted) for wanted, rows in REFUSED.items() for row in rows])
def test_a_field_that_makes_no_data_is_refused(task, field, value, wanted):
    with pytest.raises(ValueError, match=f"^{field} must be {wanted}, got {value}$"):
        task(**{field: value})


@pytest.mark.parametrize("task", [Copy, Denoising, Echo, Gyroscope, Moons, NearPi, Negation, RandomTokens, Reflection, Sudoku])
@pytest.mark.parametrize("split", ["train", "validation"])
def test_a_split_may_be_empty_and_not_less(task, split):
    task(**{split: 0})
    with pytest.raises(ValueError, match=f"^{split} must be at least 0, got -1$"):
        task(**{split: -1})


def test_least_squares_finds_the_map_behind_the_data():
    generator = torch.Generator().manual_seed(0)
    x, matrix = torch.randn(30, 4, generator=generator), torch.randn(4, 4, generator=generator)
    validation = torch.randn(2, 5, 4, generator=generator)
    predicted = least_squares(Pairs(x, x @ matrix), Pairs(validation, validation))
    assert_close(predicted, validation @ matrix, rtol=0, atol=1e-5)


def test_least_squares_with_too_few_examples_is_the_smallest_map():
    x = torch.tensor([[2.0, 0.0]])
    predicted = least_squares(Pairs(x, -x), Pairs(torch.eye(2), torch.eye(2)))
    assert_close(predicted, torch.tensor([[-1.0, 0.0], [0.0, 0.0]]))


def test_float32_keeps_the_numbers():
    assert float32(np.array([0.5, -2.0])).tolist() == [0.5, -2.0]
