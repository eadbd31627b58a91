"""Loops in a cloud of points: persistent homology of its Vietoris–Rips filtration.

At radius r the complex contains every set of points whose distances are all at most r. A loop is
born at the r that closes it and dies at the r that fills it with triangles. The Geometric
Transformer lecture prints a column "H₁" without its definition; the library that computes it here
is GUDHI.

Legend: N points, D width, K bars.
"""

import torch
from torch import Tensor


def persistence(points: Tensor, dimension: int = 1, most: int = 128) -> Tensor:
    """The bars (birth, death) of H₀ or H₁: (K, 2) in float64, the longest first.

    The one bar of H₀ that never dies is left out. Distances are divided by their median, so the
    scale of the points changes nothing.

    Arguments:
        points: (N, D), N at least 3.
        dimension: 0 for components, 1 for loops.
        most: the largest N. The complex has about N³ / 6 triangles.
    Raises: ValueError for another shape, dimension or number of points, or where the median
        distance is 0. ImportError without the gudhi library.
    """
    if points.ndim != 2 or not 3 <= len(points) <= most:
        raise ValueError(f"points must be (N, D) with N from 3 to most = {most}, "
                         f"got shape {tuple(points.shape)}: take a sample")
    if dimension not in (0, 1):
        raise ValueError(f"dimension must be 0 or 1, got {dimension}")
    try:
        import gudhi
    except ImportError as error:
        raise ImportError("persistence is computed with the gudhi library: "
                          'pip install "geolab[topology]"') from error
    points = points.detach().double().cpu()
    median = torch.pdist(points).quantile(0.5)
    if not median > 0:
        raise ValueError("points must be distinct for the most part, "
                         f"got a median distance of {median:g}")
    rips = gudhi.RipsComplex(points=(points / median).numpy())
    tree = rips.create_simplex_tree(max_dimension=dimension + 1)
    tree.compute_persistence()
    bars = torch.as_tensor(tree.persistence_intervals_in_dimension(dimension), dtype=torch.float64)
    bars = bars.reshape(-1, 2)
    bars = bars[bars[:, 1].isfinite()]
    return bars[(bars[:, 1] - bars[:, 0]).argsort(descending=True)]


def total_persistence(bars: Tensor) -> Tensor:
    """Σ (death − birth) over (K, 2) bars: a scalar, 0 for none."""
    return (bars[:, 1] - bars[:, 0]).sum()
