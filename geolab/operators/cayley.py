"""The Cayley transform Q = (I + M)⁻¹ (I − M) of a skew-symmetric M: a rotation, without a solve.

An eigenvalue iμ of M becomes the phase exp(−2i atan μ) of Q, so every rotation is reached except
those with an eigenvalue −1.

For n = 4, M is a sum A + B of two commuting parts with A² = −|a|² I and B² = −|b|² I. On
quaternions, A multiplies by a from the left and B multiplies by b from the right. Q does the same
with two unit quaternions l and r:

    Q = ((1 − f) I − 2A) ((1 + f) I − 2B) / D,
    f = |a|² − |b|² = Pf(M),    D = (1 − f)² + 4|a|² = (1 + f)² + 4|b|²,

where l is (1 − f, −2a) and r is (1 + f, −2b), each divided by its own length. This makes Q
orthogonal to rounding, even for parallel u and v, whose minors are nothing but rounding. A matrix
of rank 2 has f = 0.

On a CPU, rows of 16 numbers are too short for fast loops. The batch is therefore the last axis of
all quaternions here, and products with two constant tables lead there and back. Hand-written
gradients saved no measurable time beside autograd: a step of E-MHC-Geo's rotating model took 1.25
times an additive step with them and 1.23 times without.
"""

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from geolab import kernels
from geolab.checks import (
    require_count,
    require_number,
    require_option,
    require_pairs,
    require_real,
    require_square,
    require_state,
)
from geolab.operators.precision import outside_autocast, product, promoted, size, widened

STARTS = ("shifted", "identity")


def skew(w: Tensor) -> Tensor:
    """W − Wᵀ, skew-symmetric: (..., n, n) -> (..., n, n).

    Raises: ValueError when w is not square.
    """
    require_square("w", w)
    return w - w.mT


def cayley_rank2(u: Tensor, v: Tensor, beta: Tensor | float) -> Tensor:
    """Q = I − 2/(1 + s²) (M − M²), with M = β/2 (u vᵀ − v uᵀ) and s² = Σ_{i<j} M_ij².

    This is E-MHC-Geo's eq. 3. Q turns the plane of u and v by θ = 2 atan s, with
    s = β/2 √(‖u‖²‖v‖² − (u·v)²), and leaves its complement alone. We take s² from the minors
    u_i v_j − u_j v_i, since the difference under that root cancels. At u = v = 0 all gradients
    vanish, and training never leaves this point: start elsewhere.

    Arguments:
        u, v: (..., n), any vectors.
        beta: (...) or a number. −β gives Qᵀ.
    Returns: (..., n, n), in float32 at least.
    Raises: ValueError when u and v differ in shape, or beta is not one number per pair; TypeError
        for complex numbers, or a u whose numbers aren't floating-point.
    """
    require_state("u", u)
    require_real(v=v, beta=beta)
    n = u.shape[-1]
    if kernels.serves(u, n):
        return kernels.TWINS["cayley_rank2"](u, v, beta)
    u, v = promoted(u, v)
    beta = kernels.number(beta, u, u.dtype).to(u.dtype)
    require_pairs(u, v, beta)
    with outside_autocast(u):
        beta = beta.expand(u.shape[:-1]).unsqueeze(-1)
        sizes = size(u), size(v), size(beta)
        u, v, beta = (x / own for x, own in zip((u, v, beta), sizes, strict=True))
        return (_plane_of_four if n == 4 else _plane)(u, v, beta, _together(*sizes))


