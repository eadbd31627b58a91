import pytest
import torch
from shared_kernels import check, distance, normal, with_gradients

from geolab import kernels, operators
from geolab.kernels import gated

LEADS = {"one token": (1,), "a tail": (3, 37), "no token": (0,), "no batch axis": ()}
shapes = pytest.mark.parametrize("n, d", [(2, 200), (4, 1100), (5, 64), (8, 24), (4, 1)])


def inputs(lead, n, d, device, dtype=torch.float32, shares=None):
    """x, u, v, β, k and γ. All but x have the leading axes `shares`, or one row per token."""
    own = lead if shares is None else shares
    x, u, v, beta = (normal(*shape, seed=seed, device=device)
                     for seed, shape in enumerate([(*lead, n, d), (*own, n), (*own, n), own]))
    k = operators.unit_direction(normal(*own, n, seed=4, device=device))
    return x.to(dtype), u, v, beta, k, normal(*own, seed=5, device=device).sigmoid()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("lead", LEADS.values(), ids=LEADS)
def test_it_is_the_operator(device, lead, dtype):
    check(gated.gated_mix, operators.gated_mix, *inputs(lead, 4, 50, device, dtype))


@shapes
def test_any_number_of_streams_and_features(device, n, d):
    check(gated.gated_mix, operators.gated_mix, *inputs((7,), n, d, device))


@shapes
def test_without_a_gate_it_is_the_rotation(device, n, d):
    check(gated.gated_mix, operators.gated_mix, *inputs((7,), n, d, device)[:4])


def test_too_many_streams_for_registers_give_the_same(device):
    with kernels.use("always"):
        check(operators.gated_mix, operators.gated_mix,
              *inputs((2, 3), kernels.MOST_STREAMS + 1, 8, device))


@pytest.mark.parametrize("gate", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("beta", [0.0, -1.5])
def test_gate_and_beta_may_be_numbers(device, gate, beta):
    x, u, v, _, k, _ = inputs((3, 7), 4, 20, device)
    check(lambda x, k: gated.gated_mix(x, u, v, beta, k, gate),
          lambda x, k: operators.gated_mix(x, u.double(), v.double(), beta, k, gate), x, k)


@pytest.mark.parametrize("shares", [(3, 37), (3, 1), (1, 37), (1, 1), (37,), ()])
def test_tokens_may_share_coefficients(device, shares):
    check(gated.gated_mix, operators.gated_mix, *inputs((3, 37), 4, 20, device, shares=shares))


def test_one_direction_and_gate_for_many_planes(device):
    x, u, v, beta, k, gate = inputs((3, 7), 4, 20, device)
    check(gated.gated_mix, operators.gated_mix, x, u, v, beta, k[0, 0], gate[0, 0])
    check(gated.gated_mix, operators.gated_mix, x, u[0, 0], v[0, 0], beta[0, 0], k, gate[:, :1])


def test_strided_streams_are_read_as_they_are(device):
    x, *others = inputs((6, 6), 4, 48, device)
    swapped = [t.transpose(0, 1) for t in others]
    for strided in (x.transpose(0, 1), x.transpose(-1, -2).contiguous().transpose(-1, -2)):
        check(gated.gated_mix, operators.gated_mix, strided, *swapped)
    check(gated.gated_mix, operators.gated_mix, x[:, ::2], *(t[:, 3:] for t in others))


def test_without_a_gate_it_compiles_in_one_graph(device):
    with kernels.use("always"):
        compiled = torch.compile(operators.gated_mix, fullgraph=True, backend="aot_eager",
                                 dynamic=True)
        check(compiled, operators.gated_mix, *inputs((3, 37), 4, 20, device)[:4])


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_a_state_past_two_gigabytes(device):
    given = inputs((1000,), 4, 4096, device, torch.bfloat16)
    long = [t.repeat(70, *[1] * (t.ndim - 1)) for t in given]  # 2.3e9 bytes
    got, last = (with_gradients(gated.gated_mix, t, seed=5) for t in (long, given))
    assert distance(got[0][-1000:], last[0]) == 0
    assert all(gradient.isfinite().all() for gradient in got)
