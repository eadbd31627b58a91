"""E-MHC-Geo's residuals, token by token in float64: the operator, its gate and its start."""

import itertools
import math

import pytest
import torch
from shared import CLOSE, normal, shaken, sublayer
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from geolab.operators import delta_matrix
from geolab.penalties import collect_penalties
from geolab.probes import shortcut_matrix
from geolab.residuals import REGISTRY, BenchmarkDelta, Normed, make_residual
from geolab.residuals.gating import gated
from geolab.residuals.pooling import POOLS, pool

WIDTH, N = 16, 4
IDENTITY = torch.eye(N, dtype=torch.float64)
every_pool = pytest.mark.parametrize("how", POOLS)


def make(name, width=WIDTH, lively=False, **options):
    """A residual in float64; a lively one has an operator that is nowhere near the identity, and
    random maps P_pre and P_post.
    """
    torch.manual_seed(3)
    residual = make_residual(f"emhc-{name}", width, **options).double()
    if lively:
        for p in residual.parameters():
            square = p.ndim == 2 and p.shape[0] == p.shape[1]
            nn.init.normal_(p, std=0.25 if square else 0.7)
    return residual


def some_state(name, seed=0):
    return normal(2, 5, *((N,) if name in ("stream", "mixer") else ()), WIDTH, seed=seed)


def every_token(x):
    return itertools.product(range(x.shape[0]), range(x.shape[1]))


# ---------------------------------------------------------------- the equations, by hand

def layer_norm(x):
    return F.layer_norm(x, x.shape[-1:])


def generated(residual, pooled):
    """Linear, GELU, Linear; the gate may have a linear head of its own."""
    first, last = residual.generator[0].down, residual.generator[1]
    hidden = pooled @ first.weight.T + first.bias
    hidden = hidden * (1 + torch.erf(hidden / math.sqrt(2))) / 2
    weight = last.weight
    if hasattr(last, "outputs"):  # nets side by side
        weight = torch.block_diag(*weight.split(last.outputs))
    return hidden @ weight.T + last.bias


def reflection(k):
    return torch.eye(len(k)).double() - 2 * torch.outer(k, k) / (k @ k)


def rotation(r):
    m = F.softplus(r[2 * N]) / 2 * (torch.outer(r[:N], r[N:2 * N])
                                              - torch.outer(r[N:2 * N], r[:N]))
    return torch.linalg.solve(IDENTITY + m, IDENTITY - m)


def operator(residual, name, r):
    """G at one token from the generator's numbers r; for the geodesic, complex."""
    if name == "exact":
        w = torch.zeros(N, N, dtype=torch.float64)
        for number, (i, j) in zip(r, itertools.combinations(range(N), 2), strict=True):
            w[i, j], w[j, i] = number, -number
        return torch.linalg.solve(IDENTITY + w, IDENTITY - w)
    if name == "cayley":
        return rotation(r)
    gate = 1 / (1 + math.exp(-r[-1].item()))
    if name == "geodesic":
        # −1 and 1 three times: a power of each
        values, vectors = torch.linalg.eigh(reflection(r[9:13]))
        powers = torch.exp(1j * math.pi * (1 - gate) * (values < 0).double())
        return rotation(r).cdouble() @ (vectors * powers) @ vectors.T.cdouble()
    if residual.gate == "hard":
        gate = float(gate > 0.5)
    return gate * rotation(r) + (1 - gate) * reflection(r[9:13])


def mixed(residual, name, x, r):
    """G on the streams of one token, (n, d)."""
    g = operator(residual, name, r)
    if name != "geodesic":
        return g @ x
    y = g @ torch.complex(*x.chunk(2, dim=-1))
    return torch.cat([y.real, y.imag], dim=-1)


@every_pool
@pytest.mark.parametrize("name, options", [
    ("cayley", {}), ("geodesic", {}), ("exact", {}), ("hybrid", {}), ("hybrid", {"gate": "hard"}),
    ("hybrid", {"gate_head": "linear"}), ("hybrid", {"nets": "separate", "hidden_ratio": 8}),
    ("cayley", {"maps": "none"}), ("cayley", {"normalise": True})], ids=str)
