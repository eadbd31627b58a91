"""Every operator is right to rounding, forward and backward, at every scale its dtype can hold,
and what normalises a whole state is, or says NaN.

Each example says which inputs grow together: an input with power p is multiplied by sᵖ. The same
rounded numbers in float64 give what is wanted. There is no claim about a result that its dtype
can't hold, nor about kernels far from 1.
"""

from collections.abc import Callable, Sequence
from math import factorial
from typing import NamedTuple

import pytest
import torch
from shared_kernels import with_gradients
from torch import Tensor

from geolab import kernels, operators
from geolab.kernels import launch

N, D, EPS = 3, 6, 1e-5
SINGLE, BROAD, HALF = torch.float32, torch.bfloat16, torch.float16
# Some ten units in the last place
TOLERANCE = {SINGLE: 3e-6, BROAD: 3e-2, HALF: 4e-3}
WIDE = (1e-30, 1e-15, 1.0, 1e15, 1e30)
SCALES = {SINGLE: WIDE, BROAD: WIDE, HALF: (1e-3, 1.0, 1e2)}
STREAMS = (1, 2, 4, 5)
VECTOR = (1,)  # a vector of D features has no n


class Example(NamedTuple):
    """Inputs of an operator, and which of them grow together.

    Arguments:
        inputs: (n, draw) -> the operator's tensors; draw(*shape) gives normal numbers.
        powers: tuples of one power per input.
        call: the operator as a function of these tensors; None is the operator itself.
        streams: the n that are tried.
        bounded: places of inputs that are at most 1 by definition.
        noisy: a gradient is right to the rounding of ‖y‖ ‖∂L/∂y‖ / ‖x‖. A normalised vector of
            one number has none, a constant P hardly one, and a rotation by nearly π hardly one.
        loud: a length whose square float32 can't hold may give NaN or infinity.
    """

    inputs: Callable[[int, Callable], tuple[Tensor, ...]]
    powers: Sequence[tuple[int, ...]]
    call: Callable | None = None
    streams: Sequence[int] = STREAMS
    bounded: tuple[int, ...] = ()
    noisy: bool = False
    loud: bool = False


def unit(x):
    """Vectors of length 1 in every dtype: ±1, or four times ±½."""
    few = 4 if x.shape[-1] >= 4 else 1
    e = torch.zeros_like(x)
    e[..., :few] = x[..., :few].sign() * few**-0.5
    return e


def each(count):
    """One input at a time."""
    return [tuple(int(i == j) for j in range(count)) for i in range(count)]


def split(numbers):
    n = int((numbers.shape[-1] + 1)**0.5) - 1
    read, write, mix = numbers.split((n, n, n**2), dim=-1)
    return read, write, mix.unflatten(-1, (n, n))


def read(found):
    a, *others = split(found.numbers)
    return found.state, operators.stream_read(found.state, a, found.ports), a, *others


def gate():
    return torch.rand(N)


