"""The base class of residuals: a state, and a step of that state around one sublayer.

    a sublayer is x -> F(norm x); the plain residual is x ← x + F(norm x)

Legend: B batch, T positions, D model width.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

from geolab.checks import require_effect

Sublayer = Callable[[Tensor], Tensor]  # (B, T, D) -> (B, T, D)


class Views(NamedTuple):
    """An input of attention whose queries, keys and values read the state differently."""

    q: Tensor   # (B, T, D) each
    k: Tensor
    v: Tensor


class Residual(nn.Module, ABC):
    """The connection around one sublayer. The plain one is state + sublayer(state).

    A residual with a single stream keeps its state as (B, T, D) and overrides `forward` alone.
    A residual with a wider state also defines `expand`, which makes the first state, and `reduce`,
    which reads the last one. The network calls `expand` on its first residual and `reduce` on its
    last one, once each.

    A residual holds parameters and options, but no tensors of a batch: it returns what it computes.
    Options are keyword arguments of its constructor. One that another option leaves without effect
    is refused where it is given: `idle` names it. A part with parameters of its own must be called
    to read them, since hooks that bring weights from elsewhere run at a call.

    Arguments:
        width: D.
        index: the place of this sublayer in the network, from 0.
        count: how many sublayers the network has.
    Attributes:
        first, last: whether this sublayer is the first or the last one of the network. Parameters
            that `expand` or `reduce` needs exist only there.
        options: the options that `make_residual` was given, by name.
    """

    reach = 1       # how many positions its own convolutions read, including the present one
    leaks = False   # whether an output depends on later inputs, as in some published forms
    needs_values = False  # whether it refuses a plain function in the place of attention
    lends = False   # whether another sublayer uses parameters of this one
    joins = False   # whether `step` leaves the write of its state to the next residual
    copies = 1      # how many times x `reduce` gives at the start
    values: type | None = None  # a dataclass whose fields are options, too
    decayed: tuple[str, ...] = ()  # which parameters of its own multiply features: see `decaying`
    step: Callable[[Any, Sublayer], Any]
    spectrum = ""   # eigenvalues of what multiplies the state, with all coefficients held fixed

    def __new__(cls, *place: int, **given: object) -> "Residual":
        # here alone is an option that was given told from one by default
        defaults = options_of(cls)
        chosen = {name: value for name, value in given.items() if name in defaults
                  and (value is not None or defaults[name] is not None)}
        if chosen:
            require_effect(chosen, cls.idle(defaults | given))
        return super().__new__(cls)

    def __init__(self, width: int, index: int = 0, count: int = 1):
        super().__init__()
        self.width, self.first, self.last = width, index == 0, index == count - 1
        self.options: dict[str, object] = {}

    @classmethod
    def idle(cls, options: Mapping[str, Any]) -> dict[str, str]:
        """The options that have no effect beside the others, each with the words that say why.

        Arguments:
            options: all options by name, those by default too.
        """
        return {}

    @property
    def outer(self) -> int:
        """The number of features that `expand` takes and `reduce` gives: D, unless the trunk is
        wider.
        """
        return self.width

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.options.items())

    def reset_parameters(self) -> None:
        """Start every parameter and buffer anew, in place: those of its parts, then its own.

        A network calls this if its weights were made on the meta device, or are missing in a
        checkpoint.
        Raises: TypeError for a part that doesn't say how it starts.
        """
        for part in self.children():
            _reset(part)
        self.start_own()

    def start_own(self) -> None:
        """Set the parameters and buffers that are this module's own. Its constructor calls it last.
        """
        _require_no_own(self, "start_own")

    def follow(self, before: "Residual") -> None:
        """Take over the parts that this sublayer shares with the one before. A network calls this
        once, when it is made.

        The parts still belong to `before` alone: their parameters are counted and stored there.
        """

    def expand(self, x: Tensor) -> Tensor:
        """(B, T, D) -> state, at the network's entry."""
        return x

    @abstractmethod
    def forward(self, state: Tensor, sublayer: Sublayer) -> Tensor:
        """state -> state, through one sublayer."""

    def normed(self, state: Tensor, sublayer: Sublayer,
               norm: Callable[[Tensor], Tensor]) -> Tensor:
        """norm(self(state, sublayer)), in a post-norm network."""
        return norm(self(state, sublayer))

    def observe(self, state: Tensor, sublayer: Sublayer) -> tuple:
        """The coefficients of this step as a named tuple, for the probes; () where it has none."""
        return self.coefficients(state) if hasattr(self, "coefficients") else ()

    def reduce(self, state: Tensor) -> Tensor:
        """state -> (B, T, D), at the network's exit."""
        return state


