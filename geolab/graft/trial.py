"""Check that a rule computes what its block does. Both run on an input, and their side effects are
undone.
"""

import random
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import is_dataclass
from functools import partial
from itertools import chain

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map_only

from geolab.graft.rules import Rule, find_rule, is_own, noted, requires_x_alone
from geolab.residuals.base import plainly

# the errors of a network or a rule for an input or a block that doesn't fit it
UNFIT = (RuntimeError, TypeError, ValueError, LookupError, AttributeError, AssertionError)


def sublayers_of(block: nn.Module) -> tuple[Rule, list[tuple]]:
    """Find the rule of a block and call it with the block alone: return both, rule and sublayers.

    Raises: ValueError for a rule that needs further arguments of forward, or doesn't return
    sublayers.
    """
    name, rule = type(block).__name__, find_rule(block)
    assert rule is not None  # it is a block that `find_stacks` found
    try:
        found = rule.sublayers(block)
    except (TypeError, AttributeError, LookupError) as error:
        raise ValueError(f"the rule of {name} must be callable with the block alone, with defaults "
                         f"for what else forward gets, got: {error}") from error
    if not (found and isinstance(found, list | tuple) and all(map(_is_sublayer, found))):
        raise ValueError(f"the rule of {name} must give a list of (norm, F) or (None, F, norm), "
                         f"got {found!r}")
    return rule, found


def _is_sublayer(part: object) -> bool:
    """Return whether this is (norm, F), (None, F) or (None, F, norm)."""
    return (isinstance(part, tuple) and len(part) in (2, 3) and all(map(callable, part[1:]))
            and (part[0] is None or callable(part[0])))


@torch.no_grad()
def require_same_block(block: nn.Module, rule: Rule, width: int) -> None:
    """Raise ValueError unless a rule computes what its block's forward does, on a random x.

    A user's rule isn't checked if its block requires more than x, and a warning says so.
    """
    name, one = type(block).__name__, like(block)
    if one.is_meta:
        return
    if not requires_x_alone(block):
        if is_own(rule):
            warnings.warn(f"graft doesn't check the rule of {name}, whose forward requires more "
                          "than x: give graft an example of the model's inputs", stacklevel=5)
        return
    try:
        wanted = _tried(block, block.forward, width)  # without the hooks, which stay outside
    except UNFIT as error:
        if is_own(rule):
            warnings.warn(f"graft can't check the rule of {name}, whose forward doesn't take "
                          f"a random x of shape (1, 2, {width}) alone ({error}): give graft an "
                          "example of the model's inputs", stacklevel=5)
        return
    try:
        got = _tried(block, partial(_by_rule, block, rule), width)
    except UNFIT as error:
        raise ValueError(f"the rule of {name} must run where its forward does, got "
                         f"{type(error).__name__}: {error}") from error
    ours, theirs = map(_kind, (got, wanted))
    if ours != theirs:
        raise ValueError(f"the rule of {name} must return what forward does, a {theirs}, got a "
                         f"{ours}: a grafted block returns a tensor, or a plain tuple where an F "
                         "does, whose first entry is added to x")
    for our, their in zip(_tensors(got), _tensors(wanted), strict=True):
        _require_close(name, our, their)


def _tried(block: nn.Module, run: Callable[[Tensor], object], width: int) -> object:
    """Run a block, or its rule, on one random x, each time with the same dropout and from the same
    buffers.
    """
    one = like(block)
    with untouched(block, one.device):
        return run(torch.randn(1, 2, width, device=one.device).to(one.dtype))


def _by_rule(block: nn.Module, rule: Rule, x: Tensor) -> Tensor | tuple:
    others: list[tuple] = []
    y = plainly(x, [(norm, noted(f, others), *after)
                    for norm, f, *after in rule.sublayers(block)])
    return (y, *chain(*others)) if others else y


def _kind(found: object) -> str:
    """What a block returns, in words: a tuple with its number of tensors."""
    if type(found) is tuple:
        return f"tuple of {len(found)}, with {len(_tensors(found))} tensors"
    return "tensor" if isinstance(found, Tensor) else type(found).__name__


def like(module: nn.Module) -> Tensor:
    """A tensor with the device and the dtype of a module's parameters, or by default torch's."""
    return next((p for p in module.parameters() if p.is_floating_point()), torch.zeros(0))


