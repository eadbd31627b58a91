import math

import pytest
import torch
import torch.nn.functional as F

from geolab.tasks import RandomTokens


def test_the_target_is_the_next_token():
    inputs, targets = RandomTokens(train=30).sample("train")
    assert inputs.shape == targets.shape == (30, 24) and inputs.dtype == torch.int64
    assert torch.equal(inputs[:, 1:], targets[:, :-1])
    assert inputs.min() >= 0 and inputs.max() < 64


@pytest.mark.parametrize("vocabulary, length", [(64, 24), (5, 3)])
def test_a_peek_scores_what_is_promised(vocabulary, length):
    """The model reads its input one step ahead and knows nothing about the last target."""
    task = RandomTokens(vocabulary, length, validation=20_000)
    inputs, targets = task.sample("validation")
    ahead = 1e4 * F.one_hot(inputs[:, 1:], vocabulary).float()
    logits = torch.cat([ahead, torch.zeros(len(inputs), 1, vocabulary)], dim=1)
    assert task.loss(logits, targets).item() == pytest.approx(task.peek().loss, rel=1e-5)
    tolerance = 5 / math.sqrt(len(inputs)) / length
    accuracy = task.accuracy(logits, targets).item()
    assert accuracy == pytest.approx(task.peek().accuracy, abs=tolerance)


def test_the_numbers_that_the_chapter_prints():
    assert RandomTokens().bayes_floor() == pytest.approx(4.1589, abs=5e-5)
    assert RandomTokens().peek() == pytest.approx((0.17329, 0.95898), abs=1e-5)


def test_baselines_do_not_beat_the_floor():
    scores = RandomTokens().baselines()
    assert scores["uniform"] == RandomTokens().bayes_floor() < scores["unigram"]
    assert scores["unigram"] < scores["uniform"] + 1e-3
    task = RandomTokens()
    _, targets = task.sample("validation")
    loss = task.loss(torch.zeros(*targets.shape, 64), targets)
    assert loss.item() == pytest.approx(scores["uniform"], rel=1e-6)
