"""Laws that every operator obeys.

It is right to rounding, forward and backward, at every scale that its dtype can hold, in autocast
too; what normalises a whole state is, or says NaN. It compiles in one graph, and has right second
derivatives by each way of asking: autograd twice, torch.func, forward mode, batched gradients.

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
from torch.autograd import gradcheck, gradgradcheck
from torch.testing import assert_close

from benchmarks.cases import gated_read, hyper, jpmhc, write_read
from benchmarks.cases.streams import join
from geolab import kernels, operators
from geolab.kernels import launch
from geolab.operators.attend import Attention
from geolab.operators.gated_read import inverse_sizes
from geolab.operators.joined import Form
from geolab.operators.jpmhc import Turn
from geolab.operators.polytope import shift_matrices
from geolab.operators.streams import Unwritten

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
        units: places of inputs that are made vectors of length 1.
        bounded: places of inputs that are at most 1 by definition.
        noisy: a gradient is right to the rounding of ‖y‖ ‖∂L/∂y‖ / ‖x‖. A normalised vector of
            one number has none, a constant P hardly one, and a rotation by nearly π hardly one.
        loud: a length whose square float32 can't hold may give NaN or infinity.
    """

    inputs: Callable[[int, Callable], tuple[Tensor, ...]]
    powers: Sequence[tuple[int, ...]]
    call: Callable | None = None
    streams: Sequence[int] = STREAMS
    units: tuple[int, ...] = ()
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
    """What a sublayer hears of a generated state, and all its coefficients."""
    a, *others = split(found.numbers)
    return found.state, operators.stream_read(found.state, a, found.ports), a, *others


class Own(NamedTuple):
    """An RMS norm that is right at every scale, which PyTorch's isn't."""

    weight: Tensor
    eps: float

    def __call__(self, z):
        unit = inverse_sizes(z, 0.0, self.eps) * operators.widened(z)
        return (self.weight * unit).to(z.dtype)


def post_normed(x, update, gamma, given=None):
    return operators.post_norm(Unwritten(x, update, given), Own(gamma, EPS))


def gate():
    return torch.rand(N)


def constrained(call, logits=lambda n: n * n, streams=(1, 2, 4), read=False):
    """mHC's write and generator, whose H has so many logits, or none where H is I."""
    def inputs(n, draw):
        rows, of_mix = 2 * n + logits(n), logits(n) > 0
        return (draw(N, n, D), draw(N, 1 + n * of_mix, n), draw(N, D),
                draw(rows, n * D) / (n * D)**0.5, draw(2 + of_mix), draw(rows),
                *((draw(N, n),) if read else ()))

    powers = [*each(6 + read), (1, 0, 1, 0, 0, 0, *(0,) * read)]
    return Example(inputs, powers, call, streams, noisy=True, bounded=(3, 4), loud=True)


