"""Residuals whose sublayers look back: attention residuals, DenseFormer and MUDDFormer."""

from copy import deepcopy
from operator import attrgetter

import pytest
import torch
from shared import CLOSE, WIDTH, normal, shaken, stack
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from geolab.graft import graft
from geolab.models import Transformer, TransformerConfig
from geolab.probes import depth_weights
from geolab.residuals import Normed

COUNT = 6


def written(made, x):
    """The input of each sublayer, its output, and the network's output."""
    reads, writes = [], []

    def sublayer(u):
        reads.append(u)
        q, k, v = u if isinstance(u, tuple) else (u, u, u)
        writes.append(((q + 2 * k + 3 * v).cumsum(1) + len(reads)).sin())
        return writes[-1]

    state = made[0].expand(x)
    for residual in made:
        state = residual(state, Normed(sublayer, takes_views=True))
    return reads, writes, made[-1].reduce(state)


def weighted(weights, outputs):
    """Each output times its weight: (..., number of outputs)."""
    return sum(weights[..., j:j + 1] * y for j, y in enumerate(outputs))


# ---------------------------------------------------------------- the equations

def attended(query, sources, read="mean", values="plain", scaled=False, eps=None):
    """The paper's sum, one source at a time."""
    eps = torch.finfo(torch.float64).eps if eps is None else eps
    keys = [y / (y.square().mean(-1, keepdim=True) + eps).sqrt() for y in sources]
    scores = [((key @ query) / (WIDTH ** 0.5 if scaled else 1)).exp() for key in keys]
    total = sum(scores) / (len(sources) if read == "sum" else 1)
    return sum((score / total).unsqueeze(-1) * (key if values == "normed" else y)
               for score, key, y in zip(scores, keys, sources, strict=True))


@pytest.mark.parametrize("options", [{}, {"read": "sum"}, {"values": "normed"}, {"scaled": True},
                                     {"eps": 0.1}], ids=str)
@pytest.mark.parametrize("block", [1, 2, 4, COUNT])
def test_a_sublayer_attends_over_the_finished_blocks_and_the_running_one(block, options):
    made = shaken(stack("attnres", WIDTH, COUNT, block=block, **options).double(), 1.0)
    x = normal(2, 3, WIDTH)
    reads, writes, output = written(made, x)
    for t, (residual, read) in enumerate(zip(made, reads, strict=True)):
        blocks = [sum(writes[start:min(start + block, t)]) for start in range(0, t, block)]
        wanted = attended(residual.query, [x, *blocks], **options) if t else x
        assert_close(read, wanted, **CLOSE)
    blocks = [sum(writes[start:start + block]) for start in range(0, COUNT, block)]
    assert_close(output, attended(made[-1].exit.weight, [x, *blocks], **options), **CLOSE)


def test_attention_starts_with_the_plain_mean():
    x = normal(2, 3, WIDTH)
    reads, writes, output = written(stack("attnres", WIDTH, COUNT).double(), x)
    for t, u in enumerate([*reads, output]):
        assert_close((t + 1) * u, x + sum(writes[:t]), **CLOSE)


def weights_of(part, x):
    """The weights of a block's sums, (..., ways, blocks): DenseFormer's numbers, or MUDDFormer's A
    at a token's state.
    """
    if isinstance(part, nn.Parameter):
        return part.unsqueeze(0)
    normed = x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    dynamic = F.gelu(normed @ part.down.weight.T) @ part.up.weight.T
    return dynamic.unflatten(-1, (-1, part.static.weight.shape[1])) + part.static.weight


@pytest.mark.parametrize("name, options", [
    *(("denseformer", {"block": block}) for block in (1, 2, 4)),
    *(("muddformer", {"block": block, "ways": ways}) for block in (2, 3) for ways in (1, 4))])
def test_a_block_reads_weighted_sums_of_all_outputs_and_adds_to_the_last_sum(name, options):
    made = shaken(stack(name, WIDTH, COUNT, **options).double(), 0.5)
    inside, exit = map(attrgetter, {"denseformer": ("alpha", "exit.weight"),
                                    "muddformer": ("weights", "exit")}[name])
    x = normal(2, 3, WIDTH)
    reads, writes, output = written(made, x)
    outputs, state = [x], x
    for t, (residual, read) in enumerate(zip(made, reads, strict=True)):
        if t and t % options["block"] == 0:
            outputs.append(state)
            weights = weights_of(inside(residual), state)
            *heard, state = (weighted(way, outputs) for way in weights.unbind(-2))
            for one, own in zip(read if heard else (), heard, strict=True):
                assert_close(one, own, **CLOSE)
        if not isinstance(read, tuple):
            assert_close(read, state, **CLOSE)
        state = state + writes[t]
    (last,) = weights_of(exit(made[-1]), state).unbind(-2)
    assert_close(output, weighted(last, [*outputs, state]), **CLOSE)


# ---------------------------------------------------------------- an input each for q, k and v

def network(residual, **options):
    torch.manual_seed(0)
    config = TransformerConfig(width=WIDTH, layers=2, heads=2, hidden=12)
    return shaken(Transformer(config, residual, **options).double(), 0.5)


def test_three_equal_queries_are_one_and_each_of_them_counts():
    three, one, x = network("attnres", queries=3), network("attnres"), normal(2, 4, WIDTH)
    weights = one.state_dict()
    three.load_state_dict({name: weights[name].expand(p.shape)
                           for name, p in three.state_dict().items()})
    assert_close(three(x), one(x), **CLOSE)
    for place in range(3):
        changed = deepcopy(three)
        with torch.no_grad():
            changed.layers[2].residual.query[place] += 1
        assert (changed(x) - three(x)).abs().max() > 1e-4


@pytest.mark.parametrize("name, options", [("attnres", {"queries": 3}),
                                           ("muddformer", {"ways": 4})])
def test_they_need_a_sublayer_that_takes_them_and_one_probe_refuses_them(name, options):
    made, (option,) = stack(name, WIDTH, COUNT, **options).double(), options
    with pytest.raises(ValueError, match=f"^{option} must be 1 around a sublayer that takes one"):
        made[2](normal(2, 3, made[2].streams, WIDTH), torch.tanh)
    with pytest.raises(ValueError, match=f"^{option} must be 1 "):
        depth_weights(network(name, **options), normal(2, 4, WIDTH))


def test_a_norm_with_a_bias_behind_the_residual_writes_into_no_empty_place():
    torch.manual_seed(0)
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)
    graft(encoder.eval().double(), "attnres", plain=False, block=2)
    for layer in encoder.layers:
        for norm in (layer.norm1, layer.norm2):
            nn.init.constant_(norm.bias, 0.5)
    x, seen = normal(1, 3, 8), {}
    residual = encoder.layers[1].residuals[0]
    residual.register_forward_hook(lambda _, args, out: seen.update(before=args[0], after=out))
    encoder(x)
    update = seen["after"][..., residual.slot, :]
    seen["before"][..., residual.slot, :] = 7.0   # whatever stood there
    again = residual(seen["before"], lambda u: update)
    assert_close(again[..., residual.slot, :], update, **CLOSE)
