"""Residuals over parallel streams, token by token in float64, and how they start."""

import math
from itertools import combinations

import pytest
import torch
from shared import CLOSE, STREAMS, WIDTH, normal, shaken, stack, sublayer
from torch.nn import functional as F
from torch.testing import assert_close

from geolab.models import Transformer, TransformerConfig
from geolab.probes import spectrum
from geolab.residuals import (
    MHC,
    BenchmarkMHC,
    HyperConnections,
    JPmHC,
    SinglePass,
    make_residual,
)
from geolab.residuals.constrained import MAPS
from geolab.residuals.mixing import mixes


def made(name, **options):
    """The residual of sublayer 2 of 6, away from its start."""
    return shaken(make_residual(name, WIDTH, 2, 6, **options).double())


def numbers_of(residual):
    return {name: p.detach() for name, p in residual.named_parameters()}


def sinkhorn(logits, rounds, axes):
    m = logits.exp()
    for _ in range(rounds):
        for axis in axes:
            m = m / m.sum(axis, keepdim=True)
    return m


# ---------------------------------------------------------------- one token, (n, D), by hand

def hyper(residual, x, f):
    w, n = numbers_of(residual), len(x)
    table = w["static"].view(n, n + 2).clone()
    if residual.dynamic:
        for j in range(n):
            normed = (x[j] - x[j].mean()) / (x[j].var(correction=0) + 1e-5).sqrt()
            found = w["generate.weight"] @ normed
            found = found.tanh() if residual.tanh else found
            table[j, 0] += w["scale"][0] * found[0]
            table[j, 1:] += w["scale"][1] * found[1:]
    write, read, rows = table[:, 0], table[:, 1], table[:, 2:]
    return rows.T @ x + torch.outer(write, f(read @ x))


def mhc(residual, x, f):
    w, n = numbers_of(residual), len(x)
    flat = x.flatten()
    numbers = w["maps.generate.weight"] @ (flat / flat.square().mean().sqrt())
    scale, bias = w["maps.scale"], w["maps.bias"]
    read = (scale[0] * numbers[:n] + bias[:n]).sigmoid()
    write = 2 * (scale[1] * numbers[n:2 * n] + bias[n:2 * n]).sigmoid()
    axes = (0, 1) if residual.maps.form.order == "column-row" else (1, 0)
    mix = sinkhorn((scale[2] * numbers[2 * n:] + bias[2 * n:]).view(n, n),
                   residual.maps.form.iterations, axes)
    return mix @ x + torch.outer(write, f(read @ x))


def jpmhc(residual, x, f):
    w, n = numbers_of(residual), len(x)
    flat = x.flatten()
    if "norm.weight" in w:
        flat = (flat - flat.mean()) / (flat.var(correction=0) + 1e-5).sqrt()
        flat = w["norm.weight"] * flat + w["norm.bias"]
    else:
        flat = flat / (flat.square().mean() + 1e-5).sqrt()
    read, write, mix = (w["generate.weight"] @ flat + w["generate.bias"]).view(3, n, n)
    half, eye = residual.turn.alpha / 2 * (mix - mix.T), torch.eye(n).double()
    if residual.turn.exact:
        turned = torch.linalg.solve(eye - half, eye + half)
    else:
        turned = eye + 2 * half
        for _ in range(residual.turn.steps):
            turned = eye + half @ (eye + turned)
    read = (read / residual.turn.temperature).softmax(1).mean(0)
    write = (write / residual.turn.temperature).softmax(0).sum(1)
    return turned @ x + w.get("scale", 1.0) * torch.outer(write, f(read @ x))


def benchmark_mhc(residual, x, f):
    w = numbers_of(residual)
    normed = w["maps.norm_weight"] * x / (x.square().mean() + 1e-6).sqrt()
    numbers = w["maps.generate.weight"] @ normed
    scale, bias, slices = w["maps.scale"], w["maps.bias"], x.view(4, -1)
    read = (scale[0] * numbers[:4] + bias[:4]).sigmoid()
    write = 2 * (scale[1] * numbers[4:8] + bias[4:8]).sigmoid()
    mix = sinkhorn((scale[2] * numbers[8:] + bias[8:]).view(4, 4), 20, (1, 0))
    update = f((read @ slices).repeat(4)).view(4, -1)
    return (mix @ slices + write[:, None] * update).flatten()


