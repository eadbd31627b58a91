"""The vectors that a sublayer's residual moves through a device's memory, under one schedule after
the other. A vector is the d features of one token.

    TRITON_INTERPRET=1 python -m benchmarks.schedule --out results/schedule.json

The schedules that we have code for are counted, at small sizes: the bytes of PyTorch's operations
by their operands, and those of kernels by address. Two lengths of a chain of sublayers give the
bytes of one sublayer, autograd's additions among them. Two numbers of tokens give the bytes per
token, without those of the generator's weights, and two widths tell vectors from other numbers. F
itself moves nothing here. The eager chain has a float32 state, the kernels a bfloat16 one. The
other schedules are computed.

On a device tiles are smaller than here, so programs write parts of sums, which are added up. In the
joined backward pass these are parts of the gradients of H and b, one for every 128 features in
bfloat16 and every 32 in float32. Written and read, they are (n² + n) / 32 vectors more, and in
float32 (n² + n) / 16.
"""

import argparse
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.cases import EPS, split
from benchmarks.cases.streams import generate_read, join, join_read
from benchmarks.command import add_output, check_output, rounded
from benchmarks.traffic import traffic
from geolab import kernels
from geolab.operators import (
    post_norm,
    recomputed,
    rms_linear,
    stream_mix_write,
    stream_read,
)
from geolab.operators.streams import Norm, Unwritten
from geolab.residuals import Normed, make_residual
from studies.engine.results import record

QUESTION = "the vectors that a sublayer's residual moves, under one schedule after the other"
TOKENS, WIDTHS, LENGTHS = (24, 56), (64, 192), (2, 3)
FREE = ("empty", "detach", "view", "zeros")  # an operation that moves nothing, or stands for none


class Operations(TorchDispatchMode):
    """The bytes that PyTorch's operations inside it read and write, and how many operations move
    any, without kernels.
    """

    def __init__(self):
        super().__init__()
        self.moved = self.count = 0

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        out = op(*args, **(kwargs or {}))
        if not (op.is_view or op.namespace == "geolab" or any(part in str(op) for part in FREE)):
            self.moved += sum(map(_bytes, torch.utils._pytree.tree_leaves((args, kwargs, out))))
            self.count += 1
        return out


def _bytes(item: object) -> int:
    """Return a tensor's bytes in memory; an expanded tensor's copies of a number count once."""
    if not isinstance(item, Tensor):
        return 0
    return min(item.nbytes, item.untyped_storage().nbytes())


class _F(torch.autograd.Function):
    """A sublayer that moves nothing: its output and its gradient are there already."""

    @staticmethod
    def forward(ctx, u: Tensor, output: Tensor, gradient: Tensor) -> Tensor:
        ctx.gradient = gradient
        return output.view_as(output)

    @staticmethod
    def backward(ctx, _: Tensor) -> tuple[Tensor, None, None]:
        return ctx.gradient.view_as(ctx.gradient), None, None


def one_at_a_time(x: Tensor, weights: list[Tensor], sublayer: Callable) -> Tensor:
    """A sublayer for each of `weights`: one operator after the other."""
    for weight in weights:
        read, write, mix = split(rms_linear(x.flatten(-2), weight, EPS))
        x = stream_mix_write(x, mix, write, sublayer(stream_read(x, read)))
    return x


def alone(x: Tensor, weights: list[Tensor], sublayer: Callable) -> Tensor:
    """Run one sublayer after another, with kernels that also do autograd's additions."""
    for weight in weights:
        x, heard, _, write, mix = generate_read(x, weight)
        x = stream_mix_write(x, mix, write, sublayer(heard))
    return x


def joined(x: Tensor, weights: list[Tensor], sublayer: Callable) -> Tensor:
    """Each write is joined with the generator and the read of the next sublayer."""
    first, *others = weights
    x, heard, _, write, mix = generate_read(x, first)
    for weight in others:
        x, heard, _, write, mix = join_read(x, mix, write, sublayer(heard), weight)
    return stream_mix_write(x, mix, write, sublayer(heard))


def without_states(*given) -> Tensor:
    """Run `joined`; the backward pass recomputes all states."""
    return recomputed(joined, *given)


