from unittest.mock import patch

import pytest
from shared_kernels import check, distance, normal, with_gradients

from geolab import kernels, operators
from geolab.kernels.birkhoff import sinkhorn

every_order = pytest.mark.parametrize("order", ["column-row", "row-column"])


def both(iterations, order):
    """The kernel and the operator, with these options."""
    return (lambda x: sinkhorn(x, iterations, order),
            lambda x: operators.sinkhorn(x, iterations, order))


@pytest.mark.parametrize("n, iterations", [(4, 1), (4, 2), (4, 26), (5, 17), (8, 8)])
@every_order
def test_any_number_of_iterations_with_the_history_in_registers_or_in_memory(device, n, iterations,
                                                                             order):
    check(*both(iterations, order), normal(37, n, n, seed=5, device=device))


def test_in_logarithms_there_is_no_kernel():
    with kernels.use("always"), patch.dict(kernels.TWINS, {"sinkhorn": None}):
        operators.sinkhorn(normal(3, 4, 4), 5, form="log")


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
