"""Statements about E-MHC-Geo and the lecture that hold for all inputs, as properties.

Each test names the label of the statement's directive.
"""

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from geolab.models import GeometricConfig, GeometricTransformer, MessagePassing, path_graph
from geolab.probes import influence

seeds = st.integers(0, 2**16)
arrows = st.integers(0, 4)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_mean_and_variance_of_gates_leave_what_is_in_the_middle(gates):
    """gate-binary."""
    mean = sum(gates) / len(gates)
    variance = sum((gate - mean) ** 2 for gate in gates) / len(gates)
    middle = sum(gate * (1 - gate) for gate in gates) / len(gates)
    assert math.isclose(middle, mean * (1 - mean) - variance, abs_tol=1e-12)


@given(st.integers(1, 40), st.integers(1, 8), st.integers(1, 20))
def test_an_operators_generators_have_the_stated_number_of_weights(D, n, h):
    """gate-weights."""
    with torch.device("meta"):
        nets = [nn.Sequential(nn.Linear(D, h), nn.Linear(h, out)) for out in (n, n, n, 1)]
        counted = sum(p.numel() for net in (*nets, nn.Linear(D, 1)) for p in net.parameters())
    assert counted == 4 * (D + 1) * h + (3 * n + 1) * (h + 1) + D + 1


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=60), st.floats(0.01, 0.99))
def test_a_moving_average_is_at_least_what_it_remembers_of_its_start(values, weight):
    """rotating-average."""
    average = values[0]
    for value in values[1:]:
        average = (1 - weight) * average + weight * value
    remembered = (1 - weight) ** (len(values) - 1)
    rest = average - remembered * values[0]
    later = values[1:] or [0.0]
    slack = 1e-9 * (1 + max(values))
    assert -slack <= rest - (1 - remembered) * min(later)
    assert rest - (1 - remembered) * max(later) <= slack


@given(st.data(), arrows, arrows, arrows)
def test_pulling_simplices_back_is_contravariant(data, a, b, c):
    """gt-simplicial, part 1: arrows [a] to [b] to [c], and a simplex of c + 1 positions."""
    def rising(length, most):
        return sorted(data.draw(st.lists(st.integers(0, most), min_size=length, max_size=length)))

    f, g, p = rising(a + 1, b), rising(b + 1, c), rising(c + 1, 9)
    through = [[p[k] for k in g][k] for k in f]
    assert through == [p[k] for k in [g[k] for k in f]] == sorted(through)


@given(seeds, st.integers(3, 8))
def test_printed_messages_do_not_see_triangles(seed, length):
    """gt-simplicial, part 2."""
    torch.manual_seed(seed)
    layer, h = MessagePassing(4, relations=2), torch.randn(1, length, 4)
    graphs = (path_graph(length, triangles=filled) for filled in (False, True))
    bare, filled = (layer.messages(h, graph) for graph in graphs)
    assert torch.equal(bare, filled)


@settings(max_examples=20)
@given(seeds, st.integers(1, 3), st.sampled_from(["pre", "post"]))
def test_a_convolution_beside_a_mask_reads_one_position_ahead_per_block(seed, blocks, norm_at):
    """convolution-leaks."""
    torch.manual_seed(seed)
    config = GeometricConfig(width=8, layers=blocks, heads=2, hidden=16, norm_at=norm_at,
                             masked=True, dropout=0.0)
    model, x = GeometricTransformer(config, "lite").double(), torch.randn(1, 6, 8).double()
    t, s = influence(model, x).nonzero().T
    assert (s - t).max() == blocks
