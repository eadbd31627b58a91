import itertools
import math
import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from geolab.models import ContinuousModel, Transformer, TransformerConfig
from geolab.penalties import collect_penalties
from geolab.probes import future_influence, influence
from geolab.residuals import Cayley, Exact, Geodesic, Hybrid, Normed, Stream, emhc
from geolab.residuals.emhc import OperatorCoefficients
from geolab.residuals.pooling import POOLS, pool

WIDTH, N = 16, 4
CLOSE = dict(rtol=1e-10, atol=1e-10)
IDENTITY = torch.eye(N, dtype=torch.float64)
FAMILY = {"cayley": Cayley, "hybrid": Hybrid, "hybrid-hard": Hybrid, "geodesic": Geodesic,
          "exact": Exact, "stream": Stream, "stream-hard": Stream}
every_residual = pytest.mark.parametrize("name", FAMILY)
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


def some_state(name, seed=0, T=5):
    shape = (2, T, N, WIDTH) if name.startswith("stream") else (2, T, WIDTH)
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def sublayer():
    torch.manual_seed(4)
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()).double()


def transformer(name, **options):
    torch.manual_seed(0)
    if name.endswith("-hard"):
        options["gate"] = "hard"
    config = TransformerConfig.benchmark(width=WIDTH, layers=2, heads=2, max_length=16)
    return ContinuousModel(Transformer(config, FAMILY[name], **options), 6).double()


