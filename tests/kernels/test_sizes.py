"""Laws of sizes: any number of streams and features, halves, and addresses past two gigabytes."""

import pytest
import torch
from shared_kernels import distance, with_gradients
from test_every_kernel import given, require

from benchmarks.cases import CASES, draws
from geolab import kernels

HALVES = torch.bfloat16, torch.float16
# n and d: one of each, several tiles, and no power of two; joined kernels are in test_joined
STATES = [(1, 1), (2, 4100), (3, 130), (8, 24)]
SIZES = {**dict.fromkeys(("stream_read", "stream_write", "stream_mix", "stream_mix_write"),
                         STATES),
         "stream_read, normed": [(2, 1100), (3, 130), (8, 24)],
         "gated_mix": [(2, 200), (4, 1100), (5, 64), (8, 24), (4, 1)],
         "delta_update": [(4, 1100), (4, 20000)], "delta_update, d_v = 4": [(4, 4100)],
         "diagonal_update": [(4, 1), (4, 1100)],
         "rms_linear": [(1, 3), (2, 2), (3, 24), (4, 275), (8, 65)],
         **dict.fromkeys(("cayley_rank2", "sinkhorn", "sinkhorn, rows first"),
                         [(n, 0) for n in (2, 3, 5, 6, 7, 8)])}


@pytest.mark.parametrize("name, n, d", [(name, *size) for name in SIZES for size in SIZES[name]])
def test_a_kernel_serves_any_number_of_streams_and_features(device, name, n, d):
    # a sum over many features may be small compared with its terms
    require(name, *given(name, (7,), device, n=n, d=d), tolerance=1e-5)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", [name for name, sizes in SIZES.items() if STATES[2] in sizes])
def test_a_state_of_half_precision_is_summed_in_full(device, name, dtype):
    require(name, *given(name, (37,), device, dtype, d=530))


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", [name for name, case in CASES.items()
                                  if case.kind == "matrices" or name == "rms_linear"])
def test_numbers_of_a_token_are_float32_and_gradients_have_the_dtypes_of_the_inputs(
        device, name, dtype):
    inputs = given(name, (5,), device, dtype)
    with kernels.use("always"):
        y, *grads = with_gradients(CASES[name].function, inputs, 0)
    assert y.dtype == torch.float32 and [g.dtype for g in grads] == [x.dtype for x in inputs]


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "shared" in name
                                  or case.twin in ("rms_linear", "diagonal_update", "stream_join",
                                                   "constrained_join")])
def test_gradients_of_what_tokens_share_are_the_same_in_every_run(device, name):
    inputs = given(name, (150,), device, d=24)
    with kernels.use("always"):
        first, second = (with_gradients(CASES[name].function, inputs, 0) for _ in range(2))
    assert all(map(torch.equal, first, second))


@pytest.mark.gpu  # the interpreter would take hours
@pytest.mark.parametrize("device", ["cuda"], indirect=True)
@pytest.mark.parametrize("name", CASES)
def test_tokens_past_two_gigabytes_are_those_of_a_short_state(device, name):
    case, N = CASES[name], 1024
    state, number = draws(device, torch.bfloat16, seed=0)
    last = case.inputs(N, 4, 4096, state, number)
    own = [x.ndim > 0 and len(x) == N for x in last]
    times = 2**31 // last[0].nbytes + 2
    long = [x.repeat(times, *[1] * (x.ndim - 1)) if of_token else x
            for x, of_token in zip(last, own, strict=True)]
    found = []
    for inputs in (long, last):
        leaves = [x.detach().requires_grad_() for x in inputs]
        with kernels.use("always"):
            y = case.function(*leaves)
        y = y if isinstance(y, tuple) else (y,)
        grads = torch.autograd.grad(y, leaves, [t.detach() for t in y])
        found.append([*y, *(g for g, of_token in zip(grads, own, strict=True) if of_token)])
    for of_long, of_last in zip(*found, strict=True):
        # matrix units cut sums off, so two orders of a sum differ by more than rounding
        assert distance(of_long[-N:], of_last) < 1e-3
