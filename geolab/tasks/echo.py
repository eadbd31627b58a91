"""Echo ("stability", E-MHC-Geo section 9.2): one unit vector, repeated with noise; predict the next repetition.

    x_t = key + σ ε_t,   key uniform on the unit sphere of R^d,   ε_t ~ N(0, I)

The target x_{t+1} carries noise of its own, so σ² a coordinate is out of reach of every model. Published, the running mean
all but reaches the floor. In the harder form, ours, the vector walks:

    x_t = z_t + σ ε_t,   z_{t+1} = z_t + τ η_t,   z_0 ~ N(0, I/d),   ε_t, η_t ~ N(0, I)

The last vector alone is noisy and the oldest are out of date: the Kalman filter weighs them by τ/σ. Each sequence may have a τ
of its own; then no fixed weights are the best, and τ has to be read from the sequence.

Legend: N sequences, T = length − 1 positions.
"""

import math
from dataclasses import dataclass, fields

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from geolab.checks import require_number
from geolab.tasks.base import Pairs, float32, least_squares, require_counts, require_split

SPAN = 10


@dataclass(frozen=True)
class Echo:
    """The echo task, by default at the published size: (N, length − 1, dim) inputs and targets, loss in MSE a coordinate."""

    dim: int = 64
    length: int = 128        # vectors in a sequence; one less to predict
    noise: float = 1e-3      # σ
    train: int = 900
    validation: int = 100
    seed: int = 42           # one stream of numbers for both splits, as published
    drift: float = 0.0       # τ; 0 is the published task
    per_sequence: bool = False   # a τ for each sequence, log-uniform from drift / SPAN to drift · SPAN

    def __post_init__(self):
        require_counts(self, dim=1, length=2, train=0, validation=0)
        require_number("noise", self.noise, low=0)
        require_number("drift", self.drift, low=0)
        if self.per_sequence and not self.drift:
            raise ValueError(f"drift must be positive where per_sequence is, got {self.drift}")

    def __repr__(self) -> str:
        """Without the harder form where it is off: stored runs know the published task by these words."""
        left_out = () if self.drift else ("drift", "per_sequence")
        shown = (f"{field.name}={getattr(self, field.name)!r}" for field in fields(self) if field.name not in left_out)
        return f"Echo({', '.join(shown)})"

    def sample(self, split: str, seed: int | None = None) -> Pairs:
        part = self._part(split)
        rng = np.random.RandomState(self.seed if seed is None else seed)
        draws = rng.randn(self.train + self.validation, self.length + 1, self.dim)  # a key and its noise, in turn
        if self.drift:
            steps = rng.randn(len(draws), self.length, self.dim)[part] * self.drifts(split, seed).view(-1, 1, 1).numpy()
            steps[:, 0] = draws[part, 0] / math.sqrt(self.dim)
            hidden = steps.cumsum(1)
        else:
            hidden = draws[part, :1] / np.linalg.norm(draws[part, :1], axis=-1, keepdims=True)
        x = float32(hidden + self.noise * draws[part, 1:])
        return Pairs(x[:, :-1], x[:, 1:])

    def drifts(self, split: str, seed: int | None = None) -> Tensor:
        """(N,): τ of each sequence of `sample(split, seed)`, float64."""
        rng = np.random.RandomState([self.seed if seed is None else seed, 1])  # not the stream of the published numbers
        power = self.per_sequence * rng.uniform(-1, 1, self.train + self.validation)
        return torch.from_numpy(self.drift * SPAN**power[self._part(split)])

    def _part(self, split: str) -> slice:
        require_split(split)
        return slice(self.train) if split == "train" else slice(self.train, None)

    def loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(prediction, target)

    def bayes_predictor(self, inputs: Tensor) -> Tensor:
        """E[x_{t+1} | x_0 … x_t]: the mean of the von Mises–Fisher posterior of the key; with a drift, the Kalman filter.

        With S = x_0 + … + x_t and κ = ‖S‖/σ², it is A(κ) S/‖S‖, where A is a ratio of Bessel functions; its
        two-sided bound by Amos (1974) pins it to a relative d/κ², below float32 while d σ⁴ ≪ 1e-7.

        Raises: ValueError where each sequence has a drift of its own: `kalman_filter` has to be told them.
        """
        if self.per_sequence:
            raise ValueError("bayes_predictor must know the drift, got per_sequence=True; use kalman_filter with drifts(split)")
        if self.drift:
            return self.kalman_filter(inputs, torch.tensor([self.drift], dtype=torch.float64))
        total = inputs.double().cumsum(1)
        norm = torch.linalg.vector_norm(total, dim=-1, keepdim=True)
        kappa, half = norm / self.noise**2, (self.dim - 1) / 2
        shrink = kappa / (half + torch.sqrt(kappa.square() + (half + 0.5) ** 2))
        return (shrink * total / norm).to(inputs.dtype)

    def kalman_filter(self, inputs: Tensor, drifts: Tensor) -> Tensor:
        """E[x_{t+1} | x_0 … x_t, τ] = m_t:  m_t = m_{t−1} + k_t (x_t − m_{t−1}),  m_{−1} = 0. drifts: τ, (N,) or (1,)."""
        mean, means = torch.zeros_like(inputs[:, 0], dtype=torch.float64), []
        for x, gain in zip(inputs.double().unbind(1), self.kalman_gains(drifts, inputs.shape[1])):
            mean = mean + gain[:, None] * (x - mean)
            means.append(mean)
        return torch.stack(means, 1).to(inputs.dtype)

    def kalman_gains(self, drifts: Tensor, steps: int) -> Tensor:
        """(steps, N): k_t = p_t / (p_t + σ²), where p_0 = 1/d, and p_{t+1} = k_t σ² + τ² is the variance of z_{t+1} given x_0 … x_t.

        In float64 for drifts in float64.
        """
        variance, gains = torch.full_like(drifts, 1 / self.dim), []
        for _ in range(steps):
            gains.append(variance / (variance + self.noise**2))
            variance = gains[-1] * self.noise**2 + drifts**2
        return torch.stack(gains)

    def bayes_floor(self) -> float:
        """σ² (1 + (1 − 1/d) H_n / n), n = length − 1: exact to a relative d σ², for which d σ² ≪ 1 is asked.

        The noise of the target, and a key known after t + 1 observations to σ²/(t + 1) in the d − 1 directions
        tangent to the sphere.

        With a drift, σ² + p_{t+1} averaged over positions: exact, all being Gaussian. With a drift for each sequence,
        what who is told it scores on average, by quadrature in log τ: a lower bound.
        """
        n = self.length - 1
        if self.drift:
            nodes, weights = np.polynomial.legendre.leggauss(32) if self.per_sequence else np.array([[0.0], [2.0]])
            drifts = self.drift * SPAN ** torch.from_numpy(nodes)
            losses = self.noise**2 * (1 + self.kalman_gains(drifts, n).mean(0)) + drifts**2
            return (torch.from_numpy(weights / 2) @ losses).item()
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
        if self.per_sequence:  # knows E[τ²], and so all second moments: no linear predictor does better
            mean_square = self.drift**2 * (SPAN**2 - SPAN**-2) / (4 * math.log(SPAN))
            predictions["best linear filter"] = self.kalman_filter(x, torch.tensor([mean_square], dtype=torch.float64).sqrt())
        return {name: self.loss(prediction, target).item() for name, prediction in predictions.items()}
