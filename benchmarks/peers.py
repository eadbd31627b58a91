"""Other people's kernels of the same functions, if they are available: those of Liger and of
hyper-connections, once installed (pip install liger-kernel hyper-connections), and those of the
authors of Deep Delta Learning, from a checkout that the reader names.

A peer gets its inputs in its own layout, and isn't timed while they are brought there. Liger's
Sinkhorn starts with the rows. By default it adds 1e-6 to each divisor; here it adds 0. It also
computes mHC's read and write coefficients, which can't be switched off. The backward pass of
hyper-connections' Sinkhorn uses the final matrix in place of every iteration's. Through the
library's own function a failing kernel would silently be replaced, so its autograd function is
called directly. The authors' update of Deep Delta Learning also makes v and β, and guards the
direction by EPS √d.
"""

import hashlib
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

from benchmarks.cases import EPS

# distribution -> module
PACKAGES = {"liger-kernel": "liger_kernel", "hyper-connections": "hyper_connections"}
DDL_FILE = Path("model/DDL_utils.py")  # in a checkout of the authors' repository


class Contender(NamedTuple):
    """A function, and another one that brings a case's inputs into its layout.

    The tensors of `given` that need a gradient are, in this order, the case's inputs.
    """

    function: Callable[..., Tensor | tuple[Tensor, ...]]
    given: Callable[..., tuple] = lambda *inputs: inputs


def installed(ddl: Path | None = None) -> dict[str, str]:
    """The available peers: distribution -> version, and "ddl" -> the first digits of its file's
    SHA-256.
    """
    found = {name: version(name) for name, module in PACKAGES.items() if find_spec(module)}
    if ddl:
        found["ddl"] = hashlib.sha256((ddl / DDL_FILE).read_bytes()).hexdigest()[:12]
    return found


def peers(case: str, ddl: Path | None = None) -> dict[str, Contender]:
    """Return the available peers of a case by name."""
    found = {name: contender for (name, measured), contender in PEERS.items()
             if measured == case and find_spec(PACKAGES[name])}
    if ddl and case == "delta_layer, d_v = 4":
        fused = _ddl(ddl).FusedDeepDeltaFunction
        found["ddl"] = Contender(lambda x, k, u, c, *maps: fused.apply(
            x[None], k[None], u[None], c[None], *maps, EPS, 4.0)[0])
    return found


@cache
def _ddl(folder: Path) -> ModuleType:
    """The authors' kernels: the module DDL_utils of their repository."""
    spec = spec_from_file_location("ddl_utils", folder / DDL_FILE)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _liger_read(x: Tensor, weights: Tensor) -> Tensor:
    from liger_kernel.transformers.functional import liger_mhc_pre
    return liger_mhc_pre(x, weights)


def _liger_mix_write(x: Tensor, matrix: Tensor, weights: Tensor, update: Tensor) -> Tensor:
    from liger_kernel.transformers.functional import liger_mhc_post_res
    return liger_mhc_post_res(x, update, weights, matrix)


def _hyper_connections_sinkhorn(logits: Tensor) -> Tensor:
    from hyper_connections.triton_sinkhorn import TritonSinkhornFunction
    return TritonSinkhornFunction.apply(logits, 20)


class _RmsLinear(Function):
    """Liger's matrix product of the normalised state, without its further steps.

    It takes W with one column per output, and in the state's dtype: only then it uses the matrix
    units.
    """

    @staticmethod
    def given(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        columns = weight.detach().to(x.dtype).T.contiguous()
        return x, columns.T.requires_grad_(), columns

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, columns: Tensor) -> Tensor:
        from liger_kernel.ops.mhc import mhc_mm_norm_fwd
        mix, inverse = mhc_mm_norm_fwd(x, columns, EPS)
        ctx.save_for_backward(x, columns, mix, inverse)
        return mix

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        from liger_kernel.ops.mhc import mhc_mm_norm_bwd
        grad_x, grad_columns = mhc_mm_norm_bwd(*ctx.saved_tensors, grad.float())
        return grad_x, grad_columns.T, None


class _Sinkhorn(Function):
    """Liger's Sinkhorn of (N, n, n) logits, with 20 iterations whose history is kept, as in
    training.

    It reads the logits from the last n² of 2n + n² numbers per token, and a bias and a factor.
    """

    @staticmethod
    def given(logits: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        N, n, _ = logits.shape
        mix = torch.cat([logits.new_zeros(N, 2 * n), logits.detach().flatten(1)], dim=1)
        own = mix[:, 2 * n:].unflatten(1, (n, n)).requires_grad_()
        return own, mix, mix.new_zeros(mix.shape[1]), mix.new_ones(())

    @staticmethod
    def forward(ctx, logits: Tensor, mix: Tensor, bias: Tensor, one: Tensor) -> Tensor:
        from liger_kernel.ops.mhc import mhc_split_sinkhorn_fwd
        *_, p, history = mhc_split_sinkhorn_fwd(mix, bias, one, one, one, tmax=20, pre_eps=0.0,
                                                sinkhorn_eps=0.0, post_mult=2.0, return_hist=True)
        ctx.save_for_backward(mix, bias, one, history)
        return p

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None, None, None]:
        from liger_kernel.ops.mhc import mhc_sinkhorn_bwd
        mix, bias, one, history = ctx.saved_tensors
        return mhc_sinkhorn_bwd(mix, bias, one, grad.contiguous(), tmax=20, sinkhorn_eps=0.0,
                                hist=history), None, None, None


# distribution and case -> the peer
PEERS = {
    ("liger-kernel", "stream_read"): Contender(_liger_read),
    ("liger-kernel", "stream_mix_write"): Contender(_liger_mix_write),
    ("liger-kernel", "rms_linear"): Contender(_RmsLinear.apply, _RmsLinear.given),
    ("liger-kernel", "sinkhorn, rows first"): Contender(_Sinkhorn.apply, _Sinkhorn.given),
    ("hyper-connections", "sinkhorn"): Contender(_hyper_connections_sinkhorn),
}
