import math

import pytest
import torch
import torch.nn.functional as F

from geolab.tasks import Copy


def test_the_second_half_repeats_the_first_after_a_separator():
    task = Copy(half=5, alphabet=7, train=20)
    inputs, targets = task.sample("train")
    assert inputs.shape == targets.shape == (20, 10)
    assert inputs.dtype == targets.dtype == torch.int64
    assert (inputs[:, 5] == 7).all() and (targets[:, :5] == -100).all()
    assert torch.equal(inputs[:, :5], targets[:, 5:])
    assert torch.equal(inputs[:, 6:], targets[:, 5:-1])
    assert inputs.max() < task.vocabulary == 8


def test_only_the_second_half_is_scored():
    task = Copy(half=4, alphabet=3, validation=6)
    _, targets = task.sample("validation")
    logits = torch.randn(6, 8, 4, generator=torch.Generator().manual_seed(0))
    expected = -logits.log_softmax(-1)[:, 4:].gather(2, targets[:, 4:, None]).mean()
    assert task.loss(logits, targets).item() == pytest.approx(expected.item(), rel=1e-6)


@pytest.mark.parametrize("noise", [0.0, 0.3, 1.0])
def test_the_floor_is_what_the_posterior_scores(noise):
    task = Copy(half=8, alphabet=5, train=20_000, noise=noise)
    inputs, targets = task.sample("train")
    source = torch.cat([inputs[:, :8], inputs[:, :8]], dim=1)  # a_i where b_i is predicted
    chance = (1 - noise) * F.one_hot(source, 6) + noise / 5 * (torch.arange(6) < 5)
    loss = task.loss(chance.log(), targets).item()
    assert loss == pytest.approx(task.bayes_floor(), rel=0.01, abs=1e-12)
    if noise == 0:
        assert loss == task.bayes_floor() == 0 and task.accuracy(chance, targets) == 1
    if noise == 1:
        assert task.bayes_floor() == pytest.approx(math.log(5))


def test_the_bag_by_hand():
    task = Copy(half=3, alphabet=4, validation=50, noise=0.1)
    inputs, targets = (t.tolist() for t in task.sample("validation"))
    losses = [-math.log(0.9 * row[:3].count(token) / 3 + 0.1 / 4)
              for row, goal in zip(inputs, targets, strict=True) for token in goal[3:]]
    expected = sum(losses) / len(losses)
    assert task.baselines()["bag of the first half"] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_baselines_are_above_the_floor_and_in_order(noise):
    task = Copy(noise=noise)
    scores = task.baselines()
    assert scores["uniform"] == math.log(64)
    assert task.bayes_floor() < scores["bag of the first half"] < scores["uniform"]
