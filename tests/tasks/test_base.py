import numpy as np
import pytest
import torch
from torch.testing import assert_close

from geolab.tasks import Echo, Gyroscope, NearPi, Negation, Pairs, Reflection
from geolab.tasks.base import float32, least_squares


SMALL = {"train": 20, "validation": 10}


@pytest.mark.parametrize("task", [Echo(dim=4, length=6, **SMALL), Negation(dim=4, **SMALL), Gyroscope(dim=4, length=6, **SMALL),
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
