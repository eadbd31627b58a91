"""The generators of k and β that read all of a matrix state (DDL appendix B.1 and eq. 2.7)."""

import numpy as np
import pytest
import torch
from shared import CLOSE, WIDTH, shaken, sublayer
from torch.testing import assert_close

from geolab.models import Transformer, TransformerConfig
from geolab.probes import future_influence
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


def test_equal_columns_are_pooled_to_themselves():
    x = some_state()[..., :1]
    for how in ("mean", "attention"):
        assert_close(Pool(WIDTH, 3, how).double()(x.expand(-1, -1, -1, 3)), x[..., 0], **CLOSE)


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


@every_pool
def test_a_network_with_both_is_causal_and_trains_every_parameter(how):
    torch.manual_seed(0)
    config = TransformerConfig.ddl(width=WIDTH, layers=2, heads=2)
    model = shaken(Transformer(config, "delta-matrix", map="v", value="linear",
                               direction_reads=how, beta_reads=how, expand="conv").double())
    x = torch.randn(2, 6, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert future_influence(model, x) == 0
    model(x).cos().sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in model.parameters())


@every_pool
def test_gradients_are_right(how):
    r = residual(map="v", value="linear", direction_reads=how, beta_reads=how)
    X = some_state()[:1, :2].requires_grad_()
    assert torch.autograd.gradcheck(lambda X: r(X, sublayer()), X)


def test_a_frozen_gate_pools_nothing():
    assert not [name for name, _ in residual(beta_reads="attention",
                                             beta_fixed=1.0).named_parameters() if "beta" in name]


def test_a_generator_that_pools_the_state_asks_for_it():
    r, X = residual(beta_reads="mean"), some_state()
    with pytest.raises(ValueError, match=r"^a generator that pools the state needs it: "):
        r.coefficients(r.read(X), sublayer())


@pytest.mark.parametrize("options, message", [
    ({"beta_reads": "sum"}, "beta_reads must be one of 'context', 'mean', 'flatten', 'attention', "
                            "got 'sum'"),
    ({"direction_reads": "sum", "map": "v"},
     "direction_reads must be one of 'input', 'mean', 'flatten', 'attention', got 'sum'"),
    ({"direction_reads": "mean"}, "direction_reads='mean' needs map='v': .*")])
def test_a_bad_option_is_named(options, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        DeltaMatrix(WIDTH, **options)
    with pytest.raises(ValueError, match="^how must be one of 'mean', 'flatten', 'attention'"):
        Pool(WIDTH, 4, "sum")
