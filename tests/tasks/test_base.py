import numpy as np
import pytest
import torch
from torch.testing import assert_close

from geolab.tasks import (
    Copy,
    Denoising,
    Echo,
    Gyroscope,
    Moons,
    NearPi,
    Negation,
    Pairs,
    RandomTokens,
    Sudoku,
    Text,
    Words,
    least_squares,
)
from geolab.tasks.base import IGNORED, Classification, Task, float32, log_loss, unigram

NAN, INF = float("nan"), float("inf")
REFUSED = {  # wanted: (task, field, value)
    "at least 0": [(Echo, "noise", -1), (Gyroscope, "noise", -1), (NearPi, "noise", -1)],
    "at least 1": [(Denoising, "modes", 0), (Words, "types", 0), (Words, "context", 0),
                   (Echo, "dim", 0), (Negation, "dim", 0), (Copy, "half", 0), (Copy, "alphabet", 0),
                   (RandomTokens, "vocabulary", 0), (RandomTokens, "length", 0),
                   (Moons, "points", 0), (NearPi, "planes", 0), (Text, "size", 0),
                   (Words, "size", 0)],
    "at least 2": [(Echo, "length", 1), (Gyroscope, "length", 1), (NearPi, "length", 1),
                   (Gyroscope, "dim", 1), (NearPi, "dim", 1)],
    "a whole number": [(Echo, "dim", 8.0), (Sudoku, "givens", 2.5), (Copy, "half", True)],
    "a finite number": [(Echo, "noise", NAN), (NearPi, "angle", NAN),
                        (Gyroscope, "slowest", NAN), (Gyroscope, "fastest", INF)],
    "below 2.5": [(Gyroscope, "slowest", 3.0), (Gyroscope, "slowest", 2.5)],
    "from 0 to 1": [(Copy, "noise", 1.5)],
    "from 0 to 15": [(Sudoku, "givens", 16)],
    "positive": [(Denoising, "spread", 0), (Moons, "noise", 0)],
    "one of 'cosine', 'linear'": [(Denoising, "schedule", "sigmoid")],
    "one of 'published', 'by grid'": [(Sudoku, "split", "random")],
    "one of 'sample', 'wikitext-2'.*": [(Words, "corpus", "wikipedia")],
}


@pytest.mark.parametrize("task, field, value, wanted",
                         [(*row, wanted) for wanted, rows in REFUSED.items() for row in rows])
def test_a_field_that_makes_no_data_is_refused(task, field, value, wanted):
    with pytest.raises(ValueError, match=f"^{field} must be {wanted}, got {value!r}$"):
        task(**{field: value})


@pytest.mark.parametrize("call, message", [
    (lambda: Denoising(end=1.0), "end must lie strictly between 0 and 1, got 1.0"),
    (lambda: Denoising().flow(torch.zeros(1, 2), 0.9, 0.1, 0), "steps must be at least 1, got 0"),
    (lambda: NearPi(dim=4, planes=3), "planes must be at most 2, got 3"),
    (lambda: Words(context=30_000).sample("validation"),
     r"context must be shorter than the \d+ tokens of the text, got 30000")])
def test_what_only_together_makes_no_data_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_task_that_lacks_a_method_is_refused():
    unfinished = type("Unfinished", (Task,), {"loss": None})
    with pytest.raises(TypeError, match="bayes_floor.*sample"):
        unfinished()


def test_neither_loss_nor_accuracy_count_an_ignored_target():
    task = type("Toy", (Classification,), {"sample": None, "bayes_floor": None})()
    logits = torch.tensor([[2.0, 0.0], [0.0, 1.0], [3.0, 0.0]])
    target, ignored = torch.tensor([0, 0, 1]), torch.tensor([0, 0, IGNORED])
    assert task.accuracy(logits, target).item() == pytest.approx(1 / 3)
    assert task.accuracy(logits, ignored).item() == 1 / 2
    assert task.loss(logits, ignored).item() == pytest.approx(task.loss(logits[:2], target[:2]))


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


def test_a_unigram_adds_one_to_each_count():
    chance = unigram(torch.tensor([[0, 2], [2, 2]]), vocabulary=3)
    assert_close(chance, torch.tensor([2, 1, 4], dtype=torch.float64) / 7)
    assert log_loss(torch.tensor([1.0, np.exp(-2.0)])) == pytest.approx(1)
