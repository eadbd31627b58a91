"""All kernels share this: the way to autograd and torch.library, the layout of arguments, and the
checks whose messages name an argument.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cache, wraps
from math import prod
from typing import NamedTuple

import torch
import triton
from torch import Tensor
from torch.autograd import Function
from torch.library import custom_op

from geolab.kernels import DTYPES, batched

TWINS: dict[str, Callable] = {}  # every kernel, by the name of its operator
INTERPRETED = triton.knobs.runtime.interpret


# ---------------------------------------------------------------- devices

class Device(NamedTuple):
    """The properties of a device that kernels ask for."""

    multiprocessors: int
    shared: int    # the bytes of shared memory that a program may have
    halves: bool   # whether matrix units multiply bfloat16 numbers
    tf32: bool     # whether they multiply tf32 numbers, as sums of three products


# the interpreter has no matrix units
H200 = Device(132, 227 * 2**10, halves=not INTERPRETED, tf32=not INTERPRETED)


@cache
def describe(device: torch.device) -> Device:
    """The properties of this device. A CPU counts as an H200."""
    if device.type != "cuda":
        return H200
    number = torch.cuda.current_device() if device.index is None else device.index
    found = triton.runtime.driver.active.utils.get_device_properties(number)
    # an AMD device reports a number of its own as its capability
    ampere = torch.version.hip is None and torch.cuda.get_device_capability(device) >= (8, 0)
    return Device(found["multiprocessor_count"], found["max_shared_mem"],
                  ampere or torch.version.hip is not None, ampere)


# ---------------------------------------------------------------- an operator and its gradient

def twin(function: Callable) -> Callable:
    """A decorator: this is the kernel of the operator that has its name."""
    TWINS[function.__name__] = function
    return function


class Operator:
    """A launch that torch.compile sees as an operator of torch.library.

    Eager code calls it without the library, which would take longer than the rest of the call.

    outputs(*inputs) allocates what the launch fills: a tensor, or a tuple of them. Where
    torch.compile traces shapes, it runs alone. Otherwise launch(*inputs, *buffers) fills the
    buffers. If the first input is empty, the outputs are sums without a term, and become zeros.
    """

    def __init__(self, name: str, outputs: Callable, launch: Callable[..., None]):
        @wraps(outputs)
        def filled(*inputs):
            made = outputs(*inputs)
            buffers = made if isinstance(made, tuple) else (made,)
            if not inputs[0].numel():
                for empty in buffers:
                    empty.untyped_storage().fill_(0)
            elif any(map(Tensor.numel, buffers)):
                first = buffers[0]
                # Triton launches on the current device
                with torch.cuda.device(first.device) if first.is_cuda else nullcontext():
                    launch(*inputs, *buffers)
            return made

        self.name = name.removeprefix("geolab::")
        self.library = custom_op(name, filled, mutates_args=())
        self.library.register_fake(outputs)
        self.eager: Callable = filled

    def __call__(self, *inputs):
        # A mode of the dispatcher, such as one for fake tensors, sees only what is in the library.
        seen = torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack()
        return (self.library if seen else self.eager)(*inputs)


def op(name: str, launch: Callable[..., None]) -> Callable[[Callable], Operator]:
    """A decorator: it turns a function that allocates outputs into the `Operator` of that name."""
    return lambda outputs: Operator(name, outputs, launch)


def differentiate(forward: Operator, vjp: Callable,
                  keep: Callable = lambda inputs, outputs: inputs, outputs: int = 1) -> None:
    """Give an operator the backward pass `vjp`. Its first outputs alone have gradients.

    keep(inputs, outputs) chooses what the backward pass gets: tensors, numbers and None.
    vjp(*grads, *kept) returns the gradients of the operator's first inputs. The inputs after those
    have no gradient. If there are several outputs, an unused one has a gradient of zeros.

    Arguments:
        outputs: how many outputs have gradients.
    """
    filled, name = forward.eager, forward.name

    def remember(ctx, inputs, output):
        kept = keep(inputs, output)
        ctx.inputs = len(inputs)
        ctx.others = [None if isinstance(item, Tensor) else item for item in kept]
        ctx.save_for_backward(*(item if isinstance(item, Tensor) else None for item in kept))
        ctx.set_materialize_grads(False)  # no zeros for the other outputs
        made = output if isinstance(output, tuple) else (output,)
        ctx.mark_non_differentiable(*made[outputs:])
        ctx.made = [(y.shape, y.dtype, y.device) for y in made[:outputs]]

    def gradients(ctx, *grads):
        second = torch.is_grad_enabled()
        if second or any(grad is not None and batched(grad) for grad in grads):
            what = "second derivatives" if second else "batched gradients"
            raise RuntimeError(f"the kernel of {name} has no {what}: run the forward pass under "
                               "kernels.use('never'), where autograd finds them")
        if all(grad is None for grad in grads[:outputs]):  # none arrives, so none is passed on
            return (None,) * ctx.inputs
        given = [torch.zeros(shape, dtype=dtype, device=device) if grad is None
                 else grad.contiguous() for grad, (shape, dtype, device)
                 in zip(grads, ctx.made, strict=False)]
        kept = [other if saved is None else saved
                for saved, other in zip(ctx.saved_tensors, ctx.others, strict=True)]
        grads = vjp(*given, *kept)
        grads = grads if isinstance(grads, tuple) else (grads,)
        return *grads, *[None] * (ctx.inputs - len(grads))

    class Eager(Function):
        @staticmethod
        def forward(ctx, *inputs):
            output = filled(*inputs)
            remember(ctx, inputs, output)
            return output

        backward = staticmethod(gradients)

    forward.eager = Eager.apply
    forward.library.register_autograd(gradients, setup_context=remember)


# ---------------------------------------------------------------- arguments

def require(*names: str, **tensors: Tensor) -> None:
    """Raise unless all tensors are floating-point and on one device that kernels run on.

    Those in `names` must also have a dtype that kernels read.
    Raises: ValueError for a CPU tensor without the interpreter, or for tensors on several devices;
        TypeError for a dtype.
    """
    first = next(iter(tensors))
    device = tensors[first].device
    if not (INTERPRETED or device.type == "cuda"):
        raise ValueError(f"{first} must be on a CUDA device, got {device}; "
                         "on a CPU set TRITON_INTERPRET=1 before Triton is imported")
    for name, tensor in tensors.items():
        if tensor.device != device:
            raise ValueError(f"{name} must be on the device of {first}, {device}, "
                             f"got {tensor.device}")
        if not tensor.dtype.is_floating_point or (name in names and tensor.dtype not in DTYPES):
            raise TypeError(f"{name} must be float32, bfloat16 or float16, got {tensor.dtype}")


def common(*shapes: Sequence[int]) -> Sequence[int]:
    """The shape that all shapes broadcast to."""
    first, *others = shapes
    return first if all(shape == first for shape in others) else torch.broadcast_shapes(*shapes)


def expanded(x: Tensor, *shape: int) -> Tensor:
    """x broadcast to a shape. If it has this shape, it is returned without a node of autograd."""
    return x if x.shape == shape else x.expand(shape)


def groups(coefficient: Tensor, leading: torch.Size, trailing: int) -> tuple[Tensor, int]:
    """Float32 rows of a coefficient (..., the trailing axes), and how many tokens share each row.

    The coefficient broadcasts to the `leading` axes. If its last leading axes are 1 and its others
    equal those of x, consecutive tokens share a row, and the rows have one axis. In all other cases
    there is one row per token, and the rows have the leading axes.
    """
    axes = coefficient.ndim - trailing
    shape, own = coefficient.shape[:axes], coefficient.shape[axes:]
    if shape == leading:
        return coefficient.float().contiguous(), 1
    shape = (1,) * (len(leading) - len(shape)) + tuple(shape)
    kept = len(leading)
    while kept and shape[kept - 1] == 1:
        kept -= 1
    if shape[:kept] != tuple(leading[:kept]):
        return coefficient.expand(*leading, *own).float().contiguous(), 1
    return coefficient.float().reshape(prod(shape), *own).contiguous(), prod(leading[kept:])


def summed(per_token: Tensor, span: int, shared: Tensor) -> Tensor:
    """Add up the gradients of `span` consecutive tokens, which share a row of `shared`.

    Without any token the result is zeros.
    """
    if per_token.shape == shared.shape:
        return per_token
    return per_token.view(len(shared), span, *shared.shape[1:]).sum(1)
