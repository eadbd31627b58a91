import pytest
import torch

from geolab import kernels, operators
from geolab.kernels import streams
from shared_kernels import check, mutant, normal

LEADS = {"one token": (1,), "a tail": (3, 37), "no token": (0,), "no batch axis": ()}
NAMES = ("stream_read", "stream_mix", "stream_mix_write")


def inputs(name, lead, n, d, device, dtype=torch.float32, shares=None):
    """x, and what else the operator takes: coefficients of `shares`, or one a token."""
    own = lead if shares is None else shares
    x, update = normal(*lead, n, d, seed=1, dtype=dtype, device=device), normal(*lead, d, seed=2, dtype=dtype, device=device)
    weights, matrix = normal(*own, n, seed=3, device=device), normal(*own, n, n, seed=4, device=device)
    return {"stream_read": (x, weights), "stream_mix": (x, matrix), "stream_mix_write": (x, matrix, weights, update)}[name]


def compare(name, *given, module=streams):
    check(getattr(module, name), getattr(operators, name), *given)


@pytest.mark.parametrize("lead", LEADS.values(), ids=LEADS)
@pytest.mark.parametrize("name", NAMES)
def test_it_is_the_operator(device, name, lead):
    compare(name, *inputs(name, lead, 4, 50, device))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", NAMES)
def test_a_state_of_half_precision_is_summed_in_full(device, name, dtype):
    compare(name, *inputs(name, (3, 37), 4, 530, device, dtype))


@pytest.mark.parametrize("n, d", [(1, 1), (2, 4100), (3, 130), (8, 24)])
@pytest.mark.parametrize("name", NAMES)
def test_any_number_of_streams_and_features(device, name, n, d):
    compare(name, *inputs(name, (7,), n, d, device))


@pytest.mark.parametrize("name", NAMES)
def test_more_streams_than_registers_hold_are_no_different(device, name):
    compare(name, *inputs(name, (2, 3), streams.MOST + 1, 8, device))


@pytest.mark.parametrize("shares", [(3, 1), (1, 37), (37,), ()])
@pytest.mark.parametrize("name", NAMES)
def test_tokens_may_share_coefficients(device, name, shares):
    compare(name, *inputs(name, (3, 37), 4, 20, device, shares=shares))


def test_each_coefficient_is_shared_in_its_own_way(device):
    x, matrix, weights, update = inputs("stream_mix_write", (3, 5), 4, 20, device)
    compare("stream_mix_write", x, matrix[:, :1], weights, update)
    compare("stream_mix_write", x, matrix, weights[0, 0], update[:, :1])


@pytest.mark.parametrize("name", NAMES)
def test_strided_streams_are_read_as_they_are(device, name):
    x, *others = inputs(name, (6, 6), 4, 24, device)
    swapped = [t.transpose(0, 1) for t in others]
    for strided in (x.transpose(0, 1), x.transpose(-1, -2).contiguous().transpose(-1, -2)):
        compare(name, strided, *swapped)


MUTANTS = {
    "read: a gradient of zeros": ("stream_read", "(a[i] * gy).to", "(0 * gy).to"),
    "read: weights in the wrong order": ("stream_read", "a[i] * x[i].to", "a[n - i] * x[i].to"),
    "read: a tail that is skipped": ("stream_read", "inside = token < N\n    mask = inside[:, None] & (feature < d)[None, :]\n    x",
                                     "inside = token < N // TOKENS * TOKENS\n    mask = inside[:, None] & (feature < d)[None, :]\n    x"),
    "read: sums of the first tile": ("stream_read", "sums = added(sums, i, gy, x[i].to(tl.float32))",
                                     "sums = added(sums, i, gy, x[i].to(tl.float32) * (start == 0))"),
    "mix: transposed": ("stream_mix", "matrix[i * n + j] * x[j]", "matrix[j * n + i] * x[j]"),
    "mix: not transposed on the way back": ("stream_mix", "matrix[i * n + j] * gy[i]", "matrix[j * n + i] * gy[i]"),
    "mix: a matrix's gradient transposed": ("stream_mix", "added(sums, i * n + j,", "added(sums, j * n + i,"),
    "mix: a gradient of zeros": ("stream_mix", "gx.to(GX.dtype.element_ty)", "(0 * gx).to(GX.dtype.element_ty)"),
    "mix: streams' order swapped": ("stream_mix", "tl.store(Y + place + i * d", "tl.store(Y + place + (n - 1 - i) * d"),
    "mix: a tail that is skipped": ("stream_mix", "tl.store(Y + place + i * d, y.to(Y.dtype.element_ty), mask=mask)",
                                    "tl.store(Y + place + i * d, y.to(Y.dtype.element_ty), mask=mask & (token < N // 8 * 8)[:, None])"),
    "mix: a tail that is skipped on the way back": ("stream_mix", "gx.to(GX.dtype.element_ty), mask=mask)",
                                                    "gx.to(GX.dtype.element_ty), mask=mask & (token < N // 8 * 8)[:, None])"),
    "write: nothing is written": ("stream_mix_write", "y += b[i] * u", "y += 0 * u"),
    "write: a gradient by the update without the last stream": ("stream_mix_write", "for i in tl.static_range(1, n):\n                gu",
                                                                "for i in tl.static_range(1, n - 1):\n                gu"),
    "write: a gradient by the weights of zeros": ("stream_mix_write", "gy[i].to(tl.float32), u)", "0 * gy[i].to(tl.float32), u)"),
    "write: the gradients by matrix and weights mixed up": ("stream_mix_write", "sums[n * n:]", "sums[:n]"),
}


