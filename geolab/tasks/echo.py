"""Echo ("stability", E-MHC-Geo section 9.2): one unit vector, repeated with noise; predict the next repetition.

    x_t = key + σ ε_t,   key uniform on the unit sphere of R^d,   ε_t ~ N(0, I)

The target x_{t+1} carries noise of its own, so σ² a coordinate is out of reach of every model.
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from geolab.tasks.base import Pairs, float32, least_squares, require_split


@dataclass(frozen=True)
class Echo:
    """The echo task, by default at the published size: (N, length − 1, dim) inputs and targets, loss in MSE a coordinate."""

    dim: int = 64
    length: int = 128        # vectors in a sequence; one less to predict
    noise: float = 1e-3      # σ
    train: int = 900
    validation: int = 100
    seed: int = 42           # one stream of numbers for both splits, as published

    def sample(self, split: str, seed: int | None = None) -> Pairs:
        require_split(split)
        rng = np.random.RandomState(self.seed if seed is None else seed)
        draws = rng.randn(self.train + self.validation, self.length + 1, self.dim)  # a key and its noise, in turn
        key = draws[:, :1] / np.linalg.norm(draws[:, :1], axis=-1, keepdims=True)
        x = float32(key + self.noise * draws[:, 1:])
        x = x[:self.train] if split == "train" else x[self.train:]
        return Pairs(x[:, :-1], x[:, 1:])

    def loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(prediction, target)

    def bayes_predictor(self, inputs: Tensor) -> Tensor:
        """E[x_{t+1} | x_0 … x_t]: the mean of the von Mises–Fisher posterior of the key.

        With S = x_0 + … + x_t and κ = ‖S‖/σ², it is A(κ) S/‖S‖, where A is a ratio of Bessel functions; its
        two-sided bound by Amos (1974) pins it to a relative d/κ², below float32 while d σ⁴ ≪ 1e-7.
        """
        total = inputs.double().cumsum(1)
        norm = torch.linalg.vector_norm(total, dim=-1, keepdim=True)
        kappa, half = norm / self.noise**2, (self.dim - 1) / 2
        shrink = kappa / (half + torch.sqrt(kappa.square() + (half + 0.5) ** 2))
        return (shrink * total / norm).to(inputs.dtype)

    def bayes_floor(self) -> float:
        """σ² (1 + (1 − 1/d) H_n / n), n = length − 1: exact to a relative d σ², for which d σ² ≪ 1 is asked.

        The noise of the target, and a key known after t + 1 observations to σ²/(t + 1) in the d − 1 directions
        tangent to the sphere.
        """
        n = self.length - 1
        harmonic = sum(1 / t for t in range(1, n + 1))
        return self.noise**2 * (1 + (1 - 1 / self.dim) * harmonic / n)

    def baselines(self) -> dict[str, float]:
        train, validation = self.sample("train"), self.sample("validation")
        x, target = validation
        count = torch.arange(1, x.shape[1] + 1).view(-1, 1)
        predictions = {
            "zero": torch.zeros_like(x),
            "copy the input": x,
            "least squares": least_squares(train, validation),
            "running mean": (x.double().cumsum(1) / count).float(),
        }
        return {name: self.loss(prediction, target).item() for name, prediction in predictions.items()}
