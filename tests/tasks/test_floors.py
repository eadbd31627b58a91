"""A floor is what the best predictor scores, and simple predictors stand in a known order above it.

The examples are independent, so the spread of their losses gives a standard error.
"""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from geolab.tasks import (
    Copy,
    Denoising,
    Echo,
    Gyroscope,
    Moons,
    NearPi,
    Negation,
    RandomTokens,
    Regression,
    Sudoku,
    Text,
    Words,
)
from geolab.tasks.base import IGNORED
from geolab.tasks.moons import logistic_regression
from geolab.tasks.rotation import plane_rotations


def losses(prediction, targets, regression):
    """The loss of each example, in float64. Predictions of classes are chances."""
    if regression:
        return (prediction.double() - targets.double()).square().flatten(1).mean(1)
    logits = prediction.double().log().movedim(-1, 1)
    nats = F.cross_entropy(logits, targets, reduction="none", ignore_index=IGNORED)
    return nats.sum(1) / (targets != IGNORED).sum(1)


def source_or_noise(task, inputs):
    """Of a noisy copy: a_i, or any token."""
    source = torch.cat([inputs[:, :task.half], inputs[:, :task.half]], dim=1)
    copied = (1 - task.noise) * F.one_hot(source, task.vocabulary)
    return copied + task.noise / task.alphabet * (torch.arange(task.vocabulary) < task.alphabet)


def denoised(task, inputs):
    return task.posterior_mean(inputs[:, :2].double(), inputs[:, 2:].double())


def two_classes(task, inputs):
    return task.bayes_predictor(inputs).softmax(-1)


def extrapolated(task, inputs):
    prediction = task.extrapolate(inputs.double())
    prediction[:, 0] = inputs[:, 0].double() @ task.expected_rotation().T
    return prediction


def turned_and_averaged(R, inputs):
    """Whoever is told the rotations R turns the mean of what was seen, R^t (x_0 + R⁻¹ x_1 + …)."""
    total, found = torch.zeros_like(inputs[:, 0]), []
    for x in inputs.unbind(1):
        total = (R @ total[:, :, None])[:, :, 0] + x
        found.append((R @ (total / total.norm(dim=-1, keepdim=True))[:, :, None])[:, :, 0])
    return torch.stack(found, 1)


def told_at_position_one(task, inputs):
    _, angle, i, j = task.draws("train")
    R = torch.from_numpy(plane_rotations(angle, i[:, None], j[:, None], task.dim))
    inputs = inputs.double()
    found = turned_and_averaged(R, inputs)
    found[:, 0] = F.normalize(inputs[:, 0], dim=-1) @ task.expected_rotation().T
    return found


def told_from_the_start(task, inputs):
    R = torch.from_numpy(task.rotations(np.random.RandomState(0), 1))
    return turned_and_averaged(R, inputs.double())


def shrunk(task, inputs):
    """E[R] times a unit vector that is seen with noise."""
    known = (1 - 2 * task.planes / task.dim) * (1 - (task.dim - 1) * task.noise**2 / 2)
    return known * F.normalize(inputs, dim=-1)


# (a task, its best predictor, the relative error of a floor that neglects powers of the noise)
BEST = [
    *((Copy(half=8, alphabet=5, train=20_000, noise=noise), source_or_noise, 0)
      for noise in (0.0, 0.3, 1.0)),
    *((Denoising(train=100_000, **options), denoised, 0)
      for options in ({}, {"schedule": "linear"}, {"modes": 1}, {"modes": 2, "spread": 0.3},
                      {"modes": 7})),
    *((Echo(dim, length, noise, train=count, validation=0), Echo.bayes_predictor, dim * noise**2)
      for dim, length, noise, count in ((2, 4, 0.01, 20_000), (3, 16, 0.02, 10_000),
                                        (8, 2, 0.02, 20_000), (16, 32, 0.005, 3000),
                                        (64, 128, 1e-3, 300))),
    *((Moons(noise=noise, train=4000), two_classes, 0) for noise in (0.1, 0.2, 0.5)),
    *((Gyroscope(dim=dim, length=length, train=20_000, validation=0), extrapolated, 0)
      for dim, length in ((3, 4), (16, 8))),
    *((Gyroscope(dim=dim, length=8, train=10_000, validation=0, noise=noise),
       told_at_position_one, dim * noise**2) for dim, noise in ((4, 0.03), (16, 0.02))),
    *((NearPi(dim=dim, length=length, noise=noise, train=8000), told_from_the_start,
       2 * dim * noise**2) for dim, length, noise in ((4, 6, 0.02), (8, 16, 0.01))),
    # of two vectors, where position 0 is all
    *((NearPi(dim=6, length=2, planes=2, noise=noise, train=40_000, per_sequence=True), shrunk,
       6 * noise**2) for noise in (0.0, 0.05)),
]


