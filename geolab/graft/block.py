"""A block with a residual around each of its sublayers.

Legend: B batch, T positions, D width.
"""

import inspect
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import pairwise

from torch import Tensor, nn

from geolab.graft.rules import Rule, known_rule, noted
from geolab.residuals import Residual, make_residual
from geolab.residuals.base import through


def make_residuals(residual: str | type[Residual], width: int, count: int,
                   **options) -> list[Residual]:
    """One residual for each sublayer of a network, in order.

    Arguments: as for `make_residual`.
    Raises: ValueError for a residual that needs a network wider than its sublayers, or the values
        of attention.
    """
    made = [make_residual(residual, width, index, count, **options) for index in range(count)]
    if made[0].needs_values:
        raise ValueError("the residual must stand around any sublayer, got "
                         f"{residual!r}, which changes the values of attention: graft doesn't know "
                         "where a network's attention has them")
    for before, after in pairwise(made):
        after.follow(before)
    if made[0].outer != width:
        raise ValueError(f"the residual must take the network's {width} features, got {residual!r} "
                         f"with {options}, which takes {made[0].outer}")
    return made


class Grafted:
    """The first base class of a grafted block; the second is the block's own class.

    The class of a grafted block has the name of the block's own class, and replaces its `forward`.
    So a library that looks for the block's class finds it, and all parameters keep their names.

    Attributes:
        residuals: one per sublayer.
        reads_other_positions: whether a residual reads other positions than the present one.
        state_axes: the axes of a state behind batch and positions, such as (n, D).
    """

    block_class: type[nn.Module]
    graft_rule: Rule
    residuals: nn.ModuleList
    reads_other_positions: bool
    state_axes: tuple[int, ...]

    def forward(self, *args, **kwargs) -> Tensor | tuple:
        """Run the block with the arguments of its own class's forward.

        Returns: what the block's own forward returns, with the state in place of x. The last block
            of a stack returns x, read out of the state.
        Raises: ValueError for an input that isn't x (B, T, D) in the first block, or the state in
            a later one; for a cache with positions in it, where a residual reads them.
        """
        names = parameters_of(self.block_class)
        if not args:
            x, kwargs = kwargs[names[0]], {k: v for k, v in kwargs.items() if k != names[0]}
        else:
            x, *args = args
        first, last = self.residuals[0].first, self.residuals[-1].last
        self._require_input(x, first)
        if first and self.reads_other_positions:
            _require_whole(self.residuals[0], dict(zip(names[1:], args, strict=False)) | kwargs)
        others: list = []
        batch_first = self.graft_rule.batch_first(self)
        sublayers = [(norm, noted(f, others), *after) for norm, f, *after
                     in self.graft_rule.sublayers(self, *args, **kwargs)]
        if not batch_first:
            sublayers = [(norm, lambda x, f=f: f(x.transpose(0, 1)).transpose(0, 1), *after)
                         for norm, f, *after in sublayers]
            state = through(self.residuals, x.transpose(0, 1) if first else x, sublayers)
            state = state.transpose(0, 1) if last else state
        else:
            state = through(self.residuals, x, sublayers)
        return (state, *others) if others else state

    def _require_input(self, x: Tensor, first: bool) -> None:
        name = self.block_class.__name__
        if not isinstance(x, Tensor):
            raise ValueError(f"x of a grafted {name} must be a tensor, got {type(x).__name__}")
        if first and (x.ndim != 3 or x.is_nested):
            got = "a nested tensor" if x.is_nested else f"shape {tuple(x.shape)}"
            raise ValueError(f"x of a grafted {name} must be (batch, positions, width) or "
                             f"(positions, batch, width), got {got}: add the missing axis, or pad")
        if not first and tuple(x.shape[2:]) != self.state_axes:
            raise ValueError(
                f"a grafted {name} must get the state of the block before it, whose axes behind "
                f"batch and positions are {self.state_axes}, got shape {tuple(x.shape)}: graft "
                "hands states from block to block, and what stands between them must keep them")

    def __reduce_ex__(self, protocol):
        """Let `copy` and `pickle` find a class that no module defines.

        A user's rule may be a lambda, which can't be pickled. So it isn't stored, and the program
        that loads the block must call `rule` again.
        """
        known = known_rule(self.block_class) is not None
        return _empty, (self.block_class, None if known else self.graft_rule), vars(self)


