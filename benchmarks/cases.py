"""What is measured: each operator that has a kernel, the inputs that it takes, and its floor in
bytes.

Legend: N tokens, n streams, d features per stream, e bytes per number of the state.
"""

from collections.abc import Callable
from functools import partial
from math import isqrt
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks import floors
from geolab import operators

Draw = Callable[..., Tensor]  # sizes -> a tensor of random numbers
# pairs of N and d; a matrix per token has no features
SIZES = {"state": ((8192, 4096), (65536, 768)), "matrices": ((8192, 0), (65536, 0))}
STREAMS, CHANNELS, EPS = 4, 4, 1e-5


class Case(NamedTuple):
    """An operator, and the inputs on which it is measured.

    Arguments:
        twin: the name of the operator's kernel in `geolab.kernels.TWINS`.
        inputs: (N, n, d, state, number) -> the operator's tensors, all of which get gradients.
            `state` draws in the state's dtype, `number` in float32.
        floor: (N, n, d, e) -> Bytes.
        kind: "state" if the bytes of the state limit the speed. "matrices" if the operator works on
            n × n numbers per token, so that its time in microseconds counts.
        options: keyword arguments of the operator and of its kernel.
        roundings: how many numbers in a row are rounded to the state's dtype before a result is.
    """

    twin: str
    operator: Callable[..., Tensor]
    inputs: Callable[[int, int, int, Draw, Draw], tuple[Tensor, ...]]
    floor: Callable[[int, int, int, int], floors.Bytes]
    kind: str = "state"
    options: dict = {}
    roundings: int = 0

    @property
    def function(self) -> Callable[..., Tensor]:
        """The operator as a function of the inputs alone."""
        return partial(self.operator, **self.options)


def _read(N, n, d, state, number):
    return state(N, n, d), number(N, n)


def _mix(N, n, d, state, number):
    return state(N, n, d), number(N, n, n)


def _mix_write(N, n, d, state, number):
    return state(N, n, d), number(N, n, n), number(N, n), state(N, d)


def _join(N, n, d, state, number):
    return *_mix_write(N, n, d, state, number), number(n * (n + 2), n * d) / (n * d)**0.5


def split(numbers: Tensor) -> tuple[Tensor, ...]:
    """The numbers of `stream_join`, n² + 2n per token, as a, b and H, as they are."""
    n = isqrt(numbers.shape[-1] + 1) - 1
    read, write, mix = numbers.split((n, n, n**2), dim=-1)
    return read, write, mix.unflatten(-1, (n, n))


def _shared(N, n, d, state, number):
    return state(N, n, d), number(n, n), number(n), state(N, d)


def _autocast(N, n, d, state, number):
    return number(N, n, d), number(N, n, n), number(N, n), number(N, d).bfloat16()


def _gated(N, n, d, state, number):
    return (state(N, n, d), number(N, n), number(N, n), number(N),
            F.normalize(number(N, n), dim=-1), number(N).sigmoid())


def _delta(N, n, d, state, number):
    return state(N, d), state(N, d), number(N), 2 * number(N).sigmoid()


def _delta_matrix(N, n, d, state, number):
    return state(N, d, CHANNELS), state(N, d), number(N, CHANNELS), 2 * number(N).sigmoid()


def _layer(N, n, d, state, number):
    maps = state(CHANNELS, d) / d**0.5, state(CHANNELS), state(1, d) / d**0.5, state(1)
    return state(N, d, CHANNELS), *(state(N, d) for _ in range(3)), *maps


def delta_layer(x: Tensor, direction: Tensor, value_of: Tensor, rate_of: Tensor, value_map: Tensor,
                value_bias: Tensor, rate_map: Tensor, rate_bias: Tensor) -> Tensor:
    """The delta update with v = 4 σ(W u + b) and β = 2 σ(w c + b), as the authors of Deep Delta
    Learning fuse it: u is `value_of`, c is `rate_of`, and k is guarded by EPS √d (DDL section 4.1).
    """
    value = 4 * F.linear(value_of, value_map, value_bias).sigmoid()
    rate = 2 * F.linear(rate_of, rate_map, rate_bias).sigmoid().squeeze(-1)
    return operators.delta_update(x, direction, value, rate, eps=EPS * x.shape[-2]**0.5)


