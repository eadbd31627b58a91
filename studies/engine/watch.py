"""What a model notes about itself while it trains, once per evaluation, always at the same inputs.

An evaluation runs in parts, by micro-batches and by processes, and a sharded model is whole only
while it runs. So the look is taken inside the first forward pass of an evaluation.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

import torch
from torch import Tensor, nn

from geolab.tasks import Task

Model = TypeVar("Model", bound=nn.Module)


def watch(model: Model, look: Callable[[Model, Tensor], Tensor], task: Task, places: int,
          *shape: int, examples: int | None = None, start: bool = False) -> Model:
    """The same model, which from now on notes what `look(model, inputs)` returns.

    The notes are buffers, so a checkpoint has them: `seen` (places, *shape), in float64, is NaN
    where nothing is noted yet, and `count` says how many places are taken.

    Arguments:
        look: runs the model by `model.forward`, not by calling it. The parameters of a Layer can
            be used in `on_the_way` alone.
        task, examples: `inputs` are the task's validation inputs, all of them or the first ones.
            They are read when they are needed.
        places: how many looks are noted; later evaluations are not.
        start: note at once as well. The model is then in evaluation mode until it trains.
    """
    model.register_buffer("seen", torch.full((places, *shape), torch.nan, dtype=torch.double))
    model.register_buffer("count", torch.tensor(0))
    trained = False

    @torch.no_grad()
    def note(model: Model) -> None:
        if model.count < places:
            inputs = task.sample("validation").inputs[:examples]
            model.seen[model.count] = look(model, inputs.to(model.seen.device))
            model.count += 1

    @torch.compiler.disable
    def before(model: Model, args: tuple) -> None:
        nonlocal trained
        due, trained = trained and not model.training, model.training
        if due:
            note(model)

    # FSDP2 puts its own hook before this one, and that makes the root's parameters whole
    model.register_forward_pre_hook(before)
    if start:
        note(model.eval())
    return model


def on_the_way(model: nn.Module, modules: Iterable[nn.Module], inputs: Tensor,
               see: Callable[[nn.Module, Tensor], Tensor]) -> list[Tensor]:
    """What `see(module, its input)` returns, in the order in which `modules` run at `inputs`.

    Inside that run a sharded module is whole. The results are copied, since its numbers are gone
    afterwards.
    """
    found: list[Tensor] = []

    def note(module: nn.Module, args: tuple) -> None:
        found.append(see(module, args[0]).clone())

    hooks = [module.register_forward_pre_hook(note) for module in modules]
    try:
        model.forward(inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return found