def cayley_skew4(w: Tensor) -> Tensor:
    """Q = (I + W)⁻¹ (I − W) for any skew-symmetric 4 × 4 matrix.

    JPmHC approximates it by iteration. Multiplied out, the product of quaternions is

        ((1 + p − f²) I − 2W + 2W² − 2f W̃) / (1 + p + f²),

    with p = Σ_{i<j} W_ij², f = Pf(W) and W̃ the dual of W. The function reads only the
    skew-symmetric part of w.

    Arguments:
        w: (..., 4, 4), skew-symmetric.
    Returns: (..., 4, 4), in float32 at least.
    Raises: ValueError when w is not 4 × 4; TypeError when its numbers aren't floating-point.
    """
    require_square("w", w, 4)
    require_state("w", w)
    if kernels.serves(w):
        return kernels.TWINS["cayley_skew4"](w)
    w = widened(w)
    with outside_autocast(w):
        flat = w.reshape(-1, 16)
        own = size(flat).clamp(min=1)                                 # short vectors do no harm
        parts, own = _parts((flat / own).mT), own.mT
        squares = parts.square().sum(1)                               # 4|a|² and 4|b|²
        f = (squares[0] - squares[1]) / 4
        scalars = torch.cat([1 / own - f * own, 1 / own + f * own])
        lengths = size(torch.stack([scalars, squares.sqrt()], dim=-1)).squeeze(-1)
        scalars, parts = scalars / lengths, parts / lengths.unsqueeze(1)
        inverse = torch.rsqrt(scalars.square() + squares / lengths / lengths)
        return _turn(scalars * inverse, parts * inverse.unsqueeze(1)).view(w.shape)


def cayley_iterated(w: Tensor, steps: int = 2, alpha: float = 0.1,
                    start: str = "shifted") -> Tensor:
    """Y ← I + α/2 W (I + Y), `steps` times, towards (I − α/2 W)⁻¹ (I + α/2 W) (JPmHC v2).

    With K = α/2 W, Yᵀ Y − I is 4K⁴ after one step from I + αW and −4K⁴(I + K²) after two: Y is
    nearly orthogonal for small K only. The iteration diverges for ‖K‖ > 1, where Y grows as
    ‖K‖^(steps + 1), until its dtype holds it no more.

    Arguments:
        w: (..., n, n), skew-symmetric.
        steps: how many steps to take, at least 0.
        alpha: α, the step's size.
        start: Y₀ = I + αW ("shifted", the paper) or I ("identity", the benchmark's diagnostic, one
            step behind).
    Returns: (..., n, n), in float32 at least.
    Raises: ValueError when w is not square, for another start, an alpha that isn't finite, or a
        number of steps below 0; TypeError when the numbers of w aren't floating-point.
    """
    require_square("w", w)
    require_state("w", w)
    require_count("steps", steps, at_least=0)
    require_number("alpha", alpha)
    require_option("start", start, STARTS)
    w = widened(w)
    with outside_autocast(w):
        identity, k = torch.eye(w.shape[-1], dtype=w.dtype, device=w.device), alpha / 2 * w
        y = identity + 2 * k if start == "shifted" else identity
        for _ in range(steps):
            y = identity + product(k, identity + y)
        return y


# ---------------------------------------------------------------- the plane of u and v