@pytest.mark.parametrize("by_hand, name, options", [
    *((hyper, "hyper", options) for options in ({"dynamic": False}, {}, {"tanh": False})),
    *((mhc, "mhc", {"diagonal": 1.0} | options) for options in (
        {}, {"order": "row-column"}, {"streams": 3, "iterations": 2})),
    *((jpmhc, "jpmhc", options) for options in (
        {}, {"streams": 3, "steps": 4, "alpha": 0.5, "temperature": 2.0},
        {"retraction": "exact", "alpha": 3.0}, {"norm": "rms"},
        {"ends": "split", "write_scale": False})),
    (benchmark_mhc, "benchmark-mhc", {})], ids=lambda x: getattr(x, "__name__", str(x)))
def test_a_step_is_the_paper_s_equation(by_hand, name, options):
    residual, f = made(name, **options), sublayer()
    streams = () if name == "benchmark-mhc" else (residual.streams,)
    x = normal(2, 5, *streams, WIDTH)
    step = residual(x, f)
    for b in range(2):
        for t in range(5):
            assert_close(step[b, t], by_hand(residual, x[b, t], f), **CLOSE)


def test_a_single_pass_reads_with_the_weights_of_the_sublayer_before():
    residuals, f, x = shaken(stack("single-pass", WIDTH).double()), sublayer(), normal(2, 5, WIDTH)
    streams, u = x.unsqueeze(-2).expand(-1, -1, STREAMS, -1), x
    state = residuals[0].expand(x)
    for residual in residuals:
        read, write, mix = residual.maps.at(streams.flatten(-2))
        streams = mix @ streams + write.unsqueeze(-1) * f(u).unsqueeze(-2)
        u = (read.unsqueeze(-1) * streams).sum(-2)
        state = residual(state, f)
    assert_close(residuals[-1].reduce(state), u, **CLOSE)


# ---------------------------------------------------------------- the ends

def test_the_ends_of_the_streams():
    """Hyper-connections leave as the sum; JPmHC scales copies and weighs them again."""
    state, x = normal(2, 5, STREAMS, WIDTH), normal(2, 5, WIDTH)
    assert_close(HyperConnections(WIDTH).reduce(state), state.sum(-2), **CLOSE)
    alone = shaken(JPmHC(WIDTH).double())
    entered = torch.stack([x * scale for scale in alone.entry()], dim=-2)
    assert_close(alone.expand(x), entered, **CLOSE)
    assert_close(alone.reduce(state), (state * alone.exit()).sum(-2), **CLOSE)


# ---------------------------------------------------------------- the start

@pytest.mark.parametrize("index", range(6))
def test_sublayers_read_the_streams_in_turn(index):
    state, home = normal(1, 2, STREAMS, WIDTH), F.one_hot(torch.tensor(index % STREAMS), STREAMS)
    read = HyperConnections(WIDTH, index, 6).coefficients(state).read
    assert torch.equal(read, home.expand_as(read).to(read))
    read, write, mix = MHC(WIDTH, index, 6).double().coefficients(state)
    assert (read.argmax(-1) == index % STREAMS).all()
    assert_close(read.sum(-1), torch.ones_like(read[..., 0]), rtol=0, atol=1e-6)
    assert_close(write, torch.ones_like(write), rtol=0, atol=0)
    stays = mix.diagonal(dim1=-2, dim2=-1)
    assert_close(stays, torch.full_like(stays, 1 / (1 + 3 * math.exp(-8))), **CLOSE)


@pytest.mark.parametrize("kind, ahead", [(MHC, 0), (SinglePass, 1)])
@pytest.mark.parametrize("index", [0, 3, 6])
def test_the_published_start_is_the_reported_one(kind, ahead, index):
    maps = kind(WIDTH, index, 8, start="published").maps
    read, write, mix = maps.bias.detach().split([STREAMS, STREAMS, STREAMS**2])
    assert torch.equal(read, 6 * torch.eye(STREAMS)[(index + ahead) % STREAMS] - 3)
    assert torch.equal(write, torch.zeros(STREAMS))
    assert torch.equal(mix.view(STREAMS, STREAMS), 6 * torch.eye(STREAMS) - 3)