_PLACE = ("self", "width", "index", "count")  # no options: where the residual stands


@cache
def options_of(residual: type[Residual]) -> dict[str, Any]:
    """The options of a residual's constructor, with those of the classes that it hands them to, and
    their defaults.

    An inherited option without a default isn't one of them, since the residual itself sets it.
    """
    found: dict[str, Any] = {}
    for owner in residual.__mro__:
        if "__init__" in vars(owner):
            given = inspect.signature(owner.__init__).parameters.values()
            found |= {p.name: p.default for p in given if p.name not in (*_PLACE, *found)
                      and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
                      and (owner is residual or p.default is not p.empty)}
            if vars(owner).get("values"):  # it takes what its constructor is given besides
                return {field.name: field.default for field in fields(owner.values)} | found
            if all(p.kind is not p.VAR_KEYWORD for p in given):
                break
    return found


def _reset(part: nn.Module) -> None:
    for inner in part.children():
        _reset(inner)
    # nn.MultiheadAttention has a private one
    own = getattr(part, "reset_parameters", None) or getattr(part, "_reset_parameters", None)
    if own is None:
        _require_no_own(part, "reset_parameters")
    else:
        own()


def _require_no_own(module: nn.Module, wanted: str) -> None:
    own = [name for found in (module.named_parameters, module.named_buffers)
           for name, _ in found(recurse=False)]
    if own:
        raise TypeError(
            f"{type(module).__name__} must define {wanted}(), which sets {', '.join(own)}: a "
            "network that was made on the meta device, or loaded from a checkpoint without them, "
            "calls it")


def decaying(model: nn.Module) -> set[str]:
    """The names of the parameters that weight decay shrinks.

    Outside of residuals they are all parameters with two or more axes. Of a residual and its parts
    they are the matrices that multiply features: the weights of nn.Linear, and what a module names
    in its attribute `decayed`. Any other weight of a residual is the connection itself, such as a
    table of streams, a scale, a bias or a kernel.
    """
    inside = {part for module in model.modules() if isinstance(module, Residual)
              for part in module.modules()}
    return {f"{path}.{name}".removeprefix(".") for path, module in model.named_modules()
            for name, p in module.named_parameters(recurse=False)
            if (name in _marked(module) if module in inside else p.ndim >= 2)}


def _marked(module: nn.Module) -> tuple[str, ...]:
    return getattr(module, "decayed", ("weight",) if isinstance(module, nn.Linear) else ())


