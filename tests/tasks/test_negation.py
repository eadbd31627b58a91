import numpy as np
import pytest
import torch
from torch.testing import assert_close

from geolab.tasks import Negation, Reflection


def test_the_published_sizes():
    task = Negation()
    assert task.sample("train").inputs.shape == task.sample("validation").targets.shape == (500, 64)


def test_the_target_is_the_negative_and_the_input_is_normal():
    x, y = Negation(dim=10, train=20_000).sample("train")
    assert torch.equal(y, -x)
    assert x.mean().abs().item() < 4 / np.sqrt(x.numel())
    assert x.double().var().item() == pytest.approx(1, abs=4 * np.sqrt(2 / x.numel()))


def test_fewer_training_examples_are_the_first_ones():
    few, many = (Negation(train=count).sample("train").inputs for count in (10, 500))
    assert torch.equal(few, many[:10])


def test_nothing_scores_below_the_floor_and_the_solution_scores_it():
    task = Negation()
    x, y = task.sample("validation")
    assert task.bayes_floor() == 0 == task.loss(-x, y).item()
    assert all(loss >= 0 for loss in task.baselines().values())


@pytest.mark.parametrize("train", [3, 40])
def test_baselines_by_hand(train):
    task = Negation(dim=6, train=train, validation=15)
    a, b = (t.double().numpy() for t in task.sample("train"))
    x, y = (t.double().numpy() for t in task.sample("validation"))
    weight = np.linalg.pinv(a) @ b
    expected = {"zero": y**2, "copy the input": 4 * x**2, "training mean": (b.mean(0) - y) ** 2,
                "least squares": (x @ weight - y) ** 2}
    expected = {name: error.mean() for name, error in expected.items()}
    assert task.baselines() == pytest.approx(expected, rel=1e-5, abs=1e-12)


def test_alignment_is_the_mean_cosine():
    prediction = torch.tensor([[3.0, 0.0], [1.0, 1.0], [0.0, -2.0]])
    target = torch.tensor([[1.0, 0.0], [0.0, 5.0], [0.0, 1.0]])
    found = Negation(dim=2).alignment(prediction, target).item()
    assert found == pytest.approx((1 + 2**-0.5 - 1) / 3, rel=1e-6)
    x, y = Negation().sample("train")
    assert Negation().alignment(-x, y).item() == pytest.approx(1, abs=1e-6)
    assert Negation().alignment(x, y).item() == pytest.approx(-1, abs=1e-6)


# ---------------------------------------------------------------- a mirror for each sequence

def test_pairs_share_one_mirror_and_sequences_do_not():
    task = Reflection(dim=5, pairs=4, train=50)
    inputs, targets = (t.double() for t in task.sample("train"))
    assert inputs.shape == targets.shape == (50, 7, 5)
    assert torch.equal(inputs[:, 1:], targets[:, :-1])
    x, y = inputs[:, ::2], targets[:, ::2]
    assert_close(x.norm(dim=-1), y.norm(dim=-1), rtol=1e-5, atol=0)
    mirrors = (x - y) / (x - y).norm(dim=-1, keepdim=True)
    cosines = (mirrors[:, 1:] * mirrors[:, :1]).sum(-1).abs()
    # Where x lies in the mirror, x − y is mostly rounding.
    assert (cosines > 1 - 1e-4).float().mean() > 0.95
    assert (mirrors[:, 0] @ mirrors[:, 0].T - torch.eye(50)).abs().max() < 1 - 1e-6


def test_only_the_reflected_vectors_are_scored():
    task = Reflection(dim=3, pairs=3, train=10)
    x, y = task.sample("train")
    changed = y.clone()
    changed[:, 1::2] += 1
    assert task.loss(y, changed).item() == 0 < task.loss(y, y + 1).item()


@pytest.mark.parametrize("dim, pairs", [(2, 3), (8, 4)])
def test_the_floor_is_scored_by_reading_the_mirror_off_the_first_pair(dim, pairs):
    task = Reflection(dim=dim, pairs=pairs, train=20_000)
    inputs, targets = (t.double() for t in task.sample("train"))
    k = inputs[:, :1] - inputs[:, 1:2]
    k = k / k.norm(dim=-1, keepdim=True)
    prediction = inputs - 2 * (inputs * k).sum(-1, keepdim=True) * k
    prediction[:, 0] = (1 - 2 / dim) * inputs[:, 0]
    losses = (prediction - targets)[:, ::2].square().mean(dim=(1, 2))
    error = losses.std().item() / np.sqrt(len(losses))
    assert abs(losses.mean().item() - task.bayes_floor()) < 4 * error < 0.1 * task.bayes_floor()


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_reflection_is_not_solved_by_a_baseline(noise):
    task = Reflection(noise=noise)
    assert min(task.baselines().values()) > 2 * task.bayes_floor()
