"""Near-π rotation (E-MHC-Geo section 9.2): one rotation R by almost a half turn, for all sequences.

    v_{t+1} = R v_t,   v_0 uniform on the unit sphere of R^d
    R turns the planes (0, 1), (2, 3), … of coordinates by an angle near π

One matrix solves it, and so, almost, does a repetition of the vector before the last. The harder
form, which is ours, draws the planes and the angle anew for each sequence, so that a model must
read R from the sequence, and adds noise: x_t = v_t + σ ε_t.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from geolab.checks import require_number
from geolab.tasks.base import Pairs, Regression, float32, least_squares, next_step, unit


def plane_rotations(angle: np.ndarray, first: np.ndarray, second: np.ndarray,
                    dim: int) -> np.ndarray:
    """(N, dim, dim): rotations by `angle` (N,) in the planes of the coordinates (N, P)."""
    R = np.tile(np.eye(dim), (len(angle), 1, 1))
    n, cos, sin = np.arange(len(angle))[:, None], np.cos(angle)[:, None], np.sin(angle)[:, None]
    R[n, first, first] = R[n, second, second] = cos
    R[n, second, first], R[n, first, second] = sin, -sin
    return R


def trajectories(v: np.ndarray, rotation: np.ndarray, length: int) -> Tensor:
    """v, R v, R² v, … (N, length, d) in float32. v: (N, d). R: (N, d, d), or (1, d, d) for all.

    The vectors are turned in float64, as in the published code.
    """
    x = np.empty((len(v), length, v.shape[1]), dtype=np.float32)
    for t in range(length):
        x[:, t] = v
        v = v @ rotation[0].T if len(rotation) == 1 else (rotation @ v[:, :, None])[:, :, 0]
    return torch.from_numpy(x)


def rotation_floor(dim: int, steps: int, noise: float, known: float) -> float:
    """The least loss per coordinate for `steps` vectors x_{t+1} = R^{t+1} v_0 + σ ε.

    With v_0 uniform on the unit sphere, and with `known` = ‖E[R]‖² / d in the Frobenius norm, the
    share of R that is known beforehand, it is

        σ² + [ (1 − (1 − (d−1) σ²) known) / d  +  (1 − 1/d) σ² (1/2 + … + 1/n) ] / n,   n = steps

    Position 0 is exact up to a relative d σ²: the best guess of R v_0 is E[R] m, where the
    posterior mean m of v_0 has squared length 1 − (d−1) σ². For later
    positions R counts as known: turned back, the observations are those of Echo, and its floor
    holds. So the value is the floor where R is known, or where σ = 0 and position 1 shows R.
    Otherwise it is a lower bound.
    """
    first = (1 - (1 - (dim - 1) * noise**2) * known) / dim
    harmonic = sum(1 / t for t in range(2, steps + 1))
    return noise**2 + (first + (1 - 1 / dim) * noise**2 * harmonic) / steps


@dataclass(frozen=True)
class NearPi(Regression):
    """The near-π task, by default the published "single": (N, length − 1, dim) inputs, targets."""

    dim: int = 64
    length: int = 128            # vectors in a sequence; one less to predict
    angle: float = 3.10          # in radians; not used with per_sequence
    planes: int = 1              # (0, 1), (2, 3), …
    train: int = 1000            # as in the published code; the paper says 800 and 200
    validation: int = 500
    seed: int = 42
    validation_seed: int = 1042
    per_sequence: bool = False   # each sequence draws its angle ~ U(0, π) and its planes
    noise: float = 0.0           # σ

    def __post_init__(self):
        self.require_counts(dim=2, length=2, planes=1, train=0, validation=0)
        require_number("angle", self.angle)
        require_number("noise", self.noise, low=0)
        require_number("planes", self.planes, high=self.dim // 2)

    @classmethod
    def multi(cls) -> "NearPi":
        """The published "multi": all 32 planes turn, by an angle nearer to π."""
        return cls(angle=3.14, planes=32)

    def sample(self, split: str, seed: int | None = None) -> Pairs:
        rng, count = self.draw(split, seed)
        v = unit(rng.randn(count, self.dim))
        x = trajectories(v, self.rotations(rng, count), self.length)
        if self.noise:
            x += float32(self.noise * rng.randn(*x.shape))
        return next_step(x)

    def rotations(self, rng: np.random.RandomState, count: int) -> np.ndarray:
        """The drawn rotations (count, dim, dim), or the one (1, dim, dim) that all share."""
        even = np.arange(0, 2 * self.planes, 2)[None]
        if not self.per_sequence:
            return plane_rotations(np.array([self.angle]), even, even + 1, self.dim)
        angle = rng.uniform(0, math.pi, count)
        basis = np.linalg.qr(rng.randn(count, self.dim, 2 * self.planes))[0]         # (N, d, 2P)
        turn = plane_rotations(angle, even, even + 1, 2 * self.planes) - np.eye(2 * self.planes)
        return np.eye(self.dim) + basis @ turn @ basis.transpose(0, 2, 1)

    def bayes_floor(self) -> float:
        """`rotation_floor`, exact where all sequences share a rotation: training can learn it.

        On the published tasks it is 0. With `per_sequence` it is a lower bound. For P planes it
        uses E[R] = (1 − 2P/d) I, since E cos θ = 0 and the planes have no preferred direction,
        and it counts position 1 as if R were known. Without noise R is known from position 2 on,
        where differences of vectors follow w_{t+1} = 2 cos θ w_t − w_{t−1}.
        """
        known = (1 - 2 * self.planes / self.dim) ** 2 if self.per_sequence else 1.0
        return rotation_floor(self.dim, self.length - 1, self.noise, known)

    def predictions(self, train: Pairs, validation: Pairs) -> dict[str, Tensor]:
        """Six predictors. Position 0 has no input before it: the linear map stands in there."""
        x, linear = validation.inputs, least_squares(train, validation)
        signs = torch.ones(self.dim)
        signs[:2] = -1
        return {"zero": torch.zeros_like(x), "copy the input": x, "negate the input": -x,
                "negate coordinates 0 and 1": signs * x,
                "copy the input before": torch.cat([linear[:, :1], x[:, :-1]], dim=1),
                "least squares": linear}