@cache
def parameters_of(block_class: type[nn.Module]) -> tuple[str, ...]:
    """The names of forward's parameters, x first."""
    return tuple(inspect.signature(block_class.forward).parameters)[1:]


def _require_whole(residual: Residual, given: Mapping[str, object]) -> None:
    """Raise ValueError for a cache with earlier positions, which a residual would need to read."""
    for name, value in given.items():
        length = getattr(value, "get_seq_length", None)
        if length is None and hasattr(value, "update") and not isinstance(value, Mapping):
            raise ValueError(f"{name} must be None: {type(residual).__name__} reads other "
                             f"positions than the present one, and a {type(value).__name__} "
                             "doesn't say by get_seq_length how many it holds")
        named = any(part in name for part in ("past", "cache", "kv"))
        kept = length() if length else _kept_positions(value) if named else 0
        if kept:
            raise ValueError(f"use_cache must be False: {type(residual).__name__} reads other "
                             f"positions than the present one, and {name} holds {kept} positions "
                             "without what it reads")


def _kept_positions(cache: object) -> int:
    """Count the positions in a cache of tensors (B, heads, T, D / heads)."""
    if isinstance(cache, Tensor):
        return cache.shape[-2] if cache.ndim >= 2 else 0
    parts = cache.values() if isinstance(cache, Mapping) else cache
    return max(map(_kept_positions, parts), default=0) if isinstance(parts, Iterable) else 0


@cache
def grafted_class(block_class: type[nn.Module], rule: Rule) -> type[nn.Module]:
    return type(block_class.__name__, (Grafted, block_class),
                {"block_class": block_class, "graft_rule": rule})


def _empty(block_class: type[nn.Module], rule: Rule | None) -> nn.Module:
    rule = rule or known_rule(block_class)
    if rule is None:
        raise ValueError(f"graft must know the block {block_class.__name__} before it is loaded: "
                         "call geolab.graft.rule as in the program that saved it")
    made = grafted_class(block_class, rule)
    return made.__new__(made)


# ---------------------------------------------------------------- lists of grafted blocks

def watch_ends(model: nn.Module) -> None:
    """Add a hook to each module that holds a list of grafted blocks: it refuses to run a part of
    the list.
    """
    for module in model.modules():
        if any(_ends(child) for child in module.children()):
            module.register_forward_pre_hook(require_ends)


def unwatch_ends(model: nn.Module) -> None:
    """Remove the hooks of `watch_ends`."""
    for module in model.modules():
        for key, hook in list(module._forward_pre_hooks.items()):
            if hook is require_ends:
                del module._forward_pre_hooks[key]


def require_ends(module: nn.Module, _: tuple) -> None:
    """Raise ValueError for a list of grafted blocks without its first or its last one."""
    for name, child in module.named_children():
        first_and_last = _ends(child)
        if first_and_last and not all(first_and_last):
            missing = "last one, which reads the state" if first_and_last[0] \
                else "first one, which makes the state"
            raise ValueError(f"{name} must have all its grafted blocks, got a list without the "
                             f"{missing}; cut the network first, then graft")


def _ends(blocks: nn.Module) -> tuple[bool, bool] | None:
    """Return whether a list begins with a stack's first block, and whether it ends with its last
    one.

    The result is None for a list without grafted blocks, and for one whose state has the axes of x.
    """
    if not isinstance(blocks, (nn.ModuleList, nn.Sequential, nn.ModuleDict)):
        return None
    grafted = [child for child in blocks.children() if isinstance(child, Grafted)]
    if not grafted or len(grafted[0].state_axes) == 1:
        return None
    return bool(grafted[0].residuals[0].first), bool(grafted[-1].residuals[-1].last)
