"""Two moons: to which of two interleaving half circles does a point belong?

    label 0: (cos t, sin t) + σ ε,   label 1: (1 − cos t, ½ − sin t) + σ ε
    t ~ U(0, π),   ε ~ N(0, I)

The curves are those of scikit-learn's `make_moons`, which spaces t evenly where we draw it. The
Geometric Transformer lecture shows the data on slides without sizes or noise: those are our
choice. An example is a cloud of points, so that a sequence model has neighbours to look at. The
points are independent, so mixing over positions can't lower the floor.

Legend: N clouds, T points in a cloud.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from geolab.checks import require_number
from geolab.tasks.base import Classification, Pairs, Score, float32


@dataclass(frozen=True)
class Moons(Classification):
    """The moons task: (N, T, 2) coordinates in, (N, T) labels out, loss in nats per point."""

    noise: float = 0.2        # σ
    points: int = 16          # T
    train: int = 1000         # clouds
    validation: int = 1000
    seed: int = 42
    validation_seed: int = 1042

    def __post_init__(self):
        self.require_counts(points=1, train=0, validation=0)
        require_number("noise", self.noise, low=0, strict=True)

    def sample(self, split: str, seed: int | None = None) -> Pairs:
        rng, count = self.draw(split, seed)
        label = rng.randint(2, size=(count, self.points))
        arc = _arc(math.pi * rng.rand(count, self.points))
        curve = np.where(label[..., None], 1 - arc - [0, 0.5], arc)
        x = curve + self.noise * rng.randn(count, self.points, 2)
        return Pairs(float32(x), torch.from_numpy(label))

    def bayes_predictor(self, inputs: Tensor) -> Tensor:
        """(…, 2) points -> (…, 2) logits of the true posterior: logarithms of both densities."""
        nodes, weights = self._quadrature()
        x = inputs.double()

        def log_density(x: Tensor) -> Tensor:
            exponent = torch.cdist(x, nodes).square() / (2 * self.noise**2)
            return torch.logsumexp(weights.log() - exponent, dim=-1)

        swapped = x.new_tensor([1.0, 0.5]) - x
        return torch.stack([log_density(x), log_density(swapped)], -1)

    def ceiling(self) -> Score:
        """The best loss ∫ p₀ ln(1 + p₁/p₀) and accuracy ½ ∫ max(p₀, p₁), summed on a grid.

        A density is an arc convolved with a Gaussian. The map (x, y) -> (1 − x, ½ − y) swaps the
        moons, so on a grid symmetric about (½, ¼) the second density is the first one, turned.
        The grid has steps of σ/8 and goes out to 8 σ. At σ ≥ 0.1, half the step moves the loss by
        less than 1e-12, and the accuracy, whose integrand has a kink, by less than 1e-5.
        """
        nodes, weights = self._quadrature()
        step = self.noise / 8

        def along(axis: int, center: float, half: float) -> Tensor:
            count = math.ceil(half / step) + 64
            grid = center + step * torch.arange(-count, count + 1, dtype=torch.float64)
            return torch.exp(-(grid[:, None] - nodes[:, axis]).square() / (2 * self.noise**2))

        along_x, along_y = along(0, 0.5, 1.5), along(1, 0.25, 0.75)
        p0 = (along_x * weights) @ along_y.T * step**2 / (2 * math.pi * self.noise**2)
        p1 = p0.flip(0, 1)
        loss = torch.xlogy(p0, p0 + p1) - torch.xlogy(p0, p0)
        return Score(loss.sum().item(), torch.maximum(p0, p1).sum().item() / 2)

    def bayes_floor(self) -> float:
        """H(label | point), exact up to quadrature: the other points are independent of both."""
        return self.ceiling().loss

    def predictions(self, train: Pairs, validation: Pairs) -> dict[str, Tensor]:
        """Logits of a constant guess, of the nearer of two means, and of a logistic regression."""
        x, y = train.inputs.double().flatten(0, 1), train.targets.flatten()
        inputs = validation.inputs.double()
        means = torch.stack([x[y == label].mean(0) for label in range(2)])
        variance = (x - means[y]).square().mean()
        away = (inputs[..., None, :] - means).square().sum(-1)
        weight = logistic_regression(x, y)
        linear = inputs @ weight[:2] + weight[2]
        return {"constant": torch.zeros_like(away), "nearest mean": -away / (2 * variance),
                "logistic regression": torch.stack([0 * linear, linear], -1)}

    def _quadrature(self) -> tuple[Tensor, Tensor]:
        """Gauss–Legendre nodes on the first arc (n, 2), and weights (n,) whose sum is 1.

        The nodes are closer together than the noise is wide.
        """
        count = max(64, math.ceil(32 / self.noise))
        nodes, weights = np.polynomial.legendre.leggauss(count)
        return torch.from_numpy(_arc(math.pi * (nodes + 1) / 2)), torch.from_numpy(weights / 2)


def _arc(t: np.ndarray) -> np.ndarray:
    return np.stack([np.cos(t), np.sin(t)], axis=-1)


def logistic_regression(x: Tensor, y: Tensor) -> Tensor:
    """(3,): the weights and the bias of P(1 | x) = σ(w·x + b), at maximum likelihood.

    x: (n, 2) in float64, y: (n,) labels. Newton's method takes twelve steps.
    """
    design = torch.cat([x, torch.ones_like(x[:, :1])], dim=1)
    weight = x.new_zeros(3)
    for _ in range(12):
        chance = torch.sigmoid(design @ weight)
        curvature = design.T @ (design * (chance * (1 - chance))[:, None])
        weight = weight + torch.linalg.solve(curvature, design.T @ (y - chance))
    return weight
