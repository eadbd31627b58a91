import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from geolab.tasks import NearPi
from geolab.tasks.rotation import plane_rotations, trajectories


def monte_carlo(prediction, target):
    """The mean loss in float64 and its standard error over sequences."""
    losses = (prediction.double() - target.double()).square().mean(dim=(1, 2))
    return losses.mean().item(), losses.std().item() / math.sqrt(len(losses))


def test_the_published_sizes():
    for task in (NearPi(), NearPi.multi()):
        assert task.sample("train").inputs.shape == (1000, 127, 64)
        assert task.sample("validation").targets.shape == (500, 127, 64)
        assert task.bayes_floor() == 0


def test_plane_rotations_by_hand():
    R = plane_rotations(np.array([0.3]), np.array([[0]]), np.array([[2]]), 3)[0]
    cos, sin = math.cos(0.3), math.sin(0.3)
    expected = np.array([[cos, 0, -sin], [0, 1, 0], [sin, 0, cos]])
    assert np.allclose(R, expected, atol=1e-15)


def test_a_trajectory_keeps_turning():
    v, angle = np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([0.5])
    x = trajectories(v, plane_rotations(angle, np.array([[0]]), np.array([[1]]), 2), 5)
    t = 0.5 * torch.arange(5)
    first, second = torch.stack([t.cos(), t.sin()], -1), torch.stack([-t.sin(), t.cos()], -1)
    assert_close(x, torch.stack([first, 2 * second]))


@pytest.mark.parametrize("planes", [1, 3])
def test_each_sequence_has_its_own_rotation_by_one_angle(planes):
    task = NearPi(dim=6, length=8, planes=planes, train=40, per_sequence=True)
    x = task.sample("train").inputs.double()
    assert_close(x.norm(dim=-1), torch.ones(40, 7, dtype=torch.float64), rtol=0, atol=1e-6)
    R = torch.from_numpy(task.rotations(np.random.RandomState(0), 40))
    assert_close(R @ R.mT, torch.eye(6, dtype=torch.float64).expand_as(R), rtol=0, atol=1e-12)
    cosine = (R.diagonal(dim1=1, dim2=2).sum(-1) - (6 - 2 * planes)) / (2 * planes)
    assert cosine.min() > -1 and cosine.max() < 1 and cosine.std() > 0.5
    # Since w_{t+1} = 2 cos θ w_t − w_{t−1}, three vectors foretell the rest.
    w = x.diff(dim=1)
    twice = ((w[:, 2] + w[:, 0]) * w[:, 1]).sum(-1) / w[:, 1].square().sum(-1)
    assert_close(w[:, 2:], twice[:, None, None] * w[:, 1:-1] - w[:, :-2], rtol=0, atol=1e-4)


# ---------------------------------------------------------------- the floor

@pytest.mark.parametrize("dim, length, noise", [(4, 6, 0.02), (8, 16, 0.01)])
def test_with_one_rotation_the_floor_is_scored_by_turning_back_and_averaging(dim, length, noise):
    task = NearPi(dim=dim, length=length, noise=noise, train=8000)
    inputs, targets = (t.double() for t in task.sample("train"))
    R = torch.from_numpy(task.rotations(np.random.RandomState(0), 1)[0])
    total, predictions = torch.zeros_like(inputs[:, 0]), []
    for t in range(length - 1):
        total = total @ R.T + inputs[:, t]                       # R^t (x_0 + R^-1 x_1 + …)
        predictions.append(total / total.norm(dim=-1, keepdim=True) @ R.T)
    mean, error = monte_carlo(torch.stack(predictions, 1), targets)
    tolerance = 4 * error + 2 * dim * noise**2 * task.bayes_floor()
    assert tolerance < 0.05 * task.bayes_floor()
    assert abs(mean - task.bayes_floor()) < tolerance


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_with_a_rotation_per_sequence_position_zero_scores_its_share(noise):
    # Sequences of two vectors have only position 0.
    task = NearPi(dim=6, length=2, planes=2, noise=noise, train=40_000, per_sequence=True)
    inputs, targets = task.sample("train")
    shrink = (1 - 4 / 6) * (1 - 5 * noise**2 / 2)  # E[R], and a unit vector seen with noise
    mean, error = monte_carlo(shrink * inputs / inputs.norm(dim=-1, keepdim=True), targets)
    assert abs(mean - task.bayes_floor()) < 4 * error + 6 * noise**2 * task.bayes_floor()
    assert error < 0.01 * mean
    for scale in (0.9, 1.1):                                     # no other multiple does better
        assert monte_carlo(scale * shrink * inputs, targets)[0] > mean
