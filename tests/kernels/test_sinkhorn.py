import pytest
import torch

from geolab import kernels, operators
from geolab.kernels import sinkhorn as module
from geolab.kernels.sinkhorn import sinkhorn
from shared_kernels import check, distance, mutant, normal, with_gradients

ORDERS = ("column-row", "row-column")
LEADS = {"one matrix": (1,), "a tail": (3, 37), "no matrix": (0,), "no batch axis": ()}
every_order = pytest.mark.parametrize("order", ORDERS)


def both(iterations, order="column-row", kernel=sinkhorn):
    """The kernel and the operator, at these options."""
    return (lambda x: kernel(x, iterations, order)), (lambda x: operators.sinkhorn(x, iterations, order))


@pytest.mark.parametrize("lead", LEADS.values(), ids=LEADS)
@every_order
def test_it_is_the_operator(device, lead, order):
    check(*both(20, order), 2 * normal(*lead, 4, 4, seed=1, device=device))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_logits_give_a_float32_matrix_and_gradients_of_their_own_dtype(device, dtype):
    logits = normal(37, 4, 4, seed=1, dtype=dtype, device=device)
    check(*both(3), logits)
    p, grad = with_gradients(sinkhorn, [logits], 0)
    assert p.dtype == torch.float32 and grad.dtype == dtype


@pytest.mark.parametrize("n", (1, 2, 3, 5, 6, 7, 8))
@every_order
def test_it_serves_up_to_eight_rows(device, n, order):
    check(*both(3, order), normal(37, n, n, seed=n, device=device))


@pytest.mark.parametrize("n, iterations", [(4, 1), (4, 2), (4, 26), (5, 17), (8, 8)])
@every_order
def test_any_number_of_iterations_with_the_history_in_registers_or_in_memory(device, n, iterations, order):
    check(*both(iterations, order), normal(37, n, n, seed=5, device=device))


@pytest.mark.parametrize("logits, options", [(normal(3, 9, 9), {}), (normal(3, 4, 4), {"form": "log"})], ids=["nine rows", "in logarithms"])
@every_order
def test_the_rest_goes_to_the_operator(device, logits, options, order):
    logits = logits.to(device)
    with kernels.use("never"):
        wanted = operators.sinkhorn(logits, 5, order, **options)
    assert torch.equal(sinkhorn(logits, 5, order, **options), wanted)
    with kernels.use("always"):
        assert torch.equal(operators.sinkhorn(logits, 5, order, **options), wanted)


@every_order
def test_logits_of_any_size(device, order):
    logits = (3e3 * normal(111, 4, 4, seed=1, device=device)).clamp(-1e4, 1e4)
    logits[:50] = 1e4 * logits[:50].sign()  # some matrices have ties, and a row or a column that is all small
    kernel, operator = both(20, order)
    got = with_gradients(kernel, [logits], seed=3)
    with kernels.use("never"):
        narrow = with_gradients(operator, [logits], seed=3)
        wanted = with_gradients(operator, [logits.double()], seed=3, like=got)
    for ours, theirs, exact in zip(got, narrow, wanted):  # near a vertex float32 loses digits, in the operator as well
        assert ours.isfinite().all() and distance(ours, exact) < 1.2 * distance(theirs, exact) + 2e-6
    assert distance(got[0], wanted[0]) < 1e-4 and wanted[1].norm() > 0.1


def test_strided_logits_are_read_as_they_are(device):
    numbers = normal(6, 7, 24, seed=1, device=device)
    sliced = numbers[..., 8:].unflatten(-1, (4, 4))
    for logits in (sliced, sliced.mT, sliced.transpose(0, 1), sliced[:, ::2], sliced[0].expand(3, 7, 4, 4)):
        check(*both(3), logits)


# ---------------------------------------------------------------- a wrong kernel is caught

