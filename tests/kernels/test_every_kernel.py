"""What holds for every kernel: it is enough to have a case in `benchmarks.cases`."""

from math import prod
from unittest.mock import patch

import pytest
import torch
from shared_kernels import TOLERANCE, check, generated

from benchmarks.cases import CASES, EPS, Case, draws
from benchmarks.cases.streams import generate_read, join, with_norm
from geolab import kernels, operators
from geolab.operators.joined import Form
from geolab.operators.streams import Norm

SINGLE, BROAD, HALF = torch.float32, torch.bfloat16, torch.float16


NONLINEAR = {"generated": generated}
CONSTRAINED = CASES["constrained_join"]


def first_of_constrained(x, weight, scale, bias, norm=None):
    """The first sublayer, in front of which nothing is written, with rows first."""
    return join(x, None, None, weight, scale, bias, form=Form(3, "row-column", norm_eps=EPS),
                norm=norm)


def first_normed(x, weight, gamma):
    """What the first sublayer reads, normalised, where another kernel forms the gradient of x."""
    found = operators.stream_generate(x, weight, EPS)
    read, *others = generated(found.numbers)
    norm = Norm(gamma, EPS)
    return found.state, operators.stream_read(found.state, read, found.ports, norm), *others


EVERY = CASES | {
    "stream_generate, normed": Case(
        "stream_generate", first_normed, lambda N, n, d, state, number: (
            state(N, n, d), number(n * (n + 2), n * d) / (n * d)**0.5, number(d)), None),
    "constrained_join, first": CONSTRAINED._replace(
        operator=first_of_constrained, inputs=lambda *given: (
            CONSTRAINED.inputs(*given)[0], *CONSTRAINED.inputs(*given)[3:])),
    "stream_join": CASES["stream_join"]._replace(options=NONLINEAR),
    "stream_generate": Case(
        "stream_generate", generate_read, lambda N, n, d, state, number: (
            state(N, n, d), number(n * (n + 2), n * d) / (n * d)**0.5), None, options=NONLINEAR)}
EVERY["constrained_join, first, normed"] = with_norm(EVERY["constrained_join, first"])
every_case = pytest.mark.parametrize("name", EVERY)


def given(name, lead, device, dtype=SINGLE, n=4, d=50):
    """The inputs of a case, whose tokens have these leading axes."""
    case, N = EVERY[name], prod(lead)
    state, number = draws(device, dtype, seed=3)
    inputs = case.inputs(N, n, d, state, state if case.kind == "matrices" else number)
    # a weight may have as many rows as there are tokens
    more = case.inputs(N + 1, n, d, state, number)
    return [x if x.shape == other.shape else x.reshape((*lead, *x.shape[1:]))
            for x, other in zip(inputs, more, strict=True)]


def require(name, *inputs, tolerance=None):
    """Assert that the kernel gives what the operator gives in float64, with its gradients."""
    # three scales have gradients that are sums over all tokens, of terms that nearly cancel
    least = 2e-5 if name.startswith("constrained_join") else 0
    tolerance = tolerance or max(least, *(TOLERANCE[x.dtype] for x in inputs))
    if name.startswith("hyper_join"):  # two scales, whose terms cancel more
        tolerance = max(4 * tolerance, 2e-5)
    with kernels.use("always"):
        check(EVERY[name].function, EVERY[name].function, *inputs, tolerance=tolerance)


@pytest.mark.parametrize("lead, dtype", [((1,), SINGLE), ((), SINGLE), ((3, 37), SINGLE),
                                         ((3, 37), BROAD), ((3, 37), HALF)], ids=str)
@every_case
def test_it_is_the_operator(device, name, lead, dtype):
    require(name, *given(name, lead, device, dtype))


@every_case
def test_strided_arguments_are_read_as_they_are(device, name):
    inputs = given(name, (6, 5), device, d=24)
    tokens = [x.ndim > 1 and x.shape[:2] == (6, 5) for x in inputs]
    for change in (lambda x: x.transpose(0, 1), lambda x: x[:, ::2],
                   lambda x: x.mT.contiguous().mT if x.ndim > 3 else x):
        require(name, *(change(x) if own else x for x, own in zip(inputs, tokens, strict=True)))


# the places of the inputs that tokens may share; those of a group have the same leading axes
SHARED = {"stream_read": [(1,)], "stream_write": [(1,)], "stream_mix": [(1,)],
          "stream_mix_write": [(1,), (2,)], "stream_join": [(1,), (2,)],
          "gated_mix": [(1, 2, 3), (4, 5)],
          "delta_update": [(2,), (3,)], "delta_update, d_v = 4": [(2,), (3,)]}
ONE_FOR_SOME = [lambda x: x[:, :1], lambda x: x[:1], lambda x: x[0], lambda x: x[0, 0]]


@pytest.mark.parametrize("name", SHARED)
def test_tokens_may_share_coefficients_each_in_its_own_way(device, name):
    inputs = given(name, (3, 37), device, d=20)
    for first in range(4):
        for apart in (0, 1) if len(SHARED[name]) > 1 else (0,):
            mixed = list(inputs)
            for turn, places in enumerate(SHARED[name]):
                for place in places:
                    mixed[place] = ONE_FOR_SOME[(first + apart * turn) % 4](inputs[place])
            # a sum over tokens may be small compared with its terms
            require(name, *mixed, tolerance=2e-5)


FEWER_LOGITS = ("constrained_join, H = I", "constrained_join, corners")  # `rms_linear` takes 128
# any number of sources, and four streams alone
FOR_ANY = ("attend", "cayley_skew4", "jpmhc_join, exact")


def has_streams(name):
    """Return whether the inputs of a case depend on the number of streams."""
    few, more = ([x.shape for x in given(name, (1,), "cpu", n=n, d=8)] for n in (4, 12))
    return few != more


@pytest.mark.parametrize("name", [name for name in EVERY if has_streams(name)
                                  and not name.startswith(FOR_ANY)])
def test_what_is_too_large_for_registers_goes_to_the_operator(device, name):
    n = 70 if name.removesuffix(", normed") in FEWER_LOGITS else 12
    with patch.dict(kernels.TWINS, dict.fromkeys(kernels.TWINS)):
        require(name, *given(name, (2, 3), device, n=n, d=8))


@pytest.mark.parametrize("name", [name for name in EVERY if "normed" in name])
def test_a_norm_that_registers_do_not_hold_is_taken_after_the_read(device, name):
    with patch.object(kernels, "MOST_HELD", (7, 32)):
        require(name, *given(name, (2, 3), device, d=8))
