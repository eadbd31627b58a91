"""What all tests of kernels share: the comparison with a float64 reference.

A kernel passes when its outputs, and all gradients for a random cotangent, have a relative distance
of at most `TOLERANCE` to the reference. A gradient of zeros has distance 1. Kernel and reference
get the same rounded inputs.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from benchmarks.cases import split
from geolab import kernels
from geolab.kernels import launch

# A number that is rounded once is off by 3.9e-3 or 4.9e-4 at most. The interpreter truncates to
# bfloat16.
TOLERANCE = {torch.float32: 4e-6, torch.bfloat16: 8e-3 if launch.INTERPRETED else 4e-3,
             torch.float16: 1e-3}


def normal(*shape: int, seed: int = 0, dtype=torch.float32, device="cpu") -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(device, dtype)


def generated(numbers):
    """Coefficients that don't depend linearly on the numbers."""
    read, write, mix = split(numbers)
    return read.sigmoid(), 2 * write.sigmoid(), mix.softmax(-1)


def distance(got: Tensor, wanted: Tensor) -> float:
    """‖got − wanted‖ / ‖wanted‖. NaN counts as infinite, and empty tensors have distance 0."""
    got, wanted = got.double().cpu(), wanted.double().cpu()
    assert got.shape == wanted.shape, f"shape {tuple(got.shape)}, wanted {tuple(wanted.shape)}"
    if not wanted.numel():
        return 0.0
    norm = wanted.norm().clamp(min=torch.finfo(torch.float64).tiny)
    error = ((got - wanted).norm() / norm).item()
    return error if error == error else float("inf")


def with_gradients(function: Callable, inputs: Sequence[Tensor], seed: int,
                   like: Sequence[Tensor] | None = None) -> list[Tensor]:
    """The outputs of a function, then its gradients with respect to all inputs.

    The cotangents are random, and rounded to the dtypes of `like` if it is given.
    """
    leaves = [x.detach().requires_grad_() for x in inputs]
    outputs = function(*leaves)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    cotangents = [normal(*y.shape, seed=seed + i, dtype=(like or outputs)[i].dtype,
                         device=y.device).to(y.dtype) for i, y in enumerate(outputs)]
    return [*outputs, *torch.autograd.grad(outputs, leaves, cotangents)]


def check(kernel: Callable, operator: Callable, *inputs: Tensor,
          tolerance: float | None = None) -> None:
    """Raise AssertionError unless the kernel gives what the operator gives in float64.

    This compares the outputs, and the gradients with respect to every input.
    """
    tolerance = TOLERANCE[inputs[0].dtype] if tolerance is None else tolerance
    got = with_gradients(kernel, inputs, seed=1000)
    with kernels.use("never"):
        wanted = with_gradients(operator, [x.double() for x in inputs], seed=1000, like=got)
    assert len(got) == len(wanted)
    for place, (ours, theirs) in enumerate(zip(got, wanted, strict=True)):
        error = distance(ours, theirs)
        found = f"result {place} of {len(got)}: relative error {error:.2g}"
        assert error <= tolerance, f"{found}, tolerance {tolerance:g}"
