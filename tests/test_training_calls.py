"""What `fit` makes of its call: wrong arguments, a place that can't be written, a context."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from geolab.distributed import Engine
from geolab.tasks import Negation
from geolab.training import Budget, fit

TASK = Negation(dim=4, train=32, validation=16)


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.2))


def train(network=None, task=TASK, **options):
    return fit(network or model(), task, Budget(steps=3, batch=4, warmup=1), progress=False,
               **options)


@pytest.mark.parametrize("arguments, message", [
    *(({"network": frozen}, "model must have parameters that require gradients, got .* with none")
      for frozen in (nn.Identity(), nn.Linear(4, 4).requires_grad_(False))),
    ({"task": replace(TASK, train=0)}, "task must have training examples, got none"),
    ({"save_every": 0}, "save_every must be at least 1, got 0"),
    *(({"seed": seed}, "seed must be") for seed in ("a", 1.5, None, 2**63))])
def test_what_cannot_be_trained_is_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        train(**arguments)


@pytest.mark.parametrize("name", ["shard", "compile"])
def test_an_engine_takes_no_word_for_yes(name):
    with pytest.raises(ValueError, match=f"^{name} must be one of True, False, got 'no'$"):
        Engine(**{name: "no"})


@pytest.mark.parametrize("around", [torch.no_grad(), torch.inference_mode()])
def test_it_trains_wherever_it_is_called_and_ends_in_eval_mode(tmp_path, around):
    """A run that is read ends there as well."""
    losses = train().train_loss
    for _ in range(2):
        network = model()
        with around:
            assert train(network, checkpoint=tmp_path / "run").train_loss == losses
        assert not any(module.training for module in network.modules())


def test_a_checkpoint_that_cannot_be_written_or_read_is_told_before_the_first_step(tmp_path):
    network = model()
    (tmp_path / "file").write_text("no folder")
    (tmp_path / "damaged").write_bytes(b"PK and nothing more")
    for place, error in (("file/run", OSError), (".", OSError), ("damaged", ValueError)):
        with pytest.raises(error, match=str(tmp_path)):
            train(network, checkpoint=tmp_path / place)
    assert torch.equal(network[0].weight, model()[0].weight)


def test_numbers_of_numpy_go_into_a_checkpoint_that_is_read_again(tmp_path):
    budget = Budget(steps=np.int64(3), batch=4, lr=np.float64(1e-3), warmup=1,
                    weight_decay=np.float32(0.5))
    for _ in range(2):
        history = fit(model(), TASK, budget, seed=np.int64(3), progress=False,
                      checkpoint=tmp_path / "run")
    assert budget == Budget(steps=3, batch=4, lr=1e-3, warmup=1, weight_decay=0.5)
    assert len(history.train_loss) == 3
