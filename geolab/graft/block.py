"""A block with a residual around each of its sublayers.

Legend: B batch, T positions, D width.
"""

import inspect
import threading
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import chain, pairwise
from typing import Any

from torch import Tensor, nn
from torch.compiler import is_compiling

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


GIVEN = "residuals", "reads_other_positions", "state_axes", "graft_stack"  # what graft sets


class Grafted:
    """The first base class of a grafted block; the second is the block's own class.

    The class of a grafted block has the name of the block's own class, and replaces its `forward`.
    So a library that looks for the block's class finds it, and all parameters keep their names.

    Attributes:
        residuals: one per sublayer.
        reads_other_positions: whether a residual reads other positions than the present one.
        state_axes: the axes of a state behind batch and positions, such as (n, D).
        graft_stack: an object that the blocks of one stack share.
    """

    block_class: type[nn.Module]
    graft_rule: Rule
    residuals: nn.ModuleList
    reads_other_positions: bool
    state_axes: tuple[int, ...]
    graft_stack: object

    def forward(self, *args, **kwargs) -> Tensor | tuple:
        """Run the block with the arguments of its own class's forward.

        Returns: what the block's own forward returns, with the state in place of x. The last block
            of a stack returns x, read out of the state.
        Raises: ValueError for an input that isn't x (B, T, D) in the first block, or the state in
            a later one; for a cache with positions in it, where a residual reads them.
        """
        names = parameters_of(self.block_class)
        if args:
            x, *args = args
        elif names[0] in kwargs:
            x, kwargs = kwargs[names[0]], {k: v for k, v in kwargs.items() if k != names[0]}
        else:
            raise ValueError(f"x of a grafted {self.block_class.__name__} must come first or be "
                             f"named {names[0]!r}, got {', '.join(kwargs) or 'nothing'}")
        first, last = self.residuals[0].first, self.residuals[-1].last
        self._require_input(x, first)
        if first and self.reads_other_positions:
            _require_whole(self.residuals[0], dict(zip(names[1:], args, strict=False)) | kwargs)
        others: list[tuple] = []
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
        if first != last and not is_compiling():
            (_unread.stacks.add if first else _unread.stacks.discard)(self.graft_stack)
        return (state, *chain(*others)) if others else state

    def _require_input(self, x: Tensor, first: bool) -> None:
        name = self.block_class.__name__
        if not isinstance(x, Tensor):
            raise ValueError(f"x of a grafted {name} must be a tensor, got {type(x).__name__}")
        if first and (x.ndim != 3 or x.is_nested):
            got = "a nested tensor" if x.is_nested else f"shape {tuple(x.shape)}"
            raise ValueError(f"x of a grafted {name} must be (batch, positions, width) or "
                             f"(positions, batch, width), got {got}: add the missing axis, or pad")
        width = self.residuals[0].width
        if first and (x.shape[2] != width or not x.is_floating_point()):
            raise ValueError(f"x of a grafted {name} must have {width} real features along its "
                             f"last axis, got shape {tuple(x.shape)} of {x.dtype}")
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
        state = getattr(self, "__getstate__", lambda: vars(self))  # Python 3.10 has none
        return _empty, (self.block_class, None if known else self.graft_rule), state()


@cache
def parameters_of(block_class: type[nn.Module]) -> tuple[str, ...]:
    """The names of forward's parameters, x first."""
    return tuple(inspect.signature(block_class.forward).parameters)[1:]


def _require_whole(residual: Residual, given: Mapping[str, object]) -> None:
    """Raise ValueError for a cache with earlier positions, which a residual would need to read."""
    for name, value in given.items():
        named = any(part in name for part in ("past", "cache", "kv"))
        if not (named or hasattr(value, "get_seq_length") or hasattr(value, "update")):
            continue
        kept = _kept_positions(value)
        if kept is None:
            raise ValueError(f"{name} must be None: {type(residual).__name__} reads other "
                             f"positions than the present one, and a {type(value).__name__} "
                             "doesn't say by get_seq_length how many it holds")
        if kept:
            raise ValueError(f"use_cache must be False: {type(residual).__name__} reads other "
                             f"positions than the present one, and {name} holds {kept} positions "
                             "without what it reads")


def _kept_positions(cache: Any) -> int | None:
    """Count the positions in a cache of tensors (B, heads, T, D / heads), or return None for an
    object that doesn't say.
    """
    if hasattr(cache, "get_seq_length"):
        return cache.get_seq_length()
    if isinstance(cache, Tensor):
        return cache.shape[-2] if cache.ndim >= 2 else 0
    if cache is None or isinstance(cache, bool | int | float | str):
        return 0
    if not isinstance(cache, Iterable):
        return None
    counts = [*map(_kept_positions, cache.values() if isinstance(cache, Mapping) else cache)]
    return None if None in counts else max(counts, default=0)


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


# ---------------------------------------------------------------- the ends of a stack

class _Unread(threading.local):
    """The stacks whose state was made in this thread, and not read out yet."""

    def __init__(self):
        self.stacks: set[object] = set()


_unread = _Unread()


def watch_ends(model: nn.Module) -> None:
    """Add hooks to each module that runs grafted blocks: they refuse to run a part of a stack that
    makes a state and doesn't read it out.
    """
    for module in model.modules():
        if _stacks(module):
            module.register_forward_pre_hook(require_ends)
            module.register_forward_hook(require_read)


def unwatch_ends(model: nn.Module) -> None:
    """Remove the hooks of `watch_ends`."""
    for module in model.modules():
        for hooks in (module._forward_pre_hooks, module._forward_hooks):
            for key in [key for key, hook in hooks.items()
                        if hook in (require_ends, require_read)]:
                del hooks[key]


def require_ends(module: nn.Module, _: tuple) -> None:
    """Raise ValueError for a list of grafted blocks without its first or its last one."""
    for name, blocks in _stacks(module):
        if not (blocks[0].residuals[0].first and blocks[-1].residuals[-1].last):
            missing = "last one, which reads the state" if blocks[0].residuals[0].first \
                else "first one, which makes the state"
            raise ValueError(f"{name} must have all its grafted blocks, got a list without the "
                             f"{missing}; cut the network first, then graft")
        if not is_compiling():
            _unread.stacks.discard(blocks[0].graft_stack)


def require_read(module: nn.Module, *_: object) -> None:
    """Raise ValueError where a forward made a state and ended before the last grafted block."""
    for name, blocks in [] if is_compiling() else _stacks(module):
        if blocks[0].graft_stack in _unread.stacks:
            raise ValueError(f"the forward of {type(module).__name__} must run the last block of "
                             f"{name}, which reads x out of the state, got one that stopped before "
                             "it: let it skip blocks in between, or cut the network, then graft")


def _stacks(module: nn.Module, name: str = "") -> list[tuple[str, list[Grafted]]]:
    """The names of the lists of grafted blocks that a module runs, and their blocks: its children,
    or those of lists among them. Where a state has the axes of x, it needs no ends.
    """
    found: list[tuple[str, list[Grafted]]] = []
    blocks: list[Grafted] = [child for child in module.children() if isinstance(child, Grafted)]
    if blocks and len(blocks[0].state_axes) > 1:
        found.append((name or type(module).__name__, blocks))
    for key, child in module.named_children():
        if isinstance(child, (nn.ModuleList, nn.ModuleDict, nn.Sequential)):
            found += _stacks(child, f"{name}.{key}".removeprefix("."))
    return found
