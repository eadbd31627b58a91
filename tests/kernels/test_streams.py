import pytest
import torch
from shared_kernels import check, normal, with_gradients

from geolab import kernels, operators
from geolab.kernels import streams
from geolab.operators.streams import Norm

NAMES = ("stream_read", "stream_mix", "stream_mix_write")


def inputs(name, lead, n, d, device, dtype=torch.float32, shares=None):
    """x, and the other arguments of the operator.

    Coefficients have the leading axes `shares`, or one row per token.
    """
    own = lead if shares is None else shares
    x = normal(*lead, n, d, seed=1, dtype=dtype, device=device)
    update = normal(*lead, d, seed=2, dtype=dtype, device=device)
    weights = normal(*own, n, seed=3, device=device)
    matrix = normal(*own, n, n, seed=4, device=device)
    return {"stream_read": (x, weights), "stream_mix": (x, matrix),
            "stream_mix_write": (x, matrix, weights, update)}[name]


def compare(name, *given):
    check(getattr(streams, name), getattr(operators, name), *given)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", NAMES)
def test_a_state_of_half_precision_is_summed_in_full(device, name, dtype):
    compare(name, *inputs(name, (3, 37), 4, 530, device, dtype))


@pytest.mark.parametrize("n, d", [(1, 1), (2, 4100), (3, 130), (8, 24)])
@pytest.mark.parametrize("name", NAMES)
def test_any_number_of_streams_and_features(device, name, n, d):
    compare(name, *inputs(name, (7,), n, d, device))


@pytest.mark.parametrize("n, d", [(1, 1), (2, 1100), (3, 130), (8, 24)])
def test_a_read_takes_the_norm_of_any_number_of_streams_and_features(device, n, d):
    def read(operator):
        return lambda x, a, gamma: operator(x, a, norm=Norm(gamma, 1e-5))

    # with 1100 features several programs share the tokens, and add up their parts
    given = *inputs("stream_read", (70,), n, d, device), normal(d, seed=5, device=device)
    kernel = read(streams.stream_read)
    check(kernel, read(operators.stream_read), *given, tolerance=1e-5)
    first, second = (with_gradients(kernel, given, 0) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_a_norm_of_another_length_is_refused():
    x, a = inputs("stream_read", (2,), 4, 8, "cpu")
    for mode in ("always", "never"):
        with kernels.use(mode), pytest.raises(ValueError, match="norm must have"):
            operators.stream_read(x, a, norm=Norm(torch.ones(7), 1e-5))


def test_without_tokens_shared_coefficients_have_gradients_of_zero(device):
    for name in NAMES:
        compare(name, *inputs(name, (2, 0), 4, 8, device, shares=(2, 1)))


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda"], indirect=True)
@pytest.mark.parametrize("name", NAMES)
def test_a_state_past_two_gigabytes(device, name):
    def both_ways(given):
        leaves = [t.requires_grad_() for t in given]
        y = getattr(streams, name)(*leaves)
        return [y, *torch.autograd.grad(y, leaves, y.detach())]

    last = inputs(name, (1000,), 4, 4096, device, torch.bfloat16)
    long = [t.repeat(70, *[1] * (t.ndim - 1)) for t in last]  # x has 2.3e9 bytes
    for of_long, of_last in zip(both_ways(long), both_ways(last), strict=True):
        assert torch.equal(of_long[-1000:], of_last)