@dataclass  # not frozen: PyTorch 2.11 doesn't compile code that makes a frozen one
class Normed:
    """The sublayer x -> F(norm x), in two parts, for a residual that puts a map between them.

    Arguments:
        f: F, (B, T, D) -> (B, T, D).
        norm: the norm in front of F, or None for no norm.
        fused: whether F also takes the two maps of `between` as `f(x, before, after)`, because it
            can multiply them into its own matrices.
        takes_views: whether F also takes `Views` in place of x, as attention may.
        takes_values: whether F also takes `f(x, values=change)`, and then reads change(V) in place
            of its values V = x W_V, both (B, T, D), as attention may.
    """

    f: Callable[..., Tensor]
    norm: Callable[[Tensor], Tensor] | None = None
    fused: bool = False
    takes_views: bool = False
    takes_values: bool = False

    def __call__(self, x: Tensor | Views,
                 values: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        if self.norm is not None:
            x = Views(*map(self.norm, x)) if isinstance(x, Views) else self.norm(x)
        return self.f(x) if values is None else self.f(x, values=values)

    def between(self, x: Tensor, before: Tensor, after: Tensor) -> Tensor:
        """after F(before norm x), with (D, D) matrices `before` and `after`."""
        x = x if self.norm is None else self.norm(x)
        if self.fused:
            return self.f(x, before, after)
        return F.linear(self.f(F.linear(x, before)), after)


def parted(sublayer: Sublayer) -> Normed:
    """The sublayer in two parts. A plain function doesn't show its norm, so all of it counts as F.
    """
    return sublayer if isinstance(sublayer, Normed) else Normed(sublayer)


def takes_views(sublayer: Sublayer) -> bool:
    """Return whether the sublayer takes `Views`. A `Normed` says so; a plain function doesn't."""
    return isinstance(sublayer, Normed) and sublayer.takes_views


def between(sublayer: Sublayer, x: Tensor, before: Tensor, after: Tensor) -> Tensor:
    """after F(before norm x), where the sublayer is x -> F(norm x).

    Of a plain function it is after F(before x).

    Arguments:
        x: (B, T, D).
        before, after: (D, D) matrices.
    Returns: (B, T, D).
    """
    return parted(sublayer).between(x, before, after)


# ---------------------------------------------------------------- one sublayer after the other

def untouched(module: nn.Module, called: bool = False) -> bool:
    """Return whether a module has its class's own methods and no hooks, so that nobody sees its
    inputs and outputs. One that is still `called` may have hooks of FSDP, which gather its weights.
    """
    hooks = (*module._forward_hooks.values(), *module._forward_pre_hooks.values())
    return "forward" not in vars(module) and "coefficients" not in vars(module) and all(
        called and getattr(hook, "__module__", "").startswith("torch.distributed.")
        for hook in hooks)


def steps_as(residual: Residual, kind: type[Residual]) -> bool:
    """Return whether a residual takes the step of this class, and nobody looks at its state."""
    return type(residual).forward is kind.forward and untouched(residual)


def joining(residuals: Iterable[Residual]) -> bool:
    """Return whether each of these residuals may leave the write of its state to the next one: all
    have a `step` that does, and nobody looks at a state in between.
    """
    residuals = list(residuals)
    return all(map(untouched, residuals)) and all(residual.joins for residual in residuals)


def through(residuals: Sequence[Residual], x: Tensor, sublayers: Sequence[tuple]) -> Tensor:
    """Run the step of a block: each residual around its sublayer.

    Arguments:
        residuals: the block's residuals. The network's first residual makes the state, and its last
            one reads it out.
        x: (B, T, D) for the first block, the state for the others.
        sublayers: (norm, F) for each residual, or (None, F, norm) with a norm behind the residual.
    Returns: the state, or (B, T, D) from the last block. Where the residual reduces n copies of x
        to their sum, as in the paper of hyper-connections, they are reduced to their mean, since
        any module may follow.
    """
    first, last = residuals[0], residuals[-1]
    # each sublayer but the last leaves the write of its state to the next one
    joined = all(len(sublayer) == 2 for sublayer in sublayers) and joining(residuals)
    state = first.expand(x) if first.first else x
    for residual, (norm, f, *after) in zip(residuals, sublayers, strict=True):
        if after:
            state = residual.normed(state, Normed(f, norm), *after)
        else:
            step = residual.step if joined else residual
            state = step(state, Normed(f, norm))
    state = state.written() if joined else state
    if not last.last:
        return state
    x = last.reduce(state)
    return x if last.copies == 1 else x / last.copies


def plainly(x: Tensor, sublayers: Sequence[tuple]) -> Tensor:
    """Run the step of the plain block, x ← x + F(norm x) for each of its sublayers."""
    for norm, f, *after in sublayers:
        x = x + f(x if norm is None else norm(x))
        for post_norm in after:
            x = post_norm(x)
    return x