def test_a_series_turns_the_state_and_then_adds_the_sublayer(name, options, how):
    residual, f, x = make(name, lively=True, pool=how, **options), sublayer(WIDTH), some_state(name)
    pooled = pool(x, how).expand_as(x)
    numbers = generated(residual, layer_norm(pooled) if residual.generator[0].normalise else pooled)
    if "gate_head" in options:
        head = residual.gate_head
        numbers = torch.cat([numbers, pooled @ head.weight.T + head.bias], dim=-1)
    z = torch.empty_like(x)
    for b, t in every_token(x):
        z[b, t] = mixed(residual, name, x[b, t].view(N, -1), numbers[b, t]).flatten()
    before, after = (torch.eye(WIDTH).double() if p is None else p
                     for p in (residual.before, residual.after))
    assert_close(residual(x, f), z + f(z @ before.T) @ after.T, **CLOSE)
    assert_close(residual(x, Normed(f, layer_norm)),
                 z + f(layer_norm(z) @ before.T) @ after.T, **CLOSE)


def written(residual, z, read, f):
    """z and what the router's softmaxes make of a sublayer's output: (n, d)."""
    pre, post = (residual.router.weight @ read + residual.router.bias).view(2, N, N)
    return z + post.softmax(dim=0) @ f((pre.softmax(dim=1) @ z).mean(0)).expand(N, -1)


@every_pool
@pytest.mark.parametrize("options", [{}, {"router_reads": "mixed"}, {"gate": "hard"}], ids=str)
def test_a_stream_is_turned_read_and_written(how, options):
    residual, f = make("stream", lively=True, pool=how, **options), sublayer(WIDTH)
    x = some_state("stream")
    flat, step = x.flatten(-2), residual(x, f)
    numbers = generated(residual, layer_norm(pool(flat, how).expand_as(flat)))
    for b, t in every_token(x):
        z = mixed(residual, "stream", x[b, t], numbers[b, t])
        read = z if options.get("router_reads") else x[b, t]
        assert_close(step[b, t], written(residual, z, layer_norm(read.flatten()), f), **CLOSE)


@pytest.mark.parametrize("options", [
    {}, {"norm_eps": 0.1}, {"norm": "layer"}, {"norm": "layer", "norm_eps": 0.1},
    {"router_reads": "mixed"}, {"router_reads": "mixed", "norm": "layer"}], ids=str)
def test_a_mixer_reflects_the_whole_state(options):
    residual, x, f = make("mixer", lively=True, **options), some_state("mixer"), sublayer(WIDTH)
    layer = residual.norm == "layer"
    eps = options.get("norm_eps", 1e-5 if layer else torch.finfo(torch.float64).eps)

    def norm(flat):
        flat = flat - flat.mean() if layer else flat
        return flat / (flat.square().mean() + eps).sqrt()

    step = residual(x, f)
    for b, t in every_token(x):
        flat = x[b, t].flatten()
        r = generated(residual, norm(flat))
        gate = r[-1].sigmoid()
        z = gate * rotation(r) @ x[b, t] + (1 - gate) * (reflection(r[9:-1]) @ flat).view(N, -1)
        read = z.flatten() if residual.router_reads == "mixed" else flat
        assert_close(step[b, t], written(residual, z, norm(read), f), **CLOSE)


# ---------------------------------------------------------------- the pools

def test_a_pool_is_the_mean_so_far_the_state_itself_or_one_mean_for_all():
    x = normal(2, 7, 6)
    so_far = torch.stack([x[:, :t + 1].mean(1) for t in range(7)], dim=1)
    for how, wanted in (("causal", so_far), ("token", x), ("sequence", x.mean(1)[:, None])):
        assert_close(pool(x, how), wanted, **CLOSE)
    ones = torch.ones(1, 3000, 1, dtype=torch.bfloat16)
    assert (pool(ones, "causal") == 1).all()  # a sum in bfloat16 stands still at 256


# ---------------------------------------------------------------- step 0

@pytest.mark.parametrize("nets", ["one", "separate"])
@pytest.mark.parametrize("beta", [0.01, 0.1, 2.0])
def test_a_plane_starts_with_the_cayley_angle_of_beta_init(beta, nets):
    """A rotation of one plane has the trace n − 2 + 2 cos."""
    turned = make("hybrid", beta_init=beta, nets=nets).coefficients(0 * some_state("hybrid"))
    cosine = (turned.rotation.diagonal(dim1=-2, dim2=-1).sum(-1) - 2) / 2
    angle = torch.full((2, 5), 2 * math.atan(beta / 2), dtype=torch.float64)
    assert_close(cosine.clamp(max=1).acos(), angle, rtol=1e-4, atol=1e-6)
    assert_close(turned.direction.norm(dim=-1), torch.ones_like(angle), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name, options", [
    *(("hybrid", {"start": start, "gate_head": head}) for start in ("plane", "published")
      for head in ("generator", "linear")), ("stream", {}), ("mixer", {})], ids=str)