def named(value) -> str:
    """A name without an address."""
    return getattr(value, "__name__", str(value))[:60]


@pytest.mark.parametrize("task, predict, neglected", BEST, ids=named)
def test_the_floor_is_what_the_best_predictor_scores(task, predict, neglected):
    inputs, targets = task.sample("train")
    found = losses(predict(task, inputs), targets, isinstance(task, Regression))
    tolerance = 4 * found.std() / math.sqrt(len(found)) + neglected * task.bayes_floor()
    assert abs(found.mean() - task.bayes_floor()) <= tolerance + 1e-12


@pytest.mark.parametrize("noise", [0.1, 0.5])
def test_the_ceiling_of_the_moons_is_the_accuracy_of_the_best_predictor(noise):
    task = Moons(noise=noise, train=4000)
    x, y = task.sample("train")
    accuracy = task.ceiling().accuracy
    tolerance = 4 * math.sqrt(accuracy * (1 - accuracy) / y.numel())
    assert abs(task.accuracy(task.bayes_predictor(x), y) - accuracy) < tolerance


def test_logistic_regression_ends_where_the_gradient_of_the_likelihood_vanishes():
    x, y = (t.double().flatten(0, 1) for t in Moons().sample("train"))
    *weight, bias = logistic_regression(x, y)
    residual = y - torch.sigmoid(x @ torch.stack(weight) + bias)
    assert (x.T @ residual).abs().max() < 1e-6 and residual.sum().abs() < 1e-6


@pytest.mark.parametrize("split", ["published", "by grid"])
def test_the_floor_of_sudoku_is_over_all_grids(split):
    """ "by grid" has them in two parts."""
    task = Sudoku(split=split, train=30_000, validation=10_000)
    parts = [task.sample(part) for part in ("train", "validation")]
    found = torch.cat([losses(task.bayes_predictor(inputs), targets, False)
                       for inputs, targets in parts])
    assert abs(found.mean() - task.bayes_floor()) < 4 * found.std() / 200


# ---------------------------------------------------------------- simple predictors

COUNTED = "bigram", "unigram", "uniform"
ORDER = [  # (a task, its simple predictors from the best, the loss of the last where all know it)
    *((Copy(noise=noise), ("bag of the first half", "uniform"), math.log(64))
      for noise in (0.0, 0.2)),
    *((Denoising(schedule=schedule), ("best linear", "zero", "x_t / a_t"), None)
      for schedule in ("cosine", "linear")),
    (Moons(), ("logistic regression", "nearest mean", "constant"), math.log(2)),
    (RandomTokens(), ("uniform", "unigram"), None),
    *((Sudoku(split=split, validation=2000),
       ("all completions", "candidates", "digits left over", "uniform"), math.log(4) / 2)
      for split in ("published", "by grid")),
    (Text(), COUNTED, math.log(256)), (Words(), COUNTED, math.log(2001))]


@pytest.mark.parametrize("task, names, last", ORDER, ids=lambda value: str(value)[:40])
def test_simple_predictors_stand_in_the_order_of_what_they_know(task, names, last):
    scores = task.baselines()
    assert tuple(sorted(scores, key=scores.get)) == names
    assert last is None or scores[names[-1]] == pytest.approx(last, rel=1e-12)


def test_the_simple_predictors_of_a_negation_by_hand():
    task = Negation(dim=6, train=40, validation=15)
    x, square = task.sample("validation").inputs, task.sample("validation").inputs.square().mean()
    mean = task.sample("train").targets.mean(0)
    assert task.baselines() == pytest.approx({
        "zero": square.item(), "copy the input": 4 * square.item(), "least squares": 0,
        "training mean": (mean + x).square().mean().item()}, rel=1e-5, abs=1e-12)


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_of_one_mode_the_best_linear_map_is_the_posterior_mean(schedule):
    task = Denoising(modes=1, schedule=schedule)
    inputs, targets = task.sample("validation")
    expected = losses(denoised(task, inputs), targets, True).mean().item()
    assert task.baselines()["best linear"] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("vocabulary, length", [(64, 24), (5, 3)])
def test_a_peek_at_random_tokens_scores_what_is_promised(vocabulary, length):
    """The model reads its input one step ahead and knows nothing about the last target."""
    task = RandomTokens(vocabulary, length, validation=20_000)
    inputs, targets = task.sample("validation")
    ahead = 1e4 * F.one_hot(inputs[:, 1:], vocabulary).float()
    logits = torch.cat([ahead, torch.zeros(len(inputs), 1, vocabulary)], dim=1)
    found = task.loss(logits, targets).item(), task.accuracy(logits, targets).item()
    assert found[0] == pytest.approx(task.peek().loss, rel=1e-5)
    assert found[1] == pytest.approx(task.peek().accuracy, abs=5 / math.sqrt(20_000) / length)
