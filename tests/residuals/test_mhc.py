import itertools

import numpy as np
import pytest
import torch
from shared import CLOSE, STREAMS, WIDTH, networks, shaken, sublayer, vectors
from torch.testing import assert_close

from geolab.probes import states
from geolab.residuals import MHC
from geolab.residuals.constrained import MAPS

BIASES = dict(rtol=0, atol=1e-6)  # the initial biases are float32 numbers
every_order = pytest.mark.parametrize("order", ["column-row", "row-column"])
every_readout = pytest.mark.parametrize("readout", ["mean", "learned"])


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
    for _ in range(residual.maps.iterations):
        for axis in (0, 1) if residual.maps.order == "column-row" else (1, 0):
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


@every_readout
@pytest.mark.parametrize("streams", [2, 4])
def test_step_zero_is_the_plain_network(readout, streams):
    network, plain = networks("mhc", streams=streams, readout=readout)
    x = vectors(2, 5, WIDTH)
    for wide, single in zip(states(network, network.layers, x), states(plain, plain.layers, x),
                            strict=True):
        assert_close(wide, single.unsqueeze(-2).expand_as(wide), **BIASES)
    # the last norm divides by a number below 1
    assert_close(network(x), plain(x), rtol=0, atol=1e-5)


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
    assert not list(residual.parameters())
    assert_close(residual(x, mix), x + mix(x.mean(-2)).unsqueeze(-2), **CLOSE)
    network, plain = networks("mhc", without=MAPS)
    assert_close(network(vectors(2, 5, WIDTH)), plain(vectors(2, 5, WIDTH)), **CLOSE)


def test_the_learned_readout_is_in_the_last_residual_alone_and_is_the_equation():
    network, _ = networks("mhc", readout="learned")
    has_head = [hasattr(layer.residual, "head") for layer in network.layers]
    assert has_head == [False, False, False, True]
    residual, x = shaken(network.layers[-1].residual), vectors(2, 5, STREAMS, WIDTH)
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
