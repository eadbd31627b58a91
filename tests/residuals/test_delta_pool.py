"""The generators of k and β that read all of a matrix state (DDL appendix B.1 and eq. 2.7)."""

import numpy as np
import pytest
import torch
from shared import CLOSE, WIDTH, shaken, sublayer
from torch.testing import assert_close

from geolab.residuals import DeltaMatrix
from geolab.residuals.delta_pool import POOLS, Pool

every_pool = pytest.mark.parametrize("how", POOLS)


def some_state(channels=3):
    return torch.randn(2, 5, WIDTH, channels, dtype=torch.float64,
                       generator=torch.Generator().manual_seed(1))


def residual(**options):
    torch.manual_seed(3)
    return shaken(DeltaMatrix(WIDTH, channels=3, **options).double())


@every_pool
def test_a_pool_is_its_sum_by_hand(how):
    pool, X = shaken(Pool(WIDTH, 3, how).double()), some_state()
    for b, t in np.ndindex(2, 5):
        columns = X[b, t].T.numpy()
        if how == "flatten":
            expected = np.array([columns[j, i] for i in range(WIDTH) for j in range(3)])
        else:
            weights = np.ones(3)
            if how == "attention":
                weights = np.exp([column @ pool.query.detach().numpy() for column in columns])
            expected = sum(w * column for w, column in zip(weights, columns, strict=True))
            expected = expected / weights.sum()
        assert_close(pool(X)[b, t], torch.from_numpy(expected), **CLOSE)
    assert pool(X).shape == (2, 5, pool.features)


@every_pool
def test_the_direction_is_an_mlp_of_the_pooled_state(how):
    r, X = residual(map="v", direction_reads=how, eps=0.0), some_state()
    k = r.observe(X, sublayer()).direction
    first, last = r.direction_head[0].weight, r.direction_head[2].weight
    expected = torch.nn.functional.gelu(r.direction_pool(X) @ first.T) @ last.T
    assert_close(k, expected / expected.norm(dim=-1, keepdim=True), **CLOSE)


@every_pool
@pytest.mark.parametrize("gate", ["linear", "mlp"])
def test_beta_reads_the_pooled_state(how, gate):
    r, X = residual(beta_reads=how, gate=gate), some_state()
    beta = r.observe(X, sublayer()).beta
    assert_close(beta, 2 * torch.sigmoid(r.beta_head(r.beta_pool(X)).squeeze(-1)), **CLOSE)
    assert_close(r(X, sublayer()) - X, _written(r, X), **CLOSE)


def _written(r, X):
    direction, value, beta = r.coefficients(r.read(X), sublayer(), X)
    change = value - (direction.unsqueeze(-2) @ X).squeeze(-2)
    return (beta[..., None] * direction).unsqueeze(-1) * change.unsqueeze(-2)


def test_a_frozen_gate_pools_nothing():
    with pytest.raises(ValueError, match="^beta_reads must be left out where beta_fixed=1.0"):
        residual(beta_reads="attention", beta_fixed=1.0)


def test_a_generator_that_pools_the_state_asks_for_it():
    r, X = residual(beta_reads="mean"), some_state()
    with pytest.raises(ValueError, match=r"^a generator that pools the state needs it: "):
        r.coefficients(r.read(X), sublayer())
