"""More than four streams that are mixed, between two sublayers."""

from unittest.mock import patch

import pytest
import torch
from shared_kernels import check
from test_every_kernel import EVERY, given
from test_joined import called, interpreted, network, vectors

from geolab import kernels
from geolab.kernels import constrained
from geolab.operators.joined import Form

SINGLE, HALF = torch.float32, torch.bfloat16
SHORT = {"form": Form(3, norm_eps=1e-5)}


def require(name, device, n, lead, dtype=SINGLE, d=40):
    """Assert that the kernels give what the operator gives in float64, with its gradients."""
    case = EVERY[name]
    if name in ("constrained_join", "constrained_join, normed"):
        case = case._replace(options=SHORT)
    with kernels.use("always"):
        check(case.function, case.function, *given(name, lead, device, dtype, n, d),
              tolerance=8e-5 if dtype == SINGLE else None)


@pytest.mark.parametrize("n, lead, dtype", [
    (8, (37,), SINGLE), (8, (3, 2), HALF), (5, (1,), SINGLE), (7, (), SINGLE), (8, (0,), SINGLE)],
    ids=str)
@pytest.mark.parametrize("name", ["constrained_join, normed", "hyper_join"])
def test_it_is_the_operator(device, name, n, lead, dtype):
    require(name, device, n, lead, dtype)


@pytest.mark.parametrize("name, n", [
    ("constrained_join, guarded", 3), ("constrained_join, guarded", 6),
    ("constrained_join, first", 8), ("constrained_join, single pass", 6),
    ("constrained_join, corners", 7), ("jpmhc_join", 5), ("jpmhc_join", 6)])
def test_so_is_each_form(device, name, n):
    require(name, device, n, (11,))


def transposed(grad, x, c, h, of_x, of_c, of_h):
    """H where Hᵀ belongs."""
    n = x.shape[-2]
    mixed = torch.cat([c[..., :n, :].mT, c[..., n:, :]], dim=-2).contiguous()
    WRITE_BACKWARD(grad, x, mixed, h, of_x, of_c, of_h)


def swapped(grad, x, c, h, of_x, of_c, of_h):
    """∂H transposed."""
    WRITE_BACKWARD(grad, x, c, h, of_x, of_c, of_h)
    of_c[..., :-1, :] = of_c[..., :-1, :].mT.clone()


def shifted(grad, x, c, h, of_x, of_c, of_h):
    """The b of a neighbouring stream."""
    moved = torch.cat([c[..., :-1, :], c[..., -1:, :].roll(1, -1)], dim=-2).contiguous()
    WRITE_BACKWARD(grad, x, moved, h, of_x, of_c, of_h)


def copied(grad, x, c, h, of_x, of_c, of_h):
    """∂X = ∂Z."""
    WRITE_BACKWARD(grad, x, c, h, of_x, of_c, of_h)
    of_x.copy_(grad)


WRITE_BACKWARD = constrained.write_backward


@pytest.mark.parametrize("mutant", [transposed, swapped, shifted, copied])
def test_a_wrong_kernel_is_noticed(device, mutant):
    with (patch.object(constrained, "write_backward", mutant),
          pytest.raises(AssertionError, match="relative error")):
        require("hyper_join", device, 5, (3,))


@interpreted
def test_eight_streams_move_3n_plus_2_and_7n_plus_4_vectors():
    def run(d, N, dtype):
        leaves = [t.requires_grad_() for t in given("constrained_join", (N,), "cpu", dtype, 8, d)]
        return EVERY["constrained_join"]._replace(options=SHORT).function(*leaves), leaves

    assert vectors(run, 8) == [26, 60]


@pytest.mark.parametrize("residual, options", [
    ("mhc", {"streams": 8, "iterations": 2}), ("mhc", {"streams": 5, "mix": "circulant"}),
    ("hyper", {"streams": 8}), ("jpmhc", {"streams": 6, "steps": 4})], ids=str)
def test_a_network_joins_its_sublayers(device, residual, options):
    model, x = network(device, layers=1, residual=residual, options=options)
    join = "constrained" if residual == "mhc" else residual
    assert called(lambda: model(x)) == {f"{join}_join": 2, "stream_mix_write": 1}


def test_seven_streams_of_jpmhc_have_too_many_logits(device):
    model, x = network(device, layers=1, residual="jpmhc", options={"streams": 7})
    assert not called(lambda: model(x))["jpmhc_join"]


def test_where_pytorch_makes_the_coefficients_kernels_run_one_after_the_other(device):
    model, x = network(device, layers=1, options={"streams": 8, "mix": "kronecker"})
    assert called(lambda: model(x)) == dict.fromkeys(
        ("rms_linear", "stream_read", "stream_mix_write"), 2)
