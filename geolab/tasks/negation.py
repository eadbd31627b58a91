"""Negation (E-MHC-Geo section 9.2): x ~ N(0, I) in R^d, predict −x. No sequence, no noise, solved by one matrix."""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from geolab.tasks.base import Pairs, float32, least_squares, require_split


@dataclass(frozen=True)
class Negation:
    """The negation task: (N, dim) inputs and targets, loss in MSE a coordinate. The paper varies `train` from 10 to 500."""

    dim: int = 64
    train: int = 500
    validation: int = 500
    seed: int = 42
    validation_seed: int = 999

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
