"""Take a network apart: its residual stream at one input becomes a list of maps for any probe.

    stream = residual_stream(model, tokens)
    states = stream.states()            x_0 and x_l = T_l(x_{l−1}), with T_l(x) = x + F_l(norm x)
    logits = stream.head(states[-1])    the model's output at the last state

A map T_l has the masks and positions of this input. So it can run alone, be left out, be exchanged
with another, or get another x. The measures of `geolab.probes` at these maps give order, erasing
and Jacobians of a real network.

Legend: B batch, T positions, D width, L sublayers.
"""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor, nn

from geolab.graft.block import parameters_of
from geolab.graft.rules import find_rule, noted
from geolab.graft.stacks import find_stacks
from geolab.graft.trial import call
from geolab.residuals import Normed

LETTERS = {1: "B", 2: "AF", 3: "ACF"}  # a whole block; attention, (cross-attention,) MLP
CLOSE = 1e-3                           # relative distance of the maps from the model's own blocks


@dataclass(frozen=True)
class Sublayer:
    """T: x ↦ x + F(norm x), or norm(x + F(x)) in a post-norm block, with a name such as "F11"."""

    name: str
    update: Callable[[Tensor], Tensor]   # T(x) − x, (B, T, D) -> (B, T, D)

    def __call__(self, x: Tensor) -> Tensor:
        return x + self.update(x)


class ResidualStream(NamedTuple):
    """A network at one input."""

    x: Tensor                             # (B, T, D), as the blocks take it: their input
    sublayers: tuple[Sublayer, ...]       # L maps, in the order in which they run
    head: Callable[[Tensor], Tensor]      # (B, T, D) -> the model's output at its last state

    def writes(self) -> list[Tensor]:
        """x_0 and the update of each sublayer, without gradients: L + 1 tensors whose sum is x_L.
        """
        with torch.no_grad():
            return [self.x, *(step.update(x) for step, x in
                              zip(self.sublayers, self.states(), strict=False))]

    def states(self, maps: Iterable[Callable[[Tensor], Tensor]] | None = None) -> list[Tensor]:
        """x_0 and the state behind each map, without gradients: L + 1 tensors (B, T, D).

        Arguments:
            maps: other maps in place of the sublayers, such as these in another order.
        """
        with torch.no_grad():
            return list(accumulate(self.sublayers if maps is None else maps,
                                   lambda x, step: step(x), initial=self.x))


@torch.no_grad()
def residual_stream(model: nn.Module, inputs: object) -> ResidualStream:
    """Take a network apart at one input. The model itself doesn't change.

    Arguments:
        model: a network whose blocks `graft` knows, in eval mode and not grafted.
        inputs: a tensor, a tuple of arguments, or a dict of named ones. The maps keep no cache.
    Raises: ValueError for a model without known blocks, with several stacks of them, or in training
        mode; where the maps don't compute what the model does.
    """
    if model.training:
        raise ValueError("model must be in eval mode, where nothing is drawn: call model.eval()")
    stacks = find_stacks(model)
    if len(stacks) > 1:
        raise ValueError("model must have one stack of blocks, got "
                         f"{', '.join(map(repr, stacks))}; take one of these parts by itself")
    (blocks,) = stacks.values()
    calls = _calls(model, blocks, inputs)
    sublayers = tuple(Sublayer(f"{letter}{index}", update)
                      for index, (block, got) in enumerate(zip(blocks, calls, strict=True))
                      for letter, update in _updates(block, got))
    stream = ResidualStream(calls[0].x, sublayers, partial(_head, model, blocks, calls, inputs))
    wanted, got = calls[-1].output, stream.states()[-1]
    if not (got - wanted).norm() <= CLOSE * wanted.norm():
        raise ValueError(f"the maps must compute what {type(model).__name__} does, got a last "
                         f"state {float((got - wanted).norm() / wanted.norm()):.2g} away from it: "
                         "something runs between its blocks that no rule tells")
    return stream


class _Call(NamedTuple):
    """A call of a block by the model: its arguments and its results."""

    x: Tensor
    args: tuple
    kwargs: dict
    output: Tensor
    others: tuple | None   # the block's results behind x


def _calls(model: nn.Module, blocks: list[nn.Module], inputs: object) -> list[_Call]:
    seen: dict[nn.Module, _Call] = {}
    calls = dict.fromkeys(blocks, 0)

    def note(block: nn.Module, args: tuple, kwargs: dict, output: object) -> None:
        if not args:
            kwargs = dict(kwargs)
            args = (kwargs.pop(parameters_of(type(block))[0]),)
        calls[block] += 1
        x, others = (output[0], output[1:]) if isinstance(output, tuple) else (output, None)
        kept = {name: _uncached(value) for name, value in kwargs.items()}
        seen[block] = _Call(args[0], tuple(map(_uncached, args[1:])), kept, x, others)

    hooks = [block.register_forward_hook(note, with_kwargs=True) for block in blocks]
    try:
        call(model, inputs)
    finally:
        for hook in hooks:
            hook.remove()
    if odd := sorted({count for count in calls.values() if count != 1}):
        raise ValueError(f"model must run each {type(blocks[0]).__name__} once, got one that runs "
                         f"{odd[-1]} times: the stream would lack a part of the network")
    return [seen[block] for block in blocks]


def _uncached(value: object) -> object:
    """An argument of a block, or None for a cache, to which every later run would add."""
    return None if hasattr(value, "get_seq_length") else value


def _updates(block: nn.Module, got: _Call) -> list[tuple[str, Callable]]:
    """A letter and the update of each sublayer of a block."""
    parts = find_rule(block).sublayers(block, *got.args, **got.kwargs)
    letters = LETTERS.get(len(parts), "BCDEFGHIJ")
    return [(letter, partial(_update, f, norm, after))
            for letter, (norm, f, *after) in zip(letters, parts, strict=False)]


def _update(f: Callable, norm: Callable | None, after: list, x: Tensor) -> Tensor:
    update = Normed(noted(f, []), norm)(x)
    for post_norm in after:
        update = post_norm(x + update) - x
    return update


@torch.no_grad()
def _head(model: nn.Module, blocks: list[nn.Module], calls: list[_Call], inputs: object,
          x: Tensor) -> Tensor:
    """The model's output at a last state x: its forward, with x in place of the blocks' result."""
    with ExitStack() as around:
        for block, got in zip(blocks, calls, strict=True):
            stand_in = x if got.others is None else (x, *got.others)
            around.enter_context(patch.object(block, "forward", lambda *_, x=stand_in, **__: x))
        found = call(model, inputs)
    if isinstance(found, Tensor):
        return found
    return found.logits if hasattr(found, "logits") else found[0]