def _together(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """The product a b c of sizes, in an order that leaves the range of their dtype only if the
    result does.
    """
    least, middle, most = torch.stack([a, b, c]).sort(0).values
    return (least * most * middle).clamp(max=torch.finfo(a.dtype).max)


def _half_angle(tangent: Tensor, scale: Tensor) -> Tensor:
    """atan(tangent · scale). Where the angle is π/2 to rounding, its gradient is zero."""
    return torch.atan((tangent * scale).clamp(-2.0**60, 2.0**60))


def _plane(u: Tensor, v: Tensor, beta: Tensor, scale: Tensor) -> Tensor:
    """Q = I − 2 cos(θ/2) C + 2 C², for any n.

    C is sin(θ/2) times the unit bivector of u and v. The scale multiplies β u vᵀ.
    """
    # The minors stay the same when v loses its component along u. Then they do not cancel, and C
    # has rank 2 to rounding.
    tiny = torch.finfo(u.dtype).tiny  # a larger guard would count as a length for short vectors
    along = (u * v).sum(-1, keepdim=True) / u.square().sum(-1, keepdim=True).clamp(min=tiny)
    outer = u.unsqueeze(-1) * (v - along * u).unsqueeze(-2)
    minors = outer - outer.mT
    area = (minors.square().sum((-2, -1), keepdim=True) / 2).clamp(min=tiny).sqrt()
    half = _half_angle(beta.unsqueeze(-1) / 2 * area, scale.unsqueeze(-1))
    c = half.sin() / area * minors
    identity = torch.eye(u.shape[-1], dtype=u.dtype, device=u.device)
    # torch.compile takes no hand-written backward pass of one tensor given twice
    return identity - 2 * half.cos() * c + 2 * product(c, c.clone())


def _plane_of_four(u: Tensor, v: Tensor, beta: Tensor, scale: Tensor) -> Tensor:
    """The same for n = 4.

    In sine and cosine of θ/2 the gradient with respect to β does not cancel where s is large.
    """
    left, right = u.reshape(-1, 4).mT.contiguous(), v.reshape(-1, 4).mT.contiguous()
    areas = _parts((left.unsqueeze(1) * right).flatten(0, 1))        # −2a and −2b, without β
    lengths = areas.square().sum(1).clamp(min=torch.finfo(u.dtype).tiny).sqrt()
    half = _half_angle(beta.reshape(-1) * lengths, scale.reshape(-1))
    return _turn(half.cos(), areas * (half.sin() / lengths).unsqueeze(1)).view(*u.shape, 4)


# ---------------------------------------------------------------- quaternions

def _parts(m: Tensor) -> Tensor:
    """−2a and −2b of the skew-symmetric part of M, from its entries: (16, N) -> (2, 3, N)."""
    return product(_tables(m.dtype, m.device)[0], m).unflatten(0, (2, 3))


def _turn(scalars: Tensor, vectors: Tensor) -> Tensor:
    """Q, (N, 16), of unit quaternions l and r: their scalars (2, N) and vectors (2, 3, N)."""
    left, right = torch.cat([scalars.unsqueeze(1), vectors], dim=1)
    pairs = (left.unsqueeze(1) * right).flatten(0, 1)                # l_i r_j: (16, N)
    return product(pairs.mT, _tables(pairs.dtype, pairs.device)[1])


def _from_left(s: float, x: float, y: float, z: float) -> list[list[float]]:
    """The matrix that multiplies a quaternion by s + xi + yj + zk from the left."""
    return [[s, -x, -y, -z], [x, s, -z, y], [y, z, s, -x], [z, -y, x, s]]


def _from_right(s: float, x: float, y: float, z: float) -> list[list[float]]:
    """The matrix that multiplies a quaternion by s + xi + yj + zk from the right."""
    return [[s, -x, -y, -z], [x, s, z, -y], [y, -z, s, x], [z, y, -x, s]]


LEFT, RIGHT = (torch.tensor([form(*unit) for unit in torch.eye(4).tolist()])
               for form in (_from_left, _from_right))
# the entries of M -> −2a and −2b: (6, 16)
PARTS = -torch.cat([LEFT[1:], RIGHT[1:]]).flatten(1) / 2
# all l_i r_j -> the entries of Q
PRODUCTS = torch.einsum("aij,bjk->abik", LEFT, RIGHT).reshape(16, 16)
_made: dict[tuple[torch.dtype, torch.device], tuple[Tensor, Tensor]] = {}


@kernels.constant  # so that compiled code holds the tables too
# so that a first call in inference mode does not spoil training
@torch.inference_mode(False)
def _tables(dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """PARTS and PRODUCTS, copied once per dtype and device."""
    if (dtype, device) not in _made:
        # nor a first call inside torch.func or torch.export, whose tensors have no numbers
        # afterwards
        with torch._C._DisableFuncTorch(), _disable_current_modes():
            _made[dtype, device] = PARTS.to(device, dtype), PRODUCTS.to(device, dtype)
    return _made[dtype, device]
