"""The base classes of tasks: data, a loss, the floor that no model beats, and simple predictors.

A task is a frozen dataclass, so tasks with equal fields are equal and give equal data.
`Regression` and `Classification` define the loss. A new task adds `sample`, `bayes_floor` and its
simple predictors.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from geolab.checks import require_count, require_option

IGNORED = -100  # a target that neither the loss nor the accuracy counts


class Pairs(NamedTuple):
    """Inputs and targets, one example per row: float32 vectors, or int64 tokens and classes."""

    inputs: Tensor
    targets: Tensor


class Score(NamedTuple):
    """The score of a known classifier: cross-entropy in nats, and the share of right answers."""

    loss: float
    accuracy: float


class Task(ABC):
    """The methods of every task. Training calls `sample` and `loss`. The others tell what a loss
    means.
    """

    @abstractmethod
    def sample(self, split: str, seed: int | None = None) -> Pairs:
        """The "train" or "validation" pairs. Without a seed they are the published ones.

        Raises: ValueError for any other split.
        """

    @abstractmethod
    def loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        """The scalar that training minimises."""

    @abstractmethod
    def bayes_floor(self) -> float:
        """The expected loss of the best predictor that reads only what a model may read."""

    def baselines(self) -> dict[str, float]:
        """The validation loss of each of the `predictions`."""
        train, validation = self.sample("train"), self.sample("validation")
        return {name: self.loss(prediction, validation.targets).item()
                for name, prediction in self.predictions(train, validation).items()}

    def predictions(self, train: Pairs, validation: Pairs) -> dict[str, Tensor]:
        """The predictions of simple predictors at the validation inputs, by name.

        The predictors learn nothing from `train`, or no more than one linear map. A task that knows
        their losses without making predictions defines `baselines` instead.
        """
        raise TypeError(f"{type(self).__name__} must define predictions or baselines, has neither")

    def require_counts(self, **at_least: int) -> None:
        """Raise ValueError unless each named field is a whole number and at least the given one."""
        for name, least in at_least.items():
            require_count(name, getattr(self, name), least)

    def draw(self, split: str, seed: int | None) -> tuple[np.random.RandomState, int]:
        """The random generator of a split, and its number of examples.

        The task has the fields `train`, `validation` (the numbers), `seed` and `validation_seed`.
        """
        require_split(split)
        default = "seed" if split == "train" else "validation_seed"
        rng = np.random.RandomState(getattr(self, default) if seed is None else seed)
        return rng, getattr(self, split)


class Regression(Task):
    """A task that predicts vectors. The loss is the mean squared error per coordinate."""

    def loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(prediction, target)


class Classification(Task):
    """A task that predicts classes from logits (…, classes). The loss is cross-entropy in nats."""

    def loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(prediction.flatten(0, -2), target.flatten(), ignore_index=IGNORED)

    def accuracy(self, prediction: Tensor, target: Tensor) -> Tensor:
        """The share of targets that have the largest logit, without the IGNORED ones: a scalar."""
        right = prediction.argmax(-1) == target
        return right[target != IGNORED].double().mean()


def require_split(split: str) -> None:
    """Raise ValueError unless `split` is "train" or "validation"."""
    require_option("split", split, ("train", "validation"))


def part(split: str, train: int) -> slice:
    """The examples of a split, where one stream of numbers draws the `train` examples first."""
    require_split(split)
    return slice(train) if split == "train" else slice(train, None)


def unit(rows: np.ndarray, axis: int = -1) -> np.ndarray:
    """The vectors along an axis, divided by their lengths."""
    return rows / np.linalg.norm(rows, axis=axis, keepdims=True)


def float32(array: np.ndarray) -> Tensor:
    return torch.from_numpy(array.astype(np.float32))


def least_squares(train: Pairs, validation: Pairs) -> Tensor:
    """The predictions, at the validation inputs, of the linear map that best fits the training
    pairs.

    The fit is in float64. Where many maps fit equally well, it takes the smallest one.
    """
    width = train.inputs.shape[-1]
    inputs, targets = (t.double().reshape(-1, width) for t in train)
    weight = torch.linalg.lstsq(inputs, targets, driver="gelsd").solution
    return (validation.inputs.double() @ weight).to(validation.inputs.dtype)


def next_step(sequences: Tensor) -> Pairs:
    """Every element of the sequences but the last (N, T, …), and the one that follows it."""
    return Pairs(sequences[:, :-1], sequences[:, 1:])


def unigram(targets: Tensor, vocabulary: int) -> Tensor:
    """(vocabulary,): the share of each token in the targets, with one added to each count."""
    count = torch.bincount(targets.flatten(), minlength=vocabulary).double() + 1
    return count / count.sum()


def log_loss(chances: Tensor) -> float:
    """The loss in nats of a predictor that gave the targets these probabilities."""
    return -chances.log().mean().item()
