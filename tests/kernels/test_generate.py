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


@pytest.mark.parametrize("features, outputs", [(3, 1), (520, 128)])
def test_any_number_of_outputs_of_strided_weights(device, features, outputs):
    x, weight = generating((137,), features, outputs, device)
    for strided in (weight.mT.contiguous().mT, torch.stack([weight, weight], -1)[..., 0]):
        check(*both(), x, strided)


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
