"""Each kernel reads its inputs once and writes its outputs once, as the interpreter counts address
by address.
"""

import pytest
import torch

from benchmarks.cases import CASES, draws
from benchmarks.timing import cotangents_of
from benchmarks.traffic import traffic
from geolab import kernels
from geolab.kernels import launch

# Float32 numbers per token beyond the floor, of each pass: what the forward pass writes for the
# backward pass. rms_linear's backward pass also reads its 24 outputs, and writes and reads their
# gradient in another form, with one more number. Coefficients that tokens share have a gradient per
# token, which PyTorch adds up.
KEPT = {"delta_layer, d_v = 4": (3 * 5, 5 * 5),  # v and β are written and read, too
        "delta_update": (1 + 1,) * 2, "delta_update, d_v = 4": (4 + 1,) * 2,
        "rms_linear": (1, 1 + 3 * 24 + 2),
        "stream_mix_write, shared": (0, 4 + 16),
        "stream_join": (1 + 4, 3 * 24 + 4 + 2 * 4),
        "constrained_join": (1 + 4 + 2 * 24, 3 * 24 + 3 + 3 * 4),
        "constrained_join, H = I": (1 + 4 + 2 * 8, 3 * 8 + 3 + 3 * 4),
        "constrained_join, guarded": (1 + 4 + 2 * 24, 3 * 24 + 3 + 3 * 4),
        "constrained_join, corners": (1 + 4 + 2 * 12, 3 * 12 + 3 + 3 * 4),
        "constrained_join, single pass": (1 + 2 * 24, 3 * 24 + 3)}
# Vectors per token beyond the floor: the coefficients stand between two phases, and the second one
# of the forward pass reads Z again. The backward pass also reads Z and ∂u for ∂a, and with a norm
# it writes ∂u first.
JOINED = ("stream_join", "constrained_join", "constrained_join, H = I", "constrained_join, guarded",
          "constrained_join, single pass", "constrained_join, corners")
AGAIN = dict.fromkeys(JOINED, (4, 4 + 1))
LAUNCHES = {"rms_linear": (2, 2), "delta_layer, d_v = 4": (2, 3)} | dict.fromkeys(JOINED, (3, 3))
# Bytes of a pass: the programs' partial sums, and α; W, padded to 16 or 32 outputs, written and
# read; with a guard the divisors of 19 rounds, for all matrices of a program
PARTS = {"diagonal_update": (8, 8), "delta_layer, d_v = 4": (0, 8 * 5 * 97),
         "rms_linear": (8 * 32 * 4 * 96, 0),
         "stream_join": (8 * 32 * 4 * 96, 0),
         "constrained_join": (8 * 32 * 4 * 96 + 4 * 27, 8 * 27),  # with s and the bias
         "constrained_join, single pass": (8 * 32 * 4 * 96 + 4 * 27, 8 * 27),
         "constrained_join, H = I": (8 * 16 * 4 * 96 + 4 * 10, 8 * 10),
         "constrained_join, corners": (8 * 16 * 4 * 96 + 4 * (15 + 64), 8 * 15 + 4 * 64),
         "constrained_join, guarded": (8 * 32 * 4 * 96 + 4 * 27, 8 * (27 + 19 * 8 * 1024))}

for joined in [name for name in JOINED if name.startswith("constrained_join")]:
    LAUNCHES[f"{joined}, normed"], PARTS[f"{joined}, normed"] = LAUNCHES[joined], PARTS[joined]
    there, back = KEPT[joined]
    KEPT[f"{joined}, normed"] = (there, back + 4)  # a is read once more
    AGAIN[f"{joined}, normed"] = (4, 4 + 1 + 1)
# each stream has a sum and a deviation. W and its gradient, which are written and read, have a row
# per stream and logit, and forward a row per stream's sum
LAUNCHES["hyper_join"] = (4, 4)
KEPT["hyper_join"] = (4 + 3 * 28 + 3 * 4, 3 * 28 + 3 * 4 + 4 * 4)
AGAIN["hyper_join"] = AGAIN["constrained_join, normed"]
PARTS["hyper_join"] = (8 * 32 * 4 * 96 + 8 * 28 * 4 * 96 + 4 * 26, 12 * 28 * 4 * 96 + 8 * 26)
# backward also reads Z and ∂u for ∂a, and with a norm it reads a once more and writes ∂u first
for name, vectors in (("stream_write_read", 4 + 1), ("stream_write_read, normed", 4 + 1 + 1)):
    LAUNCHES[name], KEPT[name], AGAIN[name] = (1, 2), (0, 4), (0, vectors)
# forward writes the logarithm of each token's sum, and backward reads it, and u
for attended in ("attend", "attend_on"):
    KEPT[attended], AGAIN[attended] = (1, 1), (0, 1)
# forward writes and reads the normed streams, and each backward kernel reads the logits and ∂u
LAUNCHES["gated_read"], AGAIN["gated_read"] = (2, 2), (4, 2 * 4 + 1)
# vectors that more programs than one ask for: the programs of a token's streams, for ∂u
SHARED = {"gated_read": (0, 3)}
# the same with a sum and a deviation of the token, 48 logits, and the norm's weights multiplied
# into W by PyTorch
LAUNCHES["jpmhc_join"] = (4, 4)
KEPT["jpmhc_join"] = (4 + 3 * 49 + 3, 3 * 49 + 3 + 4 * 4)
AGAIN["jpmhc_join"] = AGAIN["hyper_join"]
PARTS["jpmhc_join"] = (8 * (64 + 49) * 4 * 96, 12 * 49 * 4 * 96)
for counted in (LAUNCHES, KEPT, AGAIN, PARTS):
    counted["jpmhc_join, exact"] = counted["jpmhc_join"]

interpreted = pytest.mark.skipif(not launch.INTERPRETED,
                                 reason="only Triton's interpreter counts addresses")


@interpreted
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", CASES)
def test_a_pass_is_one_launch_at_its_floor_but_for_few_numbers(name, dtype):
    case, N, n, d = CASES[name], 40, 4, 96
    state, number = draws("cpu", dtype, seed=0)
    inputs = [x.requires_grad_() for x in case.inputs(N, n, d, state, number)]
    with kernels.use("always"):
        with traffic() as there:
            y = case.function(*inputs)
        y = y if isinstance(y, tuple) else (y,)
        with traffic() as back:
            torch.autograd.grad(y, inputs, cotangents_of(y))
    floors = case.floor(N, n, d, dtype.itemsize)
    for moved, floor, launches, kept, again, parts, shared in zip(
            (there, back), floors, LAUNCHES.get(name, (1, 1)), KEPT.get(name, (0, 0)),
            AGAIN.get(name, (0, 0)), PARTS.get(name, (0, 0)), SHARED.get(name, (0, 0)),
            strict=True):
        assert moved.launches == launches
        floor += again * dtype.itemsize * N * d
        assert floor <= moved.distinct <= floor + 4 * N * kept + parts
        assert moved.asked <= 1.05 * moved.distinct + shared * dtype.itemsize * N * d


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
