"""The tasks on vectors: what is drawn, and predictors in closed form."""

import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from geolab.probes import future_influence, influence
from geolab.tasks import Echo, Gyroscope, NearPi, Negation
from geolab.tasks.base import Pairs
from geolab.tasks.gyroscope import autoregression
from geolab.tasks.rotation import plane_rotations


@pytest.mark.parametrize("noise", [0.02, 0.5])
def test_in_three_dimensions_the_bayes_predictor_is_langevins_function(noise):
    """The mean of a von Mises–Fisher law on the 2-sphere has the length coth κ − 1/κ."""
    task = Echo(dim=3, length=6, noise=noise, train=50)
    inputs = task.sample("train").inputs.double()
    total = inputs.cumsum(1)
    kappa = total.norm(dim=-1, keepdim=True) / noise**2
    expected = (1 / torch.tanh(kappa) - 1 / kappa) * total / total.norm(dim=-1, keepdim=True)
    worst = ((task.bayes_predictor(inputs) - expected).norm(dim=-1, keepdim=True) * kappa**2).max()
    assert worst < 0.2  # well inside the relative 1/κ² that its docstring states


def test_predictors_read_all_of_the_past_and_no_future():
    task = Echo(dim=3, length=6, noise=0.1, train=4)
    inputs = task.sample("train").inputs.double()
    assert future_influence(task.bayes_predictor, inputs) == 0
    assert influence(task.bayes_predictor, inputs)[torch.ones(5, 5).tril() > 0].min() > 0
    x = Gyroscope(dim=4, length=8, train=3).sample("train").inputs.double()
    train = Gyroscope(dim=4, length=8, train=50).sample("train")
    assert future_influence(lambda x: autoregression(train, x, 3), x) == 0


def test_the_expected_rotation_is_the_mean_of_the_drawn_ones():
    task = Gyroscope(dim=4, train=40_000, validation=0)
    _, angle, i, j = task.draws("train")
    mean = plane_rotations(angle, i[:, None], j[:, None], 4).mean(0)
    assert np.abs(task.expected_rotation().numpy() - mean).max() < 4 / math.sqrt(40_000)


def test_autoregression_finds_a_recurrence():
    """With one angle for all, x_{t+1} = 2 cos θ x_t − x_{t−1} wherever there are two inputs."""
    t = torch.arange(12.0, dtype=torch.float64) * 0.7
    phase = torch.linspace(0, 3, 30, dtype=torch.float64)[:, None]
    x = torch.stack([(t + phase).cos(), (2 * phase + t).sin()], -1)
    prediction = autoregression(Pairs(x[:, :-1], x[:, 1:]), x[:, :-1], 2)
    assert_close(prediction[:, 1:], x[:, 2:], rtol=0, atol=1e-9)


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


def test_a_negation_is_the_negative_and_alignment_is_the_mean_cosine():
    few, many = (Negation(train=count).sample("train") for count in (10, 500))
    assert torch.equal(few.inputs, many.inputs[:10]) and torch.equal(many.targets, -many.inputs)
    prediction = torch.tensor([[3.0, 0.0], [1.0, 1.0], [0.0, -2.0]])
    target = torch.tensor([[1.0, 0.0], [0.0, 5.0], [0.0, 1.0]])
    found = Negation(dim=2).alignment(prediction, target).item()
    assert found == pytest.approx((1 + 2**-0.5 - 1) / 3, rel=1e-6)
