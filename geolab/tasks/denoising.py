"""Denoising: a point of a Gaussian mixture is seen through noise; the task is to find the point.

    x_0 ~ mean over k of N(m_k, τ² I),   x_t = a_t x_0 + s_t ε,   ε ~ N(0, I)
    a_t = cos(π t/2), s_t = sin(π t/2) (cosine schedule), or a_t = 1 − t, s_t = t (linear schedule)

The best answer is known exactly, and so is the flow. The task serves the lecture's diffusion
semigroup, D_{t→r} = D_{s→r} ∘ D_{t→s}. Three maps go from time t to an earlier time s:

    posterior mean   E[x_s | x_t]              does not compose, unless it is linear (one mode)
    flow             the probability-flow ODE  composes, up to an error that falls as 1/steps
    sampler          x_s ~ p(x_s | x_t)        composes in distribution, not point by point

Under mode k, x_t is N(a_t m_k, σ_t² I) with σ_t² = a_t² τ² + s_t². The modes have posterior
weights r_k(x_t) and posterior mean M(x_t) = Σ r_k m_k. The flow is DDIM (Song et al. 2021, eq 12
with its σ = 0), with the exact denoiser in place of a trained one.

Legend: N points, K modes, 2 coordinates. A time t is a number or a tensor that
broadcasts to (N, 1).
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from geolab.checks import require_count, require_number, require_option
from geolab.tasks.base import Pairs, Regression, float32

SCHEDULES = {  # t in [0, 1] -> a_t, s_t
    "cosine": lambda t: (torch.cos(t * math.pi / 2), torch.sin(t * math.pi / 2)),
    "linear": lambda t: (1 - t, t),
}


@dataclass(frozen=True)
class Denoising(Regression):
    """The denoising task: (N, 3) points x_t with their times t in, (N, 2) points x_0 out."""

    modes: int = 4                # K, evenly spaced on the circle
    radius: float = 1.0
    spread: float = 0.1           # τ
    schedule: str = "cosine"
    end: float = 0.95             # times are uniform on [0, end]; nothing of x_0 is left at 1
    train: int = 10_000
    validation: int = 2000
    seed: int = 42
    validation_seed: int = 1042

    def __post_init__(self):
        require_option("schedule", self.schedule, SCHEDULES)
        self.require_counts(modes=1, train=0, validation=0)
        require_number("spread", self.spread, low=0, strict=True)
        require_number("end", self.end, low=0, high=1, strict=True)

    def sample(self, split: str, seed: int | None = None) -> Pairs:
        rng, count = self.draw(split, seed)
        means = self.means().numpy()[rng.randint(self.modes, size=count)]
        x0 = means + self.spread * rng.randn(count, 2)
        t = torch.from_numpy(self.end * rng.rand(count, 1))
        a, s = self.scales(t)
        noisy = a * torch.from_numpy(x0) + s * torch.from_numpy(rng.randn(count, 2))
        return Pairs(torch.cat([noisy, t], 1).float(), float32(x0))

    def means(self) -> Tensor:
        """(K, 2): the means m_k, in float64."""
        angle = 2 * math.pi * torch.arange(self.modes, dtype=torch.float64) / self.modes
        return self.radius * torch.stack([angle.cos(), angle.sin()], -1)

    def scales(self, t: float | Tensor) -> tuple[Tensor, Tensor]:
        """a_t and s_t, in float64 for a number t."""
        t = t if isinstance(t, Tensor) else torch.tensor(t, dtype=torch.float64)
        return SCHEDULES[self.schedule](t)

    def posterior_mean(self, x: Tensor, t: float | Tensor, s: float | Tensor = 0.0) -> Tensor:
        """E[x_s | x_t = x] for s ≤ t, exact: a_s M + c (x − a_t M).

        c is the regression coefficient of x_s on x_t under one mode. x: (N, 2), and so is the
        result.
        """
        a_t, a_s, mean = self.scales(t)[0], self.scales(s)[0], self._mean_of_modes(x, t)
        return a_s * mean + self._regression(t, s) * (x - a_t * mean)

    def flow(self, x: Tensor, t: float, s: float, steps: int = 100) -> Tensor:
        """The points x (N, 2), carried from time t to time s, forwards or backwards.

        Each of the evenly spaced DDIM steps takes x to a_next E[x_0 | x] + s_next E[ε | x]. The
        error falls as 1/steps. Two flows on one grid of times compose up to rounding.

        Raises: ValueError unless `steps` is a positive whole number.
        """
        require_count("steps", steps)
        times = np.linspace(t, s, steps + 1).tolist()
        for now, after in zip(times[:-1], times[1:], strict=True):
            (a, b), (a_next, b_next) = self.scales(now), self.scales(after)
            mean = self._mean_of_modes(x, now)
            surprise = (x - a * mean) / self._variance(now)  # E[ε | x] = b surprise, also at b = 0
            x = a_next * (mean + a * self.spread**2 * surprise) + b_next * b * surprise
        return x

    def sampler(self, x: Tensor, t: float, s: float,
                generator: torch.Generator | None = None) -> Tensor:
        """An exact draw of x_s given x_t = x (N, 2), for s ≤ t.

        It draws a mode by its posterior weight, then a point of the Gaussian under that mode.
        """
        mode = torch.multinomial(self._weights(x, t), 1, generator=generator).squeeze(1)
        mean, c = self.means().to(x)[mode], self._regression(t, s)
        noise = torch.randn(x.shape, dtype=x.dtype, device=x.device, generator=generator)
        deviation = (self._variance(s) - c**2 * self._variance(t)).clamp(min=0).sqrt()
        return self.scales(s)[0] * mean + c * (x - self.scales(t)[0] * mean) + deviation * noise

    def bayes_floor(self) -> float:
        """The mean over t of E tr Cov(x_0 | x_t) / 2.

        The trace is 2 τ² s²/σ² + (s/σ)⁴ (radius² − ‖M‖²). The mean is computed by Gauss–Legendre
        quadrature in t, and on a grid in the plane at each t. Half the grid's step, or twice as
        many times, moves it by less than 1e-10 at τ = 0.1.
        """
        nodes, weights = np.polynomial.legendre.leggauss(32)
        times = (self.end * (nodes + 1) / 2).tolist()
        total = 0.0
        for t, weight in zip(times, (weights / 2).tolist(), strict=True):
            (a, s), variance = self.scales(t), self._variance(t)
            step = variance.sqrt() / 4
            count = int(a * self.radius / step) + 32
            axis = step * torch.arange(-count, count + 1)
            x = torch.cartesian_prod(axis, axis)
            density = torch.exp(-self._distances(x, t) / 2).mean(1) * step**2
            density = density / (2 * math.pi * variance)
            apart = density @ (self.radius**2 - self._mean_of_modes(x, t).square().sum(1))
            at_t = self.spread**2 * s**2 / variance + (s**2 / variance) ** 2 * apart / 2
            total += weight * at_t.item()
        return total

    def predictions(self, train: Pairs, validation: Pairs) -> dict[str, Tensor]:
        """Zero, the input with its shrinking undone, and the best linear map at each t, in float64.

        The best linear map knows the mean and the variance of x_0.
        """
        x, t = validation.inputs.double().split([2, 1], dim=1)
        a, s = self.scales(t)
        means = self.means()
        center, variance = means.mean(0), means.var(0, correction=0) + self.spread**2
        gain = a * variance / (a**2 * variance + s**2)
        return {"zero": torch.zeros_like(x), "x_t / a_t": x / a,
                "best linear": center + gain * (x - a * center)}

    def _variance(self, t: float | Tensor) -> Tensor:
        """σ_t²."""
        a, s = self.scales(t)
        return (a * self.spread) ** 2 + s**2

    def _regression(self, t: float | Tensor, s: float | Tensor) -> Tensor:
        """c = Cov(x_s, x_t | k) / σ_t², where Cov(x_s, x_t | k) = (a_t/a_s) σ_s².

        The reason is that x_t is (a_t/a_s) x_s plus independent noise.
        """
        return self.scales(t)[0] / self.scales(s)[0] * self._variance(s) / self._variance(t)

    def _distances(self, x: Tensor, t: float | Tensor) -> Tensor:
        """(N, K): ‖x − a_t m_k‖² / σ_t²."""
        centers = self.scales(t)[0][..., None] * self.means().to(x)
        return (x[:, None] - centers).square().sum(-1) / self._variance(t)

    def _weights(self, x: Tensor, t: float | Tensor) -> Tensor:
        """(N, K): the weights r_k."""
        return torch.softmax(-self._distances(x, t) / 2, dim=-1)

    def _mean_of_modes(self, x: Tensor, t: float | Tensor) -> Tensor:
        """(N, 2): the mean M."""
        return self._weights(x, t) @ self.means().to(x)