def vectors():
    return torch.randn(2, 7, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def orthogonality(operator):
    return (operator.mT @ operator
            - torch.eye(operator.shape[-1], dtype=operator.dtype)).abs().max().item()


def smallest_singular_value(operator):
    return torch.linalg.svdvals(operator)[..., -1]


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
    residual, mix, x = make(name, lively=True, pool=how), sublayer(), some_state(name)
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
    residual, mix = make(name, lively=True, pool=how, router_reads=reads), sublayer()
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


@every_residual
@every_pool
def test_coefficients_have_their_shapes(name, how):
    residual, x = make(name, pool=how), some_state(name)
    given = residual.coefficients(x)
    T, n = 1 if how == "sequence" else 5, 8 if name == "geodesic" else 4
    assert isinstance(given, OperatorCoefficients) and given.mix.shape == (2, T, n, n)
    if given.gate is not None:
        assert given.rotation.shape == (2, T, 4, 4)
        assert given.direction.shape == (2, T, 4) and given.gate.shape == (2, T)
    if name.startswith("stream"):  # the router works by token whatever is pooled
        assert given.read.shape == given.write.shape == (2, 5, 4)
        assert_close(given.read.sum(-1), torch.ones(2, 5, dtype=torch.float64), **CLOSE)
        assert_close(given.write.sum(-1), 4 * torch.ones(2, 5, dtype=torch.float64), **CLOSE)


# ---------------------------------------------------------------- step 0

def angle(rotation):
    """The angle of the one plane that a rotation turns: trace = n − 2 + 2 cos."""
    return torch.acos((rotation.diagonal(dim1=-2, dim2=-1).sum(-1) - 2).div(2).clamp(-1, 1))


def test_published_start_turns_by_next_to_nothing():
    published = make("cayley", width=128, start="published", streams=4)
    x = torch.randn(1, 3, 128, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
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
    assert_close(smallest_singular_value(given.mix),
                 torch.full((2, 5), abs(2 * gate - 1), dtype=torch.float64), rtol=0, atol=1e-7)


def test_a_neutral_soft_gate_starts_exactly_singular_and_no_other_form_does():
    x = some_state("hybrid")
    for name in ("hybrid", "stream"):
        soft = make(name, gate_bias=0.0).coefficients(some_state(name)).mix
        assert smallest_singular_value(soft).max() < (1e-12 if name == "hybrid" else 1e-2)
    for operator in (make("hybrid-hard", gate_bias=0.0).coefficients(x).mix,
                     make("stream-hard", gate_bias=0.0).coefficients(some_state("stream")).mix,
                     make("geodesic", gate_bias=0.0).coefficients(x).mix):
        assert orthogonality(operator) < 1e-12


def test_with_the_default_bias_the_hybrid_starts_near_the_identity():
    # G − I = γ (Q − I) − 2 (1 − γ) k kᵀ, with γ = σ(3) and Q turned by 2 atan(β/2)
    far = torch.linalg.matrix_norm(make("hybrid").coefficients(some_state("hybrid")).mix - IDENTITY,
                                   ord=2)
    assert far.max() < 2 * (1 - 1 / (1 + math.exp(-3))) + 0.11
    neutral = torch.linalg.matrix_norm(
        make("hybrid", gate_bias=0.0).coefficients(some_state("hybrid")).mix - IDENTITY, ord=2)
    assert neutral.min() > 0.9


def test_published_stream_starts_at_one_half_whatever_gate_bias_says():
    gate = make("stream", start="published", gate_bias=3.0).coefficients(some_state("stream")).gate
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
    x = torch.randn(500, 128, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for weight in (residual.before, residual.after):
        y = x @ weight.T
        assert (y.norm() / x.norm()).item() == pytest.approx(gain, rel=0.05)
        assert torch.equal(y, x) == (maps == "identity")


def test_without_maps_there_are_none():
    without, with_maps = transformer("cayley", maps="none"), transformer("cayley")
    assert not any("before" in name or "after" in name for name, _ in without.named_parameters())
    with_maps.load_state_dict(without.state_dict(), strict=False)
    assert_close(without(vectors()), with_maps(vectors()), **CLOSE)


def test_streams_start_as_copies_and_leave_as_their_mean():
    residual, x = make("stream"), some_state("cayley")
    state = residual.expand(x)
    assert state.shape == (2, 5, N, WIDTH) and all(torch.equal(state[..., i, :], x)
                                                   for i in range(N))
    assert_close(residual.reduce(state), x, **CLOSE)


# ---------------------------------------------------------------- the operators, anywhere

@pytest.mark.parametrize("name", ["cayley", "hybrid-hard", "geodesic", "exact", "stream-hard"])
@given(seed=st.integers(0, 2**31), scale=st.floats(1e-2, 30))
def test_orthogonal_for_every_input(name, seed, scale):
    operator = make(name, lively=True).coefficients(scale * some_state(name, seed)).mix
    assert orthogonality(operator) < 1e-10


@pytest.mark.parametrize("name", ["cayley", "hybrid-hard", "geodesic", "exact"])
def test_the_shortcut_is_an_isometry(name):
    x = some_state(name)
    assert_close(make(name, lively=True)(x, torch.zeros_like).norm(dim=-1), x.norm(dim=-1), **CLOSE)


def test_the_soft_blend_is_not():
    x = some_state("hybrid")
    lost = make("hybrid", gate_bias=0.0, maps="none")(x, torch.zeros_like).norm(dim=-1) / x.norm(
        dim=-1)
    assert lost.min() < 0.9 and lost.max() < 1


@pytest.mark.parametrize("name", ["hybrid", "stream"])
def test_soft_singular_values(name):
    # sqrt(1 − 4γ(1 − γ) sin²(φ/2)), with e^{iφ} the eigenvalues of QᵀH
    given = make(name, lively=True).coefficients(some_state(name))
    k = given.direction / given.direction.norm(dim=-1, keepdim=True)
    reflections = IDENTITY - 2 * k.unsqueeze(-1) * k.unsqueeze(-2)
    phi = torch.linalg.eigvals(given.rotation.mT @ reflections).angle()
    g = given.gate.unsqueeze(-1)
    squares = (1 - 4 * g * (1 - g) * (phi / 2).sin().square()).clamp(min=0)
    expected = squares.sqrt().sort(-1, descending=True).values
    assert_close(torch.linalg.svdvals(given.mix), expected, rtol=0, atol=1e-6)
    assert_close(smallest_singular_value(given.mix), (2 * given.gate - 1).abs(), rtol=0, atol=1e-10)


def test_exact_turns_two_planes_which_cayley_cannot():
    quarter = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64)
    double = torch.block_diag(quarter, quarter)
    residual = make("exact")
    nn.init.zeros_(residual.generator[-1].weight)
    with torch.no_grad():  # W = (I − R)(I + R)⁻¹, read off its upper triangle
        w = torch.linalg.solve(IDENTITY + double, IDENTITY - double)
        row, column = torch.triu_indices(N, N, offset=1)
        residual.generator[-1].bias.copy_(w[row, column])
    assert_close(residual.coefficients(some_state("exact")).mix, double.expand(2, 5, N, N), **CLOSE)
    # one plane leaves an eigenvalue 1 (twice), so no rank-2 Cayley transform comes near
    planes = make("cayley", lively=True).coefficients(some_state("cayley")).mix
    assert torch.linalg.matrix_norm(planes - double).square().min() > 4 - 1e-9


# ---------------------------------------------------------------- the geodesic

def gated(name, gate, seed=0):
    """The operator of a lively residual whose gate says `gate` everywhere, with Q and k."""
    residual = make(name, lively=True)
    nn.init.zeros_(residual.generator[-1].weight[-1])
    nn.init.constant_(residual.generator[-1].bias[-1:], math.log(gate / (1 - gate)))
    return residual.coefficients(some_state(name, seed))


def lifted(matrix):
    """M ⊗ I₂: the same on both halves of each stream."""
    return torch.kron(matrix.contiguous(), torch.eye(2, dtype=matrix.dtype))


def test_geodesic_joins_the_rotation_to_the_reflected_rotation():
    for gate, end in ((1 - 1e-12, lambda q, h: q), (1e-12, lambda q, h: q @ h)):
        given = gated("geodesic", gate)
        for b, t in itertools.product(range(2), range(5)):
            expected = end(given.rotation[b, t], reflection(given.direction[b, t]))
            assert_close(given.mix[b, t], lifted(expected), rtol=0, atol=1e-10)


@given(st.floats(1e-6, 1 - 1e-6))
def test_geodesic_is_a_rotation_at_every_gate(gate):
    operator = gated("geodesic", gate).mix
    assert orthogonality(operator) < 1e-12
    assert_close(torch.linalg.det(operator), torch.ones(2, 5, dtype=torch.float64), rtol=0,
                 atol=1e-10)


def test_the_blend_between_the_same_ends_is_singular_where_the_geodesic_is_not():
    given = gated("geodesic", 0.5)
    h = IDENTITY - 2 * given.direction.unsqueeze(-1) * given.direction.unsqueeze(-2)
    assert smallest_singular_value((given.rotation + given.rotation @ h) / 2).max() < 1e-12
    assert smallest_singular_value(given.mix).min() > 1 - 1e-12


def test_any_real_path_of_n_by_n_matrices_between_the_ends_crosses_a_singular_one():
    # the determinant is continuous, +1 at Q and −1 at QH: shown on a crooked path
    given = gated("geodesic", 0.5)
    q = given.rotation[0, 0]
    h, wiggle = reflection(given.direction[0, 0]), torch.randn(N, N, dtype=torch.float64)
    path = [torch.linalg.det((1 - s) * q + s * q @ h + s * (1 - s) * wiggle)
            for s in torch.linspace(0, 1, 1001)]
    assert path[0] > 0.99 and path[-1] < -0.99 and min(abs(d) for d in path) < 0.01


def test_geodesic_moves_at_the_speed_pi():
    gates, step = torch.linspace(0.05, 0.95, 7).tolist(), 1e-6
    for gate in gates:
        difference = gated("geodesic", gate + step).mix - gated("geodesic", gate - step).mix
        speed = torch.linalg.matrix_norm(difference, ord=2) / (2 * step)
        assert_close(speed, torch.full((2, 5), math.pi, dtype=torch.float64), rtol=1e-6, atol=0)


def test_the_price_of_the_geodesic_is_that_it_mixes_the_halves():
    blocks = gated("geodesic", 0.5).mix.view(2, 5, N, 2, N, 2)
    assert blocks[:, :, :, 0, :, 1].abs().amax(dim=(-1, -2)).min() > 0.05
    blocks = gated("geodesic", 1e-12).mix.view(2, 5, N, 2, N, 2)
    assert blocks[:, :, :, 0, :, 1].abs().max() < 1e-10


# ---------------------------------------------------------------- the hard gate

def test_the_hard_gate_takes_one_or_the_other():
    residual = make("hybrid-hard", lively=True, gate_bias=0.0, pool="token")
    given = residual.coefficients(some_state("hybrid"))
    assert 0 < (given.gate > 0.5).sum() < 10  # both occur
    for b, t in itertools.product(range(2), range(5)):
        rotated = given.gate[b, t] > 0.5
        expected = given.rotation[b, t] if rotated else reflection(given.direction[b, t])
        assert_close(given.mix[b, t], expected, **CLOSE)


def test_a_hard_gate_of_exactly_one_half_takes_the_reflection():
    given = make("hybrid", lively=True).coefficients(some_state("hybrid"))
    k = given.direction / given.direction.norm(dim=-1, keepdim=True)
    tie = emhc.gated(given.rotation, k, torch.full_like(given.gate, 0.5), "hard")
    assert_close(tie, IDENTITY - 2 * k.unsqueeze(-1) * k.unsqueeze(-2), **CLOSE)


def test_its_gradient_is_the_soft_gates():
    soft, hard = make("hybrid", lively=True), make("hybrid-hard", lively=True)
    x = some_state("hybrid")
    probe = torch.randn(2, 5, N, N, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
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
    published(x, sublayer()).square().sum().backward()
    assert all(p.grad.abs().min() > 0 for p in published.gate_head.parameters())
    assert all(p.grad.abs().max() > 0 for p in published.generator.parameters())


def test_a_linear_gate_steps_by_its_own_operator():
    residual = make("hybrid", lively=True, gate_head="linear", gate_bias=0.5, maps="none")
    x = some_state("hybrid")
    nn.init.normal_(residual.gate_head.weight)
    mixed = residual.coefficients(x).mix @ x.view(2, 5, N, -1)
    assert_close(residual(x, torch.zeros_like), mixed.flatten(-2), **CLOSE)


def test_the_default_gate_is_the_generators():
    assert [name for name, _ in make("hybrid", maps="none").named_parameters()] == [
        "generator.0.down.weight", "generator.0.down.bias", "generator.1.weight",
        "generator.1.bias"]


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
    x, mix = some_state(name), sublayer()
    assert_close(separate(x, mix), one(x, mix), **CLOSE)
    assert (separate(x, torch.zeros_like) - x).abs().max() > 0.1


@pytest.mark.parametrize("start", ["plane", "published"])
def test_separate_nets_start_as_one_net_does(start):
    one, separate = (make("hybrid", width=128, nets=nets, start=start)
                     for nets in ("one", "separate"))
    for part in separate.generator[0].down, separate.generator[1]:
        assert part.weight[:-1].std().item() == pytest.approx(0.02, rel=0.2)
    x = torch.randn(1, 3, 128, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    close = dict(rtol=0, atol=1e-2)
    assert_close(angle(separate.coefficients(x).rotation), angle(one.coefficients(x).rotation),
                 **close)
    assert_close(separate.coefficients(x).gate, one.coefficients(x).gate, **CLOSE)


@every_pool
def test_what_another_part_s_net_finds_is_not_read(how):
    residual, x = make("hybrid", lively=True, nets="separate", pool=how), some_state("hybrid")
    before = residual.coefficients(x)
    hidden = WIDTH // 4
    with torch.no_grad():
        residual.generator[0].down.weight[3 * hidden:4 * hidden].normal_()   # of k
    after = residual.coefficients(x)
    assert torch.equal(before.rotation, after.rotation) and torch.equal(before.gate, after.gate)
    assert (before.direction - after.direction).abs().max() > 0.1


# ---------------------------------------------------------------- a trunk as wide as the streams

def test_a_split_stream_takes_and_gives_all_streams():
    residual, x = make("stream", lively=True, ends="split"), some_state("stream")
    flat = x.flatten(-2)
    assert residual.outer == N * WIDTH and torch.equal(residual.expand(flat), x)
    assert torch.equal(residual.reduce(x), flat)
    assert_close(residual(x, sublayer()), make("stream", lively=True)(x, sublayer()), **CLOSE)


# ---------------------------------------------------------------- training

@every_residual
@every_pool
def test_gradients_reach_every_parameter_at_initialisation(name, how):
    model = transformer(name, pool=how)
    (model(vectors()) - vectors()).square().sum().backward()
    for parameter, p in model.named_parameters():
        assert p.grad is not None and p.grad.abs().max() > 0, parameter


def generator_gradient(name, rows, **options):
    """In the first sublayer, the gradient of some rows of the generator's last layer.

    It is divided by the gradient of the sublayer's own output map.
    """
    model = transformer(name, **options)
    (model(vectors()) - vectors()).square().sum().backward()
    layer = model.trunk.layers[0]
    return (layer.residual.generator[-1].bias.grad[rows].norm()
            / layer.mix.out.weight.grad.norm()).item()


def test_the_published_start_is_next_to_the_dead_saddle():
    plane = slice(0, 2 * N)  # u and v
    ours, published = (generator_gradient("cayley", plane, start=start)
                       for start in ("plane", "published"))
    assert ours > 100 * published > 0


def test_at_the_saddle_nothing_flows():
    residual, mix, x = make("cayley"), sublayer(), some_state("cayley")
    for p in residual.generator.parameters():
        nn.init.zeros_(p)
    residual(x, mix).square().sum().backward()
    assert all(p.grad.abs().max() < 1e-200 for p in residual.generator.parameters())


def test_at_its_identity_the_exact_form_has_no_saddle():
    residual, mix, x = make("exact"), sublayer(), some_state("exact")
    for p in residual.generator[-1].parameters():
        nn.init.zeros_(p)
    residual(x, mix).square().sum().backward()
    assert residual.generator[-1].bias.grad.abs().min() > 0


@pytest.mark.parametrize("name", ["hybrid", "hybrid-hard", "stream", "geodesic"])
def test_every_number_of_the_generator_learns(name):
    # also k, which a hard gate at γ > ½ doesn't take
    residual, mix, x = make(name), sublayer(), some_state(name)
    residual(x, mix).square().sum().backward()
    assert residual.generator[-1].bias.grad.abs().min() > 0


@pytest.mark.parametrize("name", ["hybrid", "hybrid-hard", "stream"])
def test_the_penalty_is_the_mean_of_4_gate_1_minus_gate(name):
    residual, mix, x = make(name, penalty=0.3, gate_bias=0.4), sublayer(), some_state(name)
    with collect_penalties() as penalties:
        residual(x, mix)
    gate = residual.coefficients(x).gate
    assert len(penalties) == 1
    assert_close(penalties[0], 0.3 * (4 * gate * (1 - gate)).mean(), **CLOSE)


def test_a_network_adds_one_penalty_a_sublayer():
    with collect_penalties() as penalties:
        transformer("hybrid")(vectors())
    assert len(penalties) == 4


@pytest.mark.parametrize("name, options", [("cayley", {}), ("geodesic", {}), ("exact", {}),
                                           ("stream", {}), ("hybrid-hard", {}),
                                           ("hybrid", {"penalty": 0.0})])
def test_no_gate_or_no_weight_no_penalty(name, options):
    with collect_penalties() as penalties:
        transformer(name, **options)(vectors())
    assert penalties == []


@pytest.mark.parametrize("name", [name for name in FAMILY if not name.endswith("-hard")])
def test_gradients_are_right(name):
    residual, mix = make(name, lively=True), sublayer()
    x = some_state(name)[:1, :2].requires_grad_()
    assert torch.autograd.gradcheck(lambda x: residual(x, mix), x, atol=1e-6)


@every_residual
def test_a_batch_leaves_nothing_behind(name):
    residual, mix = make(name), sublayer()
    before = pickle.dumps(residual)
    residual(some_state(name), mix)
    assert pickle.dumps(residual) == before and not list(residual.buffers())


# ---------------------------------------------------------------- causality

@every_residual
@every_pool
def test_the_pool_decides_what_is_read(name, how):
    model = transformer(name, pool=how)
    reads = influence(model, vectors())
    assert reads[torch.ones(7, 7).tril() > 0].min() > 0
    leaks = model.trunk.layers[0].residual.leaks
    assert leaks == (how == "sequence")
    assert (future_influence(model, vectors()) > 0) == leaks
    if leaks:
        assert reads[torch.ones(7, 7).triu(1) > 0].min() > 0


def test_the_defaults_are_causal():
    assert not any(make(name).leaks for name in FAMILY)


# ---------------------------------------------------------------- the size of the matched model

def test_the_fused_generator_s_blocks_are_within_one_percent_of_the_published_ones():
    config = TransformerConfig.benchmark(width=128, layers=6)
    trunk = Transformer(config, "emhc-hybrid", pool="sequence", hidden_ratio=1)
    assert abs(sum(p.numel() for p in trunk.layers.parameters()) / 1_779_240 - 1) < 0.01


# ---------------------------------------------------------------- errors

@pytest.mark.parametrize("residual, width, options, message", [
    (Cayley, 18, {}, "width must be divisible by streams, .*, got width 18 and streams 4"),
    (Cayley, 16, {"streams": 1},
     "width must be divisible by streams, at least 2 of them, got width 16 and streams 1"),
    (Geodesic, 12, {}, "width must be divisible by 2 · streams, .* width 12 and 2 · streams 8"),
    (Stream, 16, {"streams": 1}, "streams must be at least 2, got 1"),
    (Cayley, 16, {"pool": "mean"}, "pool must be one of 'causal', 'token', 'sequence', got 'mean'"),
    (Stream, 16, {"pool": "mean"}, "pool must be one of 'causal', 'token', 'sequence', got 'mean'"),
    (Cayley, 16, {"maps": "random"},
     "maps must be one of 'identity', 'published', 'none', got 'random'"),
    (Hybrid, 16, {"gate": "step"}, "gate must be one of 'soft', 'hard', got 'step'"),
    (Stream, 16, {"gate": "step"}, "gate must be one of 'soft', 'hard', got 'step'"),
    (Hybrid, 16, {"start": "zero"}, "start must be one of 'plane', 'published', got 'zero'"),
    (Stream, 16, {"start": "zero"}, "start must be one of 'plane', 'published', got 'zero'"),
    (Cayley, 16, {"beta_init": 0.0}, "beta_init must be positive, got 0.0"),
    (Hybrid, 16, {"beta_init": math.nan}, "beta_init must be a finite number, got nan"),
    (Hybrid, 16, {"gate_bias": math.nan}, "gate_bias must be a finite number, got nan"),
    (Geodesic, 16, {"gate_bias": math.inf}, "gate_bias must be a finite number, got inf"),
    (Stream, 16, {"gate_bias": -math.inf}, "gate_bias must be a finite number, got -inf"),
    (Hybrid, 16, {"penalty": -1}, "penalty must be at least 0, got -1"),
    (Stream, 16, {"penalty": -1}, "penalty must be at least 0, got -1"),
    (Cayley, 16, {"nets": "two"}, "nets must be one of 'one', 'separate', got 'two'"),
    (Stream, 16, {"ends": "scaled"}, "ends must be one of 'copied', 'split', got 'scaled'"),
    (Stream, 16, {"router_reads": "x"},
     "router_reads must be one of 'state', 'mixed', got 'x'"),
    (Hybrid, 16, {"gate_head": "mlp"}, "gate_head must be one of 'generator', 'linear', got 'mlp'"),
    (Stream, 16, {"hidden": 0}, "hidden must be at least 1, got 0"),
    (Stream, 16, {"hidden": -1}, "hidden must be at least 1, got -1"),
    (Stream, 16, {"streams": 1.5}, "streams must be a whole number, got 1.5"),
    *((residual, 16, {"streams": wrong}, f"streams must be a whole number, got {wrong!r}")
      for residual in (Cayley, Hybrid, Geodesic) for wrong in (1.5, "4")),
    (Cayley, 16, {"hidden_ratio": 0}, "hidden_ratio must lie between 0 and width = 16, got 0"),
    (Cayley, 16, {"hidden_ratio": 17}, "hidden_ratio must lie between 0 and width = 16, got 17"),
])
def test_a_bad_option_is_named(residual, width, options, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        residual(width, **options)


def test_the_exact_form_has_four_streams():
    with pytest.raises(TypeError, match="streams"):
        Exact(16, streams=8)