@pytest.mark.parametrize("name, old, new", MUTANTS.values(), ids=MUTANTS)
def test_a_wrong_kernel_is_caught(device, name, old, new, tmp_path):
    wrong = mutant(streams, old, new, tmp_path)
    with pytest.raises(AssertionError, match="relative error"):
        compare(name, *inputs(name, (3, 7), 4, 530, device), module=wrong)


def test_a_kernel_that_takes_the_wrong_sequence_is_caught(device, tmp_path):
    wrong = mutant(streams, "span, n, SHARED)\n    y = a[0]", "span + 1, n, SHARED)\n    y = a[0]", tmp_path)
    with pytest.raises(AssertionError, match="relative error"):
        compare("stream_read", *inputs("stream_read", (3, 37), 4, 20, device, shares=(3, 1)), module=wrong)


def test_no_token_shares_nothing(device):
    for name in NAMES:
        compare(name, *inputs(name, (2, 0), 4, 8, device, shares=(2, 1)))


def test_it_refuses_by_name(device):
    x, matrix, weights, update = inputs("stream_mix_write", (3,), 4, 8, device)
    calls = {"stream_read": lambda x, **bad: streams.stream_read(x, **{"weights": weights} | bad),
             "stream_mix": lambda x, **bad: streams.stream_mix(x, **{"matrix": matrix} | bad),
             "stream_mix_write": lambda x, **bad: streams.stream_mix_write(x, **dict(matrix=matrix, weights=weights, update=update) | bad)}
    for call in calls.values():
        with pytest.raises(TypeError, match="x must be float32, bfloat16 or float16, got torch.float64"):
            call(x.double())
    for name in ("stream_read", "stream_mix_write"):
        with pytest.raises(ValueError, match="weights must have 4 features"):
            calls[name](x, weights=weights[:, :3])
        with pytest.raises(ValueError, match="weights must be on the device of x"):
            calls[name](x, weights=weights.to("meta"))
    for name, wanted in (("stream_mix", "have 4 features"), ("stream_mix_write", "be 4 × 4")):
        with pytest.raises(ValueError, match=f"matrix must {wanted}"):
            calls[name](x, matrix=matrix[..., :3])
        with pytest.raises(ValueError, match="matrix must be on the device of x"):
            calls[name](x, matrix=matrix.to("meta"))
    with pytest.raises(ValueError, match="update must have 8 features"):
        calls["stream_mix_write"](x, update=update[:, :1])


@pytest.mark.parametrize("name", NAMES)
def test_operators_hand_over_to_it(device, name):
    given = inputs(name, (3, 37), 4, 50, device)
    with kernels.use("always"):
        assert torch.equal(getattr(operators, name)(*given), getattr(streams, name)(*given))


@pytest.mark.parametrize("name", NAMES)
def test_it_compiles_in_one_graph(device, name):
    with kernels.use("always"):
        compiled = torch.compile(getattr(operators, name), fullgraph=True, backend="aot_eager", dynamic=True)
        check(compiled, getattr(operators, name), *inputs(name, (3, 37), 4, 50, device))


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda"], indirect=True)
@pytest.mark.parametrize("name", NAMES)
def test_a_state_past_two_gigabytes(device, name):
    def both_ways(given):
        leaves = [t.requires_grad_() for t in given]
        y = getattr(streams, name)(*leaves)
        return [y, *torch.autograd.grad(y, leaves, y.detach())]

    last = inputs(name, (1000,), 4, 4096, device, torch.bfloat16)
    long = [t.repeat(70, *[1] * (t.ndim - 1)) for t in last]  # x has 2.3e9 bytes
    for of_long, of_last in zip(both_ways(long), both_ways(last), strict=True):
        assert torch.equal(of_long[-1000:], of_last)
