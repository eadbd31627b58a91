import itertools

import numpy as np
import pytest
import torch
from shared import CLOSE, STREAMS, WIDTH, networks, shaken, sublayer, train, vectors
from torch.testing import assert_close

from geolab.probes import future_influence, spectrum, states
from geolab.residuals import MHC
from geolab.residuals.mhc import MAPS

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


@every_order
def test_the_mix_is_doubly_stochastic_and_expands_nothing(order):
    for size in (0.1, 1.0):
        residual = shaken(MHC(WIDTH, 1, 3, order=order).double(), size)
        mix = residual.coefficients(vectors(2, 5, STREAMS, WIDTH)).mix
        rows, columns = mix.sum(-1), mix.sum(-2)
        exact, other = (rows, columns) if order == "column-row" else (columns, rows)
        assert mix.min() > 0
        assert_close(exact, torch.ones_like(exact), **CLOSE)
        assert spectrum(mix).singular_values.max() < other.max().sqrt() + 1e-9  # ‖P‖₂² ≤ ‖P‖₁ ‖P‖∞
        # 20 iterations, not infinitely many; sharper logits take more
        assert size == 1.0 or (other - 1).abs().max() < 1e-2


def test_what_differs_between_streams_shrinks():
    # a product of doubly stochastic matrices keeps the mean and contracts the rest by σ₂ each
    residual = shaken(MHC(WIDTH, 1, 3, diagonal=1.0).double())
    mix = residual.coefficients(vectors(1, 60, STREAMS, WIDTH)).mix[0]
    product = torch.linalg.multi_dot(list(mix))
    assert spectrum(mix).singular_values[:, 1].max() < 0.9
    assert_close(product, torch.full_like(product, 1 / STREAMS), rtol=0, atol=1e-3)


def test_the_first_mix_acts_on_copies_and_cannot_learn():
    network, _ = networks("mhc")
    train(network, steps=3)
    gradients = [layer.residual.maps.generate.weight.grad[2 * STREAMS:].norm()
                 for layer in network.layers]
    reads = [layer.residual.maps.generate.weight.grad[:STREAMS].norm() for layer in network.layers]
    assert gradients[0] < 1e-12 * reads[0]
    assert all(g > 1e-6 * r for g, r in zip(gradients[1:-1], reads[1:-1], strict=True))


def of_mix(network):
    """By sublayer: the largest gradient in H's rows of the linear map over that of all weights."""
    largest = max(p.grad.abs().max() for p in network.parameters())
    return [(layer.residual.maps.generate.weight.grad[-STREAMS**2:].abs().max() / largest).item()
            for layer in network.layers]


@every_order
@every_readout
def test_the_last_mix_cannot_learn_where_its_exact_columns_meet_a_mean(order, readout):
    network, _ = networks("mhc", order=order, readout=readout, diagonal=1.0, iterations=3)
    train(network, steps=3)
    assert (of_mix(network)[-1] < 1e-13) == (order == "row-column" and readout == "mean")
    assert min(of_mix(network)[1:-1]) > 1e-7


def test_the_scale_learns_from_the_second_step_on():
    network, _ = networks("mhc")
    for reached in (False, True):
        train(network, steps=1)
        assert all((layer.residual.maps.scale.grad.abs().max() > 0) == reached
                   for layer in network.layers)


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


@every_subset
@every_readout
def test_without_read_or_write_the_streams_stay_copies_and_the_write_learns(without, readout):
    network, _ = networks("mhc", without=without, readout=readout)
    train(network, steps=3)
    largest = max(p.grad.abs().max() for p in network.parameters())
    last = states(network, network.layers, vectors(2, 5, WIDTH))[-1]
    copies = "read" in without or "write" in without
    assert ((last - last.mean(-2, keepdim=True)).abs().max() < 1e-12 * last.abs().max()) == copies
    for layer in network.layers[1:-1]:
        sizes = layer.residual.maps.sizes
        gradients = ()
        if sizes:
            gradients = layer.residual.maps.generate.weight.grad.split(list(sizes.values()))
        alive = {name for name, g in zip(sizes, gradients, strict=True) if g.abs().max()
                 > 1e-12 * largest}
        assert set(sizes) == set(MAPS) - set(without)
        assert alive == ({"write"} if copies else set(MAPS)) & set(sizes)


def test_equal_reads_leave_the_streams_copies():
    # the symmetric start: nothing tells the streams apart, in the forward pass or in a gradient
    def spread(network):
        last = states(network, network.layers, vectors(2, 5, WIDTH))[-1]
        return (last - last.mean(-2, keepdim=True)).norm() / last.norm()

    symmetric, ours = networks("mhc")[0], networks("mhc")[0]
    with torch.no_grad():
        for layer in symmetric.layers:
            layer.residual.maps.bias[:STREAMS] = torch.full((STREAMS,), 1 / STREAMS).logit()
    for network in (symmetric, ours):
        train(network, steps=10, lr=0.1)
    assert spread(symmetric) < 1e-12 < 1e-3 < spread(ours)


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


@every_readout
def test_every_parameter_learns_and_it_stays_causal(readout):
    network, _ = networks("mhc", readout=readout)
    assert future_influence(shaken(network), vectors(2, 7, WIDTH)) == 0
    train(network, steps=1, lr=0.0)
    largest = max(p.grad.abs().max() for p in network.parameters())
    for name, p in network.named_parameters():
        assert p.grad.abs().max() > 1e-8 * largest, name


def test_a_state_of_zeros_is_no_trouble():
    residual = MHC(WIDTH).double()
    state = torch.zeros(1, 2, STREAMS, WIDTH, dtype=torch.float64, requires_grad=True)
    residual(state, torch.tanh).sum().backward()
    assert state.grad.isfinite().all()


@pytest.mark.parametrize("options, message", [
    ({"streams": 1}, "streams must be at least 2, got 1"),
    ({"order": "rows"}, "order must be one of 'column-row', 'row-column', got 'rows'"),
    ({"iterations": 0}, "iterations must be at least 1, got 0"),
    ({"iterations": 2.5}, "iterations must be a whole number, got 2.5"),
    ({"streams": 1.5}, "streams must be a whole number, got 1.5"),
    ({"diagonal": float("nan")}, "diagonal must be a finite number, got nan"),
    ({"without": ("mix", "gate")}, "without must be one of 'read', 'write', 'mix', got 'gate'"),
    ({"readout": "sum"}, "readout must be one of 'mean', 'learned', got 'sum'"),
])
def test_a_wrong_configuration_is_refused(options, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        MHC(WIDTH, **options)
