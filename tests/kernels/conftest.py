"""Every kernel test runs on `device`: the CUDA device, or without one the CPU with Triton's
interpreter. Tests marked gpu need the former.
"""

import pytest
import torch
import triton.language as tl
from triton.runtime.interpreter import interpreter_builder

from geolab.kernels import generate, launch


@pytest.fixture(params=["cpu" if launch.INTERPRETED else
                        pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return request.param


def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("gpu") and launch.INTERPRETED:
            item.add_marker(pytest.mark.skip(reason="needs a GPU"))


@pytest.fixture(autouse=True)
def poisoned():
    """Outputs begin as NaN, so that a number which no kernel writes shows."""
    before = torch.get_deterministic_debug_mode()
    torch.use_deterministic_algorithms(True, warn_only=True)  # PyTorch then fills what is empty
    yield
    torch.set_deterministic_debug_mode(before)


@pytest.fixture
def halves(monkeypatch):
    """Products of halves in the interpreter, whose own product of bfloat16 numbers is wrong."""
    builder = interpreter_builder
    product = builder.create_dot

    def wide(x):
        return builder.cast_impl(x, tl.float32) if x.dtype.scalar == tl.bfloat16 else x

    monkeypatch.setattr(builder, "create_dot", lambda a, b, *rest: product(wide(a), wide(b), *rest))
    monkeypatch.setattr(generate, "_products", lambda dtype, device: "halves")
