"""What a model notes of itself while it trains: once an evaluation, at inputs that stay the same.

An evaluation runs in parts: micro-batches, and each process's share. And a sharded model is whole only while it runs. So the look
is taken inside the first forward pass of an evaluation, at inputs of its own.
"""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from geolab.tasks import Task


def watch(model: nn.Module, look: Callable[[nn.Module, Tensor], Tensor], task: Task, places: int, *shape: int,
          examples: int | None = None, start: bool = False) -> nn.Module:
    """The same model; from now on it notes what `look(model, inputs)` returns, in buffers, which a checkpoint has.

    `seen` (places, *shape) is in float64, and NaN where nothing is noted yet; `count` says how many places are taken.

    Arguments:
        look: runs the model by `model.forward`, not by calling it. A Layer's parameters can be used in `on_the_way` alone.
        task, examples: `inputs` are its validation inputs, all of them or the first ones, read when they are needed.
        places: how often; later evaluations are not noted.
        start: note at once as well. The model is then in evaluation mode, until it trains.
    """
    model.register_buffer("seen", torch.full((places, *shape), torch.nan, dtype=torch.double))
    model.register_buffer("count", torch.tensor(0))
    trained = False

    @torch.no_grad()
    def note(model: nn.Module) -> None:
        if model.count < places:
            model.seen[model.count] = look(model, task.sample("validation").inputs[:examples].to(model.seen.device))
            model.count += 1

    @torch.compiler.disable
    def before(model: nn.Module, args: tuple) -> None:
        nonlocal trained
        due, trained = trained and not model.training, model.training
        if due:
            note(model)

    model.register_forward_pre_hook(before)  # FSDP2 puts its own before it, which makes the root's parameters whole
    if start:
        note(model.eval())
    return model


def on_the_way(model: nn.Module, modules: Iterable[nn.Module], inputs: Tensor,
               see: Callable[[nn.Module, Tensor], Tensor]) -> list[Tensor]:
    """What `see(module, its input)` returns, in the order in which `modules` run at `inputs`: there they are whole."""
    found = []  # of copies: a sharded parameter's numbers are gone afterwards
    hooks = [module.register_forward_pre_hook(lambda module, args: found.append(see(module, args[0]).clone()))
             for module in modules]
    try:
        model.forward(inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return found
