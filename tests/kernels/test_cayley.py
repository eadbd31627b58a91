import pytest
import torch

from geolab import kernels, operators
from geolab.kernels import cayley
from shared_kernels import check, mutant, normal

LEADS = {"one": (1,), "a tail": (3, 37), "none": (0,), "no batch axis": ()}
DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def plane(lead, n, device, dtype=torch.float32):
    return [normal(*lead, *own, seed=seed, dtype=dtype, device=device) for seed, own in enumerate([(n,), (n,), ()])]


def large(n, device):
    """v nearly parallel to u: there ‖u‖²‖v‖² − (u·v)² cancels."""
    u, w, beta = plane((200,), n, device)
    return 1000 * u, 1000 * u + w, 1e-3 * beta


def matrix(lead, device, dtype=torch.float32):
    return operators.skew(normal(*lead, 4, 4, seed=1, device=device)).to(dtype)


def defect(q):
    return (q.mT.double() @ q.double() - torch.eye(q.shape[-1], dtype=torch.float64, device=q.device)).abs().max().item()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lead", LEADS.values(), ids=LEADS)
def test_they_are_the_operators(device, lead, dtype):
    check(cayley.cayley_rank2, operators.cayley_rank2, *plane(lead, 4, device, dtype))
    check(cayley.cayley_skew4, operators.cayley_skew4, matrix(lead, device, dtype))


@pytest.mark.parametrize("n", [2, 3, 5, 6, 7, 8])
def test_a_plane_in_any_space(device, n):
    check(cayley.cayley_rank2, operators.cayley_rank2, *plane((5, 7), n, device))


def test_spaces_larger_than_registers_hold_are_no_different(device):
    check(cayley.cayley_rank2, operators.cayley_rank2, *plane((5, 7), cayley.LARGEST + 1, device))


def test_one_beta_for_all(device):
    u, v, beta = plane((5, 7), 4, device)
    check(cayley.cayley_rank2, operators.cayley_rank2, u, v, beta[0, 0])
    check(lambda u, v: cayley.cayley_rank2(u, v, 0.7), lambda u, v: operators.cayley_rank2(u, v, 0.7), u, v)


def test_strided_arguments_are_read_as_they_are(device):
    u, v, beta = plane((6, 8), 4, device)
    check(cayley.cayley_rank2, operators.cayley_rank2, u.transpose(0, 1), v.transpose(0, 1), beta.T)
    check(cayley.cayley_rank2, operators.cayley_rank2, u[:, ::2], v[:, 4:], beta[:, :1].expand(6, 4))
    check(cayley.cayley_skew4, operators.cayley_skew4, matrix((6, 8), device).transpose(0, 1).mT)


@pytest.mark.parametrize("dtype", DTYPES)
def test_they_give_float32(device, dtype):
    assert cayley.cayley_rank2(*plane((3,), 4, device, dtype)).dtype == cayley.cayley_skew4(matrix((3,), device, dtype)).dtype == torch.float32


@pytest.mark.parametrize("scale, bound", [(1e-6, 1.2e-6), (1.0, 1.2e-6), (1e3, 1.2e-6), (1e6, 1e-6)])  # ten roundings
@pytest.mark.parametrize("n", [2, 3, 4, 8])
def test_rank2_is_orthogonal_at_any_magnitude(device, n, scale, bound):
    u, w, beta = plane((500,), n, device)
    u, beta = scale * u, scale * beta
    for v in (scale * w, 3 * u, 3 * u + 1e-7 * scale * w, 3 * u + 1e-3 * scale * w):  # from far to nearly parallel
        assert defect(cayley.cayley_rank2(u, v, beta)) < bound


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e3, 1e6])
def test_skew4_is_orthogonal_at_any_magnitude(device, scale):
    u, v, _ = plane((500,), 4, device)
    for w in (matrix((500,), device), operators.skew(u.unsqueeze(-1) * v.unsqueeze(-2))):  # of rank 4 and 2
        assert defect(cayley.cayley_skew4(scale * w)) < 1e-6


@pytest.mark.parametrize("n", [3, 4, 8])
def test_rank2_of_large_nearly_parallel_vectors(device, n):
    check(cayley.cayley_rank2, operators.cayley_rank2, *large(n, device), tolerance=1e-3)  # v − u has 13 bits left


@pytest.mark.parametrize("still", ["u", "v", "both", "neither"])
def test_rank2_has_the_gradients_of_a_plane_that_is_none(device, still):
    # one vector or both vanish, or they are parallel: Q = I, and the gradients are those of −2M
    u, v, beta = plane((50,), 4, device)
    u, v = u * (still in ("v", "neither")), {"u": v, "neither": 2 * u}.get(still, 0 * v)
    leaves, wide = ([t.detach().to(dtype).requires_grad_() for t in (u, v, beta)] for dtype in (torch.float32, torch.float64))
    got, wanted = cayley.cayley_rank2(*leaves), operators.skew(-wide[2][:, None, None] * wide[0].unsqueeze(-1) * wide[1].unsqueeze(-2))
    assert (got.double() - torch.eye(4, device=device)).abs().max() < 1e-6
    cotangent = normal(50, 4, 4, seed=9, device=device)
    for g, w in zip(torch.autograd.grad(got, leaves, cotangent), torch.autograd.grad(wanted, wide, cotangent.double())):
        assert (g - w).abs().max() < 1e-5


