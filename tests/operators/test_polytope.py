"""Ways to doubly stochastic matrices: each is exact, starts near the identity, reaches what it
says, and not what it says it doesn't.
"""

from itertools import permutations

import pytest
import torch
from shared import normal
from torch.autograd.functional import jacobian
from torch.testing import assert_close

from geolab.operators import circulant_mixture, kronecker_mixture, orthostochastic, sinkhorn
from geolab.operators import permutation_mixture as permuted
from geolab.residuals.mixing import mixes

EXACT = dict(rtol=0, atol=1e-14)
# for 4 streams: the way, s, numbers per token, dimensions reached of 9
WAYS = [("permutations", 2, 24, 9), ("circulant", 2, 4, 3), ("kronecker", 2, 4, 2),
        ("orthostochastic", 1, 6, 6), ("orthostochastic", 2, 28, 9)]
every_way = pytest.mark.parametrize("name, blocks, count, dimensions", WAYS, ids=str)
every_name = pytest.mark.parametrize("name", mixes())


def unreachable(blocks):
    """s + 1 rows that have the first column alone in common."""
    n = blocks + 2
    h = torch.zeros(n, n, dtype=torch.float64)
    h[:-1, 0] = h[-1, 1:] = 1 / (n - 1)
    h[:-1, 1:] = (1 - 1 / (n - 1)) * torch.eye(n - 1).double()
    return h


def nearest(matrix, target, z, steps=60):
    """How near to the target a descent from the logits z comes, in the largest entry."""
    z = z.clone().requires_grad_()
    search = torch.optim.LBFGS([z], max_iter=steps, line_search_fn="strong_wolfe")

    def loss():
        search.zero_grad()
        value = (matrix(z) - target).square().sum()
        value.backward()
        return value

    search.step(loss)
    return (matrix(z) - target).abs().max().item()


@every_way
@pytest.mark.parametrize("size", [0.1, 1.0, 10.0])
def test_it_is_doubly_stochastic_to_rounding(name, blocks, count, dimensions, size):
    way = mixes(blocks=blocks)[name]
    assert way.count(4) == count
    h = way.matrix(size * normal(50, count), 4)
    assert h.shape == (50, 4, 4) and (h >= 0).all()
    for axis in (-1, -2):
        assert_close(h.sum(axis), torch.ones(50, 4, dtype=torch.float64), **EXACT)


@every_way
def test_its_dimension_is_the_rank_of_its_jacobian(name, blocks, count, dimensions):
    way = mixes(blocks=blocks)[name]
    slopes = jacobian(lambda z: way.matrix(z, 4).flatten(), normal(count))
    assert torch.linalg.matrix_rank(slopes, rtol=1e-9) == dimensions


@every_name
@pytest.mark.parametrize("streams", [2, 4])
def test_it_starts_near_the_identity_and_can_leave_it(name, streams):
    way = mixes()[name]
    z = way.start(streams, 8.0).double().requires_grad_()
    assert z.shape == (way.count(streams),)
    h = way.matrix(z, streams)
    away = h.detach()[~torch.eye(streams, dtype=bool)]
    assert away.max() < 6.1 * torch.tensor(-8.0).exp() and h.diagonal().min() > 0.99
    # towards a transposition, the first step is no zero
    h[0, 1].backward()
    assert z.grad.norm() > 1e-5


def test_two_streams_have_one_number_and_every_way_reaches_all_of_it():
    for blocks in (1, 2):
        for name, way in mixes(30, blocks=blocks).items():
            for share in (0.03, 0.5, 0.97):
                target = torch.tensor([[share, 1 - share], [1 - share, share]]).double()
                found = nearest(lambda z, way=way: way.matrix(z, 2), target,
                                0.5 * normal(way.count(2), seed=3))
                assert found < 5e-3, name


