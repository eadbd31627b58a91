"""Echo ("stability", E-MHC-Geo section 9.2): predict the next noisy repetition of one unit vector.

    x_t = key + σ ε_t,   key uniform on the unit sphere of R^d,   ε_t ~ N(0, I)

The target x_{t+1} carries noise of its own, so no model gets below σ² per coordinate. On the
published task the running mean almost reaches the floor. In a harder form, which is ours, the
vector walks:

    x_t = z_t + σ ε_t,   z_{t+1} = z_t + τ η_t,   z_0 ~ N(0, I/d),   ε_t, η_t ~ N(0, I)

Now the last vector alone is noisy and the oldest vectors are out of date; the Kalman filter
weighs them by τ/σ. Each sequence may have its own τ. Then no fixed weights are best: a model must
read τ from the sequence.

Legend: N sequences, T = length − 1 positions.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from geolab.checks import require_number
from geolab.tasks.base import Pairs, Regression, float32, least_squares, next_step, part, unit

SPAN = 10


@dataclass(frozen=True)
class Echo(Regression):
    """The echo task, by default as published: (N, length − 1, dim) inputs and targets."""

    dim: int = 64
    length: int = 128        # vectors in a sequence; one less to predict
    noise: float = 1e-3      # σ
    train: int = 900
    validation: int = 100
    seed: int = 42           # of one stream of numbers for both splits, as published
    drift: float = 0.0       # τ; 0 is the published task
    per_sequence: bool = False   # one τ per sequence, log-uniform on [drift / SPAN, drift · SPAN]

    def __post_init__(self):
        self.require_counts(dim=1, length=2, train=0, validation=0)
        require_number("noise", self.noise, low=0)
        require_number("drift", self.drift, low=0)
        if self.per_sequence and not self.drift:
            raise ValueError(f"drift must be positive where per_sequence is, got {self.drift}")

    def sample(self, split: str, seed: int | None = None) -> Pairs:
        examples = part(split, self.train)
        rng = np.random.RandomState(self.seed if seed is None else seed)
        count = self.train + self.validation
        draws = rng.randn(count, self.length + 1, self.dim)  # a key, then its noise
        key, noise = draws[examples, :1], draws[examples, 1:]
        if self.drift:
            hidden = rng.randn(count, self.length, self.dim)[examples]
            hidden *= self.drifts(split, seed).view(-1, 1, 1).numpy()
            hidden[:, :1] = key / math.sqrt(self.dim)
            hidden = hidden.cumsum(1)
        else:
            hidden = unit(key)
        return next_step(float32(hidden + self.noise * noise))

    def drifts(self, split: str, seed: int | None = None) -> Tensor:
        """(N,): the drift τ of each sequence of `sample(split, seed)`, in float64."""
        # A second stream of random numbers leaves the published one as it is.
        rng = np.random.RandomState([self.seed if seed is None else seed, 1])
        power = self.per_sequence * rng.uniform(-1, 1, self.train + self.validation)
        return torch.from_numpy(self.drift * SPAN**power[part(split, self.train)])

    def bayes_predictor(self, inputs: Tensor) -> Tensor:
        """E[x_{t+1} | x_0 … x_t] for inputs (N, T, dim): the Kalman filter where the vector walks.

        Otherwise it is the mean of the key's von Mises–Fisher posterior. With S = x_0 + … + x_t
        and κ = ‖S‖/σ², that is A(κ) S/‖S‖, where A is a ratio of Bessel functions. The two-sided
        bound by Amos (1974) gives A up to a relative d/κ², which is below
        the precision of float32 while d σ⁴ ≪ 1e-7.

        Raises: ValueError with `per_sequence`. Then call `kalman_filter`, which is told the drifts.
        """
        if self.per_sequence:
            raise ValueError("bayes_predictor must know the drift, got per_sequence=True; "
                             "use kalman_filter with drifts(split)")
        if self.drift:
            return self.kalman_filter(inputs, torch.tensor([self.drift], dtype=torch.float64))
        total = inputs.double().cumsum(1)
        norm = torch.linalg.vector_norm(total, dim=-1, keepdim=True)
        kappa, half = norm / self.noise**2, (self.dim - 1) / 2
        shrink = kappa / (half + torch.sqrt(kappa.square() + (half + 0.5) ** 2))
        return (shrink * total / norm).to(inputs.dtype)

    def kalman_filter(self, inputs: Tensor, drifts: Tensor) -> Tensor:
        """E[x_{t+1} | x_0 … x_t, τ] = m_t,  m_t = m_{t−1} + k_t (x_t − m_{t−1}),  m_{−1} = 0.

        inputs: (N, T, dim), as the result. drifts: τ per sequence (N,), or one τ for all (1,).
        """
        mean, means = torch.zeros_like(inputs[:, 0], dtype=torch.float64), []
        gains = self.kalman_gains(drifts, inputs.shape[1])
        for x, gain in zip(inputs.double().unbind(1), gains, strict=True):
            mean = mean + gain[:, None] * (x - mean)
            means.append(mean)
        return torch.stack(means, 1).to(inputs.dtype)

    def kalman_gains(self, drifts: Tensor, steps: int) -> Tensor:
        """(steps, N): k_t = p_t / (p_t + σ²), in the dtype of the drifts τ (N,).

        p_t is the variance of z_t given x_0 … x_{t−1}: p_0 = 1/d and p_{t+1} = k_t σ² + τ².
        """
        variance, gains = torch.full_like(drifts, 1 / self.dim), []
        for _ in range(steps):
            gains.append(variance / (variance + self.noise**2))
            variance = gains[-1] * self.noise**2 + drifts**2
        return torch.stack(gains)

    def bayes_floor(self) -> float:
        """σ² (1 + (1 − 1/d) H_n / n), n = length − 1, which is exact up to a relative d σ² ≪ 1.

        The target has its own noise, and after t + 1 observations the key is known up to a variance
        of σ²/(t + 1) in each of the d − 1 directions tangent to the sphere.

        Where the vector walks: σ² + p_{t+1}, averaged over positions. This is exact, since
        everything is Gaussian. With `per_sequence` it is the mean loss of a predictor that is
        told τ, a lower bound, computed by quadrature in log τ.
        """
        n = self.length - 1
        if self.drift:
            rule = np.polynomial.legendre.leggauss(32) if self.per_sequence else ([0.0], [2.0])
            nodes, weights = map(np.array, rule)
            drifts = self.drift * SPAN ** torch.from_numpy(nodes)
            losses = self.noise**2 * (1 + self.kalman_gains(drifts, n).mean(0)) + drifts**2
            return (torch.from_numpy(weights / 2) @ losses).item()
        harmonic = sum(1 / t for t in range(1, n + 1))
        return self.noise**2 * (1 + (1 - 1 / self.dim) * harmonic / n)

    def predictions(self, train: Pairs, validation: Pairs) -> dict[str, Tensor]:
        """Four predictors, and with `per_sequence` the best linear one.

        The last one knows E[τ²] and with it all second moments, so no linear predictor is better.
        """
        x = validation.inputs
        count = torch.arange(1, x.shape[1] + 1).view(-1, 1)
        found = {"zero": torch.zeros_like(x), "copy the input": x,
                 "least squares": least_squares(train, validation),
                 "running mean": (x.double().cumsum(1) / count).float()}
        if self.per_sequence:
            mean_square = self.drift**2 * (SPAN**2 - SPAN**-2) / (4 * math.log(SPAN))
            drift = torch.tensor([mean_square], dtype=torch.float64).sqrt()
            found["best linear filter"] = self.kalman_filter(x, drift)
        return found