MUTANTS = {
    "rank2: transposed on the way back": ("rank2", "plane_vjp(S, e1, e2, r, h, c, beta, cosine, sine, n)",
                                          "plane_vjp(S, e1, e2, r, h, c, -beta, cosine, -sine, n)"),
    "rank2: a gradient of zeros": ("rank2", "store_row(GU, row, inside, grad_u)", "store_row(GU, row, inside, scaled(grad_u, 0.0))"),
    "rank2: u and v swapped": ("rank2", "e1[i] * f[j] - e2[i] * g[j]", "e2[i] * g[j] - f[i] * e1[j]"),
    "rank2: a tail that is skipped": ("rank2", "inside = row < N\n    e1", "inside = row < N // MATRICES * MATRICES\n    e1"),
    "rank2: what u takes from v's change is left out": ("rank2", "scaled(plus(scaled(b, h), a, -c), rho)", "scaled(b, h * rho)"),
    "skew4: the Pfaffian's sign": ("skew4", "+ w03 * w12", "- w03 * w12"),
    "skew4: the Pfaffian left out on the way back": ("skew4", "pull = (q[0] - p[0]) / 2", "pull = (q[0] - p[0]) * 0"),
    "skew4: a gradient that isn't skew": ("skew4", "zero, g01,", "zero, -g01,"),
    "skew4: a tail that is skipped": ("skew4", "inside = row < N\n    left, right, over", "inside = row < N // MATRICES * MATRICES\n    left, right, over"),
}


@pytest.mark.parametrize("name, old, new", MUTANTS.values(), ids=MUTANTS)
def test_a_wrong_kernel_is_caught(device, name, old, new, tmp_path):
    wrong = mutant(cayley, old, new, tmp_path)
    with pytest.raises(AssertionError, match="relative error"):
        if name == "rank2":
            check(wrong.cayley_rank2, operators.cayley_rank2, *plane((3, 37), 4, device))
        else:
            check(wrong.cayley_skew4, operators.cayley_skew4, matrix((3, 37), device))


def test_the_angle_by_a_difference_is_caught(device, tmp_path):
    wrong = mutant(cayley, "r, h, along + rest", "r, tl.sqrt_rn(tl.maximum(dot(v, v) - dot(u, v) * dot(u, v) / dot(u, u), 0.0)), along + rest", tmp_path)
    check(wrong.cayley_rank2, operators.cayley_rank2, *plane((200,), 4, device), tolerance=1e-4)  # right where nothing cancels
    with pytest.raises(AssertionError, match="relative error"):
        check(wrong.cayley_rank2, operators.cayley_rank2, *large(4, device), tolerance=1e-3)


def test_they_refuse_by_name(device):
    u, v, beta = plane((3,), 4, device)
    with pytest.raises(ValueError, match=r"u and v must have the same shape, got \(3, 4\) and \(3, 3\)"):
        cayley.cayley_rank2(u, v[:, :3], beta)
    with pytest.raises(ValueError, match=r"beta must be one number a pair, got \(2,\) with pairs \(3,\)"):
        cayley.cayley_rank2(u, v, beta[:2])
    with pytest.raises(TypeError, match="u must be float32, bfloat16 or float16, got torch.float64"):
        cayley.cayley_rank2(u.double(), v, beta)
    with pytest.raises(ValueError, match="v must be on the device of u"):
        cayley.cayley_rank2(u, v.to("meta"), beta)
    with pytest.raises(ValueError, match="w must be 4 × 4"):
        cayley.cayley_skew4(torch.zeros(3, 3, device=device))
    with pytest.raises(TypeError, match="w must be float32, bfloat16 or float16, got torch.float64"):
        cayley.cayley_skew4(matrix((3,), device).double())


def test_operators_hand_over_to_them(device):
    given, w = plane((3, 37), 4, device), matrix((3, 37), device)
    with kernels.use("always"):
        assert torch.equal(operators.cayley_rank2(*given), cayley.cayley_rank2(*given))
        assert torch.equal(operators.cayley_skew4(w), cayley.cayley_skew4(w))


def test_they_compile_in_one_graph(device):
    with kernels.use("always"):
        compiled = [torch.compile(f, fullgraph=True, backend="aot_eager", dynamic=True) for f in (operators.cayley_rank2, operators.cayley_skew4)]
        check(compiled[0], operators.cayley_rank2, *plane((3, 37), 4, device))
        check(compiled[1], operators.cayley_skew4, matrix((3, 37), device))


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_addresses_past_two_to_the_31(device):
    w = torch.zeros(2**26 + 1, 4, 4, device=device)  # the last matrix begins at byte 2**32
    w[-1] = matrix((), device)
    assert torch.equal(cayley.cayley_skew4(w)[-1], cayley.cayley_skew4(w[-1]))
    u, v, beta = plane((), 4, device)
    assert torch.equal(cayley.cayley_rank2(u.expand(2**26 + 1, 4), v.expand(2**26 + 1, 4), beta)[-1], cayley.cayley_rank2(u, v, beta))