PLANE = [*each(3), (1, 1, 0), (1, -1, 0), (1, 0, -1), (0, 1, -1), (1, 1, -1), (1, 1, 1)]
EXAMPLES = {
    "blend": Example(lambda n, draw: (draw(N, n, n), draw(N, n, n), gate()),
                     [(1, 1, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)], bounded=(2,)),
    "cayley_iterated": Example(lambda n, draw: (operators.skew(draw(N, n, n)) / n,), [(1,)],
                               bounded=(0,)),
    "cayley_rank2": Example(lambda n, draw: (draw(N, n), draw(N, n), draw(N)), PLANE,
                            noisy=True),
    "cayley_skew4": Example(lambda n, draw: (operators.skew(draw(N, 4, 4)),), [(1,)], streams=(4,),
                            noisy=True),
    "circulant_mixture": Example(lambda n, draw: (draw(N, n),), [(1,)], noisy=True),
    "delta_matrix": Example(lambda n, draw: (unit(draw(N, n)), draw(N)), [(0, 1)]),
    "delta_shortcut": Example(lambda n, draw: (draw(N, D), draw(N, D), draw(N)),
                              [*each(3)], streams=VECTOR),
    "delta_update": Example(lambda n, draw: (draw(N, D, n), draw(N, D), draw(N, n), draw(N)),
                            [*each(4), (1, 0, 1, 0)], streams=(1, 4, 5)),
    "delta_update, normalised": Example(
        lambda n, draw: (draw(N, D, n), draw(N, D), draw(N, n), draw(N)),
        [*each(4), (1, 0, 1, 0), (1, 1, 1, 0)],
        lambda *x: operators.delta_update(*x, eps=0.0), streams=(1, 4),
        loud=True),
    "delta_update, guarded": Example(
        lambda n, draw: (draw(N, D), draw(N, D), draw(N), draw(N)),
        [*each(4)], lambda *x: operators.delta_update(*x, eps=EPS), streams=VECTOR,
        loud=True),
    "diagonal_update": Example(lambda n, draw: (draw(N, D), draw(N, D), draw(N, D), draw(1)),
                               [*each(4), (1, 1, 0, 0)], streams=VECTOR),
    "gated_matrix": Example(lambda n, draw: (draw(N, n, n), unit(draw(N, n)), gate()),
                            [(1, 0, 0), (0, 0, 1)], bounded=(2,)),
    "gated_mix": Example(
        lambda n, draw: (draw(N, n, D), draw(N, n), draw(N, n), draw(N), unit(draw(N, n)),
                         gate()),
        [(1, 0, 0, 0, 0, 0), (0, 0, 0, 0, 0, 1), *((0, *p, 0, 0) for p in PLANE)],
        bounded=(5,), noisy=True),
    "geodesic": Example(lambda n, draw: (draw(N, n, n), unit(draw(N, n)), gate()),
                        [(1, 0, 0), (0, 0, 1)], bounded=(2,)),
    "householder_matrix": Example(lambda n, draw: (unit(draw(N, n)),), [(0,)]),
    "kronecker_mixture": Example(lambda n, draw: (draw(N, n, 2),), [(1,)], streams=(1, 2, 3),
                                 noisy=True),
    "midpoint_penalty": Example(lambda n, draw: (gate(),), [(1,)], streams=VECTOR, bounded=(0,)),
    "orthostochastic": Example(lambda n, draw: (draw(N, n * (2 * n - 1)),), [(1,)],
                               lambda z: operators.orthostochastic(
                                   z, {1: 1, 6: 2, 28: 4}[z.shape[-1]]),
                               streams=(1, 2, 4), bounded=(0,), noisy=True),
    "permutation_mixture": Example(lambda n, draw: (draw(N, factorial(n)),), [(1,)],
                                   lambda z: operators.permutation_mixture(
                                       z, {1: 1, 2: 2, 24: 4}[z.shape[-1]]),
                                   streams=(1, 2, 4), noisy=True),
    "reflect": Example(lambda n, draw: (draw(N, n), unit(draw(N, n))), [(1, 0)]),
    "rms_linear": Example(lambda n, draw: (draw(N, n), draw(3, n)), each(2),
                          lambda *x: operators.rms_linear(*x, EPS), noisy=True, loud=True),
    "rms_linear, unguarded": Example(lambda n, draw: (draw(N, n), draw(3, n)), each(2),
                                     lambda *x: operators.rms_linear(*x, 0.0), noisy=True,
                                     loud=True),
    "sinkhorn": Example(lambda n, draw: (draw(N, n, n),), [(1,)], noisy=True),
    "sinkhorn, guarded": Example(lambda n, draw: (draw(N, n, n),), [(1,)],
                                 lambda x: operators.sinkhorn(x, 4, eps=1e-3), noisy=True),
    "skew": Example(lambda n, draw: (draw(N, n, n),), [(1,)]),
    "stream_generate": Example(
        lambda n, draw: (draw(N, n, D), draw(n * (n + 2), n * D) / (n * D)**0.5), each(2),
        lambda *x: read(operators.stream_generate(*x, EPS)), streams=(1, 4), loud=True),
    "stream_join": Example(
        lambda n, draw: (draw(N, n, D), draw(N, n, n), draw(N, n), draw(N, D),
                         draw(n * (n + 2), n * D) / (n * D)**0.5),
        [*each(5), (1, 0, 0, 1, 0)],
        lambda *x: read(operators.stream_join(*x, EPS)), streams=(1, 4), loud=True),
    "stream_mix": Example(lambda n, draw: (draw(N, n, D), draw(N, n, n)), each(2)),
    "stream_mix_write": Example(
        lambda n, draw: (draw(N, n, D), draw(N, n, n), draw(N, n), draw(N, D)),
        [*each(4), (1, 0, 0, 1)]),
    "stream_read": Example(lambda n, draw: (draw(N, n, D), draw(N, n)), each(2)),
    "unit_direction": Example(lambda n, draw: (draw(N, n),), [(1,)], noisy=True,
        loud=True),
    "unit_direction, guarded": Example(lambda n, draw: (draw(N, n),), [(1,)],
                                       lambda h: operators.unit_direction(h, EPS), noisy=True,
        loud=True),
}
TOOLS = {"outside_autocast", "recomputed", "widened"}  # they compute nothing
TWINS = [name for name in EXAMPLES if name.split(",")[0] in kernels.TWINS]


