import math

import pytest
import torch
from shared import normal, shaken
from torch import nn
from torch.testing import assert_close

from geolab import kernels
from geolab.models import ContinuousModel, PointModel, TokenModel, Transformer, TransformerConfig
from geolab.models.layers import MLP, Attention, Layer
from geolab.penalties import collect_penalties
from geolab.probes import future_influence, influence
from geolab.residuals import REGISTRY, Additive

CLOSE = dict(rtol=0, atol=1e-12)
CONFIGS = {"ddl": TransformerConfig.ddl, "benchmark": TransformerConfig.benchmark}

every_residual = pytest.mark.parametrize("residual", sorted(REGISTRY))
every_config = pytest.mark.parametrize("backbone", CONFIGS)


def small(backbone, **changes):
    return CONFIGS[backbone](**{"width": 16, "layers": 2, "heads": 2, "max_length": 16} | changes)


def continuous(config, residual="additive", **options):
    torch.manual_seed(0)
    return ContinuousModel(Transformer(config, residual, **options), 6).double()


def token(config, residual="additive", **options):
    torch.manual_seed(0)
    return TokenModel(Transformer(config, residual, **options), 11).double()


def vectors(width=6):
    return normal(2, 7, width)


def tokens():
    return torch.randint(11, (3, 7), generator=torch.Generator().manual_seed(0))


# ---------------------------------------------------------------- recomputation

@pytest.mark.parametrize("backbone, norm_at", [("ddl", "pre"), ("benchmark", "post")])
@every_residual
def test_what_is_recomputed_has_the_same_gradients(residual, backbone, norm_at):
    if norm_at == "post" and residual in ("delta-matrix", "value-residual"):
        norm_at = "pre"  # its state has no streams for a norm to follow
    model = shaken(continuous(small(backbone, norm_at=norm_at), residual), 0.1)
    x, parameters = vectors(), list(model.parameters())
    wanted = torch.autograd.grad(model(x).sin().sum(), parameters, allow_unused=True)
    for layers in (1, 3):
        model.trunk.recompute = layers
        found = torch.autograd.grad(model(x).sin().sum(), parameters, allow_unused=True)
        assert_close([g for g in found if g is not None], [g for g in wanted if g is not None],
                     rtol=0, atol=0)


@pytest.mark.skipif(not kernels.TWINS, reason="kernels need Triton")
def test_recomputation_remembers_which_path_the_forward_pass_took():
    model = Transformer(small("benchmark"), "mhc", iterations=2)
    model.recompute = 2
    with kernels.use("always"):
        y = model(vectors(16).float())
    y.sum().backward()


# ---------------------------------------------------------------- causality

@pytest.mark.parametrize("build, x", [(continuous, vectors()), (token, tokens())],
                         ids=["continuous", "token"])
@every_config
def test_an_output_reads_all_of_its_past_and_without_the_mask_the_future(build, x, backbone):
    model = shaken(build(small(backbone)), 0.1)
    assert future_influence(model, x) == 0
    assert influence(model, x)[torch.ones(7, 7).tril() > 0].min() > 0
    model = shaken(build(small(backbone, causal=False)), 0.1)
    assert future_influence(model, x) > 1e-5 * influence(model, x).max()


@every_residual
def test_no_token_reads_the_future(residual):
    assert future_influence(shaken(token(small("ddl"), residual), 0.1), tokens()) == 0


# ---------------------------------------------------------------- the parts, by hand

@pytest.mark.parametrize("residual, layers, options, published, within", [
    ("additive", 9, {}, 1_771_776, 0),
    ("benchmark-delta", 8, {"pool": "sequence"}, 1_775_120, 0),
    ("emhc-hybrid", 6, {"pool": "sequence", "hidden_ratio": 1}, 1_779_240, 0.01)])
def test_blocks_have_the_published_number_of_parameters(
        residual, layers, options, published, within):
    trunk = Transformer(TransformerConfig.benchmark(layers=layers), residual, **options)
    numbers = sum(p.numel() for p in trunk.layers.parameters())
    assert abs(numbers / published - 1) <= within


def softmax_attention(layer, x, config):
    """Attention one head and one query at a time."""
    B, T, D = x.shape
    E = D // config.heads
    result = torch.zeros_like(x)
    for b in range(B):
        q, k, v = (x[b] @ layer.qkv.weight.T).split(D, dim=-1)
        for head in range(config.heads):
            own = slice(head * E, (head + 1) * E)
            qs, ks = q[:, own], k[:, own]
            if config.positions == "rope":
                qs, ks = by_complex_numbers(qs), by_complex_numbers(ks)
            if config.qk_norm:
                qs, ks = (norm.weight * u / (u.square().mean(-1, keepdim=True) + 1e-5).sqrt()
                          for norm, u in ((layer.q_norm, qs), (layer.k_norm, ks)))
            for t in range(T):
                last = t + 1 if config.causal else T
                weights = torch.exp(ks[:last] @ qs[t] / math.sqrt(E))
                result[b, t, own] = (weights / weights.sum()) @ v[:last, own]
    return result @ layer.out.weight.T