MUTANTS = {
    "a gradient of zeros": ("_store(GX, _first_back(k, sums, grad_k, n), matrix, N, FLIP, n, POWER)\n\n\n@triton.jit(do_not_specialize=[\"N\", \"steps\"])",
                            "_store(GX, _first_back(_zeros(k), sums, grad_k, n), matrix, N, FLIP, n, POWER)\n\n\n@triton.jit\ndef _zeros(k):\n"
                            "    return (0 * k[0], 0 * k[1], 0 * k[2], 0 * k[3])\n\n\n@triton.jit(do_not_specialize=[\"N\", \"steps\"])"),
    "the other order": ('order == "row-column").view', 'order != "row-column").view'),
    "the maximum of another axis": ("top = tl.maximum(top, x[i])", "top = tl.maximum(top, tl.max(x[i], axis=1, keep_dims=True))"),
    "one f for all steps of the backward": ("_step_back(k, fs[STEPS - 1 - t], fs[STEPS - t],", "_step_back(k, fs[STEPS], fs[STEPS],"),
    "an iteration fewer": ("    for _ in range(steps):", "    for _ in range(steps - 1):"),
    "an iteration fewer on the way back": ("for t in tl.static_range(STEPS):\n            grad_k", "for t in tl.static_range(STEPS - 1):\n            grad_k"),
    "no way back through the first iteration's columns": ("k[i] * sums[i] * down,)", "0 * down,)"),
    "a tail that is skipped": ("x[i], mask=(matrix < N)", "x[i], mask=(matrix < N - N % 4)"),
}


@pytest.mark.parametrize("old, new", MUTANTS.values(), ids=MUTANTS)
def test_a_wrong_kernel_is_caught(device, old, new, tmp_path):
    wrong = mutant(module, old, new, tmp_path)
    logits = 2 * normal(3, 37, 4, 4, seed=1, device=device)
    logits[0, 0, :, 0] = -200  # smaller than exp can hold beside the row's largest, not beside the column's
    with pytest.raises(AssertionError, match="relative error"):
        check(*both(4, kernel=wrong.sinkhorn), logits)


def test_a_cotangent_of_ones_would_let_a_gradient_of_zeros_pass(device, tmp_path):
    # P's rows sum to one whatever the logits: the true gradient of the sum of P is nothing but rounding
    wrong = mutant(module, *MUTANTS["a gradient of zeros"], tmp_path)
    leaf = normal(111, 4, 4, seed=1, device=device).requires_grad_()
    zeros, = torch.autograd.grad(wrong.sinkhorn(leaf).sum(), leaf)
    right, = torch.autograd.grad(sinkhorn(leaf).sum(), leaf)
    assert zeros.abs().max() == 0
    assert torch.allclose(zeros, right, rtol=0, atol=1e-6)  # as weak a test passes it; that above does not


# ---------------------------------------------------------------- its place

def test_it_refuses_by_name(device):
    logits = normal(3, 4, 4, device=device)
    for bad, options, message in [(logits[:, :3], {}, "logits must be n × n"), (logits, {"iterations": 0}, "iterations must be at least 1, got 0"),
                                  (logits, {"order": "row"}, "order must be one of"), (logits, {"form": "exp"}, "form must be one of")]:
        with pytest.raises(ValueError, match=message):
            sinkhorn(bad, **options)
    with pytest.raises(TypeError, match="logits must be float32, bfloat16 or float16, got torch.float64"):
        sinkhorn(logits.double())
    with pytest.raises(ValueError, match="logits must be on a CUDA device|at least 1"):
        sinkhorn(logits.to("meta"), 0)


def test_operators_hand_over_to_it(device):
    logits = normal(3, 37, 4, 4, seed=1, device=device)
    with kernels.use("always"):
        assert torch.equal(operators.sinkhorn(logits, 5, order="row-column"), sinkhorn(logits, 5, "row-column"))


@pytest.mark.parametrize("n", [4, 9])
def test_it_compiles_in_one_graph(device, n):
    with kernels.use("always"):
        kernel, operator = both(5, kernel=operators.sinkhorn)
        check(torch.compile(kernel, fullgraph=True, backend="aot_eager", dynamic=True), operator, normal(3, 37, n, n, seed=1, device=device))


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_addresses_past_two_to_the_31(device):
    logits = torch.zeros(2**26 + 1, 4, 4, device=device)  # the last matrix begins at byte 2**32
    logits[-1] = normal(4, 4, seed=1)
    check(*both(20), logits[-1:])
    assert torch.equal(sinkhorn(logits)[-1], sinkhorn(logits[-1]))