def _diagonal(N, n, d, state, number):
    return state(N, d), state(N, d), state(N, d), number()


def _generator(N, n, d, state, number):
    return state(N, n * d), number(n * (n + 2), n * d)


def _logits(N, n, d, state, number):
    return (2 * number(N, n, n),)


def _plane(N, n, d, state, number):
    return number(N, n), number(N, n), number(N)


def _skew(N, n, d, state, number):
    return (operators.skew(number(N, n, n)),)


CASES: dict[str, Case] = {
    "stream_read": Case("stream_read", operators.stream_read, _read, floors.stream_read),
    "stream_mix": Case("stream_mix", operators.stream_mix, _mix, floors.stream_mix),
    "stream_mix_write": Case(
        "stream_mix_write", operators.stream_mix_write, _mix_write, floors.stream_mix_write),
    "stream_mix_write, shared": Case(  # one row of coefficients for all tokens
        "stream_mix_write", operators.stream_mix_write, _shared,
        lambda N, n, d, e: floors.stream_mix_write(N, n, d, e, rows=1)),
    "stream_mix_write, autocast": Case(  # a float32 state, and a bfloat16 sublayer
        "stream_mix_write", operators.stream_mix_write, _autocast,
        lambda N, n, d, e: floors.stream_mix_write(N, n, d, 4, written=2)),
    "stream_join": Case(
        "stream_join", operators.stream_join, _join, floors.stream_join,
        options={"eps": EPS, "generated": split},
        roundings=2),  # Z, and the numbers in a that are made from it
    "gated_mix": Case("gated_mix", operators.gated_mix, _gated, floors.gated_mix),
    "delta_update": Case(
        "delta_update", operators.delta_update, _delta,
        lambda N, n, d, e: floors.delta_update(N, d, 1, e), options={"eps": EPS}),
    "delta_update, d_v = 4": Case(
        "delta_update", operators.delta_update, _delta_matrix,
        lambda N, n, d, e: floors.delta_update(N, d, CHANNELS, e), options={"eps": EPS}),
    "diagonal_update": Case(
        "diagonal_update", operators.diagonal_update, _diagonal,
        lambda N, n, d, e: floors.diagonal_update(N, d, e)),
    "rms_linear": Case(
        "rms_linear", operators.rms_linear, _generator,
        lambda N, n, d, e: floors.rms_linear(N, n * d, n * (n + 2), e), options={"eps": EPS}),
    "sinkhorn": Case(
        "sinkhorn", operators.sinkhorn, _logits, lambda N, n, d, e: floors.sinkhorn(N, n),
        "matrices"),
    "sinkhorn, rows first": Case(
        "sinkhorn", operators.sinkhorn, _logits, lambda N, n, d, e: floors.sinkhorn(N, n),
        "matrices", {"order": "row-column"}),
    "cayley_rank2": Case(
        "cayley_rank2", operators.cayley_rank2, _plane,
        lambda N, n, d, e: floors.cayley_rank2(N, n), "matrices"),
    "cayley_skew4": Case(
        "cayley_skew4", operators.cayley_skew4, _skew, lambda N, n, d, e: floors.cayley_skew4(N),
        "matrices"),
}


# What a peer fuses and we compose: a kernel of ours, and operations of PyTorch around it.
COMPOSED: dict[str, Case] = {
    "delta_layer, d_v = 4": Case(
        "delta_update", delta_layer, _layer,
        lambda N, n, d, e: floors.delta_layer(N, d, CHANNELS, e)),
}


def draws(device: str, dtype: torch.dtype, seed: int) -> tuple[Draw, Draw]:
    """The functions `state` and `number` that a case draws its inputs with: normal numbers."""
    generator = torch.Generator(device).manual_seed(seed)

    def number(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, device=device)

    return lambda *shape: number(*shape).to(dtype), number