PLANE = [*each(3), (1, 1, 0), (1, -1, 0), (1, 0, -1), (0, 1, -1), (1, 1, -1), (1, 1, 1)]
EXAMPLES = {
    "attend": Example(lambda n, draw: (draw(N, n, D), draw(D)), each(2),
                      lambda x, w: operators.attend(x, w, Attention(EPS)), noisy=True,
                      bounded=(1,), loud=True),
    "attend, normed": Example(
        lambda n, draw: (draw(N, n + 1, D), draw(D)), each(2),
        lambda x, w: operators.attend(x, w, Attention(EPS, True, True, True), x.shape[-2] - 1),
        noisy=True, bounded=(1,), loud=True),
    "attend_on": Example(
        lambda n, draw: (draw(N, n, D), draw(D)), each(2),
        lambda x, w: operators.attend_on(x, w, Attention(EPS), x.shape[-2]), noisy=True,
        bounded=(1,), loud=True),
    "gated_read": Example(
        lambda n, draw: (draw(N, n, D), draw(n, D), draw(N, n, D)), [(0, 0, 0), (1, 0, 0)],
        lambda x, w, logits: gated_read.read(x, w, logits), noisy=True, loud=True),
    "blend": Example(lambda n, draw: (draw(N, n, n), draw(N, n, n), gate()),
                     [(1, 1, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)], bounded=(2,)),
    "cayley_iterated": Example(lambda n, draw: (operators.skew(draw(N, n, n)) / n,), [(1,)],
                               bounded=(0,)),
    "cayley_rank2": Example(lambda n, draw: (draw(N, n), draw(N, n), draw(N)), PLANE,
                            noisy=True),
    "cayley_skew4": Example(lambda n, draw: (operators.skew(draw(N, 4, 4)),), [(1,)], streams=(4,),
                            noisy=True),
    "circulant_mixture": Example(lambda n, draw: (draw(N, n),), [(1,)], noisy=True),
    # the rounding of Z decides what huge logits choose
    "constrained_join": constrained(lambda *x: join(*x, form=Form(4, norm_eps=EPS))),
    "constrained_join, guarded": constrained(
        lambda *x: join(*x, form=Form(4, eps=1e-3, write_eps=1e-3, norm_eps=EPS))),
    "constrained_join, single pass": constrained(
        lambda *x: join(*x, form=Form(4, norm_eps=EPS)), read=True),
    "constrained_join, H = I": constrained(join, lambda n: 0, streams=(1, 2, 4, 8)),
    "constrained_join, mixture": constrained(
        lambda x, *others: join(x, *others, corners=shift_matrices(x.shape[-2])),
        lambda n: n, streams=(2, 4)),
    "delta_matrix": Example(lambda n, draw: (draw(N, n), draw(N)), [(0, 1)], units=(0,)),
    "delta_shortcut": Example(lambda n, draw: (draw(N, D), draw(N, D), draw(N)),
                              [*each(3)], streams=VECTOR),
    "delta_update": Example(lambda n, draw: (draw(N, D, n), draw(N, D), draw(N, n), draw(N)),
                            [*each(4), (1, 0, 1, 0)], streams=(1, 4, 5)),
    "delta_update, normalised": Example(
        lambda n, draw: (draw(N, D, n), draw(N, D), draw(N, n), draw(N)),
        [*each(4), (1, 0, 1, 0), (1, 1, 1, 0)],
        lambda *x: operators.delta_update(*x, eps=0.0), streams=(1, 4),
        loud=True),
    "delta_layer": Example(
        lambda n, draw: (draw(N, D, n), *(draw(N, D) for _ in range(3)), draw(n, D) / D**0.5,
                         draw(n), draw(1, D) / D**0.5, draw(1)), each(8),
        lambda *x: operators.delta_layer(*x, EPS), streams=(1, 4), noisy=True, loud=True),
    "delta_update, guarded": Example(
        lambda n, draw: (draw(N, D), draw(N, D), draw(N), draw(N)),
        [*each(4)], lambda *x: operators.delta_update(*x, eps=EPS), streams=VECTOR,
        loud=True),
    "delta_update, written alone": Example(
        lambda n, draw: (draw(N, D, n), draw(N, D), draw(N, n), draw(N)), each(4),
        lambda *x: operators.delta_update(*x, erase=False), streams=(1, 4)),
    "diagonal_update": Example(lambda n, draw: (draw(N, D), draw(N, D), draw(N, D), draw(1)),
                               [*each(4), (1, 1, 0, 0)], streams=VECTOR),
    "gated_matrix": Example(lambda n, draw: (draw(N, n, n), draw(N, n), gate()),
                            [(1, 0, 0), (0, 0, 1)], units=(1,), bounded=(2,)),
    "gated_mix": Example(
        lambda n, draw: (draw(N, n, D), draw(N, n), draw(N, n), draw(N), draw(N, n), gate()),
        [(1, 0, 0, 0, 0, 0), (0, 0, 0, 0, 0, 1), *((0, *p, 0, 0) for p in PLANE)],
        units=(4,), bounded=(5,), noisy=True),
    "geodesic": Example(lambda n, draw: (draw(N, n, n), draw(N, n), gate()),
                        [(1, 0, 0), (0, 0, 1)], units=(1,), bounded=(2,)),
    "householder_matrix": Example(lambda n, draw: (draw(N, n),), [(0,)], units=(0,)),
    "kronecker_mixture": Example(lambda n, draw: (draw(N, n, 2),), [(1,)], streams=(1, 2, 3),
                                 noisy=True),
    "hyper_join": Example(
        lambda n, draw: (draw(N, n, D), draw(N, n + 1, n), draw(N, D), draw(n + 2, D) / D**0.5,
                         draw(2), draw(n * (n + 2))),
        [*each(6), (1, 0, 1, 0, 0, 0)], hyper.join, streams=(1, 2, 4), noisy=True, bounded=(3, 4),
        loud=True),
    "hyper_join, unbounded": Example(
        lambda n, draw: (draw(N, n, D), draw(N, n + 1, n), draw(N, D), draw(n + 2, D) / D**0.5,
                         draw(2), draw(n * (n + 2))),
        each(6), lambda *x: hyper.join(*x, tanh=False), streams=(1, 4), noisy=True,
        bounded=(3, 4), loud=True),
    "jpmhc_join": Example(
        lambda n, draw: (draw(N, n, D), draw(N, n + 1, n), draw(N, D),
                         draw(3 * n**2, n * D) / (n * D)**0.5, draw(1), draw(3 * n**2),
                         draw(n * D), draw(n * D)),
        [*each(8), (1, 0, 1, 0, 0, 0, 0, 0)], jpmhc.join, streams=(1, 2, 4), noisy=True,
        bounded=(3, 5, 6, 7), loud=True),
    "midpoint_penalty": Example(lambda n, draw: (gate(),), [(1,)], streams=VECTOR, bounded=(0,)),
    "orthostochastic": Example(lambda n, draw: (draw(N, n * (2 * n - 1)),), [(1,)],
                               lambda z: operators.orthostochastic(
                                   z, {1: 1, 6: 2, 28: 4}[z.shape[-1]]),
                               streams=(1, 2, 4), bounded=(0,), noisy=True),
    "permutation_mixture": Example(lambda n, draw: (draw(N, factorial(n)),), [(1,)],
                                   lambda z: operators.permutation_mixture(
                                       z, {1: 1, 2: 2, 24: 4}[z.shape[-1]]),
                                   streams=(1, 2, 4), noisy=True),
    "post_norm": Example(
        lambda n, draw: (draw(N, n, D), draw(N, D), draw(D), draw(N, n + 1, n)),
        # where nothing but h is left of a stream, its norm has hardly a gradient
        [(0, 0, 1, 0), (0, 0, 0, 1), (1, 1, 0, 0)], post_normed, noisy=True,
        loud=True),
    "post_norm, x + h": Example(lambda n, draw: (draw(N, D), draw(N, D), draw(D)),
                                [*each(3), (1, 1, 0)], post_normed, streams=VECTOR, noisy=True,
                                loud=True),
    "reflect": Example(lambda n, draw: (draw(N, n), draw(N, n)), [(1, 0)], units=(1,)),
    "rms_linear": Example(lambda n, draw: (draw(N, n), draw(3, n)), each(2),
                          lambda *x: operators.rms_linear(*x, EPS), noisy=True, loud=True),
    "rms_linear, unguarded": Example(lambda n, draw: (draw(N, n), draw(3, n)), each(2),
                                     lambda *x: operators.rms_linear(*x, 0.0), noisy=True,
                                     loud=True),
    "sinkhorn": Example(lambda n, draw: (draw(N, n, n),), [(1,)], noisy=True),
    "sinkhorn, guarded": Example(lambda n, draw: (draw(N, n, n),), [(1,)],
                                 lambda x: operators.sinkhorn(x, 4, eps=1e-3), noisy=True),
    "sinkhorn, logarithmic": Example(
        lambda n, draw: (draw(N, n, n),), [(1,)],
        lambda x: operators.sinkhorn(x, 4, "row-column", "log"), noisy=True),
    "skew": Example(lambda n, draw: (draw(N, n, n),), [(1,)]),
    "stream_generate": Example(
        lambda n, draw: (draw(N, n, D), draw(n * (n + 2), n * D) / (n * D)**0.5), each(2),
        lambda *x: read(operators.stream_generate(*x, EPS)), streams=(1, 2, 4), loud=True),
    "stream_join": Example(
        lambda n, draw: (draw(N, n, D), draw(N, n, n), draw(N, n), draw(N, D),
                         draw(n * (n + 2), n * D) / (n * D)**0.5),
        [*each(5), (1, 0, 0, 1, 0)],
        lambda *x: read(operators.stream_join(*x, EPS)), streams=(1, 2, 4), loud=True),
    "stream_mix": Example(lambda n, draw: (draw(N, n, D), draw(N, n, n)), each(2)),
    "stream_mix_write": Example(
        lambda n, draw: (draw(N, n, D), draw(N, n, n), draw(N, n), draw(N, D)),
        [*each(4), (1, 0, 0, 1)]),
    "stream_read": Example(lambda n, draw: (draw(N, n, D), draw(N, n)), each(2)),
    "stream_write_read": Example(
        lambda n, draw: (draw(N, n, D), draw(N, n + 1, n), draw(N, D), draw(N, n)),
        [*each(4), (1, 0, 1, 0)], write_read.run, noisy=True),
    "stream_write": Example(lambda n, draw: (draw(N, n, D), draw(N, n), draw(N, D)),
                            [*each(3), (1, 0, 1)]),
    "unit_direction": Example(lambda n, draw: (draw(N, n),), [(1,)], noisy=True,
        loud=True),
    "unit_direction, guarded": Example(lambda n, draw: (draw(N, n),), [(1,)],
                                       lambda h: operators.unit_direction(h, EPS), noisy=True,
        loud=True),
}
EXAMPLES["jpmhc_join, exact"] = EXAMPLES["jpmhc_join"]._replace(
    call=lambda *x: jpmhc.join(*x, turn=Turn(eps=EPS, exact=True)), streams=(4,))
