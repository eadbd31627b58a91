"""Each kernel reads its inputs once and writes its outputs once, as the interpreter counts address
by address.
"""

import pytest
import torch

from benchmarks.cases import CASES, draws
from benchmarks.traffic import traffic
from geolab import kernels
from geolab.kernels import launch

# float32 numbers per token that the forward pass writes for the backward pass
KEPT = {"delta_update": 1 + 1, "delta_update, d_v = 4": 4 + 1, "rms_linear": 1}
PARTS = {"diagonal_update": 8}  # bytes of the programs' partial sums, and of α

interpreted = pytest.mark.skipif(not launch.INTERPRETED,
                                 reason="only Triton's interpreter counts addresses")


@interpreted
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", CASES)
def test_a_pass_is_one_launch_at_its_floor(name, dtype):
    case, N, n, d = CASES[name], 40, 4, 96
    state, number = draws("cpu", dtype, seed=0)
    inputs = [x.requires_grad_() for x in case.inputs(N, n, d, state, number)]
    with kernels.use("always"):
        with traffic() as there:
            y = case.function(*inputs)
        with traffic() as back:
            torch.autograd.grad(y, inputs, torch.randn_like(y))
    more = 4 * N * KEPT.get(name, 0) + PARTS.get(name, 0)
    for moved, floor in zip((there, back), case.floor(N, n, d, dtype.itemsize)):
        assert moved.launches == 1
        assert floor <= moved.distinct <= floor + more
        assert moved.asked <= 1.05 * moved.distinct


@interpreted
def test_what_is_loaded_twice_is_asked_twice_and_distinct_once():
    import triton
    import triton.language as tl

    @triton.jit
    def double(X, Y, N: tl.constexpr):
        place = tl.arange(0, N)
        tl.store(Y + place, tl.load(X + place) + tl.load(X + place), mask=place < 5)

    x, y = torch.ones(8), torch.zeros(8)
    with traffic() as moved:
        double[(1,)](x, y, 8)
    assert (moved.asked, moved.distinct, moved.launches) == (4 * (8 + 8 + 5), 4 * (8 + 5), 1)
