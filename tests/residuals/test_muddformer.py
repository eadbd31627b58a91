"""MUDDFormer: attention's queries, keys and values and the shortcut read a sum of all blocks each,
whose weights depend on the token.
"""

import pytest
import torch
from shared import CLOSE, WIDTH, normal, shaken, stack
from torch.nn import functional as F
from torch.testing import assert_close

from geolab.models import Transformer, TransformerConfig
from geolab.probes import depth_weights
from geolab.residuals import Normed

COUNT = 6


def depth_of(weights, x):
    """A of a token's state, (B, T, C, k), in the paper's words."""
    normed = x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    dynamic = F.gelu(normed @ weights.down.weight.T) @ weights.up.weight.T
    return dynamic.unflatten(-1, (-1, weights.static.weight.shape[1])) + weights.static.weight


def summed(weights, outputs):
    return sum(weights[..., j:j + 1] * y for j, y in enumerate(outputs))


@pytest.mark.parametrize("ways", [1, 4])
@pytest.mark.parametrize("block", [2, 3])
def test_a_block_reads_its_sums_and_adds_to_the_last_of_them(block, ways):
    made = shaken(stack("muddformer", WIDTH, COUNT, block=block, ways=ways).double(), 0.5)

    def of_views(x):
        q, k, v = x if isinstance(x, tuple) else (x, x, x)
        return (q + 2 * k.cumsum(1) + 3 * v).sin()

    x = normal(2, 3, WIDTH)
    state, outputs, current = made[0].expand(x), [x], x
    for index, residual in enumerate(made):
        state = residual(state, Normed(of_views, takes_views=True))
        reads = [current] * ways
        if index and index % block == 0:
            outputs.append(current)
            weights = depth_of(residual.weights, current)
            reads = [summed(weights[:, :, c], outputs) for c in range(ways)]
        current = reads[-1] + of_views(reads[0] if len(reads) == 1 else tuple(reads[:3]))
        assert_close(state[..., residual.slot, :], current, **CLOSE)
    weights = depth_of(made[-1].exit, current)
    assert_close(made[-1].reduce(state), summed(weights[:, :, 0], [*outputs, current]), **CLOSE)


@pytest.mark.parametrize("ways", [1, 4])
def test_without_its_dynamic_part_it_is_denseformer(ways):
    mudd, dense = stack("muddformer", WIDTH, COUNT, ways=ways), stack("denseformer", WIDTH, COUNT)
    x, f = normal(2, 3, WIDTH, dtype=torch.float32), Normed(
        lambda x: (sum(x) / 3 if isinstance(x, tuple) else x).tanh(), takes_views=True)
    states = [made[0].expand(x) for made in (mudd, dense)]
    with torch.no_grad():
        for ours, theirs in zip(mudd, dense, strict=True):
            if hasattr(theirs, "alpha"):
                theirs.alpha.normal_()
                ours.weights.static.weight.copy_(theirs.alpha.expand(ways, -1))
            states = [residual(state, f) for residual, state in
                      zip((ours, theirs), states, strict=True)]
    assert_close(mudd[-1].reduce(states[0]), dense[-1].reduce(states[1]))


def test_the_values_alone_can_read_the_embedding():
    """What one sum for all can't: the shortcut and the other views stay as they were."""
    torch.manual_seed(0)
    config = TransformerConfig(width=WIDTH, layers=2, heads=2, hidden=12)
    network = Transformer(config, "muddformer", ways=4).double()
    residual, x = network.layers[2].residual, normal(2, 4, WIDTH)
    before = network(x)
    with torch.no_grad():
        residual.weights.static.weight[2] = torch.tensor([1.0, 0.0])
    assert (network(x) - before).abs().max() > 1e-5
    state = normal(2, 4, 3, WIDTH)
    read, _, mix = residual.coefficients(state)
    assert_close(read[..., :2], torch.tensor([[0.0, 1], [0, 1], [1, 0]]).double().expand(
        2, 4, 3, 2), **CLOSE)
    assert_close(mix[..., 2, :], torch.tensor([0.0, 1, 0]).double().expand(2, 4, 3), **CLOSE)


def test_four_ways_need_a_sublayer_that_takes_them_and_one_probe_refuses_them():
    residual = stack("muddformer", WIDTH, COUNT, ways=4)[2]
    with pytest.raises(ValueError, match="^ways must be 1 around a sublayer that takes one input"):
        residual(normal(2, 3, 4, WIDTH, dtype=torch.float32), torch.tanh)
    config = TransformerConfig(width=WIDTH, layers=2, heads=2, hidden=12)
    with pytest.raises(ValueError, match="^ways must be 1 "):
        depth_weights(Transformer(config, "muddformer", ways=4).double(), normal(2, 4, WIDTH))
