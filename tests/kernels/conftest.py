"""Every kernel test runs on `device`: in Triton's interpreter on the CPU, or, marked gpu, on a CUDA
device.
"""

import pytest
import torch

from geolab.kernels import launch


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    if (request.param == "cpu") != launch.INTERPRETED:
        pytest.skip("kernels run on the CUDA device if there is one, and else in the interpreter")
    return request.param


@pytest.fixture(autouse=True)
def poisoned(monkeypatch):
    """Outputs begin as NaN: what a kernel leaves out shows."""
    monkeypatch.setattr(launch, "allocate", lambda shape, **where: torch.full(shape, float("nan"),
                                                                              **where))
