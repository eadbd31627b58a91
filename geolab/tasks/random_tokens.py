"""Random tokens: predict the next of independent uniform tokens, which nobody can. Whoever scores better than ln V has seen it.

    b_0 … b_T uniform on V tokens,   inputs b_0 … b_{T−1},   targets b_1 … b_T

The leakage test of a notebook of the Geometric Transformer lecture, with its V = 64 and 25 tokens. It draws 64 fresh
sequences at each of 250 steps; our training set is as large, so that a run of that length has little to memorise.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from geolab.tasks.base import Pairs, Score, require_counts, require_split


@dataclass(frozen=True)
class RandomTokens:
    """The leakage task: (N, length) tokens in and next tokens out, int64, loss in nats a token."""

    vocabulary: int = 64      # V
    length: int = 24          # T, predictions in a sequence
    train: int = 16_000
    validation: int = 1000
    seed: int = 42
    validation_seed: int = 1042

    def __post_init__(self):
        require_counts(self, vocabulary=1, length=1, train=0, validation=0)

    def sample(self, split: str, seed: int | None = None) -> Pairs:
        require_split(split)
        default, count = (self.seed, self.train) if split == "train" else (self.validation_seed, self.validation)
        rng = np.random.RandomState(default if seed is None else seed)
        tokens = torch.from_numpy(rng.randint(self.vocabulary, size=(count, self.length + 1)))
        return Pairs(tokens[:, :-1], tokens[:, 1:])

    def loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(prediction.flatten(0, 1), target.flatten())

    def accuracy(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Scalar: the share of right tokens."""
        return (prediction.argmax(-1) == target).double().mean()

    def bayes_floor(self) -> float:
        """ln V, of whoever reads b_0 … b_t to predict b_{t+1}."""
        return math.log(self.vocabulary)

    def peek(self) -> Score:
        """The best that a model scores whose output at t reads b_{t+1}: only the last target lies outside its inputs.

        Loss ln(V)/T, accuracy (T − 1 + 1/V)/T.
        """
        return Score(math.log(self.vocabulary) / self.length, (self.length - 1 + 1 / self.vocabulary) / self.length)

    def baselines(self) -> dict[str, float]:
        """The unigram's chances are counts of the training targets, one added to each."""
        count = torch.bincount(self.sample("train").targets.flatten(), minlength=self.vocabulary).double() + 1
        return {"uniform": math.log(self.vocabulary),
                "unigram": -(count / count.sum()).log()[self.sample("validation").targets].mean().item()}
