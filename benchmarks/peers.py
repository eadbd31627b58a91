"""Other libraries' kernels of the same functions, if they are installed: pip install
liger-kernel hyper-connections.

Liger's Sinkhorn starts with the rows. By default it adds 1e-6 to each divisor; here it adds 0. It
also computes mHC's read and write coefficients, which can't be switched off. The backward pass of
hyper-connections' Sinkhorn uses the final matrix in place of every iteration's. Through the
library's own function a failing kernel would silently be replaced, so its autograd function is
called directly.
"""

from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec

import torch
from torch import Tensor
from torch.autograd import Function

from benchmarks.cases import EPS

# distribution -> module
PACKAGES = {"liger-kernel": "liger_kernel", "hyper-connections": "hyper_connections"}


def installed() -> dict[str, str]:
    """The installed peers: distribution -> version."""
    return {name: version(name) for name, module in PACKAGES.items() if find_spec(module)}


def peers(case: str) -> dict[str, Callable[..., Tensor]]:
    """The installed peers of a case: distribution -> a function of the case's inputs."""
    return {name: function for (name, measured), function in PEERS.items() if measured == case
            and find_spec(PACKAGES[name])}


def _liger_read(x: Tensor, weights: Tensor) -> Tensor:
    from liger_kernel.transformers.functional import liger_mhc_pre
    return liger_mhc_pre(x, weights)


def _liger_mix_write(x: Tensor, matrix: Tensor, weights: Tensor, update: Tensor) -> Tensor:
    from liger_kernel.transformers.functional import liger_mhc_post_res
    return liger_mhc_post_res(x, update, weights, matrix)


def _liger_rms_linear(x: Tensor, weight: Tensor) -> Tensor:
    # it uses the tensor cores only if both have the same dtype
    return _RmsLinear.apply(x, weight.to(x.dtype).T.contiguous(), EPS)


def _liger_sinkhorn(logits: Tensor) -> Tensor:
    return _Sinkhorn.apply(logits)


def _hyper_connections_sinkhorn(logits: Tensor) -> Tensor:
    from hyper_connections.triton_sinkhorn import TritonSinkhornFunction
    return TritonSinkhornFunction.apply(logits, 20)


class _RmsLinear(Function):
    """Liger's matrix product of the normalised state, without its further steps."""

    @staticmethod
    def forward(ctx, x: Tensor, phi: Tensor, eps: float) -> Tensor:
        from liger_kernel.ops.mhc import mhc_mm_norm_fwd
        mix, inverse = mhc_mm_norm_fwd(x, phi, eps)
        ctx.save_for_backward(x, phi, mix, inverse)
        return mix

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        from liger_kernel.ops.mhc import mhc_mm_norm_bwd
        return *mhc_mm_norm_bwd(*ctx.saved_tensors, grad.float()), None


class _Sinkhorn(Function):
    """Liger's Sinkhorn of (N, n, n) logits, with 20 iterations whose history is kept, as in
    training.
    """

    @staticmethod
    def forward(ctx, logits: Tensor) -> Tensor:
        from liger_kernel.ops.mhc import mhc_split_sinkhorn_fwd
        N, n, _ = logits.shape
        mix = torch.cat([logits.new_zeros(N, 2 * n), logits.flatten(1)], dim=1)
        bias, one = mix.new_zeros(mix.shape[1]), mix.new_ones(())
        *_, p, history = mhc_split_sinkhorn_fwd(mix, bias, one, one, one, tmax=20, pre_eps=0.0,
                                                sinkhorn_eps=0.0, post_mult=2.0, return_hist=True)
        ctx.save_for_backward(mix, bias, one, history)
        return p

    @staticmethod
    def backward(ctx, grad: Tensor) -> Tensor:
        from liger_kernel.ops.mhc import mhc_sinkhorn_bwd
        mix, bias, one, history = ctx.saved_tensors
        return mhc_sinkhorn_bwd(mix, bias, one, grad.contiguous(), tmax=20, sinkhorn_eps=0.0,
                                hist=history)


# distribution and case -> the peer
PEERS = {
    ("liger-kernel", "stream_read"): _liger_read,
    ("liger-kernel", "stream_mix_write"): _liger_mix_write,
    ("liger-kernel", "rms_linear"): _liger_rms_linear,
    ("liger-kernel", "sinkhorn, rows first"): _liger_sinkhorn,
    ("hyper-connections", "sinkhorn"): _hyper_connections_sinkhorn,
}
