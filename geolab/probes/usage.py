"""The use of n streams: which ones a network's sublayers read, write, and can do without.

Alimaskina et al. 2026 (arXiv 2606.03483) find that the signal gathers in one stream. Peng et al.
2026 (arXiv 2603.14833) take one stream away at a time, to tell what a network needs from what it
merely holds. Here a stream is taken away by putting the mean of the others in its place, or zeros
where there are no others.

Legend: B batch, T positions, n streams, D width.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from geolab.operators import widened
from geolab.probes.hearing import weights_of
from geolab.probes.held import HeldStep, Run, held_run


class StreamUsage(NamedTuple):
    """The n streams of the state that a sublayer's residual takes; n may grow from one to the next.
    """

    norm: Tensor    # (n,): the length of the stream, averaged over tokens
    read: Tensor    # (n,): the mean of |aᵢ|, the weights with which the sublayer reads it
    write: Tensor   # (streams afterwards,): the mean of |bᵢ|, with which it writes to each
    change: Tensor  # (n,): what changes when the mean of the other streams stands in its place


def stream_usage(model: nn.Module, x: Any,
                 loss: Callable[[Any], Tensor] | None = None) -> list[StreamUsage]:
    """Measure each stream at each sublayer, in the order in which they run.

    The model runs once for the norms and weights, and once more for each stream of each sublayer.

    Arguments:
        model: any network with one stack of residuals in it, such as one that was grafted.
        x: an input of the model.
        loss: output of the model -> a number. Then a change is the loss that is added. Without it,
            it is the distance of what the head gets from what it got, relative to the norm of that.
    Raises: ValueError for a state that isn't streams, (B, T, n, D) or a named tuple that begins
        with them; otherwise as `depth_weights`.
    """
    run = held_run(model, x)
    _require_streams(run)
    weights_of(run)  # or raise: a weight of features that mix says nothing
    found = [_weights(step) for step in run.steps]
    usage = []
    for at, (norm, read, write) in enumerate(found):
        changes = []
        for stream in range(len(norm)):
            without = held_run(model, x, partial(_without, at, stream))
            changes.append(loss(without.output) - loss(run.output) if loss else
                           widened(without.exit - run.exit).norm() / widened(run.exit).norm())
        usage.append(StreamUsage(norm, read, write, torch.stack(changes).detach()))
    return usage


@torch.enable_grad()
def _weights(step: HeldStep) -> tuple[Tensor, Tensor, Tensor]:
    before, after = _streams(step.state), _streams(step.new)
    read, = torch.autograd.grad(step.heard.sum(), before, retain_graph=True, materialize_grads=True)
    write = [torch.autograd.grad(stream.sum(), step.said, retain_graph=True,
                                 materialize_grads=True)[0] for stream in after.unbind(-2)]
    return (before.detach().norm(dim=-1).mean((0, 1)), read.abs().mean((0, 1, 3)),
            torch.stack([each.abs().mean() for each in write]))


def _require_streams(run: Run) -> None:
    for step in run.steps:
        shape, width = tuple(_streams(step.state).shape), step.heard.shape[-1]
        if len(shape) != 4 or shape[-1] != width:
            raise ValueError(f"the state of {type(step.residual).__name__} must be streams, "
                             f"(batch, positions, streams, {width}), got shape {shape}")


def _streams(state: Any) -> Tensor:
    return state[0] if isinstance(state, tuple) else state


def _without(at: int, stream: int, step: int, state: Any) -> Any:
    """The state, at step `at` with the mean of the other streams in place of one."""
    if step != at:
        return state
    changed = _streams(state).clone()
    others = [k for k in range(changed.shape[-2]) if k != stream]
    changed[..., stream, :] = changed[..., others, :].sum(-2) / max(len(others), 1)
    return type(state)(changed, *state[1:]) if isinstance(state, tuple) else changed
