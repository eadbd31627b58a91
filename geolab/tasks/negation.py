"""Negation (E-MHC-Geo section 9.2): for x ~ N(0, I) in R^d, predict −x. One matrix solves it."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from geolab.tasks.base import Pairs, Regression, float32, least_squares


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
