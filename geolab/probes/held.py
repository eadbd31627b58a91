"""A run of a network in which the residuals' coefficients are constants.

    x_t = H_t x_{t−1} + b_t y_t,   u_t = a_tᵀ x_{t−1},   y_t = F_t(u_t)

Coefficients such as a, b and H depend on the state. Here they have their values, and no derivative.
Nor has a sublayer's output y_t. So each state and each input u_t is linear in y_0, the entry, and
in the outputs so far, and automatic differentiation gives the factors. Held is what a method
`coefficients` of a residual, or of a part of it, gives. So is what a function of NONLINEAR makes of
a state, such as the weights with which attention reads the last one. An RMS norm multiplies by a
factor that is held.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import is_dataclass, replace
from functools import partial
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from geolab import kernels

NONLINEAR = {"exp", "gelu", "layer_norm", "linalg_vector_norm", "norm", "relu", "rsqrt", "sigmoid",
             "silu", "softmax", "softplus", "sqrt", "tanh"}


class HeldStep(NamedTuple):
    """The step of one residual."""

    residual: nn.Module
    state: Any      # x_{t−1}
    heard: Tensor   # u_t, before the sublayer's norm: (B, T, D)
    said: Tensor    # y_t, (B, T, D), a leaf
    new: Any        # x_t


class Run(NamedTuple):
    """A run of one stack of residuals, S of them."""

    entry: Tensor       # y_0, (B, T, D), a leaf
    steps: list[HeldStep]
    exit: Tensor        # what the last residual's `reduce` gives: (B, T, D)
    output: Any         # of the model


@torch.no_grad()
def held_run(model: nn.Module, x: Any, change: Callable[[int, Any], Any] | None = None) -> Run:
    """Run a model with its coefficients held.

    Arguments:
        model: any network with one stack of residuals in it, such as one that was grafted. Its
            residuals are the modules that have a method `observe`.
        x: an input of the model.
        change: (number of the step from 0, state) -> the state that the step gets instead.
    Raises: ValueError for a model that runs no residuals, or several stacks of them; for a residual
        that doesn't run its sublayer once.
    """
    ends: dict[str, list[Tensor]] = {"expand": [], "reduce": []}
    steps: list[HeldStep] = []

    @torch.enable_grad()
    def enter(expand: Callable, x: Tensor) -> Any:
        ends["expand"].append(x.detach().requires_grad_())
        return expand(ends["expand"][-1])

    @torch.enable_grad()
    def leave(reduce: Callable, state: Any) -> Tensor:
        ends["reduce"].append(reduce(state))
        return ends["reduce"][-1]

    @torch.enable_grad()
    def step(residual: nn.Module, forward: Callable, state: Any, sublayer: Callable) -> Any:
        state = change(len(steps), state) if change else state
        heard, said = [], []
        new = forward(state, _noting(sublayer, heard, said))
        if len(said) != 1:
            raise ValueError(f"{type(residual).__name__} must run its sublayer once in a step, got "
                             f"{len(said)} runs")
        steps.append(HeldStep(residual, state, heard[0], said[0], new))
        return new

    with ExitStack() as around:
        around.enter_context(kernels.use("never"))  # they would hide their nonlinear functions
        around.enter_context(_Held())

        def put_around(part: nn.Module, name: str, function: Callable) -> None:
            replaced = partial(function, getattr(part, name))
            around.enter_context(patch.object(part, name, replaced))

        for residual in (module for module in model.modules() if hasattr(module, "observe")):
            put_around(residual, "expand", enter)
            put_around(residual, "reduce", leave)
            put_around(residual, "forward", partial(step, residual))
            for part in residual.modules():
                if hasattr(part, "coefficients"):
                    put_around(part, "coefficients", _held)
        output = model(x)
    if not steps:
        raise ValueError(f"model must run residuals, got {type(model).__name__}, which runs none")
    if len(ends["expand"]) != 1 or len(ends["reduce"]) != 1:
        raise ValueError("model must run one stack of residuals, from one entry to one exit, got "
                         f"{len(ends['expand'])} entries and {len(ends['reduce'])} exits")
    return Run(ends["expand"][0], steps, ends["reduce"][0], output)


class _Held(TorchFunctionMode):
    """Inside this context the result of a nonlinear function is a constant, and an RMS norm linear.
    """

    def __torch_function__(self, function: Callable, types: Any, args: tuple = (),
                           kwargs: dict | None = None) -> Any:
        found, name = function(*args, **(kwargs or {})), getattr(function, "__name__", "")
        if name == "rms_norm":
            x = args[0]
            return found.detach() + (found / x).detach().nan_to_num() * (x - x.detach())
        return found.detach() if name in NONLINEAR else found


def _held(coefficients: Callable, *args: Any) -> tuple | Tensor:
    """The same coefficients, constant."""
    found = coefficients(*args)
    if isinstance(found, Tensor):
        return found.detach()
    return type(found)(*(part if part is None else part.detach() for part in found))


def _noting(sublayer: Callable, heard: list, said: list) -> Callable:
    """The same sublayer, which notes its input in `heard`, and its output, a constant, in `said`.

    It is as much of a `Normed` as the other was: a residual may ask for its norm.
    """
    def note(f: Callable, x: Tensor) -> Tensor:
        heard.append(x)
        return f(x)

    @torch.no_grad()
    def leaf(f: Callable, *args: Tensor, **named: Any) -> Tensor:
        said.append(f(*args, **named).detach().requires_grad_())
        return said[-1]

    if not is_dataclass(sublayer) or isinstance(sublayer, type):
        return partial(note, partial(leaf, sublayer))
    if getattr(sublayer, "takes_views", False):   # what is measured is one sum per sublayer
        sublayer = replace(sublayer, takes_views=False)
    if sublayer.norm is None:
        return replace(sublayer, f=lambda x, *maps, **named: note(
            lambda x: leaf(sublayer.f, x, *maps, **named), x))
    return replace(sublayer, f=partial(leaf, sublayer.f), norm=partial(note, sublayer.norm))
