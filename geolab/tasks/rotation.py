"""Near-π rotation (E-MHC-Geo section 9.2): v_{t+1} = R v_t, with one rotation R by almost a half turn for all sequences.

    R turns the planes (0, 1), (2, 3), … by an angle near π,   v_0 uniform on the unit sphere of R^d

One matrix solves it, and repeating the vector before the last almost does. The harder form draws the planes and the
angle anew for each sequence and adds noise, x_t = v_t + σ ε_t: then R has to be read from the sequence.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from geolab.checks import require_number
from geolab.tasks.base import Pairs, float32, least_squares, require_counts, require_split


def plane_rotations(angle: np.ndarray, first: np.ndarray, second: np.ndarray, dim: int) -> np.ndarray:
    """(N,), (N, P), (N, P) -> (N, dim, dim): each turns its planes (first, second) of coordinates by its angle."""
    R = np.tile(np.eye(dim), (len(angle), 1, 1))
    n = np.arange(len(angle))[:, None]
    R[n, first, first] = R[n, second, second] = np.cos(angle)[:, None]
    R[n, second, first] = np.sin(angle)[:, None]
    R[n, first, second] = -np.sin(angle)[:, None]
    return R


def trajectories(v: np.ndarray, rotation: np.ndarray, length: int) -> Tensor:
    """v, R v, R² v, …: (N, d), (N or 1, d, d) -> (N, length, d) in float32, turned in float64 as published."""
    x = np.empty((len(v), length, v.shape[1]), dtype=np.float32)
    for t in range(length):
        x[:, t] = v
        v = v @ rotation[0].T if len(rotation) == 1 else (rotation @ v[:, :, None])[:, :, 0]
    return torch.from_numpy(x)


def rotation_floor(dim: int, steps: int, noise: float, known: float) -> float:
    """The loss a coordinate of predicting `steps` vectors x_{t+1} = R^{t+1} v_0 + σ ε of a turning unit vector v_0.

    With v_0 uniform on the sphere and `known` = ‖E[R]‖² / d in Frobenius norm, the share of R known beforehand:

        σ² + [ (1 − (1 − (d−1) σ²) known) / d  +  (1 − 1/d) σ² (1/2 + … + 1/n) ] / n,   n = steps

    Position 0 is exact to a relative d σ²: the best guess of R v_0 is E[R] m, m the posterior mean of v_0, of squared
    length 1 − (d−1) σ². Later positions are granted R: turned back, the observations are Echo's, and its floor holds.
    So the value is the floor where R is known or σ = 0 shows it at position 1, and a lower bound otherwise.
    """
    first = (1 - (1 - (dim - 1) * noise**2) * known) / dim
    harmonic = sum(1 / t for t in range(2, steps + 1))
    return noise**2 + (first + (1 - 1 / dim) * noise**2 * harmonic) / steps


@dataclass(frozen=True)
class NearPi:
    """The near-π task, by default the published "single": (N, length − 1, dim) inputs and targets, loss in MSE a coordinate."""

    dim: int = 64
    length: int = 128            # vectors in a sequence; one less to predict
    angle: float = 3.10          # in radians; not used where each sequence draws its own
    planes: int = 1              # (0, 1), (2, 3), …
    train: int = 1000            # as the published code has it; the paper says 800 and 200
    validation: int = 500
    seed: int = 42
    validation_seed: int = 1042
    per_sequence: bool = False   # each sequence its own angle, uniform on (0, π), and its own random planes
    noise: float = 0.0           # σ

    def __post_init__(self):
        require_counts(self, dim=2, length=2, planes=1, train=0, validation=0)
        require_number("angle", self.angle)
        require_number("noise", self.noise, low=0)
        if self.planes > self.dim // 2:
            raise ValueError(f"planes must be from 1 to dim // 2 = {self.dim // 2}, got {self.planes}")

    @classmethod
    def multi(cls) -> "NearPi":
        """The published "multi": all 32 planes, nearer to π."""
        return cls(angle=3.14, planes=32)

    def sample(self, split: str, seed: int | None = None) -> Pairs:
        require_split(split)
        default, count = (self.seed, self.train) if split == "train" else (self.validation_seed, self.validation)
        rng = np.random.RandomState(default if seed is None else seed)
        v = rng.randn(count, self.dim)
        v /= np.linalg.norm(v, axis=-1, keepdims=True)
        x = trajectories(v, self._rotations(rng, count), self.length)
        if self.noise:
            x += float32(self.noise * rng.randn(*x.shape))
        return Pairs(x[:, :-1], x[:, 1:])

    def _rotations(self, rng: np.random.RandomState, count: int) -> np.ndarray:
        even = np.arange(0, 2 * self.planes, 2)[None]
        if not self.per_sequence:
            return plane_rotations(np.array([self.angle]), even, even + 1, self.dim)
        angle = rng.uniform(0, math.pi, count)
        basis = np.linalg.qr(rng.randn(count, self.dim, 2 * self.planes))[0]         # (N, d, 2P), orthonormal columns
        turn = plane_rotations(angle, even, even + 1, 2 * self.planes)
        return np.eye(self.dim) + basis @ (turn - np.eye(2 * self.planes)) @ basis.transpose(0, 2, 1)

    def loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(prediction, target)

    def bayes_floor(self) -> float:
        """`rotation_floor`: exact with one rotation for all, which training can learn; 0 as published.

        With a rotation per sequence it is a lower bound, and E[R] = (1 − 2P/d) I for P planes, since E cos θ = 0 and
        the planes have no preferred direction. Position 1 is then counted as if R were known. Without noise R is known
        from position 2 on: differences of vectors follow w_{t+1} = 2 cos θ w_t − w_{t−1}.
        """
        known = (1 - 2 * self.planes / self.dim) ** 2 if self.per_sequence else 1.0
        return rotation_floor(self.dim, self.length - 1, self.noise, known)

    def baselines(self) -> dict[str, float]:
        train, validation = self.sample("train"), self.sample("validation")
        x, target = validation
        linear = least_squares(train, validation)
        signs = torch.ones(self.dim)
        signs[:2] = -1
        predictions = {
            "zero": torch.zeros_like(x),
            "copy the input": x,
            "negate the input": -x,
            "negate coordinates 0 and 1": signs * x,
            "copy the input before": torch.cat([linear[:, :1], x[:, :-1]], dim=1),  # there is none at position 0
            "least squares": linear,
        }
        return {name: self.loss(prediction, target).item() for name, prediction in predictions.items()}
