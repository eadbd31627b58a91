"""A residual that is not of the package, with a state wider than x: what `expand` and `reduce` are for."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from geolab.models import ContinuousModel, Transformer, TransformerConfig
from geolab.probes import future_influence, states
from geolab.residuals import Residual


class Streams(Residual):
    """n copies of the state, (B, T, n, D). A sublayer reads their mean and writes to stream k with weight w_k."""

    def __init__(self, width, *, streams=3):
        super().__init__(width)
        self.write = nn.Parameter(torch.ones(streams))

    def expand(self, x):
        return x.unsqueeze(-2).repeat(1, 1, len(self.write), 1)

    def forward(self, state, sublayer):
        return state + self.write[:, None] * sublayer(state.mean(-2)).unsqueeze(-2)

    def reduce(self, state):
        return state.mean(-2)


@pytest.fixture
def config():
    return TransformerConfig.ddl(width=8, layers=2, heads=2)


def vectors():
    return torch.randn(2, 5, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_residual_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        Residual(8)


def test_a_wider_state_runs_through_the_transformer(config):
    torch.manual_seed(0)
    trunk = Transformer(config, Streams, streams=3).double()
    seen = states(trunk, trunk.layers, vectors())
    assert [tuple(s.shape) for s in seen] == [(2, 5, 3, 8)] * 5
    assert trunk(vectors()).shape == (2, 5, 8)


def test_equal_streams_are_the_additive_residual(config):
    torch.manual_seed(0)
    streams = Transformer(config, Streams, streams=3).double()
    additive = Transformer(config, "additive").double()
    additive.load_state_dict(streams.state_dict(), strict=False)
    assert_close(streams(vectors()), additive(vectors()), rtol=0, atol=1e-13)


def test_post_norm_takes_a_wider_state_too(config):
    trunk = Transformer(TransformerConfig.ddl(width=8, layers=1, heads=2, norm_at="post"), Streams).double()
    last = states(trunk, trunk.layers, vectors())[-1]
    assert last.shape == (2, 5, 3, 8)
    assert_close(last.square().mean(-1), torch.ones(2, 5, 3, dtype=torch.float64), rtol=0, atol=1e-3)


def test_expand_and_reduce_are_called_once_a_network(config):
    calls = []

    class Counted(Streams):
        def expand(self, x):
            calls.append("expand")
            return super().expand(x)

        def reduce(self, state):
            calls.append("reduce")
            return super().reduce(state)

    Transformer(config, Counted).double()(vectors())
    assert calls == ["expand", "reduce"]


def test_it_is_causal_and_trains(config):
    torch.manual_seed(0)
    model = ContinuousModel(Transformer(config, Streams), 8).double()
    assert future_influence(model, vectors()) == 0
    model(vectors()).square().sum().backward()
    assert all(p.grad.abs().max() > 0 for p in model.parameters())
