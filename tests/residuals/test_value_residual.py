"""The values of each attention are joined to those of the first one; nothing else changes."""

import pytest
import torch
from shared import CLOSE, WIDTH, networks, normal, shaken, stack
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from geolab.graft import graft
from geolab.models import Transformer, TransformerConfig
from geolab.models.layers import MLP
from geolab.residuals import Normed, make_residual

NAME = "value-residual"


def attention_of(number):
    """A causal mean of queries times values, which says how its values are changed."""
    query, value = normal(WIDTH, WIDTH, seed=number), normal(WIDTH, WIDTH, seed=number + 50)

    def run(x, values=lambda own: own):
        own = values(x @ value)
        return (x @ query).tanh() * own.cumsum(1)

    return run, value


@pytest.mark.parametrize("learned", [True, False])
def test_it_is_the_paper_s_equation(learned):
    made = shaken(stack(NAME, WIDTH, 6, first_weight=0.3, own_weight=0.9, learned=learned).double())
    x = normal(2, 4, WIDTH)
    state, first = made[0].expand(x), None
    for index, residual in enumerate(made):
        if index % 2:
            state, x = residual(state, torch.sin), x + x.sin()
        else:
            run, value = attention_of(index)
            own = x.tanh() @ value
            if first is None:
                first = read = own
            else:
                of_first, of_own = residual.weights.tolist() if learned else (0.3, 0.9)
                read = of_first * first + of_own * own
            x = x + run(x.tanh(), lambda own, read=read: read)
            state = residual(state, Normed(run, torch.tanh, takes_values=True))
        assert_close(residual.reduce(state), x, **CLOSE)


@pytest.mark.parametrize("options, plain", [({"first_weight": 0.0, "own_weight": 1.0}, True),
                                            ({"first_weight": 0.0, "own_weight": 1.0,
                                              "learned": False}, True), ({}, False)])
def test_it_is_the_plain_network_at_0_and_1_alone(options, plain):
    network, additive = networks(NAME, layers=3, **options)
    x = normal(2, 5, WIDTH)
    assert torch.equal(network(x), additive(x)) == plain


def test_it_starts_at_a_half_each():
    for residual in stack(NAME, WIDTH, 6)[2::2]:
        assert residual.weights.tolist() == [0.5, 0.5]


def test_a_later_attention_reads_the_first_layer_past_all_between():
    """The first values alone, at (1, 0): what lies between changes later queries and keys only."""
    network, _ = networks(NAME, layers=2, first_weight=1.0, own_weight=0.0, learned=False)
    seen = []
    real = F.scaled_dot_product_attention
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(F, "scaled_dot_product_attention",
                      lambda q, k, v, **kinds: seen.append(v) or real(q, k, v, **kinds))
        network(normal(2, 5, WIDTH))
    assert len(seen) == 2 and torch.equal(*seen)


@pytest.mark.parametrize("around", [torch.tanh, Normed(torch.tanh), Normed(
    torch.tanh, takes_views=True)], ids=["plain", "normed", "views"])
def test_attention_that_shows_no_values_is_refused_by_name(around):
    for index in (0, 2):
        residual = make_residual(NAME, WIDTH, index, 6)
        with pytest.raises(ValueError, match="^the sublayer of ValueResidual must be attention that"
                           r" takes values, Normed\(..., takes_values=True\)"):
            residual(normal(2, 3, 2 * WIDTH), around)
    config = TransformerConfig(width=WIDTH, layers=2, heads=2, hidden=12)
    network = Transformer(config, NAME)
    network.layers[2].mix = MLP(config)
    with pytest.raises(ValueError, match="^the sublayer of ValueResidual"):
        network(normal(2, 3, WIDTH, dtype=torch.float32))


def test_graft_and_a_norm_after_the_residual_refuse_it_by_name():
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(
        WIDTH, 2, 12, norm_first=True, batch_first=True), 2, enable_nested_tensor=False)
    with pytest.raises(ValueError, match="^the residual must stand around any sublayer, got "
                       "'value-residual', which changes the values of attention"):
        graft(encoder, NAME, plain=False)
    with pytest.raises(ValueError, match="^norm_at='post' normalises streams of width 8, and the "
                       "state of 'value-residual'"):
        Transformer(TransformerConfig(width=WIDTH, heads=2, norm_at="post"), NAME)
