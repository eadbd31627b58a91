import math

import pytest
import torch
from torch.testing import assert_close

from geolab.tasks import Moons
from geolab.tasks.moons import logistic_regression


def test_without_noise_the_points_lie_on_two_half_circles():
    x, y = Moons(noise=1e-6, train=500).sample("train")
    outer, inner = x[y == 0], x[y == 1]
    assert_close(outer.norm(dim=-1), torch.ones(len(outer)), rtol=0, atol=1e-4)
    radius = (inner - torch.tensor([1.0, 0.5])).norm(dim=-1)
    assert_close(radius, torch.ones(len(inner)), rtol=0, atol=1e-4)
    assert outer[:, 1].min() > -1e-4 and inner[:, 1].max() < 0.5 + 1e-4
    assert abs(y.double().mean() - 0.5) < 0.03
    assert abs((outer[:, 0] < 0).double().mean() - 0.5) < 0.03                 # t is uniform


@pytest.mark.parametrize("noise", [0.1, 0.2, 0.5])
def test_the_ceiling_is_the_accuracy_of_the_true_posterior(noise):
    task = Moons(noise=noise, train=4000)
    x, y = task.sample("train")
    accuracy = task.ceiling().accuracy
    tolerance = 4 * math.sqrt(accuracy * (1 - accuracy) / y.numel())
    assert abs(task.accuracy(task.bayes_predictor(x), y) - accuracy) < tolerance


def test_the_floor_grows_with_the_noise_from_nothing_to_a_coin():
    floors = [Moons(noise=noise).bayes_floor() for noise in (0.05, 0.1, 0.2, 0.5, 1, 5, 50)]
    assert floors == sorted(floors) and floors[0] < 1e-6 and 0 < math.log(2) - floors[-1] < 1e-3


def test_logistic_regression_finds_a_line():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200_000, 2, dtype=torch.float64, generator=generator)
    weight = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    y = torch.bernoulli(torch.sigmoid(x @ weight[:2] + weight[2]), generator=generator).long()
    found = logistic_regression(x, y)
    assert_close(found, weight, rtol=0, atol=0.03)
    residual = y - torch.sigmoid(x @ found[:2] + found[2])
    # The gradient of the likelihood vanishes.
    assert (x.T @ residual).abs().max() < 1e-6 and residual.sum().abs() < 1e-6
