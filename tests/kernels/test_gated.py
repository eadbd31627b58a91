import pytest
import torch
from shared_kernels import check, distance, normal, with_gradients

from geolab import kernels, operators
from geolab.kernels import gated

shapes = pytest.mark.parametrize("n, d", [(2, 200), (4, 1100), (5, 64), (8, 24), (4, 1)])


def inputs(lead, n, d, device, dtype=torch.float32):
    """x, u, v, β, k and γ."""
    x, u, v, beta, h, gate = (normal(*lead, *own, seed=seed, device=device) for seed, own in
                              enumerate([(n, d), (n,), (n,), (), (n,), ()]))
    return x.to(dtype), u, v, beta, operators.unit_direction(h), gate.sigmoid()


@shapes
def test_any_number_of_streams_and_features(device, n, d):
    check(gated.gated_mix, operators.gated_mix, *inputs((7,), n, d, device))


@shapes
def test_without_a_gate_it_is_the_rotation(device, n, d):
    check(gated.gated_mix, operators.gated_mix, *inputs((7,), n, d, device)[:4])


@pytest.mark.parametrize("gate", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("beta", [0.0, -1.5])
def test_gate_and_beta_may_be_numbers(device, gate, beta):
    x, u, v, _, k, _ = inputs((3, 7), 4, 20, device)
    check(lambda x, k: gated.gated_mix(x, u, v, beta, k, gate),
          lambda x, k: operators.gated_mix(x, u.double(), v.double(), beta, k, gate), x, k)


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
