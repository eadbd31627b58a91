"""Every kernel test runs on `device`: the CPU with Triton's interpreter, or a CUDA device in tests
marked gpu.
"""

import pytest
import torch

from geolab.kernels import launch


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    if (request.param == "cpu") != launch.INTERPRETED:
        pytest.skip("kernels run on the CUDA device if there is one, otherwise in the interpreter")
    return request.param


@pytest.fixture(autouse=True)
def poisoned(monkeypatch):
    """Outputs begin as NaN, so that a number which no kernel writes shows."""
    monkeypatch.setattr(launch, "allocate",
                        lambda shape, **where: torch.full(shape, float("nan"), **where))
