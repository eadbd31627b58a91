"""The backbone and the models around it. What they compute is compared with published code in
tests/parity.
"""

import math

import pytest
import torch
from shared import normal, shaken
from torch import nn
from torch.testing import assert_close

from geolab import kernels
from geolab.models import ContinuousModel, PointModel, TokenModel, Transformer, TransformerConfig
from geolab.models.layers import MLP, Layer, attention
from geolab.penalties import collect_penalties
from geolab.probes import future_influence, influence
from geolab.residuals import REGISTRY, Additive

CLOSE = dict(rtol=0, atol=1e-12)
CONFIGS = {"ddl": TransformerConfig.ddl, "benchmark": TransformerConfig.benchmark}

every_residual = pytest.mark.parametrize("residual", sorted(REGISTRY))
every_config = pytest.mark.parametrize("backbone", CONFIGS)


def small(backbone, **changes):
    return CONFIGS[backbone](**{"width": 16, "layers": 2, "heads": 2, "max_length": 16} | changes)


def trunk(backbone="ddl", residual="additive", **changes):
    torch.manual_seed(0)
    return Transformer(small(backbone, **changes), residual)


def continuous(*given, **changes):
    return ContinuousModel(trunk(*given, **changes), 6).double()


def token(*given, **changes):
    return TokenModel(trunk(*given, **changes), 11).double()


def vectors(width=6):
    return normal(2, 7, width)


def tokens():
    return torch.randint(11, (3, 7), generator=torch.Generator().manual_seed(0))


# ---------------------------------------------------------------- with every residual

@pytest.mark.parametrize("backbone, norm_at", [("ddl", "pre"), ("benchmark", "post")])
@every_residual
def test_what_is_recomputed_has_the_same_gradients(residual, backbone, norm_at):
    if residual in ("delta-matrix", "value-residual"):
        norm_at = "pre"  # its state has no streams for a norm to follow
    model = shaken(continuous(backbone, residual, norm_at=norm_at), 0.1)
    x, parameters = vectors(), list(model.parameters())
    wanted = torch.autograd.grad(model(x).sin().sum(), parameters, allow_unused=True)
    for layers in (1, 3):
        model.trunk.recompute = layers
        found = torch.autograd.grad(model(x).sin().sum(), parameters, allow_unused=True)
        assert_close([g for g in found if g is not None], [g for g in wanted if g is not None],
                     rtol=0, atol=0)


@every_residual
def test_no_token_reads_the_future(residual):
    assert future_influence(shaken(token("ddl", residual), 0.1), tokens()) == 0


@every_residual
def test_torch_compile_takes_the_whole_network_with_its_penalties(residual):
    torch.compiler.reset()
    torch.manual_seed(0)
    rounds = {"iterations": 2} if residual in ("mhc", "mhc-delta") else {}  # they are unrolled
    model = Transformer(small("ddl", layers=1), residual, **rounds).double()
    x = torch.randn(2, 7, 16, dtype=torch.float64)
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    compiled(x)
    results = []
    for run in (model, compiled):
        with collect_penalties() as penalties:
            y = run(x)
        loss = y.square().sum() + sum(penalties)
        gradients = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
        results.append([y, *penalties, *gradients])
    assert_close(*results, **CLOSE)


@pytest.mark.skipif(not kernels.TWINS, reason="kernels need Triton")
def test_recomputation_remembers_which_path_the_forward_pass_took():
    model = Transformer(small("benchmark"), "mhc", iterations=2)
    model.recompute = 2
    with kernels.use("always"):
        y = model(vectors(16).float())
    y.sum().backward()


# ---------------------------------------------------------------- the trunk

@pytest.mark.parametrize("build, x", [(continuous, vectors()), (token, tokens())],
                         ids=["continuous", "token"])
@every_config
def test_an_output_reads_all_of_its_past_and_without_the_mask_the_future(build, x, backbone):
    model = shaken(build(backbone), 0.1)
    assert future_influence(model, x) == 0
    assert influence(model, x)[torch.ones(7, 7).tril() > 0].min() > 0
    model = shaken(build(backbone, causal=False), 0.1)
    assert future_influence(model, x) > 1e-5 * influence(model, x).max()


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_attention_under_autocast_is_rounded_once_to_the_dtype_it_has(dtype, causal):
    q, k, v = normal(3, 2, 2, 7, 8).to(dtype)
    logits = q.double() @ k.double().mT / 8**0.5
    if causal:
        logits = logits.masked_fill(torch.ones(7, 7).triu(1).bool(), -math.inf)
    wanted = logits.softmax(-1) @ v.double()
    with torch.autocast("cpu", torch.bfloat16):
        found = attention(q, k, v, causal)
    assert found.dtype == dtype
    assert_close(found.double(), wanted, rtol=0.51 * torch.finfo(dtype).eps, atol=1e-6)


