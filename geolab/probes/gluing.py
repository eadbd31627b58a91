"""Measure whether the vectors along a sequence fit together, by neighbours and by windows.

    dirichlet_energy = tr(Hᵀ L H) / ‖H‖²_F     L is the Laplacian of the path of positions:
                                               tr(Hᵀ L H) = Σ_t ‖h_t − h_{t+1}‖²
    cech_residual    = ‖δs‖ / ‖s‖              (δs)_i = s_{i+1} − s_i on the overlap of windows
                                               i and i + 1

The Geometric Transformer lecture prints columns of both names and defines neither: the definitions
are ours.

Legend: B batch, T positions, D width, h (B, T, D) or (T, D); w window, n windows.
"""

import torch
from torch import Tensor

from geolab.checks import require_count, require_real

ROUNDING = 1e-12   # a fit this small, relative to the sequence, counts as zero


@torch.no_grad()
def dirichlet_energy(h: Tensor) -> Tensor:
    """Σ over neighbours of ‖h_t − h_{t+1}‖² / Σ over positions of ‖h_t‖²: a scalar.

    It is computed per sequence, then averaged over the batch. It lies in [0, λ_max(L)], where
    λ_max = 2 + 2 cos(π / T) < 4. A constant sequence gives 0, one that alternates between v and −v
    gives 4 (T − 1) / T, independent vectors of mean 0 give 2 (T − 1) / T on average. A common mean
    lowers it; the scale doesn't change it.

    Raises: ValueError for another shape, or for a sequence that is all zero.
    """
    h = _sequences(h)
    differences = h[:, :-1] - h[:, 1:]
    return (differences.square().sum((1, 2)) / h.square().sum((1, 2))).mean()


@torch.no_grad()
def cech_residual(h: Tensor, window: int = 8, stride: int = 4) -> Tensor:
    """‖δs‖ / ‖s‖ for local affine predictors s: a scalar in [0, 2].

    It is computed per sequence, then averaged over the batch. The section s_i predicts h_t by
    m_i + (t − t_i) g_i on window i, where it is the least-squares fit; t counts positions. ‖s‖² is
    a sum over windows and their positions, ‖δs‖² over the overlaps of neighbours. The residual is
    0 if and only if one affine function of position is the best fit on every window: affine
    functions that agree at two positions are equal. It is at most 2, because each section is in at
    most two overlaps: ‖δs‖² ≤ 2 Σ (‖s_i‖² + ‖s_{i+1}‖²) ≤ 4 ‖s‖².

    Why not predict h_{t+1} by h_t W + b? With window ≤ D that fit meets every point exactly; two
    such fits agree on an overlap whatever h is, and only a ridge would be measured. A fit in the
    position has two unknowns per feature.

    It misses any pattern that is orthogonal to every fit, such as (1, −1, −1, 1) under windows
    and strides of 4 k. If such a pattern makes up nearly all of h, the small rest decides: with the
    defaults an alternation gives 1.2, while independent vectors of mean 0 give 0.51 (T = 32) to
    0.55 (large T). A common mean lowers it. Despite the name there is no cohomology in it: δs is a
    coboundary, so its class is zero, and its norm says how far the local fits are from one global
    section.

    Arguments:
        window: w, positions per fit, 3 ≤ w ≤ T. With 2 every fit is exact.
        stride: positions between windows, 1 ≤ stride ≤ w − 2, so that neighbouring windows share at
            least two positions. Positions after the last whole window aren't read.
    Raises: ValueError for another shape, window or stride, if only one window fits, or for a
        sequence whose fits are all zero.
    """
    h = _sequences(h)
    require_count("window", window)
    require_count("stride", stride, 0)
    if not 3 <= window <= h.shape[1]:
        raise ValueError(f"window must be from 3 to the {h.shape[1]} positions of h, got {window}")
    if not 1 <= stride <= window - 2:
        raise ValueError(f"stride must be from 1 to window − 2 = {window - 2}, got {stride}")
    if window + stride > h.shape[1]:
        raise ValueError(f"h must have room for two windows, {window + stride} positions, "
                         f"got {h.shape[1]}")
    centred = torch.arange(window) - (window - 1) / 2
    basis = torch.stack([torch.ones(window), centred]).to(h)       # orthogonal: 1 and t − t_i
    basis = basis / basis.norm(dim=1, keepdim=True)
    sections = h.unfold(1, window, stride) @ basis.T @ basis       # (B, n, D, w)
    delta = sections[:, 1:, :, : window - stride] - sections[:, :-1, :, stride:]
    size = sections.square().sum((1, 2, 3))
    if not (size > ROUNDING**2 * h.square().sum((1, 2))).all():
        raise ValueError("h must not be orthogonal to every fit in any sequence: "
                         "the residual has no share")
    return (delta.square().sum((1, 2, 3)) / size).sqrt().mean()


def _sequences(h: Tensor) -> Tensor:
    """(B, T, D) in float64."""
    if h.ndim not in (2, 3):
        raise ValueError(f"h must be (B, T, D) or (T, D), got shape {tuple(h.shape)}")
    require_real(h=h)
    h = h.detach().double().reshape(-1, *h.shape[-2:])
    if not h.any(-1).any(-1).all():
        raise ValueError("h must not be zero in any sequence: its energy has no share")
    return h
