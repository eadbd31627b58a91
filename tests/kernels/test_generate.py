import pytest
import torch
from shared_kernels import check, distance, normal, with_gradients

from benchmarks.traffic import traffic
from geolab import operators
from geolab.kernels import launch
from geolab.kernels.generate import rms_linear


def generating(lead, features, outputs, device, dtype=torch.float32):
    x = normal(*lead, features, seed=1, dtype=dtype, device=device)
    return x, normal(outputs, features, seed=2, device=device) / features**0.5


def both(kernel=rms_linear, eps=1e-6):
    """The kernel and the operator, with this guard."""
    return (lambda x, w: kernel(x, w, eps)), (lambda x, w: operators.rms_linear(x, w, eps))


@pytest.mark.parametrize("features, outputs", [(3, 1), (6, 3), (64, 16), (1100, 24), (520, 128)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_any_number_of_features_and_outputs(device, features, outputs, dtype):
    check(*both(), *generating((137,), features, outputs, device, dtype))


def test_programs_may_share_the_features_of_few_tokens(device):
    x, weight = generating((5,), 9000, 3, device)
    check(*both(), x, weight)
    if device == "cpu":
        with traffic() as moved:
            rms_linear(x, weight, 1e-6)
        assert moved.launches == 3  # the first one packs W, and the last one joins the parts


@pytest.mark.skipif(not launch.INTERPRETED, reason="a device computes with halves in every test")
def test_halves_carry_sixteen_bits(halves):
    x, weight = generating((137,), 520, 24, "cpu", torch.bfloat16)
    kernel, operator = both()
    y, grad_x, grad_w = with_gradients(kernel, [x, weight], 0)
    wanted = with_gradients(operator, [x.double(), weight.double()], 0)
    # the interpreter truncates to bfloat16, where a device rounds
    for got, exact, bits in ((y, wanted[0], 16), (grad_x, wanted[1], 7), (grad_w, wanted[2], 16)):
        assert distance(got, exact) < 2.0**-bits
    # without the low halves 8 bits are left
    assert distance(operator(x.double(), weight.bfloat16().double()), wanted[0]) > 2.0**-10


def test_without_tokens_the_gradient_of_the_weights_is_zero(device):
    x, weight = generating((3, 0), 48, 8, device)
    y, grad_x, grad_weight = with_gradients(both()[0], [x, weight], 0)
    assert y.shape == (3, 0, 8) and grad_x.shape == x.shape
    assert torch.equal(grad_weight, torch.zeros_like(weight))


def test_strided_states_and_weights(device):
    x, weight = generating((6, 7), 48, 10, device)
    for state, rows in ((x.transpose(0, 1), weight), (x[:, ::2], weight[::2]),
                       (x[..., ::2], weight[:, ::2]), (x[0].expand(3, 7, 48), weight[:1])):
        check(*both(), state, rows)


def test_half_precision_gives_float32_numbers_and_gradients_in_the_dtypes_of_the_inputs(device):
    x, weight = generating((5,), 16, 8, device, torch.bfloat16)
    y, grad_x, grad_weight = with_gradients(both()[0], [x, weight], 0)
    dtypes = (y.dtype, grad_x.dtype, grad_weight.dtype)
    assert dtypes == (torch.float32, torch.bfloat16, torch.float32)
    with torch.autocast(device, torch.bfloat16):
        assert rms_linear(x.float(), weight, 1e-6).dtype == torch.float32
        check(*both(), x.float(), weight)


def test_the_weights_gradient_is_the_same_in_every_run(device):
    x, weight = generating((1000,), 100, 24, device)
    first, second = (with_gradients(both()[0], [x, weight], 0) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_addresses_past_two_to_the_31(device):
    x = torch.zeros(2**20 + 1, 2048, device=device, dtype=torch.bfloat16)
    weight = normal(8, 2048, device=device)
    x[-1] = normal(2048, seed=1)
    # the last token begins at byte 2**32; alone, its features are shared by several programs
    last = rms_linear(x[-1:], weight, 1e-6)[0]
    # matrix units cut sums off, so two orders of a sum differ by more than rounding
    assert distance(rms_linear(x, weight, 1e-6)[-1], last) < 2e-5
