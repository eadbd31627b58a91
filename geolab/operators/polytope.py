"""Doubly stochastic matrices that need no iteration: four maps from free numbers z, exact to
rounding.

    permutations      H = Σ_σ softmax(z)_σ P_σ                       n! permutations   (mHC-lite)
    circulant         H = Σ_k softmax(z)_k S^k                       n cyclic shifts   (C-mHC)
    kronecker         H = ⊗_k (softmax(z_k)₁ I + softmax(z_k)₂ S)    log₂ n swaps      (KromHC)
    orthostochastic   H_ij = ‖block ij of (I + M)⁻¹ (I − M)‖² / s    M skew, ns × ns   (go-mHC)

Two streams have one number to choose, and each map reaches all of it. From three streams on they
differ. The first mixes all corners of the Birkhoff polytope, and reaches exactly its open interior,
as Sinkhorn's iteration does in the limit. The second reaches n − 1 of (n − 1)² dimensions, and the
third log₂ n. The fourth has as many dimensions as the polytope from s = 2 on, but not all matrices
if n ≥ s + 2. For s + 1 rows of which any two have one column in common, always the same, it would
need s + 1 orthogonal subspaces in the s dimensions of that column.

Logits whose numbers aren't floating-point raise TypeError.

Sources: arXiv 2601.05732 (mHC-lite), 2601.21579 (KromHC), 2604.02309 (go-mHC).

Legend: n streams, ... any leading axes, s × s the size of a block, S the cyclic shift.
"""

from itertools import permutations
from math import factorial

import torch
import torch.nn.functional as F
from torch import Tensor

from geolab import kernels
from geolab.checks import require_count, require_state, require_width
from geolab.operators.precision import outside_autocast, product, widened

MOST_PERMUTED = 6  # 720 logits per token; the next number of streams has 5040


def permutation_mixture(logits: Tensor, streams: int) -> Tensor:
    """Σ_σ softmax(z)_σ P_σ over all permutations, in lexicographic order: the identity is first.

    Arguments:
        logits: z, (..., n!).
        streams: n, at most 6.
    Returns: (..., n, n), in float32 at least.
    Raises: ValueError for another number of logits or of streams.
    """
    require_count("streams", streams)
    if streams > MOST_PERMUTED:
        raise ValueError(f"streams must be at most {MOST_PERMUTED} for all permutations, got "
                         f"{streams}")
    require_state("logits", logits)
    require_width("logits", logits, factorial(streams))
    return mixture(logits, permutation_matrices(streams).to(logits.device))


def permutation_matrices(streams: int) -> Tensor:
    """All permutations of n streams in lexicographic order, (n!, n, n)."""
    return F.one_hot(torch.tensor(list(permutations(range(streams)))), streams).float()


def shift_matrices(streams: int) -> Tensor:
    """The powers S⁰, S¹, … of the cyclic shift of n streams, (n, n, n)."""
    place = torch.arange(streams)
    return F.one_hot((place - place.unsqueeze(-1)).remainder(streams), streams).float()


def mixture(logits: Tensor, corners: Tensor) -> Tensor:
    """Σ_k softmax(z)_k C_k: logits z, (..., K), and matrices C_k, (K, n, n) -> (..., n, n)."""
    weights = widened(logits).softmax(-1)
    with outside_autocast(weights):
        mixed = product(weights.unsqueeze(-2), corners.to(weights.dtype).flatten(1))
    return mixed.unflatten(-1, corners.shape[1:]).squeeze(-3)


def circulant_mixture(logits: Tensor) -> Tensor:
    """Σ_k softmax(z)_k S^k: H_ij = softmax(z)_(i − j mod n).

    Arguments:
        logits: z, (..., n); the first one is that of the identity.
    Returns: (..., n, n), in float32 at least.
    """
    require_state("logits", logits)
    place = torch.arange(logits.shape[-1], device=logits.device)
    index = (place.unsqueeze(-1) - place).remainder(len(place))
    return widened(logits).softmax(-1)[..., index]


def kronecker_mixture(logits: Tensor) -> Tensor:
    """⊗_k (softmax(z_k)₁ I + softmax(z_k)₂ S), a product of 2 × 2 factors: n = 2^factors.

    Arguments:
        logits: z, (..., factors, 2), those of staying and of swapping. The first factor is the
            outermost.
    Returns: (..., n, n), in float32 at least.
    Raises: ValueError unless each factor has two logits.
    """
    require_width("logits", logits, 2)
    require_state("logits", logits, 2)
    shares = widened(logits).softmax(-1)
    weights = shares[..., 0, :]                     # of the swaps so far, one bit per factor
    for factor in range(1, shares.shape[-2]):
        weights = (weights.unsqueeze(-1) * shares[..., factor, None, :]).flatten(-2)
    place = torch.arange(weights.shape[-1], device=logits.device)
    return weights[..., place.unsqueeze(-1) ^ place]


def orthostochastic(logits: Tensor, streams: int, blocks: int = 2) -> Tensor:
    """H_ij = ‖Q_ij‖² / s, where Q = (I + M)⁻¹ (I − M) is n × n blocks of size s × s.

    The rows and columns of an orthogonal Q have length 1, so those of H sum to 1. M is skew, with z
    above its diagonal. At z = 0, H is the identity and its gradient is zero: start elsewhere.

    Arguments:
        logits: z, (..., m (m − 1) / 2) for m = n s.
        streams: n.
        blocks: s. With s = 1 the matrices are orthostochastic.
    Returns: (..., n, n), in float32 at least. Its sums are 1 to rounding times the size of z.
    Raises: ValueError for another number of logits, or fewer than one stream or block.
    """
    require_count("streams", streams)
    require_count("blocks", blocks)
    require_state("logits", logits)
    size = streams * blocks
    require_width("logits", logits, size * (size - 1) // 2)
    z = widened(logits)
    if size == 1:
        return z.new_ones(*z.shape[:-1], 1, 1)
    place = torch.arange(size, device=z.device)
    low, high = torch.minimum(place, place[:, None]), torch.maximum(place, place[:, None])
    index = (low * size - low * (low + 1) // 2 + high - low - 1).clamp(min=0)
    sign = (place - place.unsqueeze(-1)).sign().to(z.dtype)
    with outside_autocast(z):
        # forward mode and vmap can't look into a hand-written backward pass
        q = (_cayley if kernels.transformed() else _Cayley.apply)(sign * z[..., index])
    cells = q.square().unflatten(-1, (streams, blocks)).unflatten(-3, (streams, blocks))
    return cells.sum((-3, -1)) / blocks


def _cayley(m: Tensor) -> Tensor:
    identity = torch.eye(m.shape[-1], dtype=m.dtype, device=m.device)
    return torch.linalg.solve(identity + m, identity - m)


class _Cayley(torch.autograd.Function):
    """(I + M)⁻¹ (I − M), whose backward pass leaves autocast too: its gradient in M is
    −(I + M)⁻ᵀ G (I + Q)ᵀ.
    """

    @staticmethod
    def forward(ctx, m: Tensor) -> Tensor:
        q = _cayley(m)
        ctx.save_for_backward(m, q)
        return q

    @staticmethod
    def backward(ctx, grad: Tensor) -> Tensor:
        m, q = ctx.saved_tensors
        identity = torch.eye(m.shape[-1], dtype=m.dtype, device=m.device)
        with outside_autocast(grad):
            return -torch.linalg.solve((identity + m).mT, grad) @ (identity + q).mT
