import itertools
import math

import pytest
import torch
from shared import CLOSE, normal, sublayer
from torch import nn
from torch.testing import assert_close

from geolab.models import Transformer, TransformerConfig
from geolab.penalties import collect_penalties
from geolab.residuals import Cayley, Exact, Geodesic, Hybrid, Mixer, Normed, Stream, emhc
from geolab.residuals.pooling import POOLS, pool

WIDTH, N = 16, 4
IDENTITY = torch.eye(N, dtype=torch.float64)
FAMILY = {"cayley": Cayley, "hybrid": Hybrid, "hybrid-hard": Hybrid, "geodesic": Geodesic,
          "exact": Exact, "stream": Stream, "stream-hard": Stream, "mixer": Mixer}
every_pool = pytest.mark.parametrize("how", POOLS)


def make(name, width=WIDTH, lively=False, **options):
    """A residual in float64.

    Lively: with generator weights so large that the operator is nowhere near the identity, and with
    random maps P_pre and P_post.
    """
    torch.manual_seed(3)
    if name.endswith("-hard"):
        options["gate"] = "hard"
    residual = FAMILY[name](width, **options).double()
    if lively:
        matrices = [p for p in residual.parameters() if p.ndim == 2]
        maps = [p for p in matrices if p.shape[0] == p.shape[1]]
        for p in [p for p in matrices if p.shape[0] != p.shape[1]]:
            nn.init.normal_(p, std=0.7)
        for p in maps:
            nn.init.normal_(p, std=0.25)
    return residual


def some_state(name, seed=0):
    streams = (N,) if name.startswith(("stream", "mixer")) else ()
    return normal(2, 5, *streams, WIDTH, seed=seed)


# ---------------------------------------------------------------- the equations, by hand

def layer_norm(x):
    variance = x.var(-1, unbiased=False, keepdim=True)
    return (x - x.mean(-1, keepdim=True)) / (variance + 1e-5).sqrt()


def raw_numbers(residual, state, how, normalise):
    """Pool, layer-norm if the residual does, Linear, GELU, Linear; for all positions."""
    pooled = pool(state, how).expand_as(state)
    if normalise:
        pooled = layer_norm(pooled)
    g = residual.generator
    hidden = pooled @ g[0].down.weight.T + g[0].down.bias
    return (hidden * (1 + torch.erf(hidden / math.sqrt(2))) / 2) @ g[1].weight.T + g[1].bias


def rotation_by_solving(u, v, beta):
    m = math.log1p(math.exp(beta)) / 2 * (torch.outer(u, v) - torch.outer(v, u))
    return torch.linalg.solve(IDENTITY + m, IDENTITY - m)


def reflection(k):
    return IDENTITY - 2 * torch.outer(k, k) / (k @ k)


def operator_by_hand(name, r):
    """G at one token from the generator's numbers r; for the geodesic, complex."""
    if name == "exact":
        w = torch.zeros(N, N, dtype=torch.float64)
        for number, (i, j) in zip(r, itertools.combinations(range(N), 2), strict=True):
            w[i, j], w[j, i] = number, -number
        return torch.linalg.solve(IDENTITY + w, IDENTITY - w)
    rotation = rotation_by_solving(r[:4], r[4:8], r[8].item())
    if name == "cayley":
        return rotation
    k, gate = r[9:13], 1 / (1 + math.exp(-r[13].item()))
    if name == "geodesic":
        values, vectors = torch.linalg.eigh(reflection(k))  # −1 and 1 three times: a power of each
        powers = torch.exp(1j * math.pi * (1 - gate) * (values < 0).double())
        return rotation.to(torch.complex128) @ (vectors * powers) @ vectors.T.to(torch.complex128)
    if name.endswith("-hard"):
        gate = float(gate > 0.5)
    return gate * rotation + (1 - gate) * reflection(k)


def mixed_by_hand(name, x, r):
    """G at one token on its streams (n, d)."""
    g = operator_by_hand(name, r)
    if name != "geodesic":
        return g @ x
    d = x.shape[-1] // 2
    y = g @ torch.complex(x[:, :d], x[:, d:])
    return torch.cat([y.real, y.imag], dim=-1)


