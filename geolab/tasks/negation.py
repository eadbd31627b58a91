"""Negation (E-MHC-Geo section 9.2): for x ~ N(0, I) in R^d, predict −x. One matrix solves it.

Reflection is its harder form, which is ours: each sequence has its own mirror k, to be found from
solved examples.

    x_0, y_0, x_1, y_1, …,   x_s ~ N(0, I),   y_s = (I − 2 k kᵀ) x_s + σ ε_s
    k uniform on the unit sphere,   ε_s ~ N(0, I)
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from geolab.checks import require_number
from geolab.tasks.base import Pairs, Regression, float32, least_squares, next_step, unit


@dataclass(frozen=True)
class Negation(Regression):
    """The negation task: (N, dim) inputs and targets. The paper varies `train` from 10 to 500."""

    dim: int = 64
    train: int = 500
    validation: int = 500
    seed: int = 42
    validation_seed: int = 999

    def __post_init__(self):
        self.require_counts(dim=1, train=0, validation=0)

    def sample(self, split: str, seed: int | None = None) -> Pairs:
        rng, count = self.draw(split, seed)
        x = float32(rng.randn(count, self.dim))
        return Pairs(x, -x)

    def alignment(self, prediction: Tensor, target: Tensor) -> Tensor:
        """The paper's measure: the mean cosine between prediction and target, at best 1."""
        return F.cosine_similarity(prediction, target, dim=-1).mean()

    def bayes_floor(self) -> float:
        """Zero, since the target is a function of the input."""
        return 0.0

    def predictions(self, train: Pairs, validation: Pairs) -> dict[str, Tensor]:
        x = validation.inputs
        return {"zero": torch.zeros_like(x), "copy the input": x,
                "training mean": train.targets.mean(0).expand_as(x),
                "least squares": least_squares(train, validation)}


@dataclass(frozen=True)
class Reflection(Regression):
    """Reflection in context: (N, 2 · pairs − 1, dim) inputs and targets; only y_s is scored."""

    dim: int = 16
    pairs: int = 16
    noise: float = 0.0       # σ
    train: int = 1000
    validation: int = 500
    seed: int = 42
    validation_seed: int = 999

    def __post_init__(self):
        self.require_counts(dim=1, pairs=1, train=0, validation=0)
        require_number("noise", self.noise, low=0)

    def sample(self, split: str, seed: int | None = None) -> Pairs:
        rng, count = self.draw(split, seed)
        k = unit(rng.randn(count, self.dim, 1), axis=1)
        x, noise = rng.randn(2, count, self.pairs, self.dim)
        y = x - 2 * (x @ k) @ k.transpose(0, 2, 1) + self.noise * noise
        return next_step(float32(np.stack([x, y], axis=2).reshape(count, 2 * self.pairs, self.dim)))

    def loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        """The error at every second position: nothing foretells the new x that follows a y."""
        return F.mse_loss(prediction[:, ::2], target[:, ::2])

    def bayes_floor(self) -> float:
        """σ² + (4/d)(1 − 1/d) / pairs, which is exact without noise and a lower bound with it.

        The best guess for the first pair is E[I − 2 k kᵀ] x = (1 − 2/d) x, which leaves an error of
        1 − (1 − 2/d)² per coordinate. Without noise the first pair shows the mirror, k ∝ x_0 − y_0.
        With noise every later y keeps an error of at least σ².
        """
        return self.noise**2 + 4 / self.dim * (1 - 1 / self.dim) / self.pairs

    def predictions(self, train: Pairs, validation: Pairs) -> dict[str, Tensor]:
        x, scored = validation.inputs, Pairs(*(part[:, ::2] for part in train))
        return {"zero": torch.zeros_like(x), "copy the input": x, "negate the input": -x,
                "least squares": least_squares(scored, validation)}
