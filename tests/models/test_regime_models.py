from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from geolab.models.regimes import REGIMES, RegimeModel
from geolab.probes import future_influence, influence

CLOSE = dict(rtol=0, atol=1e-12)
VOCABULARY, LENGTH = 11, 9

every_regime = pytest.mark.parametrize("name", REGIMES)


def build(name, layers=2, **options):
    torch.manual_seed(0)
    return RegimeModel(name, VOCABULARY, **{"width": 16, "layers": layers, "max_length": LENGTH}
                       | options).double().eval()


def tokens(batch=4, length=LENGTH):
    return torch.randint(VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(0))


# ---------------------------------------------------------------- what reaches a prediction

@every_regime
def test_the_probe_finds_what_is_stated(name):
    model = build(name)
    ahead = future_influence(model, tokens())
    assert model.leaks == REGIMES[name].reads_future
    assert ahead > 1e-6 if model.leaks else ahead == 0
    # and all of the past is read
    assert influence(model, tokens())[torch.ones(LENGTH, LENGTH).tril() > 0].min() > 0


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("name", [name for name, regime in REGIMES.items() if regime.reads_future])
def test_a_leak_reaches_one_position_ahead_a_layer(name, layers):
    ahead = influence(build(name, layers), tokens()).triu(1) > 0
    distance = torch.arange(LENGTH) - torch.arange(LENGTH)[:, None]
    reach = 1 if name == "AR+FutureHint" else layers  # which looks once, before the output
    assert (ahead == ((distance > 0) & (distance <= reach))).all()


# ---------------------------------------------------------------- the equations

def test_ar_base_is_two_of_torchs_encoder_layers():
    model = build("AR-Base")
    h = model.embedding(tokens()) + model.position.weight
    mask = nn.Transformer.generate_square_subsequent_mask(LENGTH).double()
    for block in model.blocks:
        A, F = block.steps["A"], block.steps["F"]
        layer = nn.TransformerEncoderLayer(16, 4, 64, batch_first=True).double().eval()
        for to, of in ((layer.self_attn, A.f.attention), (layer.norm1, A.norm),
                       (layer.linear1, F.f[0]), (layer.linear2, F.f[3]), (layer.norm2, F.norm)):
            to.load_state_dict(of.state_dict())
        h = layer(h, src_mask=mask)
    assert_close(model(tokens()), h @ model.output.weight.T + model.output.bias, **CLOSE)


def test_the_future_hint_adds_a_fifth_of_the_next_state_and_nothing_at_the_end():
    base, hinted = build("AR-Base"), build("AR+FutureHint")
    base.output = hinted.output = nn.Identity()
    h = base(tokens())
    assert_close(hinted(tokens())[:, :-1], h[:, :-1] + 0.2 * h[:, 1:], **CLOSE)
    assert_close(hinted(tokens())[:, -1], h[:, -1], **CLOSE)


TAPS = {"GT-CausalGeom": (-2, -1, 0), "GT-AugGeom": (-1, 0, 1), "GT-PredictiveHint": (-1, 0, 1),
        "GT-CausalSelfHint": (-3, -2, -1), "GT-PredictiveHint, causal": (-2, -1, 0)}


@pytest.mark.parametrize("name", TAPS)
def test_the_last_step_adds_a_convolution_of_the_state_or_of_the_hint(name):
    model = build(name, layers=1)
    h0 = model.embedding(tokens()) + model.position.weight
    A, F, C = model.blocks[0].steps.values()
    h = F(A(h0))
    read = h if "Geom" in name else model.output(h0).softmax(-1) @ model.embedding.weight
    weight, bias = C.f.conv.conv.weight[:, 0], C.f.conv.conv.bias
    mixed = bias.repeat(4, LENGTH, 1)
    for t in range(LENGTH):
        for tap, shift in enumerate(TAPS[name]):
            if 0 <= t + shift < LENGTH:
                mixed[:, t] += weight[:, tap] * read[:, t + shift]
    assert_close(model(tokens()), model.output(C.norm(h + mixed)), **CLOSE)


def test_a_regime_can_be_given_with_another_temperature_or_share():
    warm = build(replace(REGIMES["GT-PredictiveHint"], temperature=4.0))
    h = warm.embedding(tokens())
    expected = (warm.output(h) / 4).softmax(-1) @ warm.embedding.weight
    assert_close(warm.hint(h), expected, **CLOSE)
    assert (warm.hint(h) - build("GT-PredictiveHint").hint(h)).abs().max() > 1e-3
    base, half = build("AR-Base"), build(replace(REGIMES["AR+FutureHint"], next_share=0.5))
    base.output = half.output = nn.Identity()
    h = base(tokens())
    assert_close(half(tokens())[:, :-1], h[:, :-1] + h[:, 1:] / 2, **CLOSE)


def test_the_feed_forward_of_a_geometric_block_is_gelu():
    F = build("GT-CausalGeom").blocks[0].steps["F"]
    x = torch.linspace(-2, 2, 32, dtype=torch.float64).reshape(2, 16)
    up, down = F.f[0], F.f[2]
    z = up(x)
    assert_close(F.f(x), down(z * (1 + torch.erf(z / 2**0.5)) / 2), **CLOSE)


@every_regime
def test_attention_keeps_its_weights_whole_in_a_geometric_block(name):
    geometric = name.startswith("GT")
    for block in build(name, dropout=0.5).blocks:
        assert block.steps["A"].f.attention.dropout == (0.0 if geometric else 0.5)


@every_regime
def test_every_weight_learns_from_the_first_batch(name):
    model = build(name)
    loss = nn.functional.cross_entropy(model(tokens(32)).flatten(0, 1), tokens(32).flatten())
    loss.backward()
    largest = max(p.grad.abs().max() for p in model.parameters())
    assert all(p.grad.abs().max() > 1e-10 * largest for p in model.parameters())


def test_a_hint_teaches_neither_output_nor_embedding():
    model = build("GT-PredictiveHint", layers=1)
    assert not model.hint(model.embedding(tokens())).requires_grad
