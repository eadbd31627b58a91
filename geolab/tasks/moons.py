"""Two moons: to which of two interleaving half circles does a point belong?

    label 0: (cos t, sin t) + σ ε,   label 1: (1 − cos t, ½ − sin t) + σ ε,   t uniform on [0, π],   ε ~ N(0, I)

The curves are those of scikit-learn's `make_moons`, which spaces t evenly where we draw it. The Geometric Transformer lecture
shows the data on slides, without sizes or noise: those are ours. An example is a cloud of points, so that a sequence
model has neighbours to look at. The points are independent, so they tell it nothing: mixing over positions can't lower the floor.

Legend: N clouds, T points in a cloud.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from geolab.checks import require_number
from geolab.tasks.base import Pairs, Score, float32, require_counts, require_split


@dataclass(frozen=True)
class Moons:
    """The moons task: (N, points, 2) coordinates in and (N, points) labels out, loss in nats a point."""

    noise: float = 0.2        # σ
    points: int = 16          # T
    train: int = 1000         # clouds; points = 1 gives as many points
    validation: int = 1000
    seed: int = 42
    validation_seed: int = 1042

    classes = 2

    def __post_init__(self):
        require_counts(self, points=1, train=0, validation=0)
        require_number("noise", self.noise, low=0, strict=True)

    def sample(self, split: str, seed: int | None = None) -> Pairs:
        require_split(split)
        default, count = (self.seed, self.train) if split == "train" else (self.validation_seed, self.validation)
        rng = np.random.RandomState(default if seed is None else seed)
        label = rng.randint(2, size=(count, self.points))
        t = math.pi * rng.rand(count, self.points)
        x = np.where(label[..., None], 1 - _arc(t) - [0, 0.5], _arc(t)) + self.noise * rng.randn(count, self.points, 2)
        return Pairs(float32(x), torch.from_numpy(label))

    def loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(prediction.flatten(0, 1), target.flatten())

    def accuracy(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Scalar: the share of right labels."""
        return (prediction.argmax(-1) == target).double().mean()

    def bayes_predictor(self, inputs: Tensor) -> Tensor:
        """(…, 2) points -> (…, 2) logarithms of the two densities, up to one constant: logits of the true posterior."""
        nodes, weights = self._quadrature()
        x = inputs.double()
        return torch.stack([self._log_density(x, nodes, weights), self._log_density(self._swap(x), nodes, weights)], -1)

    def ceiling(self) -> Score:
        """Both densities, an arc convolved with a Gaussian, summed on a grid: ∫ p₀ ln(1 + p₁/p₀) and ½ ∫ max(p₀, p₁).

        (x, y) -> (1 − x, ½ − y) swaps the moons, so on a grid symmetric about (½, ¼) the second is the first, turned.
        Step σ/8, out to 8 σ. At σ ≥ 0.1 half the step moves the loss by less than 1e-12, the accuracy, whose integrand has a
        kink, by less than 1e-5.
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
        """H(label | point), exact to quadrature; the other points of a cloud are independent of both."""
        return self.ceiling().loss

    def baselines(self) -> dict[str, float]:
        train, (inputs, target) = self.sample("train"), self.sample("validation")
        x, y = train.inputs.double().flatten(0, 1), train.targets.flatten()
        means = torch.stack([x[y == label].mean(0) for label in range(2)])
        variance = (x - means[y]).square().mean()
        away = (inputs.double()[..., None, :] - means).square().sum(-1)
        linear = inputs.double() @ (weight := logistic_regression(x, y))[:2] + weight[2]
        predictions = {"nearest mean": -away / (2 * variance), "logistic regression": torch.stack([0 * linear, linear], -1)}
        return {"constant": math.log(2)} | {name: self.loss(p, target).item() for name, p in predictions.items()}

    def _quadrature(self) -> tuple[Tensor, Tensor]:
        """Gauss–Legendre nodes on the first arc (n, 2) and their weights (n,), of sum 1, finer than the noise."""
        nodes, weights = np.polynomial.legendre.leggauss(max(64, math.ceil(32 / self.noise)))
        return torch.from_numpy(_arc(math.pi * (nodes + 1) / 2)), torch.from_numpy(weights / 2)

    def _log_density(self, x: Tensor, nodes: Tensor, weights: Tensor) -> Tensor:
        return torch.logsumexp(weights.log() - torch.cdist(x, nodes).square() / (2 * self.noise**2), dim=-1)

    def _swap(self, x: Tensor) -> Tensor:
        return x.new_tensor([1.0, 0.5]) - x


def _arc(t: np.ndarray) -> np.ndarray:
    return np.stack([np.cos(t), np.sin(t)], axis=-1)


def logistic_regression(x: Tensor, y: Tensor) -> Tensor:
    """(3,): weights and bias of P(1 | x) = σ(w·x + b) at the largest likelihood of x (n, 2), y (n,), by Newton's steps."""
    design = torch.cat([x, torch.ones_like(x[:, :1])], dim=1)
    weight = x.new_zeros(3)
    for _ in range(12):
        chance = torch.sigmoid(design @ weight)
        curvature = design.T @ (design * (chance * (1 - chance))[:, None])
        weight = weight + torch.linalg.solve(curvature, design.T @ (y - chance))
    return weight