def by_complex_numbers(x, base=1e4):
    """Rotary positions: feature pair i of position t turns by t · base^(−2i/E)."""
    T, E = x.shape
    pairs = torch.complex(x[:, :E // 2], x[:, E // 2:])

    def turned(t, i):
        angle = t * base ** (-2 * i / E)
        return pairs[t, i] * complex(math.cos(angle), math.sin(angle))

    turned = torch.stack([torch.stack([turned(t, i) for i in range(E // 2)]) for t in range(T)])
    return torch.cat([turned.real, turned.imag], dim=-1)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("qk_norm", [True, False])
@pytest.mark.parametrize("positions", ["rope", "learned"])
def test_attention_is_softmax_attention(positions, qk_norm, causal):
    torch.manual_seed(0)
    config = TransformerConfig(width=16, heads=2, positions=positions, qk_norm=qk_norm,
                               causal=causal, init_std=0.5)
    layer = Attention(config).double()
    if qk_norm:
        nn.init.normal_(layer.q_norm.weight)
        nn.init.normal_(layer.k_norm.weight)
    x = vectors(16)
    assert_close(layer(x), softmax_attention(layer, x, config), **CLOSE)


def test_mlp_by_hand():
    torch.manual_seed(0)
    x = vectors(8)
    gelu = MLP(TransformerConfig(width=8, heads=1, hidden=5, mlp="gelu", init_std=0.5)).double()
    up = x @ gelu.up.weight.T
    assert_close(gelu(x), (up * (1 + torch.erf(up / math.sqrt(2))) / 2) @ gelu.out.weight.T,
                 **CLOSE)
    swiglu = MLP(TransformerConfig(width=8, heads=1, hidden=5, mlp="swiglu", init_std=0.5)).double()
    gate = x @ swiglu.gate.weight.T
    assert_close(swiglu(x), (gate / (1 + torch.exp(-gate)) * (x @ swiglu.up.weight.T))
                 @ swiglu.out.weight.T, **CLOSE)


def test_learned_positions_are_added_to_the_input():
    torch.manual_seed(0)
    trunk, x = Transformer(small("benchmark")).double(), vectors(16)
    with_positions, position = trunk(x), trunk.position.detach().clone()
    with torch.no_grad():
        trunk.position.zero_()
    assert_close(with_positions, trunk(x + position[:, :7]), rtol=0, atol=0)
    assert (with_positions - trunk(x)).abs().max() > 1e-3


# ---------------------------------------------------------------- norms

@pytest.mark.parametrize("norm_at", ["pre", "post"])
@pytest.mark.parametrize("norm", ["rms", "layer"])
def test_a_norm_stands_before_the_sublayer_or_after_the_sum(norm, norm_at):
    torch.manual_seed(0)
    config = TransformerConfig(width=16, heads=2, norm=norm, norm_at=norm_at)
    layer, x = shaken(Layer(config, MLP(config), Additive(16)).double()), vectors(16)

    def normed(x):
        x = x - x.mean(-1, keepdim=True) if norm == "layer" else x
        return layer.norm.weight * x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt()

    expected = x + layer.mix(normed(x)) if norm_at == "pre" else normed(x + layer.mix(x))
    assert_close(layer(x), expected, **CLOSE)


# ---------------------------------------------------------------- initialisation and use

@every_config
def test_matrices_and_positions_start_at_their_standard_deviation(backbone):
    torch.manual_seed(0)
    config = CONFIGS[backbone](width=128, layers=2)
    for name, p in Transformer(config).named_parameters():
        if p.ndim >= 2:
            std = config.output_std if name.endswith("mix.out.weight") else config.init_std
            assert abs(p.std().item() / std - 1) < 4 / math.sqrt(2 * p.numel()), name


def test_published_standard_deviations():
    ddl, benchmark = TransformerConfig.ddl(width=64, layers=4), TransformerConfig.benchmark()
    assert (ddl.init_std, ddl.output_std) == (0.5 / 8, 0.5 / 8 / 2)
    assert (benchmark.init_std, benchmark.output_std) == (0.02, 0.02 / math.sqrt(18))


def test_token_model_ties_its_embedding():
    model = token(small("ddl"))
    logits = model(tokens())
    assert logits.shape == (3, 7, 11)
    assert_close(logits, model.trunk(model.embedding.weight[tokens()]) @ model.embedding.weight.T,
                 **CLOSE)
    inside = sum(p.numel() for p in model.trunk.parameters())
    assert sum(p.numel() for p in model.parameters()) == inside + 11 * 16


def test_an_untied_token_model_writes_with_a_map_of_its_own():
    torch.manual_seed(0)
    model = TokenModel(Transformer(small("ddl")), 2000, tied=False)
    h = model.trunk(model.embedding(tokens()))
    assert torch.equal(model(tokens()), h @ model.output.weight.T + model.output.bias)
    assert 0.95 < model.embedding.weight.std() < 1.05    # as PyTorch makes it
    assert TokenModel(Transformer(small("ddl")), 11).output is None


def test_continuous_model_reads_and_writes_linearly():
    model = continuous(small("ddl"))
    inside = vectors() @ model.read.weight.T + model.read.bias
    assert_close(model(vectors()), model.trunk(inside) @ model.write.weight.T + model.write.bias,
                 **CLOSE)


# ---------------------------------------------------------------- errors

@every_config
def test_a_sequence_may_be_as_long_as_max_length_and_no_longer(backbone):
    trunk = Transformer(small(backbone))
    assert trunk(torch.randn(1, 16, 16)).shape == (1, 16, 16)
    with pytest.raises(ValueError, match="sequence of 17 positions is longer than max_length = 16"):
        trunk(torch.randn(1, 17, 16))


@pytest.mark.parametrize("residual", ["benchmark-jpmhc", "emhc-stream", "emhc-mixer"])
@every_config
def test_a_trunk_may_be_as_wide_as_all_streams(backbone, residual):
    post = Transformer(small(backbone, norm_at="post"), residual, ends="split")
    assert post(torch.randn(2, 5, 64)).shape == (2, 5, 64)
    trunk = Transformer(small(backbone), residual, ends="split")
    assert trunk.width == 64 and trunk(torch.randn(2, 5, 64)).shape == (2, 5, 64)
    assert trunk.norm.weight.shape == (64,)
    assert backbone == "ddl" or trunk.position.shape == (1, 16, 64)
    assert all(layer.norm.weight.shape == (16,) for layer in trunk.layers)
    assert ContinuousModel(trunk, 6)(torch.randn(2, 5, 6)).shape == (2, 5, 6)
    assert PointModel(trunk, 6, 3)(torch.randn(2, 5, 6)).shape == (2, 5, 3)
    assert TokenModel(trunk, 11)(tokens()).shape == (3, 7, 11)
    with pytest.raises(ValueError, match="^input must have 64 features"):
        trunk(torch.randn(2, 5, 16))


# ---------------------------------------------------------------- a score at each position

def point(**options):
    torch.manual_seed(0)
    return PointModel(Transformer(small("ddl"), "additive"), 6, 3, **options).double()


def test_a_point_model_scores_each_position():
    model = point()
    assert model(vectors()).shape == (2, 7, 3)
    assert_close(model(vectors()), model.write(model.trunk(model.read(vectors()))), **CLOSE)


def test_a_penalty_sees_model_input_and_states_and_counts_in_training_only():
    model = point(penalty=lambda model, x, h: h.square().sum() + model.write(h).sum() + x.sum())
    with collect_penalties() as found:
        model(vectors())
    h = model.states(vectors())
    assert_close(found, [h.square().sum() + model.write(h).sum() + vectors().sum()], **CLOSE)
    with collect_penalties() as found:
        model.eval()(vectors())
    assert found == []


@pytest.mark.parametrize("name", REGISTRY)
def test_torch_compile_takes_the_whole_network_with_its_penalties(name):
    torch.compiler.reset()
    torch.manual_seed(0)
    rounds = {"iterations": 2} if name in ("mhc", "mhc-delta") else {}  # the compiler unrolls them
    trunk = Transformer(small("ddl", layers=1), name, **rounds).double()
    x = torch.randn(2, 7, 16, dtype=torch.float64)
    compiled = torch.compile(trunk, fullgraph=True, backend="eager")
    compiled(x)
    results = []
    for model in (trunk, compiled):
        with collect_penalties() as penalties:
            y = model(x)
        loss = y.square().sum() + sum(penalties)
        gradients = torch.autograd.grad(loss, list(trunk.parameters()), allow_unused=True)
        results.append([y, *penalties, *gradients])
    assert_close(*results, **CLOSE)


def test_the_trunk_gets_what_it_reads_besides():
    class Shift(nn.Module):
        config = small("ddl")

        def forward(self, x, by):
            return x + by

    model = PointModel(Shift(), 6, 3, reads=(torch.tensor(2.0),)).double()
    assert_close(model.states(vectors()), model.read(vectors()) + 2, **CLOSE)