def operator(name):
    return EXAMPLES[name].call or getattr(operators, name)


def draws(name, n, dtype):
    """The inputs of an example by power and scale, in the dtype."""
    example = EXAMPLES[name]
    torch.manual_seed(n)
    drawn = example.inputs(n, torch.randn)
    for powers in example.powers:
        for scale in SCALES[dtype] if any(powers) else (1.0,):
            if scale <= 1 or not any(powers[i] for i in example.bounded):
                yield (powers, scale), [(x.double() * scale**power).to(dtype)
                                        for x, power in zip(drawn, powers, strict=True)]


def wrong(name, n, dtype):
    """The results that are wrong, in words."""
    found = []
    for case, inputs in draws(name, n, dtype):
        wide = [x.double() for x in inputs]
        with kernels.use("never"):
            got = with_gradients(operator(name), inputs, seed=7)
            wanted = with_gradients(operator(name), wide, seed=7, like=got)
        outputs = len(wanted) - len(inputs)
        for place, (ours, theirs) in enumerate(zip(got, wanted, strict=True)):
            limits, size = torch.finfo(ours.dtype), theirs.norm()
            if not size < limits.max / 64:
                continue
            extreme = EXAMPLES[name].loud and not 1e-15 <= case[1] <= 1e15
            if extreme and not all(x.isfinite().all() for x in got):
                continue
            noise = 0.0
            if EXAMPLES[name].noisy and place >= outputs:
                noise = wanted[0].norm() / wide[place - outputs].norm().clamp(min=limits.tiny)
            error = (ours.double().cpu() - theirs).norm()
            if not error <= TOLERANCE[dtype] * (size + noise) + limits.tiny * theirs.numel():
                found.append(f"{case}, result {place}: off by {error:.1e} of {size:.1e}")
    return found


def test_every_operator_has_an_example():
    assert {name.split(",")[0] for name in EXAMPLES} | TOOLS == set(operators.__all__)
    assert {name.split(",")[0] for name in TWINS} == set(kernels.TWINS)


@pytest.mark.parametrize("dtype", SCALES)
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_operator_is_right_at_every_scale(name, dtype):
    assert not [(n, found) for n in EXAMPLES[name].streams
                if (found := wrong(name, n, dtype))]


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_backward_pass_in_autocast_loses_nothing(name):
    inputs = [x.to(SINGLE) for x in EXAMPLES[name].inputs(EXAMPLES[name].streams[-1], torch.randn)]
    torch.manual_seed(0)
    wanted = with_gradients(operator(name), inputs, seed=7)
    with torch.autocast("cpu", BROAD):
        got = with_gradients(operator(name), inputs, seed=7)
    for ours, theirs in zip(got, wanted, strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.skipif(not launch.INTERPRETED, reason="the interpreter's numbers are IEEE's")
@pytest.mark.parametrize("name", TWINS)
def test_a_kernel_at_huge_numbers_is_right_or_says_nan(name):
    example = EXAMPLES[name]
    n = 4 if 4 in example.streams else example.streams[-1]
    for (powers, scale), inputs in draws(name, n, SINGLE):
        if scale == WIDE[-1] and min(powers) == 0:
            with kernels.use("always"):
                got = operator(name)(*inputs)
            wanted = operator(name)(*[x.double() for x in inputs])
            for ours, theirs in zip(*([y] if isinstance(y, Tensor) else y for y in (got, wanted)),
                                    strict=True):
                loud = not ours.isfinite().all()
                assert loud or (ours - theirs).norm() <= 1e-5 * theirs.norm(), (powers, scale)


@pytest.mark.parametrize("mode", ["always", "never"])
@pytest.mark.parametrize("name", [name for name in TWINS if EXAMPLES[name].streams == STREAMS])
def test_every_number_of_streams_has_a_kernel_or_the_reference(name, mode):
    device = "cpu" if launch.INTERPRETED else "cuda"
    for n in (9, 128, 129, 160):
        inputs = [x.to(device, SINGLE) for x in EXAMPLES[name].inputs(n, torch.randn)]
        with kernels.use(mode):
            assert all(x.isfinite().all() for x in with_gradients(operator(name), inputs, seed=7))
