"""Negation (E-MHC-Geo section 9.2): x ~ N(0, I) in R^d, predict −x. No sequence, no noise, solved by one matrix.

Reflection, its harder form, is ours: a mirror k for each sequence, to be found from solved examples.

    x_0, y_0, x_1, y_1, …,   x_s ~ N(0, I),   y_s = (I − 2 k kᵀ) x_s + σ ε_s,   k uniform on the unit sphere
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from geolab.checks import require_number
from geolab.tasks.base import Pairs, float32, least_squares, require_counts, require_split


@dataclass(frozen=True)
class Negation:
    """The negation task: (N, dim) inputs and targets, loss in MSE a coordinate. The paper varies `train` from 10 to 500."""

    dim: int = 64
    train: int = 500
    validation: int = 500
    seed: int = 42
    validation_seed: int = 999

    def __post_init__(self):
        require_counts(self, dim=1, train=0, validation=0)

    def sample(self, split: str, seed: int | None = None) -> Pairs:
        require_split(split)
        default, count = (self.seed, self.train) if split == "train" else (self.validation_seed, self.validation)
        x = float32(np.random.RandomState(default if seed is None else seed).randn(count, self.dim))
        return Pairs(x, -x)

    def loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(prediction, target)

    def alignment(self, prediction: Tensor, target: Tensor) -> Tensor:
        """The paper's measure: the mean cosine between prediction and target, 1 at best."""
        return F.cosine_similarity(prediction, target, dim=-1).mean()

    def bayes_floor(self) -> float:
        """Zero: the target is a function of the input."""
        return 0.0

    def baselines(self) -> dict[str, float]:
        train, validation = self.sample("train"), self.sample("validation")
        x, target = validation
        predictions = {
            "zero": torch.zeros_like(x),
            "copy the input": x,
            "training mean": train.targets.mean(0).expand_as(x),
            "least squares": least_squares(train, validation),
        }
        return {name: self.loss(prediction, target).item() for name, prediction in predictions.items()}


@dataclass(frozen=True)
class Reflection:
    """Reflection in context: (N, 2 · pairs − 1, dim) inputs and targets, loss in MSE a coordinate of the y_s alone."""

    dim: int = 16
    pairs: int = 16
    noise: float = 0.0       # σ
    train: int = 1000
    validation: int = 500
    seed: int = 42
    validation_seed: int = 999

    def __post_init__(self):
        require_counts(self, dim=1, pairs=1, train=0, validation=0)
        require_number("noise", self.noise, low=0)

    def sample(self, split: str, seed: int | None = None) -> Pairs:
        require_split(split)
        default, count = (self.seed, self.train) if split == "train" else (self.validation_seed, self.validation)
        rng = np.random.RandomState(default if seed is None else seed)
        k = rng.randn(count, self.dim, 1)
        k /= np.linalg.norm(k, axis=1, keepdims=True)
        x, noise = rng.randn(2, count, self.pairs, self.dim)
        y = x - 2 * (x @ k) @ k.transpose(0, 2, 1) + self.noise * noise
        tokens = float32(np.stack([x, y], axis=2).reshape(count, 2 * self.pairs, self.dim))
        return Pairs(tokens[:, :-1], tokens[:, 1:])

    def loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Every second position: after a y comes a new x, which nothing foretells."""
        return F.mse_loss(prediction[:, ::2], target[:, ::2])

    def bayes_floor(self) -> float:
        """σ² + (4/d)(1 − 1/d) / pairs: exact without noise, a lower bound with it.

        Before the first pair the best guess is E[I − 2 k kᵀ] x = (1 − 2/d) x, which leaves 1 − (1 − 2/d)² a coordinate.
        Without noise the first pair shows the mirror, k ∝ x_0 − y_0; with noise every later y keeps at least σ².
        """
        return self.noise**2 + 4 / self.dim * (1 - 1 / self.dim) / self.pairs

    def baselines(self) -> dict[str, float]:
        train, validation = self.sample("train"), self.sample("validation")
        x, target = validation
        scored = Pairs(train.inputs[:, ::2], train.targets[:, ::2])
        predictions = {
            "zero": torch.zeros_like(x),
            "copy the input": x,
            "negate the input": -x,
            "least squares": least_squares(scored, validation),
        }
        return {name: self.loss(prediction, target).item() for name, prediction in predictions.items()}
