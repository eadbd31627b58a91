import pytest
import torch
from shared_kernels import check, normal

from geolab import kernels, operators
from geolab.kernels import gated


def inputs(lead, n, d, device):
    """x, u, v, β, k and γ."""
    x, u, v, beta, h, gate = (normal(*lead, *own, seed=seed, device=device) for seed, own in
                              enumerate([(n, d), (n,), (n,), (), (n,), ()]))
    return x, u, v, beta, operators.unit_direction(h), gate.sigmoid()


@pytest.mark.parametrize("n, d", [(2, 200), (4, 1100), (8, 24)])
def test_without_a_gate_it_is_the_rotation_and_compiles_in_one_graph(device, n, d):
    given = inputs((7,), n, d, device)[:4]
    check(gated.gated_mix, operators.gated_mix, *given)
    if n == 4:
        with kernels.use("always"):
            compiled = torch.compile(operators.gated_mix, fullgraph=True, backend="aot_eager",
                                     dynamic=True)
            check(compiled, operators.gated_mix, *given)


@pytest.mark.parametrize("gate", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("beta", [0.0, -1.5])
def test_gate_and_beta_may_be_numbers(device, gate, beta):
    x, u, v, _, k, _ = inputs((3, 7), 4, 20, device)
    check(lambda x, k: gated.gated_mix(x, u, v, beta, k, gate),
          lambda x, k: operators.gated_mix(x, u.double(), v.double(), beta, k, gate), x, k)
