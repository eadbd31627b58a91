"""Denoising: a point of a Gaussian mixture, seen through noise; say where it was. The exact answer is known, and so is the flow.

    x_0 ~ mean over k of N(m_k, τ² I),   x_t = a_t x_0 + s_t ε,   a_t² + s_t² = 1 (cosine) or a_t = 1 − t, s_t = t (linear)

With the lecture's diffusion semigroup in view, D_{t→r} = D_{s→r} ∘ D_{t→s}. Three maps from time t to time s < t:

    posterior mean   E[x_s | x_t]              does not compose, unless it is linear (one mode)
    flow             the probability-flow ODE  composes, up to the error of its steps, which falls as 1/steps
    sampler          x_s ~ p(x_s | x_t)        composes in distribution, not point by point: it draws noise

Under mode k, x_t is N(a_t m_k, σ_t² I) with σ_t² = a_t² τ² + s_t², and r_k(x_t), M(x_t) = Σ r_k m_k are the modes' posterior
weights and mean. The flow is DDIM (Song et al. 2021, eq 12 with its σ = 0) with the exact denoiser in place of a trained one.

Legend: N points, K modes; the plane has 2 coordinates. A time t is a number, or a tensor that broadcasts to (N, 1).
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from geolab.checks import require_count, require_number, require_option
from geolab.tasks.base import Pairs, float32, require_counts, require_split

SCHEDULES = {  # t in [0, 1] -> a_t, s_t
    "cosine": lambda t: (torch.cos(t * math.pi / 2), torch.sin(t * math.pi / 2)),
    "linear": lambda t: (1 - t, t),
}


@dataclass(frozen=True)
class Denoising:
    """The denoising task: (N, 3) noisy points x_t with their times t in, (N, 2) points x_0 out, loss in MSE a coordinate."""

    modes: int = 4                # K, evenly on the circle
    radius: float = 1.0
    spread: float = 0.1           # τ
    schedule: str = "cosine"
    end: float = 0.95             # times are uniform on [0, end]; at 1 nothing of x_0 is left
    train: int = 10_000
    validation: int = 2000
    seed: int = 42
    validation_seed: int = 1042

    def __post_init__(self):
        require_option("schedule", self.schedule, SCHEDULES)
        require_counts(self, modes=1, train=0, validation=0)
        require_number("spread", self.spread, low=0, strict=True)
        require_number("end", self.end, low=0, high=1, strict=True)

    def sample(self, split: str, seed: int | None = None) -> Pairs:
        require_split(split)
        default, count = (self.seed, self.train) if split == "train" else (self.validation_seed, self.validation)
        rng = np.random.RandomState(default if seed is None else seed)
        x0 = self.means().numpy()[rng.randint(self.modes, size=count)] + self.spread * rng.randn(count, 2)
        t = torch.from_numpy(self.end * rng.rand(count, 1))
        a, s = self.scales(t)
        noisy = a * torch.from_numpy(x0) + s * torch.from_numpy(rng.randn(count, 2))
        return Pairs(torch.cat([noisy, t], 1).float(), float32(x0))

    def loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(prediction, target)

    def means(self) -> Tensor:
        """(K, 2): the m_k, float64."""
        angle = 2 * math.pi * torch.arange(self.modes, dtype=torch.float64) / self.modes
        return self.radius * torch.stack([angle.cos(), angle.sin()], -1)

    def scales(self, t: float | Tensor) -> tuple[Tensor, Tensor]:
        """a_t and s_t."""
        return SCHEDULES[self.schedule](torch.as_tensor(t, dtype=None if isinstance(t, Tensor) else torch.float64))

    def posterior_mean(self, x: Tensor, t: float | Tensor, s: float | Tensor = 0.0) -> Tensor:
        """E[x_s | x_t = x], exact, for s ≤ t: a_s M + c (x − a_t M), c the regression of x_s on x_t under one mode."""
        a_t, a_s, mean = self.scales(t)[0], self.scales(s)[0], self._mean_of_modes(x, t)
        return a_s * mean + self._regression(t, s) * (x - a_t * mean)

    def flow(self, x: Tensor, t: float, s: float, steps: int = 100) -> Tensor:
        """x carried from time t to time s, either way, by DDIM steps evenly spaced: x_next = a_next E[x_0 | x] + s_next E[ε | x].

        The error falls as 1/steps. Two flows on one grid of times compose to rounding.
        Raises: ValueError for no steps.
        """
        require_count("steps", steps)
        times = np.linspace(t, s, steps + 1).tolist()
        for now, after in zip(times[:-1], times[1:]):
            (a, b), (a_next, b_next), variance = self.scales(now), self.scales(after), self._variance(now)
            mean = self._mean_of_modes(x, now)
            surprise = (x - a * mean) / variance                    # E[ε | x] = b surprise, which holds at b = 0 too
            x = a_next * (mean + a * self.spread**2 * surprise) + b_next * b * surprise
        return x

    def sampler(self, x: Tensor, t: float, s: float, generator: torch.Generator | None = None) -> Tensor:
        """A draw of x_s given x_t = x, for s ≤ t, exact: a mode by its posterior weight, then the Gaussian under it."""
        mode = torch.multinomial(self._weights(x, t), 1, generator=generator).squeeze(1)
        mean, c = self.means().to(x)[mode], self._regression(t, s)
        noise = torch.randn(x.shape, dtype=x.dtype, device=x.device, generator=generator)
        variance = (self._variance(s) - c**2 * self._variance(t)).clamp(min=0)
        return self.scales(s)[0] * mean + c * (x - self.scales(t)[0] * mean) + variance.sqrt() * noise

    def bayes_floor(self) -> float:
        """Mean over t of E tr Cov(x_0 | x_t) / 2, by quadrature: Gauss–Legendre in t, a grid in the plane at each.

        tr Cov = 2 τ² s²/σ² + (s/σ)⁴ (radius² − ‖M‖²). Half the step, or twice the times, moves it by less than 1e-10 at τ = 0.1.
        """
        nodes, weights = np.polynomial.legendre.leggauss(32)
        total = 0.0
        for t, weight in zip((self.end * (nodes + 1) / 2).tolist(), (weights / 2).tolist()):
            (a, s), variance = self.scales(t), self._variance(t)
            step = variance.sqrt() / 4
            count = int(a * self.radius / step) + 32
            axis = step * torch.arange(-count, count + 1)
            x = torch.cartesian_prod(axis, axis)
            density = torch.exp(-self._distances(x, t) / 2).mean(1) * step**2 / (2 * math.pi * variance)
            apart = density @ (self.radius**2 - self._mean_of_modes(x, t).square().sum(1))
            total += weight * (self.spread**2 * s**2 / variance + (s**2 / variance) ** 2 * apart / 2).item()
        return total

    def baselines(self) -> dict[str, float]:
        """x_t / a_t undoes the shrinking and keeps the noise. The best linear map at each t knows mean and variance of x_0."""
        (inputs, target) = (tensor.double() for tensor in self.sample("validation"))
        x, t = inputs[:, :2], inputs[:, 2:]
        a, s = self.scales(t)
        center, variance = self.means().mean(0), self.means().var(0, correction=0) + self.spread**2
        predictions = {"zero": torch.zeros_like(x), "x_t / a_t": x / a,
                       "best linear": center + a * variance / (a**2 * variance + s**2) * (x - a * center)}
        return {name: self.loss(prediction, target).item() for name, prediction in predictions.items()}

    def _variance(self, t: float | Tensor) -> Tensor:
        """σ_t²."""
        a, s = self.scales(t)
        return (a * self.spread) ** 2 + s**2

    def _regression(self, t: float | Tensor, s: float | Tensor) -> Tensor:
        """Cov(x_s, x_t | k) / σ_t², with Cov(x_s, x_t | k) = (a_t/a_s) σ_s²: x_t is a_t/a_s x_s plus noise of its own."""
        return self.scales(t)[0] / self.scales(s)[0] * self._variance(s) / self._variance(t)

    def _distances(self, x: Tensor, t: float | Tensor) -> Tensor:
        """(N, K): ‖x − a_t m_k‖² / σ_t²."""
        centers = self.scales(t)[0][..., None] * self.means().to(x)
        return (x[:, None] - centers).square().sum(-1) / self._variance(t)

    def _weights(self, x: Tensor, t: float | Tensor) -> Tensor:
        """(N, K): r_k."""
        return torch.softmax(-self._distances(x, t) / 2, dim=-1)

    def _mean_of_modes(self, x: Tensor, t: float | Tensor) -> Tensor:
        """(N, 2): M."""
        return self._weights(x, t) @ self.means().to(x)
