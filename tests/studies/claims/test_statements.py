"""Statements that hold for all inputs, as properties of the code that chapters compute with.

Each test names the label of the statement's directive.
"""

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from benchmarks import floors
from geolab.models import GeometricConfig, GeometricTransformer, MessagePassing, path_graph
from geolab.operators import delta_update, unit_direction
from geolab.probes import influence

seeds, shares, widths = st.integers(0, 2**31), st.floats(0, 1), st.integers(2, 9)
CLOSE = dict(rtol=1e-9, atol=1e-9)


def normal(seed, *shape):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


@given(seeds, widths, st.integers(1, 4), st.floats(0, 30))
def test_the_frozen_flow_is_the_delta_update_of_a_gate_up_to_one(seed, d, channels, time):
    """delta-flow, part 1."""
    k = unit_direction(normal(seed, d))
    X, v = normal(seed + 1, d, channels), normal(seed + 2, channels)
    gate = -math.expm1(-time)
    decayed = torch.linalg.matrix_exp(-time * torch.outer(k, k)) @ (X - torch.outer(k, v))
    assert_close(decayed + torch.outer(k, v), delta_update(X, k, v, gate), **CLOSE)


@given(st.floats(-3, 3), st.floats(-3, 3), shares)
def test_with_gates_up_to_one_a_repeated_update_is_monotone(start, value, gate):
    """delta-parity, part 2."""
    path, k = [torch.tensor([start], dtype=torch.float64)], torch.ones(1, dtype=torch.float64)
    value = torch.tensor(value, dtype=torch.float64)
    for _ in range(12):
        path.append(delta_update(path[-1], k, value, gate))
    steps = torch.cat(path).diff()
    assert (steps >= -1e-12).all() or (steps <= 1e-12).all()


@given(seeds, widths, st.integers(2, 5), st.data())
def test_predict_and_correct_is_a_hyper_connection(seed, d, n, data):
    """hyper-altup, which no cell asserts."""
    j = data.draw(st.integers(0, n - 1))
    X, P, g, found = (normal(seed + i, *shape) for i, shape in
                      enumerate(((n, d), (n, n), (n,), (d,))))
    H = (torch.eye(n, dtype=torch.float64) - torch.outer(g, torch.eye(n).double()[j])) @ P
    predicted = P @ X
    assert_close(H @ X + torch.outer(g, found),
                 predicted + torch.outer(g, found - predicted[j]), **CLOSE)
    assert_close(torch.linalg.det(H), (1 - g[j]) * torch.linalg.det(P), **CLOSE)


@given(st.floats(1e-5, 1), st.floats(1e-3, 0.9), st.floats(0.01, 100), st.floats(0, 1e4))
def test_the_length_under_decay_forgets_its_start(rate, decay, step, start):
    """ddl-adamw, part 4, which no cell asserts."""
    n, limit = start, rate * step / (decay * (2 - rate * decay))
    for k in range(1, 51):
        n = (1 - rate * decay) ** 2 * n + rate**2 * step
        assert math.isclose(n - limit, (1 - rate * decay) ** (2 * k) * (start - limit),
                            rel_tol=1e-6, abs_tol=1e-9 * (start + limit))


@given(st.integers(1, 10**5), st.integers(1, 512), st.sampled_from([2, 4]))
def test_a_delta_update_does_less_than_two_operations_per_number(d, channels, size):
    """kernel-rank-one."""
    assert 4 * d * channels / floors.delta_update(1, d, channels, size).forward < 2 / size


@given(st.integers(1, 10**5), st.integers(2, 32), st.sampled_from([2, 4]))
def test_streams_and_channels_move_the_same_and_a_projection_more(d, n, size):
    """audit-cost-order."""
    coefficients = 4 * (n + n**2 + n)
    streams = sum(floors.stream_read(1, n, d, size)[:1]
                  + floors.stream_mix_write(1, n, d, size)[:1])
    channels = (n + 1) * size * d + floors.delta_update(1, d, n, size).forward - 4 * (n + 1)
    assert streams - coefficients == channels == (3 * n + 2) * size * d
    assert floors.sinkhorn(1, n).forward == 4 * 2 * n**2
    assert channels > floors.delta_update(1, d, 1, size).forward - 8 == 3 * size * d


@given(st.integers(0, 2**16), st.integers(3, 8))
def test_printed_messages_do_not_see_triangles(seed, length):
    """gt-simplicial, part 2."""
    torch.manual_seed(seed)
    layer, h = MessagePassing(4, relations=2), torch.randn(1, length, 4)
    graphs = (path_graph(length, triangles=filled) for filled in (False, True))
    bare, filled = (layer.messages(h, graph) for graph in graphs)
    assert torch.equal(bare, filled)


@settings(max_examples=20)
@given(st.integers(0, 2**16), st.integers(1, 3), st.sampled_from(["pre", "post"]))
def test_a_convolution_beside_a_mask_reads_one_position_ahead_per_block(seed, blocks, norm_at):
    """convolution-leaks."""
    torch.manual_seed(seed)
    config = GeometricConfig(width=8, layers=blocks, heads=2, hidden=16, norm_at=norm_at,
                             masked=True, dropout=0.0)
    model, x = GeometricTransformer(config, "lite").double(), torch.randn(1, 6, 8).double()
    t, s = influence(model, x).nonzero().T
    assert (s - t).max() == blocks