@pytest.mark.parametrize("norm", ["rms", "layer"])
def test_a_post_norm_stands_after_the_sum(norm):
    config = TransformerConfig(width=16, heads=2, norm=norm, norm_at="post")
    layer, x = shaken(Layer(config, MLP(config), Additive(16)).double()), vectors(16)
    total = x + layer.mix(x)
    total = total - total.mean(-1, keepdim=True) if norm == "layer" else total
    scale = (total.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    assert_close(layer(x), layer.norm.weight * total / scale, **CLOSE)


@pytest.mark.parametrize("residual, layers, options, published, within", [
    ("additive", 9, {}, 1_771_776, 0),
    ("benchmark-delta", 8, {"pool": "sequence"}, 1_775_120, 0),
    ("emhc-hybrid", 6, {"pool": "sequence", "hidden_ratio": 1}, 1_779_240, 0.01)])
def test_blocks_have_the_published_number_of_parameters(
        residual, layers, options, published, within):
    made = Transformer(TransformerConfig.benchmark(layers=layers), residual, **options)
    numbers = sum(p.numel() for p in made.layers.parameters())
    assert abs(numbers / published - 1) <= within


@every_config
def test_matrices_and_positions_start_at_their_published_standard_deviation(backbone):
    torch.manual_seed(0)
    config = CONFIGS[backbone](width=64, layers=4)
    std = {"ddl": 0.5 / 8, "benchmark": 0.02}[backbone]
    output_std = {"ddl": 0.5 / 8 / 2, "benchmark": 0.02 / math.sqrt(8)}[backbone]
    for name, p in Transformer(config).named_parameters():
        if p.ndim >= 2:
            wanted = output_std if name.endswith("mix.out.weight") else std
            assert abs(p.std().item() / wanted - 1) < 4 / math.sqrt(2 * p.numel()), name


@every_config
def test_a_sequence_may_be_as_long_as_max_length_and_no_longer(backbone):
    assert trunk(backbone)(torch.randn(1, 16, 16)).shape == (1, 16, 16)
    with pytest.raises(ValueError, match="sequence of 17 positions is longer than max_length = 16"):
        trunk(backbone)(torch.randn(1, 17, 16))


@pytest.mark.parametrize("residual", ["benchmark-jpmhc", "emhc-stream", "emhc-mixer"])
@every_config
def test_a_trunk_may_be_as_wide_as_all_streams(backbone, residual):
    post = Transformer(small(backbone, norm_at="post"), residual, ends="split")
    assert post(torch.randn(2, 5, 64)).shape == (2, 5, 64)
    wide = Transformer(small(backbone), residual, ends="split")
    assert wide.width == 64 and wide(torch.randn(2, 5, 64)).shape == (2, 5, 64)
    assert all(layer.norm.weight.shape == (16,) for layer in wide.layers)
    assert ContinuousModel(wide, 6)(torch.randn(2, 5, 6)).shape == (2, 5, 6)
    assert PointModel(wide, 6, 3)(torch.randn(2, 5, 6)).shape == (2, 5, 3)
    assert TokenModel(wide, 11)(tokens()).shape == (3, 7, 11)


# ---------------------------------------------------------------- the models around it

def test_a_token_model_ties_its_embedding_or_writes_with_a_map_of_its_own():
    tied = token()
    h = tied.trunk(tied.embedding.weight[tokens()])
    assert_close(tied(tokens()), h @ tied.embedding.weight.T, **CLOSE)
    assert len([*tied.parameters()]) == len([*tied.trunk.parameters()]) + 1
    apart = TokenModel(trunk(), 2000, tied=False)
    h = apart.trunk(apart.embedding(tokens()))
    assert torch.equal(apart(tokens()), h @ apart.output.weight.T + apart.output.bias)
    for model, std in ((TokenModel(trunk(), 2000), 0.02), (apart, 1.0)):  # ours, and PyTorch's
        assert model.embedding.weight.std().item() == pytest.approx(std, rel=0.05)


@pytest.mark.parametrize("build", [continuous, lambda: PointModel(trunk(), 6, 3).double()])
def test_a_model_of_vectors_reads_and_writes_linearly(build):
    model = build()
    inside = vectors() @ model.read.weight.T + model.read.bias
    assert_close(model(vectors()), model.trunk(inside) @ model.write.weight.T + model.write.bias,
                 **CLOSE)


def test_a_penalty_sees_model_input_and_states_and_counts_in_training_only():
    model = PointModel(trunk(), 6, 3, penalty=lambda model, x, h: (
        h.square().sum() + model.write(h).sum() + x.sum())).double()
    with collect_penalties() as found:
        model(vectors())
    h = model.states(vectors())
    assert_close(found, [h.square().sum() + model.write(h).sum() + vectors().sum()], **CLOSE)
    with collect_penalties() as found:
        model.eval()(vectors())
    assert found == []


def test_the_trunk_gets_what_it_reads_besides():
    class Shift(nn.Module):
        config = small("ddl")

        def forward(self, x, by):
            return x + by

    model = PointModel(Shift(), 6, 3, reads=(torch.tensor(2.0),)).double()
    assert_close(model.states(vectors()), model.read(vectors()) + 2, **CLOSE)
