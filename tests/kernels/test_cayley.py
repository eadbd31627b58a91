import pytest
import torch
from shared_kernels import check, normal

from geolab import operators
from geolab.kernels import cayley

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def plane(lead, n, device, dtype=torch.float32):
    return [normal(*lead, *own, seed=seed, dtype=dtype, device=device)
            for seed, own in enumerate([(n,), (n,), ()])]


def large(n, device):
    """Large u, and v nearly parallel to u: here ‖u‖²‖v‖² − (u·v)² cancels."""
    u, w, beta = plane((200,), n, device)
    return 1000 * u, 1000 * u + w, 1e-3 * beta


def matrix(lead, device, dtype=torch.float32):
    return operators.skew(normal(*lead, 4, 4, seed=1, device=device)).to(dtype)


def defect(q):
    """The largest entry of QᵀQ − I."""
    identity = torch.eye(q.shape[-1], dtype=torch.float64, device=q.device)
    return (q.mT.double() @ q.double() - identity).abs().max().item()


@pytest.mark.parametrize("n", [2, 3, 5, 6, 7, 8])
def test_a_plane_in_any_space(device, n):
    check(cayley.cayley_rank2, operators.cayley_rank2, *plane((5, 7), n, device))


def test_one_beta_for_all(device):
    u, v, beta = plane((5, 7), 4, device)
    check(cayley.cayley_rank2, operators.cayley_rank2, u, v, beta[0, 0])
    check(lambda u, v: cayley.cayley_rank2(u, v, 0.7),
          lambda u, v: operators.cayley_rank2(u, v, 0.7), u, v)


@pytest.mark.parametrize("dtype", DTYPES)
def test_they_give_float32(device, dtype):
    assert cayley.cayley_rank2(*plane((3,), 4, device, dtype)).dtype == torch.float32
    assert cayley.cayley_skew4(matrix((3,), device, dtype)).dtype == torch.float32


# The bounds are about ten roundings.
@pytest.mark.parametrize("scale, bound", [(1e-6, 1.2e-6), (1.0, 1.2e-6), (1e3, 1.2e-6),
                                          (1e6, 1e-6)])
@pytest.mark.parametrize("n", [2, 3, 4, 8])
def test_rank2_is_orthogonal_at_any_magnitude(device, n, scale, bound):
    u, w, beta = plane((500,), n, device)
    u, beta = scale * u, scale * beta
    # v is far from parallel to u, exactly parallel, or nearly so
    for v in (scale * w, 3 * u, 3 * u + 1e-7 * scale * w, 3 * u + 1e-3 * scale * w):
        assert defect(cayley.cayley_rank2(u, v, beta)) < bound


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e3, 1e6])
def test_skew4_is_orthogonal_at_any_magnitude(device, scale):
    u, v, _ = plane((500,), 4, device)
    # one matrix of rank 4, and one of rank 2
    for w in (matrix((500,), device), operators.skew(u.unsqueeze(-1) * v.unsqueeze(-2))):
        assert defect(cayley.cayley_skew4(scale * w)) < 1e-6


@pytest.mark.parametrize("n", [3, 4, 8])
def test_rank2_of_large_nearly_parallel_vectors(device, n):
    # 13 bits are left in v − u
    check(cayley.cayley_rank2, operators.cayley_rank2, *large(n, device), tolerance=1e-3)


@pytest.mark.parametrize("still", ["u", "v", "both", "neither"])
def test_rank2_has_the_right_gradients_where_u_and_v_span_no_plane(device, still):
    # One vector or both vanish, or they are parallel. Then Q = I, and the gradients are those of
    # −2M.
    u, v, beta = plane((50,), 4, device)
    u, v = u * (still in ("v", "neither")), {"u": v, "neither": 2 * u}.get(still, 0 * v)
    leaves, wide = ([t.detach().to(dtype).requires_grad_() for t in (u, v, beta)]
                    for dtype in (torch.float32, torch.float64))
    got = cayley.cayley_rank2(*leaves)
    wanted = operators.skew(-wide[2][:, None, None] * wide[0].unsqueeze(-1) * wide[1].unsqueeze(-2))
    assert (got.double() - torch.eye(4, device=device)).abs().max() < 1e-6
    cotangent = normal(50, 4, 4, seed=9, device=device)
    for g, w in zip(torch.autograd.grad(got, leaves, cotangent),
                    torch.autograd.grad(wanted, wide, cotangent.double()), strict=True):
        assert (g - w).abs().max() < 1e-5


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_addresses_past_two_to_the_31(device):
    w = torch.zeros(2**26 + 1, 4, 4, device=device)  # the last matrix begins at byte 2**32
    w[-1] = matrix((), device)
    assert torch.equal(cayley.cayley_skew4(w)[-1], cayley.cayley_skew4(w[-1]))
    u, v, beta = plane((), 4, device)
    many = cayley.cayley_rank2(u.expand(2**26 + 1, 4), v.expand(2**26 + 1, 4), beta)
    assert torch.equal(many[-1], cayley.cayley_rank2(u, v, beta))