def test_permutations_and_sinkhorn_reach_the_whole_interior():
    target = sum(w * torch.eye(4).double()[list(order)] for w, order in
                 zip(normal(24).softmax(0), permutations(range(4)), strict=True))
    assert_close(permuted(normal(24), 4), target, **EXACT)
    assert_close(sinkhorn(target.log(), 1), target, **EXACT)
    assert nearest(lambda z: permuted(z, 4), target, torch.zeros(24).double()) < 1e-3


def test_what_the_others_cannot_reach():
    """Two cyclic structures, which miss each other; and zeros that blocks can't make."""
    # a circulant matrix keeps its entries along i − j, a product of 2 × 2 factors along i xor j
    i = torch.arange(4)
    for differences, matrix in ((i[:, None] - i) % 4, circulant_mixture), (
            i[:, None] ^ i, lambda z: kronecker_mixture(z.view(-1, 2, 2))):
        h = matrix(normal(20, 4))
        for k in range(4):
            entries = h[:, differences == k]
            assert_close(entries, entries[:, :1].expand_as(entries), rtol=0, atol=0)
    swap, shift = torch.eye(4).double()[[1, 0, 2, 3]], torch.eye(4).double()[[1, 2, 3, 0]]
    start = 0.1 * normal(4)
    assert nearest(circulant_mixture, swap, start) > 0.4
    assert nearest(circulant_mixture, shift, start) < 1e-3
    assert nearest(lambda z: kronecker_mixture(z.view(2, 2)), shift, start) > 0.4
    # and of the matrices along i xor j only the products
    half = (torch.eye(4) + torch.eye(4).flip(0)).double() / 2
    assert nearest(lambda z: kronecker_mixture(z.view(2, 2)), half, start) > 0.2


@pytest.mark.parametrize("blocks", [1, 2])
def test_zeros_that_blocks_of_a_size_cannot_make(blocks):
    target, n = unreachable(blocks), blocks + 2
    assert_close(target.sum(0), target.sum(1), **EXACT)
    starts = [normal(n * s * (n * s - 1) // 2, seed=seed) for s in (blocks, blocks + 1)
              for seed in range(3)]
    found = [min(nearest(lambda z, s=s: orthostochastic(z, n, s), target, z, 200)
                 for z in starts[3 * k:3 * k + 3]) for k, s in enumerate((blocks, blocks + 1))]
    assert found[0] > 0.05 and found[1] < 1e-3, found


def test_blocks_of_one_are_squares_of_an_orthogonal_matrix():
    z = normal(6)
    m = torch.zeros(4, 4, dtype=torch.float64)
    m[tuple(torch.triu_indices(4, 4, 1))] = z
    m = m - m.mT
    q = torch.linalg.solve(torch.eye(4) + m, torch.eye(4) - m)
    assert_close(orthostochastic(z, 4, 1), q.square(), **EXACT)
    identity = orthostochastic(0 * z, 4, 1)
    assert_close(identity, torch.eye(4).double(), rtol=0, atol=0)


def test_a_kronecker_mixture_is_torch_s_kron():
    z = normal(3, 2)
    factors = [torch.tensor([[a, b], [b, a]]) for a, b in z.softmax(-1).tolist()]
    wanted = torch.kron(torch.kron(factors[0], factors[1]), factors[2])
    assert_close(kronecker_mixture(z), wanted.double(), rtol=0, atol=1e-7)


# ---------------------------------------------------------------- the guard in Sinkhorn

@pytest.mark.parametrize("size", [1.0, 10.0])
def test_the_guarded_iteration_is_the_released_one_on_the_transpose(size):
    logits, eps = size * normal(40, 4, 4), 1e-2
    c = logits.mT.softmax(-1) + eps
    c = c / (c.sum(-2, keepdim=True) + eps)
    for _ in range(6):
        c = c / (c.sum(-1, keepdim=True) + eps)
        c = c / (c.sum(-2, keepdim=True) + eps)
    assert_close(sinkhorn(logits, 7, eps=eps), c.mT, **EXACT)
    assert_close(sinkhorn(logits.mT, 7, "row-column", eps=eps), c, **EXACT)
    assert (sinkhorn(logits, 7) - c.mT).abs().max() > 1e-3
