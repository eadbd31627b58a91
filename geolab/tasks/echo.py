"""Echo ("stability", E-MHC-Geo section 9.2): predict the next noisy repetition of one unit vector.

    x_t = key + σ ε_t,   key uniform on the unit sphere of R^d,   ε_t ~ N(0, I)

The target x_{t+1} carries noise of its own, so no model gets below σ² per coordinate. On the
published task the running mean almost reaches the floor.

Legend: N sequences, T = length − 1 positions.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from geolab.checks import require_number
from geolab.tasks.base import Pairs, Regression, float32, least_squares, next_step, part, unit


@dataclass(frozen=True)
class Echo(Regression):
    """The echo task, by default as published: (N, length − 1, dim) inputs and targets."""

    dim: int = 64
    length: int = 128        # vectors in a sequence; one less to predict
    noise: float = 1e-3      # σ
    train: int = 900
    validation: int = 100
    seed: int = 42           # of one stream of numbers for both splits, as published

    def __post_init__(self):
        self.require_counts(dim=1, length=2, train=0, validation=0)
        require_number("noise", self.noise, low=0)

    def sample(self, split: str, seed: int | None = None) -> Pairs:
        examples = part(split, self.train)
        rng = np.random.RandomState(self.seed if seed is None else seed)
        count = self.train + self.validation
        draws = rng.randn(count, self.length + 1, self.dim)  # a key, then its noise
        key, noise = draws[examples, :1], draws[examples, 1:]
        return next_step(float32(unit(key) + self.noise * noise))

    def bayes_predictor(self, inputs: Tensor) -> Tensor:
        """E[x_{t+1} | x_0 … x_t] for inputs (N, T, dim): the mean of a von Mises–Fisher posterior.

        With S = x_0 + … + x_t and κ = ‖S‖/σ², it is A(κ) S/‖S‖, where A is a ratio of Bessel
        functions. The two-sided bound by Amos (1974) gives A up to a relative d/κ², which is below
        the precision of float32 while d σ⁴ ≪ 1e-7.
        """
        total = inputs.double().cumsum(1)
        norm = torch.linalg.vector_norm(total, dim=-1, keepdim=True)
        kappa, half = norm / self.noise**2, (self.dim - 1) / 2
        shrink = kappa / (half + torch.sqrt(kappa.square() + (half + 0.5) ** 2))
        return (shrink * total / norm).to(inputs.dtype)

    def bayes_floor(self) -> float:
        """σ² (1 + (1 − 1/d) H_n / n), n = length − 1, which is exact up to a relative d σ² ≪ 1.

        The target has its own noise, and after t + 1 observations the key is known up to a variance
        of σ²/(t + 1) in each of the d − 1 directions tangent to the sphere.
        """
        n = self.length - 1
        harmonic = sum(1 / t for t in range(1, n + 1))
        return self.noise**2 * (1 + (1 - 1 / self.dim) * harmonic / n)

    def predictions(self, train: Pairs, validation: Pairs) -> dict[str, Tensor]:
        x = validation.inputs
        count = torch.arange(1, x.shape[1] + 1).view(-1, 1)
        return {"zero": torch.zeros_like(x), "copy the input": x,
                "least squares": least_squares(train, validation),
                "running mean": (x.double().cumsum(1) / count).float()}
