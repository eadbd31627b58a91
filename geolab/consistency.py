"""Diagrams: paths of maps between the same two ends, and a loss that is zero where they agree.

    mismatch(x) = mean over pairs of paths p, q of mean (p(x) − q(x))²

The Geometric Transformer lecture trains with it as "diagrammatic backpropagation": loss of the task
+ λ Σ mismatch. The name doesn't stand for a backward rule of its own: there and here, it is
ordinary automatic differentiation of a regularised loss. Maps may share parameters with the model.
The model owns the parameters, so a diagram is not a module.

    square          f then g  =  h then k               triangle    f then g  =  h
    loop            f then g  =  the empty path         semigroup   from t₃ to t₁ at once
                                                                    =  by way of t₂

Legend: T positions, D features, G groups of positions, m positions in a group.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from numbers import Real

import torch
from torch import Tensor

from geolab.checks import require_real

Map = Callable[[Tensor], Tensor]
Time = float | Tensor


class Diagram:
    """Two or more paths between the same ends.

    A path is a sequence of maps, applied from left to right; the empty one is the identity.

    Raises: ValueError for fewer than two paths; TypeError for a path that isn't a sequence of maps.
    """

    def __init__(self, *paths: Iterable[Map], name: str = "diagram"):
        if len(paths) < 2:
            raise ValueError(f"a diagram compares two or more paths, got {len(paths)}")
        for path in paths:
            if not isinstance(path, Iterable):
                raise TypeError(f"a path is a sequence of maps, got {path!r}; "
                                "a single map f is the path (f,)")
        self.paths, self.name = tuple(map(tuple, paths)), name

    def ends(self, x: Tensor) -> list[Tensor]:
        """Apply each path to x, and return the ends. Raises: ValueError when their shapes differ.
        """
        ends = []
        for path in self.paths:
            end = x
            for step in path:
                end = step(end)
            if ends and end.shape != ends[0].shape:
                raise ValueError(f"the paths of {self.name} must end in one shape, "
                                 f"got {tuple(ends[0].shape)} by path 0 "
                                 f"and {tuple(end.shape)} by path {len(ends)}")
            ends.append(end)
        return ends

    def mismatch(self, x: Tensor) -> Tensor:
        """A scalar, 0 exactly where the paths agree on x.

        With k paths it is 2/(k − 1) Σ mean (end − mean of the ends)².
        """
        pairs = combinations(self.ends(x), 2)
        return torch.stack([(a - b).square().mean() for a, b in pairs]).mean()


def diagrammatic_loss(diagrams: Sequence[Diagram], x: Tensor,
                      weights: Sequence[float] | None = None) -> Tensor:
    """Σ weight · mismatch(x), a scalar, with every weight 1 by default.

    It is added to the loss of the task.

    Raises: ValueError for no diagrams, another number of weights than of diagrams, or a weight that
        isn't finite.
    """
    if isinstance(weights, Real):
        raise ValueError(f"weights must be one for each diagram, got the number {weights}")
    weights = [1.0] * len(diagrams) if weights is None else list(weights)
    require_real(**{f"weights[{k}]": weight for k, weight in enumerate(weights)})
    if not diagrams or len(weights) != len(diagrams):
        raise ValueError("weights must be one for each of one or more diagrams, "
                         f"got {len(weights)} for {len(diagrams)} diagrams")
    pairs = zip(weights, diagrams, strict=True)
    return sum((weight * diagram.mismatch(x) for weight, diagram in pairs), x.new_zeros(()))


def square(f: Map, g: Map, h: Map, k: Map) -> Diagram:
    """f then g = h then k.

    `square(a, b, b, a)` says that a and b commute; its mismatch measures their commutator, without
    normalisation.
    """
    return Diagram((f, g), (h, k), name="square")


def triangle(f: Map, g: Map, h: Map) -> Diagram:
    """f then g = h."""
    return Diagram((f, g), (h,), name="triangle")


def semigroup(flow: Callable[[Tensor, Time, Time], Tensor], t1: Time, t2: Time,
              t3: Time) -> Diagram:
    """From t₃ to t₁ at once = by way of t₂ (lecture eq. 5).

    `flow(x, t, s)` carries x from time t to time s. A deterministic flow can commute pointwise. A
    sampler that draws noise composes in distribution at best.
    """
    by_way = (lambda x: flow(x, t3, t2), lambda x: flow(x, t2, t1))
    return Diagram((lambda x: flow(x, t3, t1),), by_way, name="semigroup")


def agreement(h: Tensor, groups: Tensor) -> Tensor:
    """Σ ‖h_i − mean of its group‖² over groups and their members, averaged over the batch.

    This is the lecture's Sudoku regulariser, with `geolab.tasks.sudoku.triples()` as the groups. A
    group is the diagram whose paths read one position each. It is zero where h is equal within
    every group. Then a readout that all positions share predicts the same within a group.

    Arguments:
        h: (..., T, D).
        groups: (G, m) positions, int64.
    Returns: a scalar.
    Raises: ValueError for groups of fewer than two positions, or positions that aren't int64.
    """
    if groups.ndim != 2 or groups.shape[1] < 2:
        raise ValueError("groups must be (groups, members) with two or more members, "
                         f"got {tuple(groups.shape)}")
    if groups.dtype != torch.int64:
        raise ValueError(f"groups must be positions in int64, got {groups.dtype}")
    members = h[..., groups, :]  # (..., G, m, D)
    return (members - members.mean(-2, keepdim=True)).square().sum((-3, -2, -1)).mean()