@pytest.mark.parametrize("diagonal, stays, second", [(2.0, 0.711, 0.615), (8.0, 0.999, 0.999)])
def test_the_benchmark_s_mhc_starts_far_from_the_identity_unless_it_is_told(
        diagonal, stays, second):
    torch.manual_seed(0)
    read, write, mix = BenchmarkMHC(128, diagonal=diagonal).coefficients(torch.randn(2, 5, 128))
    assert (mix.diagonal(dim1=-2, dim2=-1) - stays).abs().max() < 0.01
    assert (spectrum(mix).singular_values[..., 1] - second).abs().max() < 0.01
    assert (read - 0.5).abs().max() < 0.01 and (write - 1).abs().max() < 0.01


def test_the_benchmark_s_jpmhc_starts_as_noise():
    torch.manual_seed(0)
    weight = make_residual("benchmark-jpmhc", 128).generate.weight
    assert weight.std().item() == pytest.approx(0.02, rel=0.05)


@pytest.mark.parametrize("layers, residual, published", [(9, "benchmark-mhc", 1_838_182),
                                                         (7, "benchmark-jpmhc", 1_770_414)])
def test_table_5_counts(layers, residual, published):
    """The published sizes hold 64 positions, and not the maps from data to features and back."""
    network = Transformer(TransformerConfig.benchmark(layers=layers, max_length=64), residual)
    count = sum(p.numel() for p in network.parameters())
    if residual == "benchmark-jpmhc":  # positions, last norm and ends: D against 4D features
        count += (64 + 1) * (512 - 128) - 2 * 4 * 128
    assert count == published


# ---------------------------------------------------------------- other mixes than the paper's

def away_from_identity(residual, x):
    return 1 - residual.double().coefficients(x).mix.diagonal(dim1=-2, dim2=-1).mean()


@pytest.mark.parametrize("mix", mixes())
def test_every_mix_starts_near_the_identity_and_is_doubly_stochastic(mix):
    x = normal(2, 5, STREAMS, WIDTH)
    for start in ("plain", "published"):
        ours, sinkhorn_s = (away_from_identity(MHC(WIDTH, start=start, mix=kind), x)
                            for kind in (mix, "sinkhorn"))
        assert 0.5 < ours / sinkhorn_s < 7
    for name in ("jpmhc", "benchmark-jpmhc"):
        residual = make_residual(name, WIDTH, mix=mix)
        start = residual.generate.bias.detach().clone()
        residual.reset_parameters()
        assert start.any() and torch.equal(residual.generate.bias, start)
    assert away_from_identity(make_residual("jpmhc", WIDTH, mix=mix), x) < 0.01
    matrix = made("jpmhc", mix=mix).coefficients(x).mix
    for axis in (-2, -1):  # Sinkhorn's columns are exact in the limit only
        assert_close(matrix.sum(axis), torch.ones_like(matrix[..., 0]), rtol=0,
                     atol=0.05 if mix == "sinkhorn" else 1e-10)


# ---------------------------------------------------------------- mHC's ablation and guards

@pytest.mark.parametrize("without", [subset for size in range(4)
                                     for subset in combinations(MAPS, size)], ids="-".join)
def test_a_map_that_is_taken_away_is_its_default_and_the_others_stay(without):
    whole, x = made("mhc"), normal(2, 5, STREAMS, WIDTH)
    found = MHC(WIDTH, 2, 6, without=without).double()
    sizes = (STREAMS, STREAMS, STREAMS**2)
    kept = [name not in without for name in MAPS]
    rows = torch.cat([torch.full((size,), keep) for keep, size in zip(kept, sizes, strict=True)])
    maps = whole.maps
    found.load_state_dict({} if not any(kept) else {  # strict: nothing else is there
        "maps.generate.weight": maps.generate.weight[rows], "maps.bias": maps.bias[rows],
        "maps.scale": maps.scale[torch.tensor(kept)]})
    defaults = (torch.full((STREAMS,), 1 / STREAMS), torch.ones(STREAMS), torch.eye(STREAMS))
    for keep, got, of_whole, default in zip(kept, found.coefficients(x), whole.coefficients(x),
                                            defaults, strict=True):
        assert_close(got, of_whole if keep else default.to(got).expand_as(got), **CLOSE)


def test_a_state_of_zeros_has_a_gradient():
    state = torch.zeros(1, 2, STREAMS, WIDTH, dtype=torch.float64, requires_grad=True)
    MHC(WIDTH).double()(state, torch.tanh).sum().backward()
    assert state.grad.isfinite().all()
