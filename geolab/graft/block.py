"""A block with a residual around each of its sublayers.

Legend: B batch, T positions, D width.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise

from torch import Tensor, nn

from geolab.graft.rules import Rule
from geolab.residuals import HyperConnections, Normed, Residual, make_residual


def make_residuals(residual: str | type[Residual], width: int, count: int,
                   **options) -> list[Residual]:
    """One residual for each sublayer of a network, in order.

    Arguments: as for `make_residual`.
    Raises: ValueError for a residual that needs a network wider than its sublayers.
    """
    made = [make_residual(residual, width, index, count, **options) for index in range(count)]
    for before, after in pairwise(made):
        after.follow(before)
    if made[0].outer != width:
        raise ValueError(f"the residual must take the network's {width} features, got {residual!r} "
                         f"with {options}, which takes {made[0].outer}")
    return made


def through(residuals: Sequence[Residual], x: Tensor, sublayers: Iterable[tuple]) -> Tensor:
    """The step of a block: each residual around its sublayer.

    Arguments:
        residuals: of this block. The first one of the network makes the state, and the last one
            reads it out.
        x: (B, T, D) for the first block, the state for the others.
        sublayers: (norm, F) or (None, F, norm) for each residual, as in `Rule`.
    Returns: the state, or (B, T, D) from the last block.
    """
    first, last = residuals[0], residuals[-1]
    state = first.expand(x) if first.first else x
    for residual, (norm, f, *after) in zip(residuals, sublayers, strict=True):
        state = residual(state, Normed(f, norm))
        for post_norm in after:
            state = post_norm(state)
    return leave(last, state) if last.last else state


def leave(residual: Residual, state: Tensor) -> Tensor:
    """(B, T, D) of the last state.

    Hyper-connections leave as the sum of their n streams, which is n x at the start. The norm that
    follows in their paper undoes that. Here they leave as the mean, whatever follows.
    """
    x = residual.reduce(state)
    return x / residual.streams if isinstance(residual, HyperConnections) else x


class Grafted:
    """What a grafted block has before its own class.

    The class of a grafted block is a subclass of the block's, with its name and with `forward` in
    its place. So a library that looks for its class finds it, and all parameters keep their names.

    Attributes:
        residuals: one per sublayer.
        reads_other_positions: whether they read other positions than the present one.
    """

    block_class: type[nn.Module]
    graft_rule: Rule
    residuals: nn.ModuleList
    reads_other_positions: bool

    def forward(self, x: Tensor, *args, **kwargs) -> Tensor:
        sublayers = self.graft_rule.sublayers(self, *args, **kwargs)
        if self.graft_rule.batch_first(self):
            return through(self.residuals, x, sublayers)
        first, last = self.residuals[0].first, self.residuals[-1].last
        turned = [(norm, lambda x, f=f: f(x.transpose(0, 1)).transpose(0, 1), *after)
                  for norm, f, *after in sublayers]
        state = through(self.residuals, x.transpose(0, 1) if first else x, turned)
        return state.transpose(0, 1) if last else state

    def __reduce_ex__(self, protocol):
        """So that `copy` and `pickle` find a class which no module defines."""
        return _empty, (self.block_class, self.graft_rule), vars(self)


@cache
def grafted_class(block_class: type[nn.Module], rule: Rule) -> type[nn.Module]:
    return type(block_class.__name__, (Grafted, block_class),
                {"block_class": block_class, "graft_rule": rule})


def _empty(block_class: type[nn.Module], rule: Rule) -> nn.Module:
    made = grafted_class(block_class, rule)
    return made.__new__(made)