@pytest.mark.parametrize("bias", [-1.5, 0.0, 3.0])
def test_a_gate_starts_at_its_bias_and_decides_the_smallest_singular_value(name, options, bias):
    found = make(name, gate_bias=bias, **options).coefficients(some_state(name))
    gate = 1 / (1 + math.exp(-bias))
    assert_close(found.gate, torch.full((2, 5), gate, dtype=torch.float64), rtol=1e-6, atol=0)
    smallest = torch.linalg.svdvals(shortcut_matrix(found))[..., -1]
    assert_close(smallest, torch.full_like(smallest, abs(2 * gate - 1)), rtol=0, atol=1e-6)


def test_the_published_starts():
    """Next to no turn, a gate at one half, and maps of gain 0.02 √D each."""
    x = normal(500, 1, 128)
    cayley = make("cayley", width=128, start="published", maps="published")
    assert (cayley.coefficients(x[:3]).mix - IDENTITY).abs().max() < 1e-3
    for weight in (cayley.before, cayley.after):
        gain = (x @ weight.T).norm() / x.norm()
        assert gain.item() == pytest.approx(0.02 * math.sqrt(128), rel=0.05)
    for name in ("stream", "mixer"):
        found = make(name, start="published").coefficients(some_state(name))
        assert (found.gate - 0.5).abs().max() < 0.01
        assert (found.read - 1 / N).abs().max() < 0.1 and (found.write - 1).abs().max() < 0.4


def test_the_plain_starts_of_the_maps_and_of_the_exact_operator():
    exact = make("exact")
    assert torch.equal(exact.before, exact.after)
    assert torch.equal(exact.before, torch.eye(WIDTH).double())
    assert 0 < (exact.coefficients(some_state("exact")).mix - IDENTITY).abs().max() < 0.05


def test_the_benchmark_s_delta_starts_next_to_a_projection():
    torch.manual_seed(3)
    k, beta = BenchmarkDelta(128).double().coefficients(normal(2, 5, 128))
    assert (beta - 1).abs().max() < 0.03
    values = torch.linalg.svdvals(delta_matrix(k, beta))
    assert values[..., -1].max() < 0.03 and values[..., -2].min() > 1 - 1e-12


# ---------------------------------------------------------------- the gate

def test_a_hard_gate_has_the_soft_one_s_gradient_and_takes_the_reflection_at_one_half():
    x, along = some_state("hybrid"), normal(2, 5, N, N, seed=5)
    soft, hard = (make("hybrid", lively=True, gate=gate) for gate in ("soft", "hard"))
    for residual in (soft, hard):
        (residual.coefficients(x).mix * along).sum().backward()
    for p, q in zip(soft.generator.parameters(), hard.generator.parameters(), strict=True):
        assert_close(p.grad, q.grad, **CLOSE)
    found = hard.coefficients(x)
    tie = gated(found.rotation, found.direction, torch.full_like(found.gate, 0.5), "hard")
    assert_close(tie[0, 0], reflection(found.direction[0, 0]), **CLOSE)


@pytest.mark.parametrize("name, gate", [("hybrid", "soft"), ("hybrid", "hard"), ("stream", "soft"),
                                        ("mixer", None)])
def test_the_penalty_is_the_mean_of_4_gate_1_minus_gate(name, gate):
    options = {} if gate is None else {"gate": gate}
    residual, x = shaken(make(name, penalty=0.3, gate_bias=0.4, **options)), some_state(name)
    with collect_penalties() as penalties:
        residual(x, torch.tanh)
    gate = residual.coefficients(x).gate
    assert_close(penalties, [0.3 * (4 * gate * (1 - gate)).mean()], **CLOSE)


@pytest.mark.parametrize("name, options", [
    *((name.removeprefix("emhc-"), {}) for name in REGISTRY
      if name.startswith("emhc-") and name != "emhc-hybrid"),
    ("hybrid", {"gate": "hard"}), ("hybrid", {"penalty": 0.0})])
def test_no_gate_or_no_weight_no_penalty(name, options):
    with collect_penalties() as penalties:
        make(name, **options)(some_state(name), torch.tanh)
    assert penalties == []
