import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from geolab.probes import future_influence, influence
from geolab.tasks import Echo


def sequence_losses(prediction, target):
    """The loss of each sequence, in float64.

    The sequences are independent, so the spread of these losses gives a standard error.
    """
    return (prediction.double() - target.double()).square().mean(dim=(1, 2))


def standard_error(losses):
    return losses.std().item() / math.sqrt(len(losses))


def test_the_published_sizes():
    task = Echo()
    assert task.sample("train").inputs.shape == (900, 127, 64)
    assert task.sample("validation").targets.shape == (100, 127, 64)
    assert task.bayes_floor() == pytest.approx(1.042e-6, rel=1e-3)
    assert task.baselines()["copy the input"] == pytest.approx(2e-6, rel=0.01)


def test_the_target_is_the_next_input():
    inputs, targets = Echo(dim=4, length=6, train=20).sample("train")
    assert torch.equal(inputs[:, 1:], targets[:, :-1])


def test_keys_point_everywhere_and_the_noise_has_its_size():
    noisy, clean = (Echo(dim=3, length=9, noise=noise, train=4000).sample("train").inputs.double()
                    for noise in (0.1, 0.0))
    keys = clean[:, 0]
    assert_close(keys.T @ keys / 4000, torch.eye(3, dtype=torch.float64) / 3, rtol=0, atol=0.02)
    assert keys.mean(0).abs().max() < 4 / math.sqrt(3 * 4000)
    noise = noisy - clean
    assert noise.std().item() == pytest.approx(0.1, rel=4 / math.sqrt(2 * noise.numel()))
    assert noise.mean().abs().item() < 4 * 0.1 / math.sqrt(noise.numel())
    assert (noise[:, 0] * noise[:, 1]).mean().abs().item() < 4 * 0.01 / math.sqrt(3 * 4000)


# ---------------------------------------------------------------- the floor

SIZES = [(2, 4, 0.01, 20_000), (3, 16, 0.02, 10_000), (8, 2, 0.02, 20_000), (16, 32, 0.005, 3000),
         (64, 128, 1e-3, 300)]


@pytest.mark.parametrize("dim, length, noise, sequences", SIZES)
def test_the_floor_is_what_the_bayes_predictor_scores(dim, length, noise, sequences):
    task = Echo(dim=dim, length=length, noise=noise, train=sequences, validation=0)
    inputs, targets = task.sample("train", seed=1)
    losses = sequence_losses(task.bayes_predictor(inputs), targets)
    tolerance = 4 * standard_error(losses) + dim * noise**2 * task.bayes_floor()
    assert tolerance < 0.03 * task.bayes_floor()
    assert abs(losses.mean().item() - task.bayes_floor()) < tolerance


@pytest.mark.parametrize("noise", [0.02, 0.5])
def test_in_three_dimensions_the_bayes_predictor_is_langevins_function(noise):
    # The mean of a von Mises–Fisher law on the 2-sphere has the length coth κ − 1/κ.
    task = Echo(dim=3, length=6, noise=noise, train=50)
    inputs = task.sample("train").inputs.double()
    total = inputs.cumsum(1)
    kappa = total.norm(dim=-1, keepdim=True) / noise**2
    expected = (1 / torch.tanh(kappa) - 1 / kappa) * total / total.norm(dim=-1, keepdim=True)
    worst = ((task.bayes_predictor(inputs) - expected).norm(dim=-1, keepdim=True) * kappa**2).max()
    assert worst < 0.2  # well inside the relative 1/κ² that its docstring states


def test_the_bayes_predictor_reads_no_future():
    task = Echo(dim=3, length=6, noise=0.1, train=4)
    inputs = task.sample("train").inputs.double()
    assert future_influence(task.bayes_predictor, inputs) == 0
    assert influence(task.bayes_predictor, inputs)[torch.ones(5, 5).tril() > 0].min() > 0


def test_baselines_by_hand():
    task = Echo(dim=4, length=6, noise=0.1, train=30, validation=10)
    rows, targets = (t.double().numpy().reshape(-1, 4) for t in task.sample("train"))
    x, y = (t.double().numpy() for t in task.sample("validation"))
    weight = np.linalg.solve(rows.T @ rows, rows.T @ targets)
    running = np.stack([x[:, :t + 1].mean(1) for t in range(5)], axis=1)
    expected = {"zero": y**2, "copy the input": (x - y) ** 2,
                "least squares": (x @ weight - y) ** 2,
                "running mean": (running - y) ** 2}
    expected = {name: error.mean() for name, error in expected.items()}
    assert task.baselines() == pytest.approx(expected, rel=1e-5)
