"""Notes of a model about itself while it trains, once per evaluation, at fixed inputs.

An evaluation is split over micro-batches and processes, and a sharded model is whole only while it
runs. So the note is taken inside the first forward pass of an evaluation.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

import torch
from torch import Tensor, nn

from geolab.tasks import Task

Model = TypeVar("Model", bound=nn.Module)


def watch(model: Model, look: Callable[[Model, Tensor], Tensor], task: Task, places: int,
          *shape: int, examples: int | None = None, start: bool = False) -> Model:
    """Make the model note what `look(model, inputs)` returns. Returns the same model.

    The notes are buffers, so a checkpoint has them: `seen` (places, *shape), in float64, is NaN
    at free places, and `count` is the number of filled ones.

    Arguments:
        look: runs the model by `model.forward`, not by calling it. The parameters of a Layer can
            be used in `on_the_way` alone.
        task, examples: `inputs` are the task's validation inputs, all of them or the first
            `examples`. They are read on first use.
        places: the number of notes; later evaluations leave none.
        start: take a note at once as well. The model is then in evaluation mode until it trains.
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

    # FSDP2's own hook runs before this one, and makes the root's parameters whole
    model.register_forward_pre_hook(before)
    if start:
        note(model.eval())
    return model


def on_the_way(model: nn.Module, modules: Iterable[nn.Module], inputs: Tensor,
               see: Callable[[nn.Module, Tensor], Tensor]) -> list[Tensor]:
    """Return the results of `see(module, its input)`, in the order in which `modules` run.

    A sharded module is whole inside that run. The results are copied, since its parameters are
    gone afterwards.
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
