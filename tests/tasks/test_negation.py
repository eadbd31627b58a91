import numpy as np
import pytest
import torch

from geolab.tasks import Negation


def test_the_target_is_the_negative_and_the_input_is_normal():
    x, y = Negation(dim=10, train=20_000).sample("train")
    assert torch.equal(y, -x)
    assert x.mean().abs().item() < 4 / np.sqrt(x.numel())
    assert x.double().var().item() == pytest.approx(1, abs=4 * np.sqrt(2 / x.numel()))


def test_fewer_training_examples_are_the_first_ones():
    few, many = (Negation(train=count).sample("train").inputs for count in (10, 500))
    assert torch.equal(few, many[:10])


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
