"""Other people's kernels of the same functions: those of the packages below, once installed, and
those of the authors of Deep Delta Learning, from a checkout that the reader names.

A peer gets its inputs in its own layout, and isn't timed while they are brought there. One that
isn't at hand has a row that says how to get it.

Liger's functions write float32 and cast it, and take one size of tiles. "liger-kernel" is what its
users call, and "liger-kernel, tuned" the same kernels at their best: they write the state's dtype,
with the fastest of SETTINGS for each pass. Its Sinkhorn starts with the rows. By default it adds
1e-6 to each divisor; here it adds 0. It also computes mHC's read and write coefficients, which
can't be switched off.

The backward pass of hyper-connections' Triton Sinkhorn uses the final matrix in place of every
iteration's, so its gradient is off, and only its forward pass is timed. Through the library's own
function a failing kernel would silently be replaced, so its autograd function is called directly.
"hyper-connections, PyTorch" is the library's other Sinkhorn, whose gradient autograd finds.

TileKernels multiply by Hᵀ, round W to tf32 and take bfloat16 states alone. Alone, their read and
their generator add to a gradient of zeros, which they are given here as in the library.

The authors' update of Deep Delta Learning also makes v and β, and guards the direction by EPS √d.
"""

import hashlib
from collections.abc import Callable
from functools import cache, partial
from importlib.metadata import version
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

from benchmarks.cases import EPS, STREAMS
from benchmarks.timing import turns


class Package(NamedTuple):
    """A peer's module, and the version, licence and source that these adapters were written for."""

    module: str
    version: str
    licence: str
    source: str


PACKAGES = {  # by distribution
    "liger-kernel": Package("liger_kernel", "0.8.5", "BSD-2-Clause", "linkedin/Liger-Kernel"),
    "hyper-connections": Package("hyper_connections", "0.4.11", "MIT",
                                 "lucidrains/hyper-connections"),
    "tile-kernels": Package("tile_kernels", "1.0.0", "MIT", "deepseek-ai/TileKernels"),
}
# in a checkout of the authors' repository; Apache-2.0
DDL = "github.com/yifanzhang-pro/deep-delta-learning at a1c253b"
DDL_FILE = Path("model/DDL_utils.py")
# of Liger's kernels: tokens and features of a tile, and warps; none are the library's own
SETTINGS = (None, (8, 128, 4), (8, 256, 4), (16, 256, 4), (32, 256, 8), (64, 128, 8))


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
    found = {name: version(name) for name, package in PACKAGES.items()
             if find_spec(package.module)}
    if ddl:
        found["ddl"] = hashlib.sha256((ddl / DDL_FILE).read_bytes()).hexdigest()[:12]
    return found


def peers(case: str, ddl: Path | None = None) -> dict[str, Contender]:
    """Return the peers of a case by name. One that isn't at hand fails, and says how to get it."""
    found = {}
    for (name, measured), contender in PEERS.items():
        distribution = name.partition(",")[0]
        package = PACKAGES[distribution]
        if measured == case:
            found[name] = contender if find_spec(package.module) else _absent(
                f"pip install {distribution}=={package.version}")
    if case == "delta_layer, d_v = 4":
        found["ddl"] = _absent(f"--ddl PATH, a checkout of {DDL}")
        if ddl:
            fused = _ddl(ddl).FusedDeepDeltaFunction
            found["ddl"] = Contender(lambda x, k, u, c, *maps: fused.apply(
                x[None], k[None], u[None], c[None], *maps, EPS, 4.0)[0])
    return found


def _absent(remedy: str) -> Contender:
    def fails(*inputs: Tensor) -> Tensor:
        raise ModuleNotFoundError(f"not installed: {remedy}")

    return Contender(fails)


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


_best: dict[tuple, dict] = {}


def at_best(run: Callable[..., object], of: str, x: Tensor, names: tuple[str, str, str]) -> dict:
    """The fastest of SETTINGS of a kernel for a state like x, by their `names`, sought once.

    `run` launches it with such keyword arguments. Without a device it's the library's own one.
    """
    key = (of, x.shape, x.dtype)
    if key not in _best:
        runs = {}
        for setting in SETTINGS if x.is_cuda else SETTINGS[:1]:
            given = dict(zip(names, setting, strict=True)) if setting else {}
            try:
                run(**given)
            except Exception:  # tiles that don't fit into a multiprocessor are none
                continue
            runs[setting] = partial(run, **given), given
        times = turns({setting: call for setting, (call, _) in runs.items()}, rounds=5) \
            if len(runs) > 1 else dict.fromkeys(runs, [0.0])
        _best[key] = runs[min(times, key=lambda setting: median(times[setting]))][1]
    return _best[key]


class _LigerRead(Function):
    """Liger's read, which writes the state's dtype, at its best setting."""

    names = ("block_n", "block_c", "num_warps")

    @staticmethod
    def forward(ctx, x: Tensor, weights: Tensor) -> Tensor:
        from liger_kernel.ops.mhc import mhc_pre_fwd
        ctx.save_for_backward(x, weights)
        run = partial(mhc_pre_fwd, x, weights, out=torch.empty_like(x[:, 0]))
        return run(**at_best(run, "read", x, _LigerRead.names))

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor]:
        from liger_kernel.ops.mhc import mhc_pre_bwd
        x, weights = ctx.saved_tensors
        run = partial(mhc_pre_bwd, x, weights, grad.contiguous(), out_grad_x=torch.empty_like(x))
        return run(**at_best(run, "read backward", x, _LigerRead.names))


