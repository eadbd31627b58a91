import pytest
import torch

from geolab import kernels, operators
from geolab.kernels import streams
from shared_kernels import check, mutant, normal

LEADS = {"one token": (1,), "a tail": (3, 37), "no token": (0,), "no batch axis": ()}


def reading(lead, n, d, device, dtype=torch.float32, shares=None):
    x = normal(*lead, n, d, seed=1, dtype=dtype, device=device)
    return x, normal(*(lead if shares is None else shares), n, seed=2, device=device)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("lead", LEADS.values(), ids=LEADS)
def test_read_is_the_operator(device, lead, dtype):
    check(streams.stream_read, operators.stream_read, *reading(lead, 4, 50, device, dtype))


@pytest.mark.parametrize("shares", [(3, 37), (3, 1), (1, 37), (1, 1), (37,), ()])
@pytest.mark.parametrize("n, d", [(1, 1), (2, 200), (4, 1100), (5, 64)])
def test_tokens_may_share_what_they_are_read_with(device, shares, n, d):
    check(streams.stream_read, operators.stream_read, *reading((3, 37), n, d, device, shares=shares))


def test_strided_streams_are_read_as_they_are(device):
    x, a = reading((6, 7), 4, 48, device)
    for strided in (x.transpose(0, 1), x[:, ::2], x.transpose(-1, -2).contiguous().transpose(-1, -2)):
        check(streams.stream_read, operators.stream_read, strided, a.expand(6, 7, 4)[0, 0])


MUTANTS = {
    "a gradient of zeros": ("(a[i][:, None] * gy).to", "(0 * gy).to"),
    "weights in the wrong order": ("tl.load(A + token // span * n + i, mask=inside, other=0.0)\n        y", "tl.load(A + token // span * n + (n - 1 - i), mask=inside, other=0.0)\n        y"),
    "a tail that is skipped": ("inside = token < N\n    mask", "inside = token < N // TOKENS * TOKENS\n    mask"),
    "features past the first tile are skipped": ("for start in range(0, d, FEATURES)", "for start in range(0, FEATURES, FEATURES)"),
}


@pytest.mark.parametrize("old, new", MUTANTS.values(), ids=MUTANTS)
def test_a_wrong_kernel_is_caught(device, old, new, tmp_path):
    wrong = mutant(streams, old, new, tmp_path)
    with pytest.raises(AssertionError, match="relative error"):
        check(wrong.stream_read, operators.stream_read, *reading((3, 37), 4, 1100, device))


def test_it_refuses_by_name(device):
    x, a = reading((3,), 4, 8, device)
    with pytest.raises(ValueError, match="weights must have 4 features"):
        streams.stream_read(x, a[:, :3])
    with pytest.raises(TypeError, match="x must be float32, bfloat16 or float16, got torch.float64"):
        streams.stream_read(x.double(), a)
    with pytest.raises(ValueError, match="weights must be on the device of x"):
        streams.stream_read(x, a.to("meta"))


def test_operators_hand_over_to_it(device):
    x, a = reading((3, 37), 4, 50, device)
    with kernels.use("always"):
        assert torch.equal(operators.stream_read(x, a), streams.stream_read(x, a))


def test_it_compiles_in_one_graph(device):
    x, a = reading((3, 37), 4, 50, device)
    with kernels.use("always"):
        compiled = torch.compile(operators.stream_read, fullgraph=True, backend="aot_eager", dynamic=True)
        check(compiled, operators.stream_read, x, a)
