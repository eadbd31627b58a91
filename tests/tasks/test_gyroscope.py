import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from geolab.probes import future_influence
from geolab.tasks import Gyroscope
from geolab.tasks.base import Pairs
from geolab.tasks.gyroscope import autoregression
from geolab.tasks.rotation import plane_rotations


def monte_carlo(prediction, target):
    losses = (prediction.double() - target.double()).square().mean(dim=(1, 2))
    return losses.mean().item(), losses.std().item() / math.sqrt(len(losses))


def test_the_published_size():
    task = Gyroscope()
    inputs, targets = task.sample("validation")
    assert inputs.shape == targets.shape == (1000, 255, 16)
    angle = task.draws("validation")[1]
    assert 0.1 < angle.min() < 0.11 and 2.49 < angle.max() < 2.5
    assert len(task.draws("train")[1]) == 9000
    # All of the error is at position 0; the rest is rounding in float32.
    error = (task.extrapolate(inputs) - targets).square().mean(dim=(0, 2))
    assert error[1:].max() < 1e-11 < 1e-2 < error[0]
    assert task.bayes_floor() == pytest.approx(4.55e-5, rel=1e-3)


def test_two_coordinates_turn_and_the_others_stay():
    task = Gyroscope(dim=5, length=6, train=300, validation=0)
    x = task.sample("train").inputs.double()
    moved = (x != x[:, :1]).any(1)
    assert (moved.sum(-1) == 2).all()
    pair = x[moved[:, None].expand_as(x)].view(300, 5, 2)
    turn = torch.atan2(pair[:, 1, 1], pair[:, 1, 0]) - torch.atan2(pair[:, 0, 1], pair[:, 0, 0])
    expected = torch.from_numpy(task.draws("train")[1])
    assert_close(turn % (2 * math.pi), expected, rtol=0, atol=2e-3)


# ---------------------------------------------------------------- the floor

def test_the_expected_rotation_is_the_mean_of_the_drawn_ones():
    task = Gyroscope(dim=4, train=40_000, validation=0)
    _, angle, i, j = task.draws("train")
    mean = plane_rotations(angle, i[:, None], j[:, None], 4).mean(0)
    assert np.abs(task.expected_rotation().numpy() - mean).max() < 4 / math.sqrt(40_000)


@pytest.mark.parametrize("dim, length", [(3, 4), (16, 8)])
def test_the_floor_is_what_the_best_causal_predictor_scores(dim, length):
    task = Gyroscope(dim=dim, length=length, train=20_000, validation=0)
    inputs, targets = (t.double() for t in task.sample("train"))
    prediction = task.extrapolate(inputs)
    prediction[:, 0] = inputs[:, 0] @ task.expected_rotation().T
    mean, error = monte_carlo(prediction, targets)
    assert error < 0.02 * task.bayes_floor()
    assert abs(mean - task.bayes_floor()) < 4 * error


@pytest.mark.parametrize("dim, noise", [(4, 0.03), (16, 0.02)])
def test_with_noise_the_floor_is_scored_by_who_is_told_the_rotation_at_position_one(dim, noise):
    task = Gyroscope(dim=dim, length=8, train=10_000, validation=0, noise=noise)
    inputs, targets = (t.double() for t in task.sample("train"))
    _, angle, i, j = task.draws("train")
    R = torch.from_numpy(plane_rotations(angle, i[:, None], j[:, None], dim))
    total, predictions = torch.zeros_like(inputs[:, 0]), []
    for t in range(7):
        total = (R @ total[:, :, None])[:, :, 0] + inputs[:, t]
        guess = total / total.norm(dim=-1, keepdim=True)
        first = guess @ task.expected_rotation().T
        predictions.append((R @ guess[:, :, None])[:, :, 0] if t else first)
    mean, error = monte_carlo(torch.stack(predictions, 1), targets)
    tolerance = 4 * error + dim * noise**2 * task.bayes_floor()
    assert abs(mean - task.bayes_floor()) < tolerance < 0.1 * task.bayes_floor()


# ---------------------------------------------------------------- predictors

def test_baselines_read_no_future():
    x = Gyroscope(dim=4, length=8, train=3).sample("train").inputs.double()
    train = Gyroscope(dim=4, length=8, train=50).sample("train")
    assert future_influence(lambda x: autoregression(train, x, 3), x) == 0


def test_autoregression_finds_a_recurrence():
    # With one angle for all, x_{t+1} = 2 cos θ x_t − x_{t−1} wherever there are two inputs.
    t = torch.arange(12.0, dtype=torch.float64) * 0.7
    phase = torch.linspace(0, 3, 30, dtype=torch.float64)[:, None]
    x = torch.stack([(t + phase).cos(), (2 * phase + t).sin()], -1)
    prediction = autoregression(Pairs(x[:, :-1], x[:, 1:]), x[:, :-1], 2)
    assert_close(prediction[:, 1:], x[:, 2:], rtol=0, atol=1e-9)
