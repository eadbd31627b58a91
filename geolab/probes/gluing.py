"""Do the vectors along a sequence fit together? Neighbour by neighbour, and window by window.

    dirichlet_energy = tr(Hᵀ L H) / ‖H‖²_F        L the Laplacian of a graph on the positions, tr(Hᵀ L H) = Σ_edges ‖h_i − h_j‖²
    cech_residual    = ‖δs‖ / ‖s‖                 (δs)_i = s_{i+1} − s_i on the overlap of windows i and i + 1

The Geometric Transformer lecture prints columns of both names and defines neither: the definitions are ours.

Legend: B batch, T positions, D width, h (B, T, D) or (T, D); w window, n windows.
"""

import torch
from torch import Tensor

ROUNDING = 1e-12   # fits this small beside the sequence are taken for zero


@torch.no_grad()
def dirichlet_energy(h: Tensor, edges: Tensor | None = None) -> Tensor:
    """Σ over edges of ‖h_i − h_j‖² / Σ over positions of ‖h_i‖², a sequence at a time, then the mean over the batch: a scalar.

    In [0, λ_max(L)]. On the path λ_max = 2 + 2 cos(π / T) < 4: a constant sequence gives 0, one that alternates between v and −v
    gives 4 (T − 1) / T, independent vectors of mean 0 give 2 (T − 1) / T on average. A common mean lowers it, the scale doesn't.

    Arguments:
        edges: (2, E) integer positions, each undirected edge once. The path 0 – 1 – ⋯ – T − 1 when None.
    Raises: ValueError for another shape, for edges outside the sequence, or for a sequence that is all zero.
    """
    h = _sequences(h)
    if edges is None:
        edges = torch.stack([torch.arange(h.shape[1] - 1), torch.arange(1, h.shape[1])])
    if edges.ndim != 2 or len(edges) != 2:
        raise ValueError(f"edges must be (2, number of edges), got shape {tuple(edges.shape)}")
    if edges.numel() and not 0 <= edges.min() <= edges.max() < h.shape[1]:
        raise ValueError(f"edges must join positions from 0 to {h.shape[1] - 1}, got {edges.min()} to {edges.max()}")
    differences = h[:, edges[0]] - h[:, edges[1]]
    return (differences.square().sum((1, 2)) / h.square().sum((1, 2))).mean()


@torch.no_grad()
def cech_residual(h: Tensor, window: int = 8, stride: int = 4) -> Tensor:
    """‖δs‖ / ‖s‖ for local affine predictors s, a sequence at a time, then the mean over the batch: a scalar in [0, 2].

    The section s_i predicts h_t by m_i + (t − t_i) g_i on window i, where it is the least-squares fit; t counts positions.
    ‖s‖² sums over windows and their positions, ‖δs‖² over the overlaps of neighbours. It is 0 if and only if one affine
    function of position is the best fit on every window: affine functions that agree at two positions are the same. At most 2,
    as no section stands in more than two overlaps: ‖δs‖² ≤ 2 Σ (‖s_i‖² + ‖s_{i+1}‖²) ≤ 4 ‖s‖².

    Why not predict h_{t+1} by h_t W + b? With window ≤ D that fit meets every point exactly; two such fits agree on an
    overlap whatever h is, and a ridge would be all that is measured. A fit in position has two unknowns a feature.

    Blind to what is orthogonal to every fit, such as the pattern (1, −1, −1, 1) under windows and strides of 4 k. A sequence
    with little else is scored by the little: with the defaults an alternation gives 1.2, while independent vectors of mean 0
    give 0.51 (T = 32) to 0.55 (T large). A common mean lowers it. Despite the name there is no cohomology in it: δs is a
    coboundary, so its class is zero, and its norm says how far the local fits are from one global section.

    Arguments:
        window: w, positions of each fit, 3 ≤ w ≤ T. With 2 every fit is exact.
        stride: positions between windows, 1 ≤ stride ≤ w − 2: windows share two positions at least.
    Positions after the last whole window aren't read.
    Raises: ValueError for another shape, window or stride, where only one window fits, or for a sequence whose fits are all zero.
    """
    h = _sequences(h)
    if not 3 <= window <= h.shape[1]:
        raise ValueError(f"window must be from 3 to the {h.shape[1]} positions of h, got {window}")
    if not 1 <= stride <= window - 2:
        raise ValueError(f"stride must be from 1 to window − 2 = {window - 2}, got {stride}")
    if window + stride > h.shape[1]:
        raise ValueError(f"h must have room for two windows, {window + stride} positions, got {h.shape[1]}")
    basis = torch.stack([torch.ones(window), torch.arange(window) - (window - 1) / 2]).to(h)   # orthogonal: 1 and t − t_i
    basis = basis / basis.norm(dim=1, keepdim=True)
    sections = h.unfold(1, window, stride) @ basis.T @ basis                                   # (B, n, D, w)
    delta = sections[:, 1:, :, : window - stride] - sections[:, :-1, :, stride:]
    size = sections.square().sum((1, 2, 3))
    if not (size > ROUNDING**2 * h.square().sum((1, 2))).all():
        raise ValueError("h must not be orthogonal to every fit, as it is in some sequence: the residual has no share")
    return (delta.square().sum((1, 2, 3)) / size).sqrt().mean()


def _sequences(h: Tensor) -> Tensor:
    """(B, T, D) in float64."""
    if h.ndim not in (2, 3):
        raise ValueError(f"h must be (B, T, D) or (T, D), got shape {tuple(h.shape)}")
    h = h.detach().double().reshape(-1, *h.shape[-2:])
    if not h.any(-1).any(-1).all():
        raise ValueError("h must not be zero in any sequence: its energy has no share")
    return h
