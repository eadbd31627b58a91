import itertools

import numpy as np
import pytest
import torch
from shared import CLOSE, STREAMS, WIDTH, shaken, stack, sublayer, vectors
from torch.testing import assert_close

from geolab.residuals import MHC, GatedStreams, SinglePass
from geolab.residuals.constrained import MAPS
from geolab.residuals.mixing import mixes

BIASES = dict(rtol=0, atol=1e-6)  # the initial biases are float32 numbers
every_order = pytest.mark.parametrize("order", ["column-row", "row-column"])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def by_hand(residual, x, mix):
    """One token, n streams: the paper's equations in numpy."""
    n, w = len(x), {name: p.detach().numpy() for name, p in residual.named_parameters()}
    flat = x.reshape(-1)
    numbers = w["maps.generate.weight"] @ (flat / np.sqrt(np.mean(flat**2) + 1e-20))
    scale, bias = w["maps.scale"], w["maps.bias"]
    read = sigmoid(scale[0] * numbers[:n] + bias[:n])
    write = 2 * sigmoid(scale[1] * numbers[n:2 * n] + bias[n:2 * n])
    m = np.exp((scale[2] * numbers[2 * n:] + bias[2 * n:]).reshape(n, n))
    for _ in range(residual.maps.form.iterations):
        for axis in (0, 1) if residual.maps.form.order == "column-row" else (1, 0):
            m = m / m.sum(axis, keepdims=True)
    return m @ x + np.outer(write, mix(torch.from_numpy(read @ x)).detach().numpy())


@every_order
@pytest.mark.parametrize("streams, iterations", [(4, 20), (3, 2)])
def test_forward_is_the_equation_written_out(streams, iterations, order):
    residual = shaken(MHC(WIDTH, 2, 6, streams=streams, iterations=iterations, order=order,
                          diagonal=1.0).double())
    mix, x = sublayer(), vectors(2, 5, streams, WIDTH)
    step = residual(x, mix)
    for b, t in np.ndindex(2, 5):
        assert_close(step[b, t], torch.from_numpy(by_hand(residual, x[b, t].numpy(), mix)), **CLOSE)


@pytest.mark.parametrize("index", range(5))
def test_coefficients_at_step_zero(index):
    read, write, mix = MHC(WIDTH, index, 6).double().coefficients(vectors(1, 3, STREAMS, WIDTH))
    assert_close(read.sum(-1), torch.ones(1, 3, dtype=torch.float64), **BIASES)
    assert (read.argmax(-1) == index % STREAMS).all()
    assert_close(write, torch.ones_like(write), rtol=0, atol=0)
    assert_close(mix.diagonal(dim1=-2, dim2=-1), torch.full_like(read, 1 / (1 + 3 * np.exp(-8))),
                 **CLOSE)


# ---------------------------------------------------------------- the ablation

SUBSETS = [subset for size in range(4) for subset in itertools.combinations(MAPS, size)]
every_subset = pytest.mark.parametrize("without", SUBSETS, ids="-".join)


@every_subset
def test_a_map_that_is_taken_away_is_its_default_and_the_others_stay(without):
    whole, x = shaken(MHC(WIDTH, 2, 6).double()), vectors(2, 5, STREAMS, WIDTH)
    found = MHC(WIDTH, 2, 6, without=without).double()
    state, at = {}, 0
    for i, (name, size) in enumerate(zip(MAPS, (STREAMS, STREAMS, STREAMS**2), strict=True)):
        if name not in without:
            for key, value in (("generate.weight", whole.maps.generate.weight[at:at + size]),
                               ("bias", whole.maps.bias[at:at + size]),
                               ("scale", whole.maps.scale[i:i + 1])):
                state.setdefault(f"maps.{key}", []).append(value.detach())
        at += size
    # strict: nothing else is there
    found.load_state_dict({key: torch.cat(parts) for key, parts in state.items()})
    defaults = {"read": torch.full((2, 5, STREAMS), 1 / STREAMS),
                "write": torch.ones(2, 5, STREAMS), "mix": torch.eye(STREAMS).expand(2, 5, -1, -1)}
    for name, got, kept in zip(MAPS, found.coefficients(x), whole.coefficients(x), strict=True):
        assert_close(got, defaults[name].double() if name in without else kept, **CLOSE)


def test_without_any_map_each_stream_gains_what_the_mean_of_all_gives():
    residual, mix, x = MHC(WIDTH, without=MAPS).double(), sublayer(), vectors(2, 5, STREAMS, WIDTH)
    assert_close(residual(x, mix), x + mix(x.mean(-2)).unsqueeze(-2), **CLOSE)


def test_the_learned_readout_is_the_equation():
    residual = shaken(MHC(WIDTH, 3, 4, readout="learned").double())
    x = vectors(2, 5, STREAMS, WIDTH)
    w = {name: p.detach().numpy() for name, p in residual.named_parameters()}
    for b, t in np.ndindex(2, 5):
        flat = x[b, t].numpy().reshape(-1)
        weights = sigmoid(w["head.scale"] * (w["head.weight"] @ (flat / np.sqrt(np.mean(flat**2))))
                          + w["head.bias"])
        assert_close(residual.reduce(x)[b, t], torch.from_numpy(weights @ x[b, t].numpy()), **CLOSE)