def normed(x: Tensor, weights: list[Tensor], sublayer: Callable) -> Tensor:
    """Each write is joined, too, and an RMS norm stands in front of the sublayer."""
    n, d = x.shape[-2:]
    norm, given, update = Norm(torch.ones(d), EPS), None, None
    for weight in weights:
        x, heard, given = join(x, given, update, weight, torch.ones(3), torch.zeros(n * (n + 2)),
                               norm=norm)
        update = sublayer(heard)
    return Unwritten(x, update, given).written()


def behind(x: Tensor, weights: list[Tensor], sublayer: Callable) -> Tensor:
    """Run one sublayer after another, with an RMS norm of each stream in the pass that writes."""
    norm = Norm(torch.ones(x.shape[-1]), EPS)
    for weight in weights:
        x, heard, _, write, mix = generate_read(x, weight)
        x = post_norm(Unwritten(x, sublayer(heard), (mix, write)), norm)
    return x


class Passes(NamedTuple):
    """Bytes or vectors of a forward and a backward pass."""

    forward: float
    backward: float


def moved(chain: Callable, mode: str, n: int, dtype: torch.dtype, N: int, d: int,
          length: int) -> tuple[int, int]:
    """The bytes that both passes of a chain of `length` sublayers move."""
    x = torch.randn(N, n, d).to(dtype).requires_grad_()
    weights = [torch.randn(n * (n + 2), n * d, requires_grad=True) for _ in range(length)]
    there = torch.randn(2, N, d).to(dtype)
    with kernels.use(mode):
        with traffic() as by_kernels, Operations() as by_operations:
            y = chain(x, weights, lambda u: _F.apply(u, *there))
        forward = by_kernels.distinct + by_operations.moved
        grad = torch.randn_like(y)
        with traffic() as by_kernels, Operations() as by_operations:
            torch.autograd.grad(y, [x, *weights], grad)
    return forward, by_kernels.distinct + by_operations.moved


def per_sublayer(chain: Callable, mode: str, dtype: torch.dtype, n: int) -> dict[str, Passes]:
    """Vectors per token that one more sublayer moves, and other bytes per token."""
    found = [[[moved(chain, mode, n, dtype, N, d, length) for length in LENGTHS] for N in TOKENS]
             for d in WIDTHS]
    # at each width, for both passes
    each = np.diff(np.diff(found, axis=2), axis=1)[:, 0, 0] / (TOKENS[1] - TOKENS[0])
    vectors = (each[1] - each[0]) / (WIDTHS[1] - WIDTHS[0])
    return {"vectors": Passes(*(vectors / dtype.itemsize).tolist()),
            "bytes": Passes(*(each[0] - WIDTHS[0] * vectors).tolist())}


def launches(residual: str, mode: str = "always", N: int = 80, d: int = 1024, apart: bool = False,
             post: bool = False, **options) -> Passes:
    """The launches of kernels and of PyTorch's operations that one more sublayer takes, with the
    RMS norm in front of F, or `post`, behind the residual. If the norm is `apart`, PyTorch takes it
    by operations of its own.

    Several programs share the tokens of a feature here, as they do on a device. So the launch that
    adds up their parts counts, too. On a device several may also share a token's features: then
    `rms_linear` and `stream_join` take one launch more, and mHC's none.
    """
    def taken(length: int) -> tuple[int, int]:
        chain = [make_residual(residual, d, index, length, **options) for index in range(length)]
        norms = [torch.nn.RMSNorm(d, eps=EPS) for _ in chain]
        there = torch.randn(2, 1, N, d).to(torch.bfloat16)
        sublayers = [Normed(lambda u: _F.apply(u, *there), norm) for norm in norms]

        def one(step, state, sublayer, norm):
            if post:
                f = Normed(sublayer.f)
                return norm(step(state, f)) if apart else step.normed(state, f, norm)
            step = step.step if step.joins else step
            return step(state, Normed(sublayer.__call__) if apart else sublayer)

        with kernels.use(mode):
            first = torch.randn(1, N, d).to(torch.bfloat16).requires_grad_()
            state = chain[0].expand(first)
            with traffic() as by_kernels, Operations() as by_operations:
                for given in zip(chain, sublayers, norms, strict=True):
                    state = one(given[0], state, *given[1:])
                y = state.written() if hasattr(state, "written") else state
            forward, grad = by_kernels.launches + by_operations.count, torch.randn_like(y)
            weights = [p for step in (*chain, *norms) for p in step.parameters()]
            with traffic() as by_kernels, Operations() as by_operations:
                torch.autograd.grad(y, [first, *weights], grad, allow_unused=True)
        return forward, by_kernels.launches + by_operations.count

    return Passes(*(many - few for few, many in zip(*map(taken, LENGTHS), strict=True)))