@torch.no_grad()
def require_batch_first(block: nn.Module, rule: Rule, width: int) -> None:
    """Raise ValueError for a block that mixes the first axis of a random x, where a user's rule
    says that it is the batch.
    """
    one = like(block)
    if one.is_meta or not (is_own(rule) and rule.batch_first(block)):
        return

    def tried(*pair: Tensor) -> Tensor:
        with untouched(block, one.device):
            block.eval()
            return _tensors(block.forward(torch.stack(pair)))[0]

    a, b, c = torch.randn(3, 3, width, generator=torch.Generator().manual_seed(0)).to(one)
    try:
        both, first, second = tried(a, b), tried(a, c), tried(c, b)
    except UNFIT:
        return
    if not torch.allclose(torch.stack([first[0], second[1]]), both, rtol=1e-3, atol=1e-5):
        raise ValueError(f"batch_first must be False in the rule of {type(block).__name__}, whose "
                         "forward mixes the first axis of x, and the residual reads positions")


@torch.no_grad()
def require_same_model(model: nn.Module, example: object, put: Callable[[], None],
                       undo: Callable[[], object]) -> None:
    """Raise ValueError unless the model computes the same with residuals that start as the plain
    network.

    Arguments:
        put, undo: functions that put the residuals around the sublayers, and take them out again.
    """
    device = like(model).device

    def tried() -> list[Tensor]:
        with untouched(model, device):  # both from the same buffers, with the same dropout
            return _tensors(call(model, example))

    try:
        wanted = tried()
    except UNFIT as error:
        raise ValueError(f"example must be inputs that {type(model).__name__} takes, got "
                         f"{type(error).__name__}: {error}") from error
    if not any(tensor.numel() for tensor in wanted):
        raise ValueError("example must lead to numbers that can be compared, and "
                         f"{type(model).__name__} returns none")
    put()
    try:
        got = tried()
    except UNFIT as error:
        raise ValueError("graft must fit the model on this example, its rules and what stands "
                         f"between its blocks, got {type(error).__name__}: {error}") from error
    finally:
        undo()
    if len(got) != len(wanted):
        raise ValueError(f"the rules must keep what the model returns, {len(wanted)} tensors, "
                         f"got {len(got)}")
    for ours, theirs in zip(got, wanted, strict=True):
        _require_close(type(model).__name__, ours, theirs)


def call(model: nn.Module, example: object) -> object:
    """Call the model with an example: a tensor, a tuple of arguments, or a dict of named arguments.

    The model gets copies of the tensors, which it may change.
    """
    example = tree_map_only(Tensor, Tensor.clone, example)
    if isinstance(example, Mapping):
        return model(**example)
    return model(*example) if isinstance(example, tuple) else model(example)


def _tensors(found: object) -> list[Tensor]:
    """The floating-point tensors in what a block or a model returns, in dataclasses too."""
    if is_dataclass(found):
        return _tensors(vars(found))
    parts = [_tensors(part) if is_dataclass(part) else [part]
             for part in tree_leaves(found, is_leaf=is_dataclass)]
    return [part for part in chain(*parts)
            if isinstance(part, Tensor) and part.is_floating_point()]


def _require_close(name: str, got: Tensor, wanted: Tensor) -> None:
    if (got.shape, got.dtype) != (wanted.shape, wanted.dtype):
        raise ValueError(f"the rule of {name} must give shape {tuple(wanted.shape)} of "
                         f"{wanted.dtype}, got {tuple(got.shape)} of {got.dtype}; if x isn't of "
                         "the block's dtype, give graft an example of the model's inputs")
    most = float(wanted.abs().max()) if wanted.numel() else 0.0
    if not torch.allclose(got, wanted, rtol=1e-2, atol=1e-2 * most):
        raise ValueError(f"the rule of {name} must compute what its forward does, got a difference "
                         f"of {float((got - wanted).abs().max()):.2g}")


@contextmanager
def untouched(module: nn.Module, device: torch.device) -> Iterator[None]:
    """A context in which random generators start at seed 0, and torch's layers take no fast path,
    which packs what isn't padded. At its end it restores both, attributes, and buffers such as a
    BatchNorm's statistics.
    """
    drawn = random.getstate(), np.random.get_state()  # a loop may skip blocks by these
    fast = torch.backends.mha.get_fastpath_enabled()
    before = [(buffer, buffer.clone()) for buffer in module.buffers()]
    kept = [(part, dict(vars(part)), dict(part._buffers)) for part in module.modules()]
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            for seed in (torch.manual_seed, random.seed, np.random.seed):
                seed(0)
            torch.backends.mha.set_fastpath_enabled(False)
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        random.setstate(drawn[0])
        np.random.set_state(drawn[1])
        for part, attributes, buffers in kept:
            vars(part).clear()
            vars(part).update(attributes)
            part._buffers.clear()
            part._buffers.update(buffers)
        for buffer, value in before:
            buffer.copy_(value)
