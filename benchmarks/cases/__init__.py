"""The measured cases: each operator that has a kernel, its inputs, and its floor in bytes.

A file of this folder holds the floors and the CASES of one idea; this one collects them.
"""

from importlib import import_module
from pkgutil import iter_modules

import torch
from torch import Tensor

from benchmarks.cases.case import EPS, Bytes, Case, Draw
from benchmarks.cases.delta import CHANNELS
from benchmarks.cases.streams import split

__all__ = ["CASES", "CHANNELS", "EPS", "SIZES", "STREAMS", "Bytes", "Case", "draws",
           "split"]

# pairs of N and d; a matrix per token has no features
SIZES = {"state": ((8192, 4096), (65536, 768)), "matrices": ((8192, 0), (65536, 0))}
STREAMS = 4

CASES: dict[str, Case] = {}
for idea in iter_modules(__path__, "benchmarks.cases."):
    CASES |= getattr(import_module(idea.name), "CASES", {})


def draws(device: str, dtype: torch.dtype, seed: int) -> tuple[Draw, Draw]:
    """Return the functions `state` and `number`, which draw a case's normal inputs."""
    generator = torch.Generator(device).manual_seed(seed)

    def number(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, device=device)

    return lambda *shape: number(*shape).to(dtype), number