# a residual, and what tells its forms apart -> options
STEPS = {
    "mhc": {}, "mhc, H = I": {"without": ("mix",)}, "mhc, guarded": {"eps": 1e-6},
    "mhc, corners": {"mix": "permutations"}, "mhc, eight streams": {"streams": 8},
    "mhc, norm behind": {"post": True}, "single-pass": {}, "hyper": {},
    "hyper, eight streams": {"streams": 8}, "hyper, learned": {"dynamic": False}, "jpmhc": {},
    "jpmhc, exact": {"retraction": "exact"}, "gated-streams": {}, "attnres": {}, "delta": {},
    "delta-matrix": {}, "additive, norm behind": {"post": True},
}
COUNTED = {
    "eager": partial(per_sublayer, one_at_a_time, "never", torch.float32),
    "a kernel per operator": partial(per_sublayer, one_at_a_time, "always", torch.bfloat16),
    "a sublayer alone": partial(per_sublayer, alone, "always", torch.bfloat16),
    "two phases, joined": partial(per_sublayer, joined, "always", torch.bfloat16),
    "two phases, joined, with a norm": partial(per_sublayer, normed, "always", torch.bfloat16),
    "a norm behind each sum": partial(per_sublayer, behind, "always", torch.bfloat16),
    "two phases, joined, states recomputed": partial(per_sublayer, without_states, "always",
                                                     torch.bfloat16),
}
COMPUTED: dict[str, Callable[[int], Passes]] = {
    # TileKernels' training form (deepseek-ai/TileKernels, 36d9e45): the write's kernel makes ∂X,
    # and those of the read and of the generator add to it, so they read and write it
    "TileKernels, ∂X in place": lambda n: Passes(4 * n + 2, 9 * n + 3),
    # its kernel for many sublayers holds the state on chip; it reads kept coefficients and each
    # kept h, and writes each u and state
    "TileKernels, states recomputed": lambda n: Passes(4 * n + 2, 9 * n + 3 + n + 2),
    # ∂H, ∂b and ∂h in one kernel, then ∂a, then all of ∂X in one
    "two phases, ∂Z written": lambda n: Passes(3 * n + 2, (2 * n + 2) + (n + 1) + (3 * n + 1)),
    # a sublayer alone, and then the norm of each stream, which its backward pass reads again
    "a norm behind each sum, apart": lambda n: Passes(6 * n + 2, 10 * n + 4),
    # each vector that comes in is read once, and each that goes out is written once
    "floor, joined": lambda n: Passes(2 * n + 2, 3 * n + 3),
}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.schedule", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, nargs="+", default=[2, 4], help="n")
    add_output(parser)
    given = parser.parse_args(arguments)
    check_output(parser, given)
    rows = []
    print(f"{'n':>2}  {'schedule':<37} {'forward':>8} {'backward':>9} {'together':>9}")
    for n in given.streams:
        found = {name: count(n=n) for name, count in COUNTED.items()}
        found |= {name: {"vectors": of(n)} for name, of in COMPUTED.items()}
        for name, row in sorted(found.items(), key=lambda item: -sum(item[1]["vectors"])):
            there, back = row["vectors"]
            print(f"{n:>2}  {name:<37} {there:>8.4g} {back:>9.4g} {there + back:>9.4g}")
            rows.append({"n": n, "schedule": name, "counted": name in COUNTED}
                        | {what: list(map(rounded, passes)) for what, passes in row.items()})
    ways = {"never": {"mode": "never"}, "norm apart": {"apart": True}, "always": {}}
    counts = {name: {way: list(launches(name.partition(",")[0], **how, **options))
                     for way, how in ways.items()} for name, options in STEPS.items()}
    print("launches of a sublayer with its norm, forward + backward: with PyTorch's operations, "
          "with kernels beside the norm, and with kernels")
    for name, of in counts.items():
        print(f"{name:<20} " + "   ".join(f"{there:>3} + {back:<4}" for there, back in of.values()))
    if given.out:
        record(given.out, QUESTION, {"device": "none", "rows": rows, "launches": counts},
               force=given.force)


if __name__ == "__main__":
    main()
