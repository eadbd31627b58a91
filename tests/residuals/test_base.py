"""The protocol, tested with residuals defined here: a wider state, a place, a penalty."""

from dataclasses import replace

import pytest
import torch
from shared import normal
from torch import nn
from torch.testing import assert_close

from geolab.models import Transformer, TransformerConfig
from geolab.penalties import add_penalty, collect_penalties
from geolab.probes import states
from geolab.residuals import Additive, Residual


class Streams(Residual):
    """n copies of the state, (B, T, n, D).

    A sublayer reads their mean and writes to stream k with weight w_k.
    """

    def __init__(self, width, index=0, count=1, *, streams=3):
        super().__init__(width, index, count)
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


def test_a_wider_state_runs_through_the_transformer(config):
    torch.manual_seed(0)
    trunk = Transformer(config, Streams, streams=3).double()
    seen = states(trunk, trunk.layers, normal(2, 5, 8))
    assert [tuple(s.shape) for s in seen] == [(2, 5, 3, 8)] * 5
    assert trunk(normal(2, 5, 8)).shape == (2, 5, 8)


def test_post_norm_takes_a_wider_state_too(config):
    trunk = Transformer(TransformerConfig.ddl(width=8, layers=1, heads=2, norm_at="post"),
                        Streams).double()
    last = states(trunk, trunk.layers, normal(2, 5, 8))[-1]
    assert last.shape == (2, 5, 3, 8)
    assert_close(last.square().mean(-1), torch.ones(2, 5, 3, dtype=torch.float64), rtol=0,
                 atol=1e-3)


def test_expand_and_reduce_are_called_once_a_network(config):
    calls = []

    class Counted(Streams):
        def expand(self, x):
            calls.append("expand")
            return super().expand(x)

        def reduce(self, state):
            calls.append("reduce")
            return super().reduce(state)

    Transformer(config, Counted).double()(normal(2, 5, 8))
    assert calls == ["expand", "reduce"]


def test_each_residual_is_told_its_place(config):
    residuals = [layer.residual for layer in Transformer(config, Streams).layers]
    assert [r.first for r in residuals] == [True, False, False, False]
    assert [r.last for r in residuals] == [False, False, False, True]
    alone = Additive(8)
    assert alone.first and alone.last


def test_a_residual_reads_one_position_unless_it_says_more_and_the_network_then_has_room_for_it():
    class Far(Additive):
        reach = 6

    assert Additive(8).reach == 1
    config = TransformerConfig(width=8, layers=1, heads=2, max_length=5)
    Transformer(replace(config, max_length=6), Far)
    with pytest.raises(ValueError, match="^max_length must be at least 6, the .*Far.*, got 5$"):
        Transformer(config, Far)


# ---------------------------------------------------------------- penalties

class Penalised(Additive):
    """The plain residual, with the mean square of its state as a penalty."""

    def forward(self, state, sublayer):
        add_penalty(state.square().mean())
        return super().forward(state, sublayer)


def test_penalties_come_in_the_order_of_the_forward_pass(config):
    trunk = Transformer(config, Penalised).double()
    inputs = states(trunk, trunk.layers, normal(2, 5, 8))[:-1]
    with collect_penalties() as penalties:
        trunk(normal(2, 5, 8))
    assert_close(torch.stack(penalties), torch.stack([s.square().mean() for s in inputs]), rtol=0,
                 atol=0)
    assert all(p.requires_grad for p in penalties[1:])


def test_outside_of_a_collection_and_after_an_error_in_it_nothing_is_kept():
    add_penalty(torch.ones(()))
    with pytest.raises(RuntimeError, match="in forward"), collect_penalties() as penalties:
        raise RuntimeError("in forward")
    add_penalty(torch.ones(()))
    assert penalties == []
