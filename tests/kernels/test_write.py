"""The write to streams that aren't mixed."""

from unittest.mock import patch

import pytest
import torch
from shared_kernels import with_gradients
from test_every_kernel import given, require
from test_gated_read import Blind
from test_joined import called, network

from geolab import kernels, operators
from geolab.kernels import write

# a kernel, and the place of an argument that a mutant takes for zeros
MUTANTS = [*(("_write", place) for place in range(3)),
           *(("_write_backward", place) for place in range(3))]


@pytest.mark.parametrize("n, lead, d", [(1, (3,), 3), (2, (0,), 24), (3, (37,), 130), (8, (1,), 50),
                                        (4, (70,), 9)])
def test_any_number_of_streams_tokens_and_features(device, n, lead, d):
    require("stream_write", *given("stream_write", lead, device, n=n, d=d))


@pytest.mark.parametrize("name, place", MUTANTS)
def test_a_wrong_kernel_is_noticed(device, name, place):
    with (patch.object(write, name, Blind(getattr(write, name), place)),
          pytest.raises(AssertionError, match="relative error")):
        require("stream_write", *given("stream_write", (7,), device, d=24))


def test_the_gradient_of_the_state_passes_untouched(device):
    x, weights, update = given("stream_write", (5,), device)
    x.requires_grad_()
    with kernels.use("always"):
        y = operators.stream_write(x, weights, update)
    grad = torch.randn_like(y)
    assert torch.autograd.grad(y, x, grad)[0].data_ptr() == grad.data_ptr()


def test_gated_streams_write_by_it_and_as_before_without_kernels(device):
    model, x = network(device, residual="gated-streams", layers=1)
    assert called(lambda: model(x))["stream_write"] == 2
    x, weights, update = given("stream_write", (5,), device)
    with kernels.use("never"):
        y, *_ = with_gradients(operators.stream_write, [x, weights, update], 0)
    assert torch.equal(y, x + weights.unsqueeze(-1) * update.unsqueeze(-2))
