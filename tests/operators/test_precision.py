"""A state and coefficients of two dtypes, under autocast; and tensors without data."""

from functools import partial

import pytest
import shared
import torch
from torch.testing import assert_close

from geolab.operators import (
    delta_shortcut,
    delta_update,
    diagonal_update,
    gated_mix,
    sinkhorn,
    stream_mix,
    stream_mix_write,
    stream_read,
    unit_direction,
)

HALF, SINGLE = torch.bfloat16, torch.float32
normal = partial(shared.normal, dtype=SINGLE)


def applications(state_dtype, dtype):
    x, vector = normal(3, 4, 8, dtype=state_dtype), normal(3, 8, dtype=state_dtype)
    matrix, weights = normal(3, 4, 4, dtype=dtype), normal(3, 4, seed=1, dtype=dtype)
    k, beta = normal(3, 8, seed=2, dtype=dtype), normal(3, seed=3, dtype=dtype)
    matrix_state = normal(3, 8, 4, dtype=state_dtype)
    short, gate = unit_direction(weights), beta.sigmoid()
    return {"read": lambda: stream_read(x, weights), "mix": lambda: stream_mix(x, matrix),
            "mix and write": lambda: stream_mix_write(x, matrix, weights, k),
            "gated": lambda: gated_mix(x, weights, weights + 1, beta, short, gate),
            "delta": lambda: delta_update(vector, k, beta, beta),
            "shortcut": lambda: delta_shortcut(vector, k, beta),
            "one for all": lambda: delta_shortcut(vector, k[:1], beta[:1]),
            "diagonal": lambda: diagonal_update(vector, k, k, beta[0]),
            "matrix delta": lambda: delta_update(matrix_state, k, value=weights, beta=beta)}


@pytest.mark.parametrize("dtype", [SINGLE, HALF])
@pytest.mark.parametrize("name", applications(HALF, HALF))
def test_a_state_keeps_its_dtype_and_precision_under_autocast(name, dtype):
    exact = applications(SINGLE, dtype)[name]()
    with torch.autocast("cpu", HALF):
        # all arithmetic is in float32
        assert_close(applications(SINGLE, dtype)[name](), exact, rtol=0, atol=0)
        narrow = applications(HALF, dtype)[name]()
    assert exact.dtype == SINGLE and narrow.dtype == HALF
    assert (narrow.float() - exact).norm() < 0.02 * exact.norm()


def test_operators_take_tensors_without_data():
    assert sinkhorn(torch.empty(2, 4, 4, device="meta")).shape == (2, 4, 4)
    assert stream_mix(torch.empty(2, 4, 8, device="meta"),
                      torch.empty(4, 4, device="meta")).device.type == "meta"