def test_a_state_of_zeros_is_no_trouble():
    residual = MHC(WIDTH).double()
    state = torch.zeros(1, 2, STREAMS, WIDTH, dtype=torch.float64, requires_grad=True)
    residual(state, torch.tanh).sum().backward()
    assert state.grad.isfinite().all()


# ---------------------------------------------------------------- as released

@pytest.mark.parametrize("kind, ahead", [(MHC, 0), (SinglePass, 1)])
@pytest.mark.parametrize("index", [0, 3, 6])
def test_the_published_start_is_the_reported_one(kind, ahead, index):
    maps = kind(WIDTH, index, 8, start="published").maps
    read, write, mix = maps.bias.detach().split([STREAMS, STREAMS, STREAMS**2])
    home = torch.eye(STREAMS)[(index + ahead) % STREAMS]
    assert torch.equal(read, 6 * home - 3) and torch.equal(write, torch.zeros(STREAMS))
    assert torch.equal(mix.view(STREAMS, STREAMS), 6 * torch.eye(STREAMS) - 3)
    again = kind(WIDTH, index, 8, start="published")
    shaken(again).reset_parameters()
    assert torch.equal(again.maps.bias, maps.bias)


@pytest.mark.parametrize("mix", [name for name in mixes() if name != "sinkhorn"])
@pytest.mark.parametrize("start", ["plain", "published"])
def test_every_mix_starts_as_near_to_the_identity_as_sinkhorn_s(mix, start):
    x = vectors(1, 2, STREAMS, WIDTH)
    ours, sinkhorn_s = (1 - MHC(WIDTH, start=start, **options).double().coefficients(x)
                        .mix.diagonal(dim1=-2, dim2=-1).mean() for options in ({"mix": mix}, {}))
    assert 0.5 < ours / sinkhorn_s < 7


def test_the_guards_are_added_where_they_are_said_to_be():
    plain, x = shaken(MHC(WIDTH, 3, 4, readout="learned").double()), vectors(1, 2, STREAMS, WIDTH)
    guarded = MHC(WIDTH, 3, 4, readout="learned", eps=0.01, write_eps=0.02).double()
    guarded.load_state_dict(plain.state_dict())
    for part, more in (("read", 0.01), ("write", 0.02)):
        assert_close(getattr(guarded.coefficients(x), part),
                     getattr(plain.coefficients(x), part) + more, **CLOSE)
    assert_close(guarded.reduce(x), plain.reduce(x) + 0.01 * x.sum(-2), **CLOSE)
    assert (guarded.coefficients(x).mix - plain.coefficients(x).mix).abs().max() > 1e-4


def test_a_single_pass_reads_with_the_weights_of_the_sublayer_before():
    made, mix = stack("single-pass", WIDTH).double(), sublayer()
    shaken(made)
    x = vectors(2, 5, WIDTH)
    streams, read = x.unsqueeze(-2).expand(-1, -1, STREAMS, -1), None
    for residual in made:
        u = streams[..., 0, :] if read is None else (read.unsqueeze(-1) * streams).sum(-2)
        read, write, h = residual.maps.at(streams.flatten(-2))
        streams = h @ streams + write.unsqueeze(-1) * mix(u).unsqueeze(-2)
    left = (read.unsqueeze(-1) * streams).sum(-2)
    state = made[0].expand(x)
    for residual in made:
        state = residual(state, mix)
    assert_close(made[-1].reduce(state), left, **CLOSE)


def test_gated_streams_are_the_equation_written_out():
    residual = shaken(GatedStreams(WIDTH, 1, 2, rank=3).double())
    mix, x = sublayer(), vectors(2, 5, STREAMS, WIDTH)
    w = {name: p.detach().numpy() for name, p in residual.named_parameters()}

    def heard(x, part):
        normed = x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + 1e-6)
        normed = (1 + w[f"{part}.norm.weight"]) * normed
        hidden = w[f"{part}.down.weight"] @ normed.reshape(-1) / STREAMS
        gate = sigmoid(w[f"{part}.up.weight"] @ (hidden * sigmoid(hidden)))
        return normed, (gate.reshape(STREAMS, WIDTH) * normed).mean(0)

    step, left = residual(x, mix), residual.reduce(x)
    for b, t in np.ndindex(2, 5):
        token = x[b, t].numpy()
        normed, u = heard(token, "read")
        write = 2 * sigmoid(w["write.weight"] @ normed.reshape(-1) / STREAMS)
        new = token + np.outer(write, mix(torch.from_numpy(u)).detach().numpy())
        assert_close(step[b, t], torch.from_numpy(new), **CLOSE)
        assert_close(left[b, t], torch.from_numpy(heard(token, "exit")[1]), **CLOSE)
