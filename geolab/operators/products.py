"""a bᵀ for very many short vectors a and b.

Broadcasting works through rows of n numbers, one short loop each. Products with constant matrices of zeros and ones do the same
in long loops: a L repeats each aᵢ n times, b R repeats all of b n times. torch.compile unrolls the short loops by itself.
"""

from functools import cache

import torch
from torch import Tensor

from geolab.operators.precision import full_precision


@full_precision
def outer(a: Tensor, b: Tensor) -> Tensor:
    """a bᵀ, its rows one after another: (..., n) and (..., n) -> (..., n²)."""
    if torch.compiler.is_compiling():
        return (a.unsqueeze(-1) * b.unsqueeze(-2)).flatten(-2)
    left, right = spread(a.shape[-1], a.dtype, a.device)
    return (a @ left) * (b @ right)


@cache
@torch.inference_mode(False)
def spread(n: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """L and R, (n, n²): aᵢ at place n i + j of a L, and bⱼ there of b R. Transposed, they sum over j and over i."""
    eye, ones = torch.eye(n), torch.ones(1, n)
    return torch.kron(eye, ones).to(device, dtype), torch.kron(ones, eye).to(device, dtype)
