"""Ways to doubly stochastic matrices: each is exact, is its formula, and starts near the identity.
"""

import math
from functools import reduce
from itertools import permutations

import pytest
import torch
from shared import normal
from torch.autograd.functional import jacobian
from torch.testing import assert_close

from geolab.residuals.mixing import mixes

EXACT = dict(rtol=0, atol=1e-14)
EYE = torch.eye(4, dtype=torch.float64)


def blocks_of(z, blocks):
    """The mean squares of the blocks of a rotation, which is a Cayley transform."""
    n = 4 * blocks
    m = torch.zeros(n, n, dtype=torch.float64)
    m[tuple(torch.triu_indices(n, n, 1))] = z
    m = m - m.mT
    q = torch.linalg.solve(torch.eye(n) + m, torch.eye(n) - m)
    return q.square().view(4, blocks, 4, blocks).sum((1, 3)) / blocks


def swaps(shares):
    return torch.stack([shares, shares.flip(0)])


FORMULAS = {  # for 4 streams, from one vector of logits
    "permutations": lambda z: sum(share * EYE[list(order)] for share, order in zip(
        z.softmax(0), permutations(range(4)), strict=True)),
    "circulant": lambda z: sum(share * EYE.roll(k, 0) for k, share in enumerate(z.softmax(0))),
    "kronecker": lambda z: reduce(torch.kron, map(swaps, z.view(2, 2).softmax(-1))),
    "orthostochastic": lambda z: blocks_of(z, {6: 1, 28: 2}[len(z)]),
}
# the way, s, numbers per token, dimensions reached of 9
WAYS = [("permutations", 2, 24, 9), ("circulant", 2, 4, 3), ("kronecker", 2, 4, 2),
        ("orthostochastic", 1, 6, 6), ("orthostochastic", 2, 28, 9)]


@pytest.mark.parametrize("name, blocks, count, dimensions", WAYS, ids=str)
def test_it_is_its_formula_exactly_doubly_stochastic_and_as_large_as_it_says(
        name, blocks, count, dimensions):
    way = mixes(blocks=blocks)[name]
    assert way.count(4) == count
    for size in (0.1, 1.0, 10.0):
        z = size * normal(50, count)
        h = way.matrix(z, 4)
        assert h.shape == (50, 4, 4) and (h >= 0).all()
        for axis in (-1, -2):
            assert_close(h.sum(axis), torch.ones(50, 4, dtype=torch.float64), **EXACT)
        assert_close(h[:5], torch.stack([FORMULAS[name](one) for one in z[:5]]), rtol=0, atol=1e-12)
    slopes = jacobian(lambda z: way.matrix(z, 4).flatten(), normal(count))
    assert torch.linalg.matrix_rank(slopes, rtol=1e-9) == dimensions


@pytest.mark.parametrize("name", mixes())
@pytest.mark.parametrize("streams", [2, 4])
def test_it_starts_near_the_identity_and_can_leave_it(name, streams):
    way = mixes()[name]
    z = way.start(streams, 8.0).double().requires_grad_()
    assert z.shape == (way.count(streams),)
    h = way.matrix(z, streams)
    away = h.detach()[~torch.eye(streams, dtype=bool)]
    assert away.max() < 6.1 * math.exp(-8) and h.diagonal().min() > 0.99
    # towards a transposition, the first step is no zero
    h[0, 1].backward()
    assert z.grad.norm() > 1e-5
