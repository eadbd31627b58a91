"""Gyroscope (E-MHC-Geo section 9.2): each sequence turns in a plane of two coordinates of its own, at a speed of its own.

    v_{t+1} = R_ij(θ) v_t,   v_0 uniform on the unit sphere of R^d,   θ ~ U(0.1, 2.5)

The plane takes i uniform below d − 1 and j uniform above i, so high coordinates turn more often. Two vectors show
the rotation, so position 0 alone is out of reach. The harder form adds noise, x_t = v_t + σ ε_t.
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from geolab.checks import require_number
from geolab.tasks.base import Pairs, float32, require_counts, require_split
from geolab.tasks.rotation import plane_rotations, rotation_floor, trajectories


@dataclass(frozen=True)
class Gyroscope:
    """The gyroscope task, by default at the published size: (N, length − 1, dim) inputs and targets, loss in MSE a coordinate.

    The published slow and fast validation sets are the sequences of `angles("validation")` below 0.5 and above 1.5.
    """

    dim: int = 16
    length: int = 256        # vectors in a sequence; one less to predict
    slowest: float = 0.1     # θ, radians a step
    fastest: float = 2.5
    train: int = 9000
    validation: int = 1000
    seed: int = 42           # one stream of numbers for both splits, as published
    noise: float = 0.0       # σ

    def __post_init__(self):
        require_counts(self, dim=2, length=2, train=0, validation=0)
        require_number("noise", self.noise, low=0)
        require_number("slowest", self.slowest)
        require_number("fastest", self.fastest)
        if not self.slowest < self.fastest:
            raise ValueError(f"slowest must be below fastest = {self.fastest}, got {self.slowest}")

    def _draw(self, split: str, seed: int | None) -> tuple[np.ndarray, ...]:
        """v_0, θ, i and j of each sequence of a split."""
        require_split(split)
        rng = np.random.RandomState(self.seed if seed is None else seed)
        count = self.train + self.validation
        v, angle = np.empty((count, self.dim)), np.empty(count)
        i, j = np.empty((2, count), dtype=int)
        for n in range(count):  # in turn, as published: the stream of numbers depends on the order
            v[n] = rng.randn(self.dim)
            angle[n] = rng.uniform(self.slowest, self.fastest)
            i[n] = rng.randint(0, self.dim - 1)
            j[n] = rng.randint(i[n] + 1, self.dim)
        v /= np.linalg.norm(v, axis=-1, keepdims=True)
        part = slice(self.train) if split == "train" else slice(self.train, None)
        return v[part], angle[part], i[part], j[part]

    def angles(self, split: str, seed: int | None = None) -> Tensor:
        """(N,): θ of each sequence of `sample(split, seed)`."""
        return float32(self._draw(split, seed)[1])

    def sample(self, split: str, seed: int | None = None) -> Pairs:
        v, angle, i, j = self._draw(split, seed)
        x = trajectories(v, plane_rotations(angle, i[:, None], j[:, None], self.dim), self.length)
        if self.noise:
            rng = np.random.RandomState([self.seed if seed is None else seed, split == "train"])
            x += float32(self.noise * rng.randn(*x.shape))
        return Pairs(x[:, :-1], x[:, 1:])

    def loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(prediction, target)

    def expected_rotation(self) -> Tensor:
        """E[R], (d, d) in float64: the best guess of v_1 is E[R] v_0."""
        d, low, high = self.dim, self.slowest, self.fastest
        cos, sin = (np.sin(high) - np.sin(low)) / (high - low), (np.cos(low) - np.cos(high)) / (high - low)
        chance = np.triu(np.repeat(1 / ((d - 1) * np.arange(d - 1, 0, -1.0))[:, None], d, axis=1), 1)  # of (i, j)
        chance = np.vstack([chance, np.zeros(d)])
        turned = chance.sum(0) + chance.sum(1)
        return torch.from_numpy(np.diag(1 - (1 - cos) * turned) + sin * (chance.T - chance))

    def bayes_floor(self) -> float:
        """`rotation_floor` with ‖E[R]‖² / d known beforehand: exact without noise, a lower bound with it.

        Without noise two vectors show the plane (two coordinates changed) and the angle, so position 0 is all of it.
        """
        known = self.expected_rotation().square().sum().item() / self.dim
        return rotation_floor(self.dim, self.length - 1, self.noise, known)

    def extrapolate(self, inputs: Tensor) -> Tensor:
        """Find the two coordinates that change first, measure their angle, go on turning; copy at position 0."""
        x = inputs.double()
        plane = (x[:, 1] - x[:, 0]).abs().topk(2).indices.sort(-1).values                # (N, 2)
        a, b = x.gather(2, plane[:, None].expand(-1, x.shape[1], -1)).unbind(-1)         # each (N, T)
        phase = torch.atan2(b, a)
        angle = phase[:, 1:2] - phase[:, :1]
        turned = torch.stack([angle.cos() * a - angle.sin() * b, angle.sin() * a + angle.cos() * b], -1)
        prediction = x.scatter(2, plane[:, None].expand(-1, x.shape[1], -1), turned)
        prediction[:, 0] = x[:, 0]
        return prediction.to(inputs.dtype)

    def baselines(self) -> dict[str, float]:
        train, validation = self.sample("train"), self.sample("validation")
        x, target = validation
        predictions = {
            "zero": torch.zeros_like(x),
            "copy the input": x,
            "least squares": autoregression(train, x, order=1),
            "AR(2)": autoregression(train, x, order=2),
            "AR(3)": autoregression(train, x, order=3),
            "exact extrapolator": self.extrapolate(x),
        }
        return {name: self.loss(prediction, target).item() for name, prediction in predictions.items()}


def autoregression(train: Pairs, x: Tensor, order: int) -> Tensor:
    """The best linear map of the last `order` inputs, in float64; a position with fewer takes the map of all it has."""
    parts = []
    for k in range(1, order + 1):
        gram = cross = 0.0
        for inputs, targets in zip(train.inputs.split(500), train.targets.split(500)):  # all at once is gigabytes
            rows = _windows(inputs, k).flatten(0, 1)
            gram, cross = gram + rows.T @ rows, cross + rows.T @ targets[:, k - 1:].double().flatten(0, 1)
        weight = torch.linalg.lstsq(gram, cross, driver="gelsd").solution
        parts.append(_windows(x if k == order else x[:, :k], k) @ weight)
    return torch.cat(parts, dim=1).to(x.dtype)


def _windows(x: Tensor, order: int) -> Tensor:
    """(N, T, d) -> (N, T − order + 1, order · d): each position with those before it."""
    return x.double().unfold(1, order, 1).flatten(2)