TOOLS = {"outside_autocast", "recomputed", "widened"}  # they compute nothing
KEEPS = {  # the dtype of its inputs; the others answer in float32 at least
    "attend", "attend_on", "constrained_join", "delta_layer", "delta_matrix", "delta_shortcut",
    "delta_update", "diagonal_update", "gated_mix", "gated_read", "householder_matrix",
    "hyper_join", "jpmhc_join", "midpoint_penalty", "post_norm", "reflect", "skew",
    "stream_generate", "stream_join", "stream_mix", "stream_mix_write", "stream_read",
    "stream_write", "stream_write_read"}
READS_NUMBERS = {"delta_matrix", "householder_matrix", "reflect"}  # to refuse another length
TWINS = [name for name in EXAMPLES if name.split(",")[0] in kernels.TWINS]
every_example = pytest.mark.parametrize("name", EXAMPLES)


def operator(name):
    return EXAMPLES[name].call or getattr(operators, name)


def given(name, n, draw=torch.randn, units=unit):
    """The inputs of an example."""
    torch.manual_seed(n)
    return [units(x) if place in EXAMPLES[name].units else x
            for place, x in enumerate(EXAMPLES[name].inputs(n, draw))]


def draws(name, n, dtype, scales=None):
    """The inputs of an example by power and scale, in the dtype."""
    example, drawn = EXAMPLES[name], given(name, n)
    for powers in example.powers:
        for scale in (scales or SCALES[dtype]) if any(powers) else (1.0,):
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
            # a number that is computed from a rounded one is as wrong as that
            tolerance = max(TOLERANCE[x.dtype] for x in (ours, *got[:min(place, outputs)]))
            error = (ours.double().cpu() - theirs).norm()
            if not error <= tolerance * (size + noise) + limits.tiny * theirs.numel():
                found.append(f"{case}, result {place}: off by {error:.1e} of {size:.1e}")
    return found


