import math

import numpy as np
import pytest
import torch
from shared import CLOSE, STREAMS, WIDTH, networks, shaken, sublayer, vectors
from torch.testing import assert_close

from geolab.probes import future_influence, states
from geolab.residuals import HyperConnections

FORMS = [dict(dynamic=False), dict(tanh=True), dict(tanh=False)]
every_form = pytest.mark.parametrize("options", FORMS,
                                     ids=["static", "dynamic", "dynamic without tanh"])


def by_hand(residual, x, mix):
    """One token, n streams: the paper's equations with loops."""
    n, w = len(x), {name: p.detach().numpy() for name, p in residual.named_parameters()}
    table = w["static"].reshape(n, n + 2).copy()
    if residual.dynamic:
        for j in range(n):
            normed = (x[j] - x[j].mean()) / math.sqrt(x[j].var() + 1e-5)
            numbers = w["generate.weight"] @ normed
            numbers = np.tanh(numbers) if residual.tanh else numbers
            table[j] += np.where(np.arange(n + 2) == 0, w["scale"][0], w["scale"][1]) * numbers
    write, read, a = table[:, 0], table[:, 1], table[:, 2:]
    h = mix(torch.from_numpy(sum(read[j] * x[j] for j in range(n)))).detach().numpy()
    return np.stack([sum(a[j, i] * x[j] for j in range(n)) + write[i] * h for i in range(n)])


@every_form
def test_forward_is_the_equation_written_out(options):
    residual = shaken(HyperConnections(WIDTH, index=2, count=6, **options).double())
    mix, x = sublayer(), vectors(2, 5, STREAMS, WIDTH)
    step = residual(x, mix)
    for b, t in np.ndindex(2, 5):
        assert_close(step[b, t], torch.from_numpy(by_hand(residual, x[b, t].numpy(), mix)), **CLOSE)


@every_form
@pytest.mark.parametrize("streams", [1, 2, 3, 4])
def test_step_zero_is_the_plain_network(options, streams):
    network, plain = networks("hyper", streams=streams, **options)
    x = vectors(2, 5, WIDTH)
    for wide, single in zip(states(network, network.layers, x), states(plain, plain.layers, x),
                            strict=True):
        assert_close(wide, single.unsqueeze(-2).expand_as(wide), **CLOSE)
    assert_close(network.layers[-1].residual.reduce(wide), streams * single, **CLOSE)
    # a sum, not a mean: the last norm's eps weighs less
    assert_close(network(x), plain(x), rtol=1e-2, atol=0)


@pytest.mark.parametrize("index", range(6))
def test_sublayers_read_the_streams_in_turn(index):
    residual = HyperConnections(WIDTH, index, 6)
    read, write, mix = residual.coefficients(torch.randn(1, 2, STREAMS, WIDTH))
    assert torch.equal(read, torch.eye(STREAMS)[index % STREAMS].expand(1, 2, -1))
    assert torch.equal(write, torch.ones(1, 2, STREAMS))
    assert torch.equal(mix, torch.eye(STREAMS).expand(1, 2, -1, -1))


def test_nothing_bounds_the_mix():
    residual = shaken(HyperConnections(WIDTH).double())
    with torch.no_grad():
        residual.static.mul_(100)
    mix = residual.coefficients(vectors(1, 3, STREAMS, WIDTH)).mix
    assert torch.linalg.matrix_norm(mix, 2).min() > 10


def test_a_static_one_has_the_same_coefficients_everywhere():
    residual = shaken(HyperConnections(WIDTH, dynamic=False).double())
    mix = residual.coefficients(vectors(2, 3, STREAMS, WIDTH)).mix
    assert_close(mix, mix[:1, :1].expand_as(mix), rtol=0, atol=0)
    mix = shaken(HyperConnections(WIDTH).double()).coefficients(vectors(2, 3, STREAMS, WIDTH)).mix
    assert (mix[0, 0] - mix[0, 1]).abs().max() > 1e-2


def test_each_stream_generates_its_own_row():
    residual, x = shaken(HyperConnections(WIDTH).double()), vectors(1, 1, STREAMS, WIDTH)
    before, changed = residual.coefficients(x), x.clone()
    changed[..., 2, :] += torch.arange(WIDTH)
    after = residual.coefficients(changed)
    moved = [(a - b).abs() > 0 for a, b in zip(after, before, strict=True)]
    others = [0, 1, 3]
    assert moved[0][..., 2].all() and moved[1][..., 2].all() and moved[2][..., 2].all()
    assert not (moved[0][..., others].any() or moved[1][..., others].any()
                or moved[2][..., others].any())


def test_the_scale_learns_from_the_second_step_on():
    # the generator starts at zero (paper): first it learns alone, then its scale does
    network, _ = networks("hyper")
    for reached in (False, True):
        network.zero_grad()
        network(vectors(2, 5, WIDTH)).cos().sum().backward()
        for layer in network.layers:
            assert layer.residual.generate.weight.grad.abs().max() > 1e-8
            assert layer.residual.static.grad.abs().max() > 1e-6
            assert (layer.residual.scale.grad.abs().max() > 1e-8) == reached
        torch.optim.SGD(network.parameters(), lr=1.0).step()


@every_form
def test_it_stays_causal_when_trained(options):
    network, _ = networks("hyper", **options)
    assert future_influence(shaken(network), vectors(2, 7, WIDTH)) == 0


def test_no_static_weight_is_decayed():
    residual = HyperConnections(WIDTH)
    # as `fit` chooses
    assert {name for name, p in residual.named_parameters() if p.ndim >= 2} == {"generate.weight"}


@pytest.mark.parametrize("options, message", [
    ({"streams": 0}, "streams must be at least 1, got 0"),
    ({"streams": 1.5}, "streams must be a whole number, got 1.5"),
    ({"streams": "4"}, "streams must be a whole number, got '4'"),
    ({"dynamic": "static"}, "dynamic must be one of True, False, got 'static'"),
    ({"tanh": "none"}, "tanh must be one of True, False, got 'none'"),
])
def test_a_wrong_configuration_is_refused(options, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        HyperConnections(WIDTH, **options)
