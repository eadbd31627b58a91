import pytest
import torch
from shared_kernels import check, normal

from geolab import operators
from geolab.kernels import cayley


def plane(lead, n, device):
    return [normal(*lead, *own, seed=seed, device=device)
            for seed, own in enumerate([(n,), (n,), ()])]


def defect(q):
    """The largest entry of QᵀQ − I."""
    identity = torch.eye(q.shape[-1], dtype=torch.float64, device=q.device)
    return (q.mT.double() @ q.double() - identity).abs().max().item()


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e3, 1e6])
def test_a_rotation_is_orthogonal_at_any_magnitude(device, scale):
    for n in (2, 3, 4, 8):
        u, w, beta = plane((500,), n, device)
        # v is far from parallel to u, exactly parallel, or nearly so
        for v in (w, 3 * u, 3 * u + 1e-7 * w, 3 * u + 1e-3 * w):
            assert defect(cayley.cayley_rank2(scale * u, scale * v, scale * beta)) < 1.2e-6
    u, v, _ = plane((500,), 4, device)
    # one matrix of rank 4, and one of rank 2
    for w in (normal(500, 4, 4, device=device), u.unsqueeze(-1) * v.unsqueeze(-2)):
        assert defect(cayley.cayley_skew4(scale * operators.skew(w))) < 1e-6


@pytest.mark.parametrize("n", [3, 4, 8])
def test_rank2_of_large_nearly_parallel_vectors(device, n):
    # ‖u‖²‖v‖² − (u·v)² cancels, and 13 bits are left in v − u
    u, w, beta = plane((200,), n, device)
    check(cayley.cayley_rank2, operators.cayley_rank2, 1000 * u, 1000 * u + w, 1e-3 * beta,
          tolerance=1e-3)


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