@every_pool
@pytest.mark.parametrize("name", ["cayley", "hybrid", "hybrid-hard", "geodesic", "exact"])
def test_series_forward_is_the_equation_written_out(name, how):
    residual, mix, x = make(name, lively=True, pool=how), sublayer(WIDTH), some_state(name)
    numbers = raw_numbers(residual, x, how, normalise=name == "exact")
    z = torch.empty_like(x)
    for b, t in itertools.product(range(2), range(5)):
        z[b, t] = mixed_by_hand(name, x[b, t].view(N, -1), numbers[b, t]).flatten()
    before, after = residual.before, residual.after
    assert_close(residual(x, mix), z + mix(z @ before.T) @ after.T, **CLOSE)
    assert_close(residual(x, Normed(mix, layer_norm)),
                 z + mix(layer_norm(z) @ before.T) @ after.T, **CLOSE)
    assert (z - x).abs().max() > 0.3


@every_pool
@pytest.mark.parametrize("reads", ["state", "mixed"])
@pytest.mark.parametrize("name", ["stream", "stream-hard"])
def test_stream_forward_is_the_equation_written_out(name, how, reads):
    residual, mix = make(name, lively=True, pool=how, router_reads=reads), sublayer(WIDTH)
    x = some_state(name)
    step = residual(x, mix)
    numbers = raw_numbers(residual, x.flatten(-2), how, normalise=True)
    for b, t in itertools.product(range(2), range(5)):
        g = mixed_by_hand(name, x[b, t], numbers[b, t])
        normed = layer_norm((g if reads == "mixed" else x[b, t]).flatten())
        pre, post = (residual.router.weight @ normed + residual.router.bias).view(2, N, N)
        y = mix((pre.softmax(dim=1) @ g).mean(0))
        assert_close(step[b, t], g + post.softmax(dim=0) @ y.expand(N, -1), **CLOSE)


@pytest.mark.parametrize("index", [0, 1], ids=["attention", "mlp"])
@pytest.mark.parametrize("options", [{}, {"mlp": "swiglu"}, {"norm_at": "post"}], ids=str)
def test_the_backbone_folds_the_maps_into_f_and_computes_the_same(options, index):
    torch.manual_seed(0)
    config = TransformerConfig.benchmark(width=WIDTH, layers=1, heads=2, init_std=0.5,
                                         output_std=0.5, **options)
    layer = Transformer(config, "emhc-cayley").double().layers[index]
    maps = nn.init.normal_(layer.residual.before, std=0.3), nn.init.normal_(layer.residual.after)
    z, slope = some_state("cayley").requires_grad_(), some_state("cayley", seed=1)
    read = z if layer.norm_at == "post" else layer.norm(z)
    leaves = [z, *maps, *layer.mix.parameters()]
    ours = layer.sublayer.between(z, *maps)
    by_hand = layer.mix(read @ maps[0].T) @ maps[1].T
    for a, b in zip(*([y, *torch.autograd.grad(y, leaves, slope)] for y in (ours, by_hand)),
                    strict=True):
        assert_close(a, b, rtol=1e-12, atol=1e-12)


# ---------------------------------------------------------------- step 0

def angle(rotation):
    """The angle of the one plane that a rotation turns: trace = n − 2 + 2 cos."""
    return torch.acos((rotation.diagonal(dim1=-2, dim2=-1).sum(-1) - 2).div(2).clamp(-1, 1))


def test_published_start_turns_by_next_to_nothing():
    published = make("cayley", width=128, start="published", streams=4)
    x = normal(1, 3, 128)
    assert (published.coefficients(x).mix - IDENTITY).abs().max() < 1e-3