class _LigerWrite(Function):
    """Liger's mix and write, which writes the state's dtype, at its best setting."""

    @staticmethod
    def forward(ctx, x: Tensor, matrix: Tensor, weights: Tensor, update: Tensor) -> Tensor:
        from liger_kernel.ops.mhc import mhc_post_res_fwd
        ctx.save_for_backward(x, update, weights, matrix)
        run = partial(mhc_post_res_fwd, x, update, weights, matrix, out=torch.empty_like(x))
        return run(**at_best(run, "write", x, _LigerRead.names))

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, ...]:
        from liger_kernel.ops.mhc import mhc_post_res_bwd
        x, update, weights, matrix = ctx.saved_tensors
        run = partial(mhc_post_res_bwd, *ctx.saved_tensors, grad.contiguous(),
                      out_grad_x=torch.empty_like(x), out_grad_f=torch.empty_like(update))
        of_x, of_update, of_weights, of_matrix = run(
            **at_best(run, "write backward", x, _LigerRead.names))
        return of_x, of_matrix, of_weights, of_update


class _RmsLinear(Function):
    """Liger's matrix product of the normalised state, without its further steps.

    It takes W with one column per output, and in the state's dtype: only then it uses the matrix
    units.
    """

    names = ("block_n", "block_k", "num_warps")

    @staticmethod
    def given(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        columns = weight.detach().to(x.dtype).T.contiguous()
        return x, columns.T.requires_grad_(), columns

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, columns: Tensor, tuned: bool) -> Tensor:
        from liger_kernel.ops.mhc import mhc_mm_norm_fwd
        run = partial(mhc_mm_norm_fwd, x, columns, EPS)
        ctx.best = lambda run, of: at_best(run, of, x, _RmsLinear.names) if tuned else {}
        mix, inverse = run(**ctx.best(run, "generate"))
        ctx.save_for_backward(x, columns, mix, inverse)
        return mix

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        from liger_kernel.ops.mhc import mhc_mm_norm_bwd
        run = partial(mhc_mm_norm_bwd, *ctx.saved_tensors, grad.float())
        grad_x, grad_columns = run(**ctx.best(run, "generate backward"))
        return grad_x, grad_columns.T, None, None


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


def _hyper_connections_triton(logits: Tensor) -> Tensor:
    from hyper_connections.triton_sinkhorn import TritonSinkhornFunction
    return TritonSinkhornFunction.apply(logits, 20)


def _hyper_connections(logits: Tensor) -> Tensor:
    from hyper_connections.manifold_constrained_hyper_connections import sinkhorn_knopps
    return sinkhorn_knopps(logits, 20)


def _tile_read(x: Tensor, weights: Tensor) -> Tensor:
    from tile_kernels.modeling.mhc.ops import mhc_pre_apply_mix
    return mhc_pre_apply_mix(x[None], weights[None, ..., None])[0]


class _TileWrite(Function):
    """TileKernels' mix and write, with Hᵀ in memory."""

    @staticmethod
    def given(x: Tensor, matrix: Tensor, weights: Tensor, update: Tensor) -> tuple[Tensor, ...]:
        transposed = matrix.detach().mT.contiguous()
        return x, transposed.mT.requires_grad_(), weights, update, transposed

    @staticmethod
    def forward(ctx, x: Tensor, matrix: Tensor, weights: Tensor, update: Tensor,
                transposed: Tensor) -> Tensor:
        from tile_kernels.modeling.mhc.ops import mhc_post_fwd
        given = update[None], x[None], weights[None, ..., None], transposed[None]
        ctx.save_for_backward(*given)
        return mhc_post_fwd(*given)[0]

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor | None, ...]:
        from tile_kernels.modeling.mhc.ops import mhc_post_bwd
        # it would keep its gradient of X with X, for the kernels of the sublayer's beginning
        of_update, of_x, of_weights, of_matrix = mhc_post_bwd(
            *ctx.saved_tensors, grad.contiguous()[None], fuse_grad_acc=False)
        return of_x[0], of_matrix[0].mT, of_weights[0, ..., 0], of_update[0], None


def _tile_generate(x: Tensor, weight: Tensor) -> Tensor:
    from tile_kernels.modeling.mhc.ops import mhc_pre_norm_fn
    streams = x.unflatten(-1, (STREAMS, -1))[None]
    return mhc_pre_norm_fn(streams, weight, None, EPS, fuse_grad_acc=False)[0]


def _tile_sinkhorn(logits: Tensor) -> Tensor:
    from tile_kernels.modeling.mhc.ops import sinkhorn_normalize
    return sinkhorn_normalize(logits, repeat=20, eps=0.0)


# name and case -> the peer; the name begins with its distribution's
PEERS = {
    ("liger-kernel", "stream_read"): Contender(_liger_read),
    ("liger-kernel, tuned", "stream_read"): Contender(_LigerRead.apply),
    ("liger-kernel", "stream_mix_write"): Contender(_liger_mix_write),
    ("liger-kernel, tuned", "stream_mix_write"): Contender(_LigerWrite.apply),
    ("liger-kernel", "rms_linear"): Contender(
        lambda *given: _RmsLinear.apply(*given, False), _RmsLinear.given),
    ("liger-kernel, tuned", "rms_linear"): Contender(
        lambda *given: _RmsLinear.apply(*given, True), _RmsLinear.given),
    ("liger-kernel", "sinkhorn, rows first"): Contender(_Sinkhorn.apply, _Sinkhorn.given),
    ("hyper-connections", "sinkhorn"): Contender(_hyper_connections_triton),
    ("hyper-connections, PyTorch", "sinkhorn"): Contender(_hyper_connections),
    ("tile-kernels", "stream_read"): Contender(_tile_read),
    ("tile-kernels", "stream_mix_write"): Contender(_TileWrite.apply, _TileWrite.given),
    ("tile-kernels", "rms_linear"): Contender(_tile_generate),
    ("tile-kernels", "sinkhorn, rows first"): Contender(_tile_sinkhorn),
}
