"""Which calls use a kernel, which use the reference, and which are refused."""

import os
import subprocess
import sys

import pytest
import torch

from geolab import kernels, operators

HALF, SINGLE, DOUBLE = torch.bfloat16, torch.float32, torch.float64


@pytest.mark.parametrize("dtype, served", [(HALF, True), (torch.float16, True), (SINGLE, True),
                                           (DOUBLE, False)])
def test_the_dtype_decides(dtype, served):
    with kernels.use("always"):
        assert kernels.serves(torch.ones(1, dtype=dtype)) is served


def test_the_device_decides_unless_told():
    x = torch.ones(1)
    assert not kernels.serves(x)
    with kernels.use("always"):
        assert kernels.serves(x)
        with kernels.use("never"):
            assert not kernels.serves(x)
        assert kernels.serves(x)
    assert not kernels.serves(x)


def test_every_twin_has_the_name_of_an_operator():
    assert kernels.TWINS and all(hasattr(operators, name) for name in kernels.TWINS)


def test_an_unknown_mode_is_refused():
    wanted = "mode must be one of 'auto', 'always', 'never', got 'maybe'"
    with pytest.raises(ValueError, match=wanted), kernels.use("maybe"):
        pass


def test_without_interpreter_and_device_there_is_the_reference_and_a_clear_refusal():
    script = """
import torch
from geolab import kernels, operators
assert operators.stream_read(torch.ones(2, 4, 3), torch.ones(4)).eq(4).all() and not kernels.TWINS
try:
    with kernels.use("always"): pass
except RuntimeError as error:
    print(error)
"""
    environment = {name: value for name, value in os.environ.items()
                   if name != "TRITON_INTERPRET"} | {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                          env=environment)
    wanted = "TRITON_INTERPRET=1 in the environment before geolab is imported"
    assert wanted in done.stdout, done.stderr


def test_second_derivatives_are_refused_with_kernels_and_given_without(device):
    x, a = (torch.randn(*shape, device=device, requires_grad=True) for shape in ((3, 4, 8), (3, 4)))
    for mode in ("never", "always"):
        with kernels.use(mode):
            [first] = torch.autograd.grad(operators.stream_read(x, a).square().sum(), a,
                                          create_graph=True)
        if mode == "never":
            assert torch.autograd.grad(first.sum(), x)[0].isfinite().all()
        else:
            with pytest.raises(RuntimeError, match="autograd"):
                torch.autograd.grad(first.sum(), x)