def test_every_operator_has_an_example():
    assert {name.split(",")[0] for name in EXAMPLES} | TOOLS == set(operators.__all__)
    assert {name.split(",")[0] for name in TWINS} == set(kernels.TWINS)


def test_operators_take_tensors_without_data():
    for name, example in EXAMPLES.items():
        if name not in READS_NUMBERS and not name.startswith("cayley"):
            inputs = [x.to("meta") for x in given(name, example.streams[-1])]
            assert next(iter(operator(name)(*inputs))).device.type == "meta"


def test_a_guarded_direction_is_finite_at_zero():
    h = torch.zeros(3, requires_grad=True)
    k = operators.unit_direction(h, EPS)
    k.sum().backward()
    assert not k.any() and torch.equal(h.grad, torch.full((3,), 1e5))


def test_a_state_of_zeros_generates_zeros_with_finite_gradients():
    x = torch.zeros(2, 6, requires_grad=True)
    y = operators.rms_linear(x, torch.ones(3, 6), 1e-20)
    assert not y.any() and torch.autograd.grad(y.sum(), x)[0].isfinite().all()


def test_the_ends_of_a_blend_are_exact():
    q, h = torch.randn(2, 3, 4, 4)
    assert torch.equal(operators.blend(q, h, 1.0), q) and torch.equal(operators.blend(q, h, 0.0), h)