@pytest.mark.parametrize("beta", [0.01, 0.1, 2.0])
def test_plane_start_turns_by_the_cayley_angle_of_beta_init(beta):
    x = torch.zeros(1, 1, WIDTH, dtype=torch.float64)
    for name in ("cayley", "hybrid"):
        given = make(name, beta_init=beta).coefficients(x)
        rotation = given.mix if name == "cayley" else given.rotation
        assert_close(angle(rotation), torch.full((1, 1), 2 * math.atan(beta / 2),
                                                 dtype=torch.float64), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("start", ["plane", "published"])
@pytest.mark.parametrize("bias", [-1.5, 0.0, 3.0])
def test_hybrid_gate_starts_at_its_bias_and_decides_the_smallest_singular_value(bias, start):
    given = make("hybrid", gate_bias=bias, start=start).coefficients(some_state("hybrid"))
    gate = 1 / (1 + math.exp(-bias))
    assert_close(given.gate, torch.full((2, 5), gate, dtype=torch.float64), rtol=1e-6, atol=0)
    assert_close(torch.linalg.svdvals(given.mix)[..., -1],
                 torch.full((2, 5), abs(2 * gate - 1), dtype=torch.float64), rtol=0, atol=1e-7)


def test_published_stream_starts_at_one_half():
    gate = make("stream", start="published").coefficients(some_state("stream")).gate
    assert (gate - 0.5).abs().max() < 0.01
    assert (make("stream", gate_bias=3.0).coefficients(some_state("stream")).gate > 0.95).all()


def test_exact_starts_near_the_identity():
    operator = make("exact").coefficients(some_state("exact")).mix
    assert 0 < (operator - IDENTITY).abs().max() < 0.05


def test_stream_router_starts_near_the_mean_and_near_one():
    given = make("stream").coefficients(some_state("stream"))
    assert (given.read - 1 / N).abs().max() < 0.1 and (given.write - 1).abs().max() < 0.4


@pytest.mark.parametrize("maps, gain", [("identity", 1.0), ("published", 0.02 * math.sqrt(128))])
def test_maps_at_the_start(maps, gain):
    residual = make("cayley", width=128, maps=maps)
    x = normal(500, 128)
    for weight in (residual.before, residual.after):
        y = x @ weight.T
        assert (y.norm() / x.norm()).item() == pytest.approx(gain, rel=0.05)
        assert torch.equal(y, x) == (maps == "identity")


def test_without_maps_there_are_none():
    without, with_maps = make("cayley", maps="none"), make("cayley")
    assert {"before", "after"}.isdisjoint(dict(without.named_parameters()))
    with_maps.load_state_dict(without.state_dict(), strict=False)
    x, mix = some_state("cayley"), sublayer(WIDTH)
    assert_close(without(x, mix), with_maps(x, mix), **CLOSE)


# ---------------------------------------------------------------- the hard gate

def test_a_hard_gate_of_exactly_one_half_takes_the_reflection():
    given = make("hybrid", lively=True).coefficients(some_state("hybrid"))
    k = given.direction / given.direction.norm(dim=-1, keepdim=True)
    tie = emhc.gated(given.rotation, k, torch.full_like(given.gate, 0.5), "hard")
    assert_close(tie, IDENTITY - 2 * k.unsqueeze(-1) * k.unsqueeze(-2), **CLOSE)


def test_its_gradient_is_the_soft_gates():
    soft, hard = make("hybrid", lively=True), make("hybrid-hard", lively=True)
    x, probe = some_state("hybrid"), normal(2, 5, N, N, seed=5)
    for residual in (soft, hard):
        (residual.coefficients(x).mix * probe).sum().backward()
    for p, q in zip(soft.generator.parameters(), hard.generator.parameters(), strict=True):
        assert_close(p.grad, q.grad, **CLOSE)


# ---------------------------------------------------------------- a head of its own for the gate

def logit(residual, state):
    gate = residual.coefficients(state).gate
    return torch.log(gate / (1 - gate))


@every_pool
@pytest.mark.parametrize("gate", ["soft", "hard"])
@pytest.mark.parametrize("bias", [-1.5, 0.0, 3.0])
def test_a_linear_gate_is_linear_in_the_pooled_state_and_starts_at_its_bias(how, gate, bias):
    residual = make("hybrid", lively=True, gate_head="linear", gate=gate, gate_bias=bias, pool=how)
    nn.init.zeros_(residual.gate_head.weight)
    a, b = some_state("hybrid"), some_state("hybrid", seed=1)
    start = torch.full_like(residual.coefficients(a).gate, 1 / (1 + math.exp(-bias)))
    assert_close(residual.coefficients(a).gate, start, rtol=1e-6, atol=0)
    assert torch.equal(make("hybrid", gate_head="linear").gate_head.weight,
                       torch.zeros(1, WIDTH, dtype=torch.float64))

    nn.init.normal_(residual.gate_head.weight)
    assert_close(logit(residual, 0.3 * a + 0.7 * b), 0.3 * logit(residual, a)
                 + 0.7 * logit(residual, b), rtol=0, atol=1e-10)
    assert_close(logit(residual, a), pool(a, how) @ residual.gate_head.weight[0] + bias, rtol=0,
                 atol=1e-10)
    generated = make("hybrid", lively=True, pool=how)
    assert (logit(generated, 0.3 * a + 0.7 * b) - 0.3 * logit(generated, a)
            - 0.7 * logit(generated, b)).abs().max() > 1e-2


def test_a_linear_gate_learns_and_leaves_the_rest_of_the_generator_where_it_was():
    ours, published, x = make("hybrid"), make("hybrid", gate_head="linear"), some_state("hybrid")
    last = published.generator[-1]
    assert last.out_features == ours.generator[-1].out_features - 1
    assert_close(last.bias[-N:].norm(), torch.ones((), dtype=torch.float64), rtol=0, atol=1e-6)  # k
    assert (last.weight.abs().amax(-1) > 0).all()
    assert_close(published.coefficients(x).gate, ours.coefficients(x).gate, **CLOSE)
    published(x, sublayer(WIDTH)).square().sum().backward()
    assert all(p.grad.abs().min() > 0 for p in published.gate_head.parameters())
    assert all(p.grad.abs().max() > 0 for p in published.generator.parameters())


def test_a_linear_gate_steps_by_its_own_operator():
    residual = make("hybrid", lively=True, gate_head="linear", gate_bias=0.5, maps="none")
    x = some_state("hybrid")
    nn.init.normal_(residual.gate_head.weight)
    mixed = residual.coefficients(x).mix @ x.view(2, 5, N, -1)
    assert_close(residual(x, torch.zeros_like), mixed.flatten(-2), **CLOSE)


# ---------------------------------------------------------------- one net, or one for each part

@every_pool
@pytest.mark.parametrize("name, options", [("cayley", {}), ("hybrid", {}), ("geodesic", {}),
                                           ("hybrid", {"gate_head": "linear"})])
def test_separate_nets_are_one_net_whose_last_layer_is_block_diagonal(name, options, how):
    separate = make(name, lively=True, nets="separate", hidden_ratio=8, pool=how, **options)
    sizes = separate.generator[-1].outputs
    assert sizes == (N, N, 1, N, 1)[:len(sizes)]
    one = make(name, hidden_ratio=WIDTH / (2 * len(sizes)), pool=how, **options)
    weights = separate.state_dict()
    weights["generator.1.weight"] = torch.block_diag(*weights["generator.1.weight"].split(sizes))
    one.load_state_dict(weights)
    x, mix = some_state(name), sublayer(WIDTH)
    assert_close(separate(x, mix), one(x, mix), **CLOSE)
    assert (separate(x, torch.zeros_like) - x).abs().max() > 0.1


@pytest.mark.parametrize("start", ["plane", "published"])
def test_separate_nets_start_as_one_net_does(start):
    one, separate = (make("hybrid", width=128, nets=nets, start=start)
                     for nets in ("one", "separate"))
    for part in separate.generator[0].down, separate.generator[1]:
        assert part.weight[:-1].std().item() == pytest.approx(0.02, rel=0.2)
    x = normal(1, 3, 128)
    close = dict(rtol=0, atol=1e-2)
    assert_close(angle(separate.coefficients(x).rotation), angle(one.coefficients(x).rotation),
                 **close)
    assert_close(separate.coefficients(x).gate, one.coefficients(x).gate, **CLOSE)


# ---------------------------------------------------------------- the penalty

@pytest.mark.parametrize("name", ["hybrid", "hybrid-hard", "stream", "mixer"])
def test_the_penalty_is_the_mean_of_4_gate_1_minus_gate(name):
    residual, x = make(name, penalty=0.3, gate_bias=0.4), some_state(name)
    with collect_penalties() as penalties:
        residual(x, torch.tanh)
    gate = residual.coefficients(x).gate
    assert_close(penalties, [0.3 * (4 * gate * (1 - gate)).mean()], **CLOSE)


@pytest.mark.parametrize("name, options", [("cayley", {}), ("geodesic", {}), ("exact", {}),
                                           ("stream", {}), ("hybrid-hard", {}),
                                           ("hybrid", {"penalty": 0.0})])
def test_no_gate_or_no_weight_no_penalty(name, options):
    with collect_penalties() as penalties:
        make(name, **options)(some_state(name), torch.tanh)
    assert penalties == []
