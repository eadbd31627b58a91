import pytest
import torch
from shared_kernels import check, distance, normal, with_gradients

from geolab import kernels, operators
from geolab.kernels.birkhoff import sinkhorn

ORDERS = ("column-row", "row-column")
every_order = pytest.mark.parametrize("order", ORDERS)


def both(iterations, order="column-row", kernel=sinkhorn):
    """The kernel and the operator, with these options."""
    return (lambda x: kernel(x, iterations, order),
            lambda x: operators.sinkhorn(x, iterations, order))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_logits_give_a_float32_matrix_and_gradients_of_their_own_dtype(device,
                                                                                      dtype):
    logits = normal(37, 4, 4, seed=1, dtype=dtype, device=device)
    check(*both(3), logits)
    p, grad = with_gradients(sinkhorn, [logits], 0)
    assert p.dtype == torch.float32 and grad.dtype == dtype


@pytest.mark.parametrize("n", (1, 2, 3, 5, 6, 7, 8))
@every_order
def test_it_serves_up_to_eight_rows(device, n, order):
    check(*both(3, order), normal(37, n, n, seed=n, device=device))


@pytest.mark.parametrize("n, iterations", [(4, 1), (4, 2), (4, 5), (4, 6), (4, 20),
                                           (4, 67), (5, 17), (8, 20), (8, 27)])
@every_order
def test_any_number_of_iterations_with_the_history_in_registers_or_in_memory(device, n, iterations,
                                                                             order):
    check(*both(iterations, order), normal(37, n, n, seed=5, device=device))


@pytest.mark.parametrize("logits, options", [(normal(3, 9, 9), {}),
                                             (normal(3, 4, 4), {"form": "log"})],
                         ids=["nine rows", "in logarithms"])
@every_order
def test_what_it_does_not_serve_goes_to_the_operator(device, logits, options, order):
    logits = logits.to(device)
    with kernels.use("never"):
        wanted = operators.sinkhorn(logits, 5, order, **options)
    with kernels.use("always"):
        assert torch.equal(operators.sinkhorn(logits, 5, order, **options), wanted)


@every_order
def test_logits_of_any_size(device, order):
    logits = (3e3 * normal(111, 4, 4, seed=1, device=device)).clamp(-1e4, 1e4)
    # Some matrices have ties, and rows or columns in which all logits are small.
    logits[:50] = 1e4 * logits[:50].sign()
    kernel, operator = both(20, order)
    got = with_gradients(kernel, [logits], seed=3)
    with kernels.use("never"):
        narrow = with_gradients(operator, [logits], seed=3)
        wanted = with_gradients(operator, [logits.double()], seed=3, like=got)
    # Near a vertex float32 loses digits, in the operator as well.
    for ours, theirs, exact in zip(got, narrow, wanted, strict=True):
        assert ours.isfinite().all()
        assert distance(ours, exact) < 1.2 * distance(theirs, exact) + 2e-6
    assert distance(got[0], wanted[0]) < 1e-4 and wanted[1].norm() > 0.1


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_addresses_past_two_to_the_31(device):
    logits = torch.zeros(2**26 + 1, 4, 4, device=device)  # the last matrix begins at byte 2**32
    logits[-1] = normal(4, 4, seed=1)
    check(*both(20), logits[-1:])
    assert torch.equal(sinkhorn(logits)[-1], sinkhorn(logits[-1]))