@pytest.mark.parametrize("dtype", SCALES)
@every_example
def test_an_operator_is_right_at_every_scale(name, dtype):
    assert not [(n, found) for n in EXAMPLES[name].streams
                if (found := wrong(name, n, dtype))]


@pytest.mark.parametrize("dtype", SCALES)
@every_example
def test_autocast_changes_nothing(name, dtype):
    inputs = [x.to(dtype) for x in given(name, EXAMPLES[name].streams[-1])]
    wanted = with_gradients(operator(name), inputs, seed=7)
    with torch.autocast("cpu", BROAD):
        got = with_gradients(operator(name), inputs, seed=7)
    assert got[0].dtype == (dtype if name.split(",")[0] in KEEPS else SINGLE)
    for ours, theirs in zip(got, wanted, strict=True):
        assert ours.dtype == theirs.dtype and torch.equal(ours, theirs)


APPLIED = sorted(KEEPS - READS_NUMBERS - {"midpoint_penalty", "skew"})


@pytest.mark.parametrize("name", APPLIED)
@pytest.mark.parametrize("dtype", [SINGLE, BROAD])
def test_a_state_keeps_its_dtype_whatever_that_of_its_coefficients(name, dtype):
    state, *others = given(name, EXAMPLES[name].streams[-1])
    others = [x.to(dtype) for x in others]
    wanted, got = (operator(name)(state.to(own), *others) for own in (SINGLE, BROAD))
    for exact, ours in ((wanted, got),) if isinstance(got, Tensor) else ((wanted[0], got[0]),):
        assert (exact.dtype, ours.dtype) == (SINGLE, BROAD)
        assert (ours.float() - exact).norm() < 0.02 * exact.norm()


# ---------------------------------------------------------------- derivatives

def differentiable(name):
    """An operator as a function of any vectors, and inputs in float64."""
    def function(*inputs):
        return operator(name)(*(operators.unit_direction(x) if place in example.units else x
                                for place, x in enumerate(inputs)))

    example = EXAMPLES[name]
    n = 4 if "cayley" in name else min(example.streams, key=lambda n: (n < 2, n))
    inputs = given(name, n, lambda *shape: torch.randn(*shape, dtype=torch.float64), lambda x: x)
    return function, [x.double().requires_grad_() for x in inputs]


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@every_example
def test_an_operator_has_second_derivatives(name):
    function, inputs = differentiable(name)
    assert gradcheck(function, inputs, fast_mode=True, check_forward_ad=True,
                     check_batched_grad=True)
    # the fast mode passes a backward of Sinkhorn that takes f and g for constants
    assert gradgradcheck(function, inputs)
    assert gradgradcheck(function, inputs, fast_mode=True, check_batched_grad=True,
                         check_fwd_over_rev=True)


@every_example
def test_vmap_of_second_derivatives_is_a_stack_of_them(name):
    function, inputs = differentiable(name)

    def total(*inputs):
        found = function(*inputs)
        return sum(x.sin().sum() for x in (found if isinstance(found, tuple) else (found,)))

    def response(*inputs):
        """The gradient's derivative along the inputs themselves."""
        gradient = torch.func.grad(total, argnums=tuple(range(len(inputs))))
        return torch.func.jvp(gradient, inputs, inputs)[1]

    batch = [torch.stack([x, x / 2, 2 * x]) for x in inputs]
    found = torch.func.vmap(response)(*batch)
    for number, alone in enumerate(zip(*batch, strict=True)):
        assert_close(tuple(x[number] for x in found), response(*alone))


# ---------------------------------------------------------------- compiled, and as a kernel

def test_every_operator_compiles_in_one_process():
    # torch.compile limits recompilations per code object. Operators that share a wrapper would
    # exceed the limit.
    torch.compiler.reset()
    # a second compilation of the same code raises
    with torch._dynamo.config.patch(recompile_limit=1):
        for name, example in EXAMPLES.items():
            if example.call is None and name not in READS_NUMBERS:
                inputs = given(name, example.streams[-1])
                compiled = torch.compile(operator(name), fullgraph=True, backend="eager")
                assert_close(compiled(*inputs), operator(name)(*inputs), rtol=0, atol=1e-6)


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
        inputs = [x.to(device, SINGLE) for x in given(name, n)]
        with kernels.use(mode):
            assert all(x.isfinite().all() for x in with_gradients(operator(name), inputs, seed=7))
