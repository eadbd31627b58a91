"""What every task is: data, a loss, the floor that no model can beat, and what trivial predictors score."""

from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from geolab.checks import require_count


class Pairs(NamedTuple):
    """Inputs and targets, first axis the example: float32 vectors, or int64 tokens."""

    inputs: Tensor
    targets: Tensor


class Score(NamedTuple):
    """What a known predictor of classes scores: cross-entropy in nats, and the share of right answers."""

    loss: float
    accuracy: float


class Task(Protocol):
    """The face of a task; `geolab.fit` needs no more."""

    def sample(self, split: str, seed: int | None = None) -> Pairs:
        """The "train" or "validation" pairs; seed None gives the published ones."""

    def loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        """A scalar to minimise."""

    def bayes_floor(self) -> float:
        """The expected loss of the best predictor that reads what a model may read."""

    def baselines(self) -> dict[str, float]:
        """The validation loss of predictors that learn nothing, or one linear map."""


def require_split(split: str) -> None:
    if split not in ("train", "validation"):
        raise ValueError(f"split must be 'train' or 'validation', got {split!r}")


def require_counts(task: Task, **at_least: int) -> None:
    """Raise ValueError unless the named fields of a task are whole numbers, each at least what is given for it."""
    for name, least in at_least.items():
        require_count(name, getattr(task, name), least)


def least_squares(train: Pairs, validation: Pairs) -> Tensor:
    """Predictions on validation inputs of the linear map that fits the training pairs best, in float64."""
    width = train.inputs.shape[-1]
    inputs, targets = (t.double().reshape(-1, width) for t in train)
    weight = torch.linalg.lstsq(inputs, targets, driver="gelsd").solution
    return (validation.inputs.double() @ weight).to(validation.inputs.dtype)


def float32(array: np.ndarray) -> Tensor:
    return torch.from_numpy(array.astype(np.float32))
