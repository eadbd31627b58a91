"""Gyroscope (E-MHC-Geo section 9.2): each sequence turns in its own plane, at its own speed.

    v_{t+1} = R_ij(θ) v_t,   v_0 uniform on the unit sphere of R^d,   θ ~ U(0.1, 2.5)

R_ij turns the plane of the coordinates i and j: i is uniform below d − 1 and j is uniform above
i, so high coordinates turn more often. Two vectors show the rotation, so only position 0 is out
of reach. The harder form, which is ours, adds noise: x_t = v_t + σ ε_t.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from geolab.checks import require_number
from geolab.tasks.base import Pairs, Regression, float32, next_step, part, unit
from geolab.tasks.rotation import plane_rotations, rotation_floor, trajectories


@dataclass(frozen=True)
class Gyroscope(Regression):
    """The gyroscope task, by default as published: (N, length − 1, dim) inputs and targets.

    The published slow and fast validation sets are the sequences whose angle, among the
    `draws("validation")`, is below 0.5 or above 1.5.
    """

    dim: int = 16
    length: int = 256        # vectors in a sequence; one less to predict
    slowest: float = 0.1     # θ in radians per step
    fastest: float = 2.5
    train: int = 9000
    validation: int = 1000
    seed: int = 42           # of one stream of numbers for both splits, as published
    noise: float = 0.0       # σ

    def __post_init__(self):
        self.require_counts(dim=2, length=2, train=0, validation=0)
        require_number("noise", self.noise, low=0)
        require_number("fastest", self.fastest)
        require_number("slowest", self.slowest, high=self.fastest, strict=True)

    def draws(self, split: str, seed: int | None = None) -> tuple[np.ndarray, ...]:
        """v_0 (N, dim), and θ, i and j (N,), of each sequence of `sample(split, seed)`."""
        examples = part(split, self.train)
        rng = np.random.RandomState(self.seed if seed is None else seed)
        count = self.train + self.validation
        v, angle = np.empty((count, self.dim)), np.empty(count)
        i, j = np.empty((2, count), dtype=int)
        for n in range(count):  # one by one, as published: the order decides the numbers
            v[n] = rng.randn(self.dim)
            angle[n] = rng.uniform(self.slowest, self.fastest)
            i[n] = rng.randint(0, self.dim - 1)
            j[n] = rng.randint(i[n] + 1, self.dim)
        return unit(v)[examples], angle[examples], i[examples], j[examples]

    def sample(self, split: str, seed: int | None = None) -> Pairs:
        v, angle, i, j = self.draws(split, seed)
        rotation = plane_rotations(angle, i[:, None], j[:, None], self.dim)
        x = trajectories(v, rotation, self.length)
        if self.noise:
            rng = np.random.RandomState([self.seed if seed is None else seed, split == "train"])
            x += float32(self.noise * rng.randn(*x.shape))
        return next_step(x)

    def expected_rotation(self) -> Tensor:
        """E[R], (d, d) in float64: the best guess of v_1 is E[R] v_0."""
        d, low, high = self.dim, self.slowest, self.fastest
        cos = (np.sin(high) - np.sin(low)) / (high - low)
        sin = (np.cos(low) - np.cos(high)) / (high - low)
        i, j = np.triu_indices(d, 1)
        chance = np.zeros((d, d))  # of the plane (i, j)
        chance[i, j] = 1 / ((d - 1) * (d - 1.0 - i))
        turned = chance.sum(0) + chance.sum(1)
        return torch.from_numpy(np.diag(1 - (1 - cos) * turned) + sin * (chance.T - chance))

    def bayes_floor(self) -> float:
        """`rotation_floor` where the share ‖E[R]‖² / d of R is known beforehand.

        It is exact without noise: two vectors show the two coordinates that change, and the
        angle, so all of the loss is at position 0. With noise it is a lower bound.
        """
        known = self.expected_rotation().square().sum().item() / self.dim
        return rotation_floor(self.dim, self.length - 1, self.noise, known)

    def extrapolate(self, inputs: Tensor) -> Tensor:
        """The predictions (N, T, dim) of a predictor that continues the turn from position 0 to
        position 1.

        The two coordinates that change most there are the plane. Position 0 is a copy of the input.
        """
        x = inputs.double()
        plane = (x[:, 1] - x[:, 0]).abs().topk(2).indices.sort(-1).values                # (N, 2)
        plane = plane[:, None].expand(-1, x.shape[1], -1)                             # (N, T, 2)
        a, b = x.gather(2, plane).unbind(-1)                                       # each (N, T)
        phase = torch.atan2(b, a)
        angle = phase[:, 1:2] - phase[:, :1]
        cos, sin = angle.cos(), angle.sin()
        prediction = x.scatter(2, plane, torch.stack([cos * a - sin * b, sin * a + cos * b], -1))
        prediction[:, 0] = x[:, 0]
        return prediction.to(inputs.dtype)

    def predictions(self, train: Pairs, validation: Pairs) -> dict[str, Tensor]:
        x = validation.inputs
        return {"zero": torch.zeros_like(x), "copy the input": x,
                "least squares": autoregression(train, x, order=1),
                "AR(2)": autoregression(train, x, order=2),
                "AR(3)": autoregression(train, x, order=3),
                "exact extrapolator": self.extrapolate(x)}


def autoregression(train: Pairs, x: Tensor, order: int) -> Tensor:
    """The predictions (N, T, dim) of the linear map of the last `order` inputs that best fits
    `train`.

    The fit is in float64. A position with fewer inputs takes the best map of those that it has.
    """
    parts = []
    for k in range(1, order + 1):
        gram = cross = 0.0
        # All sequences at once would take gigabytes.
        for inputs, targets in zip(train.inputs.split(500), train.targets.split(500), strict=True):
            rows = _windows(inputs, k).flatten(0, 1)
            gram += rows.T @ rows
            cross += rows.T @ targets[:, k - 1:].double().flatten(0, 1)
        weight = torch.linalg.lstsq(gram, cross, driver="gelsd").solution
        parts.append(_windows(x if k == order else x[:, :k], k) @ weight)
    return torch.cat(parts, dim=1).to(x.dtype)


def _windows(x: Tensor, order: int) -> Tensor:
    """(N, T, d) -> (N, T − order + 1, order · d): each position with those before it."""
    return x.double().unfold(1, order, 1).flatten(2)
