from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from shared import normal
from torch.testing import assert_close

from geolab.models import MessagePassing, RelationGraph, path_graph

CLOSE = dict(rtol=0, atol=1e-12)
WIDTH, RELATIONS, LENGTH = 5, 3, 6


def vectors(seed=0):
    return normal(2, LENGTH, WIDTH, seed=seed)


def random_graph(seed):
    """Up to 20 edges and 4 triangles, repeated ones, loops and lonely vertices among them."""
    g = torch.Generator().manual_seed(seed)
    edges, triangles = (int(torch.randint(n, (), generator=g)) for n in (21, 5))
    return RelationGraph(torch.randint(LENGTH, (2, edges), generator=g),
                         torch.randint(RELATIONS, (edges,), generator=g),
                         torch.stack([torch.randperm(LENGTH, generator=g)[:3]
                                      for _ in range(triangles)], dim=1) if triangles
                         else torch.empty(3, 0, dtype=torch.int64))


def passing(seed=0, **options):
    torch.manual_seed(seed)
    return MessagePassing(WIDTH, RELATIONS, **options).double()


def one_message_at_a_time(layer, h, graph):
    """What reaches each vertex, and how many messages: loops over edges and over triangles."""
    reached, count = torch.zeros_like(h), torch.zeros(LENGTH, 1, dtype=h.dtype)
    inside, out = (lambda x, of=of: F.linear(x, *of()) for of in (layer.inside, layer.out))
    for (source, target), relation in zip(graph.edges.T.tolist(), graph.relations.tolist(),
                                          strict=True):
        onehot = torch.eye(RELATIONS, dtype=h.dtype)[relation].expand(len(h), -1)
        read = torch.cat([h[:, source], h[:, target], onehot], dim=-1)
        reached[:, target] += out(inside(read).relu())
        count[target] += 1
    if layer.face is not None:
        for a, b, c in graph.triangles.T.tolist():
            for vertex in (c,) if graph.causal else (a, b, c):
                mean = (h[:, a] + h[:, b] + h[:, c]) / 3
                reached[:, vertex] += out(layer.face(mean).relu())
                count[vertex] += 1
    return reached, count


# ---------------------------------------------------------------- the equation

@given(seed=st.integers(0, 2**31), triangles=st.booleans(), normalise=st.booleans())
def test_it_is_the_loop_over_edges(seed, triangles, normalise):
    layer, h, graph = passing(seed, triangles=triangles,
                              normalise=normalise), vectors(seed), random_graph(seed)
    reached, count = one_message_at_a_time(layer, h, graph)
    assert_close(layer(h, graph), h + (reached / count.clamp(min=1) if normalise else reached),
                 **CLOSE)
    assert_close(layer.messages(h, graph), layer(h, graph) - h, **CLOSE)


def test_on_a_causal_path_a_triangle_tells_its_last_vertex_alone():
    layer, h = passing(triangles=True), vectors()
    graph = path_graph(LENGTH, causal=True, typed=False, triangles=True)
    assert_close(layer(h, graph), h + one_message_at_a_time(layer, h, graph)[0], **CLOSE)


def test_domains_are_kept_and_nobody_reads_them():
    graph = path_graph(LENGTH)
    named = replace(graph, domains=torch.arange(graph.edges.shape[1]))
    assert torch.equal(passing()(vectors(), named), passing()(vectors(), graph))
    assert torch.equal(named.to(torch.device("cpu")).domains, named.domains)
    assert named.to(torch.device("meta")).domains.is_meta and graph.domains is None


# ---------------------------------------------------------------- graphs

def pairs(graph):
    return dict(zip(map(tuple, graph.edges.T.tolist()), graph.relations.tolist(), strict=True))


def test_a_path_joins_neighbours_both_ways_or_forward_and_three_in_a_row():
    graph, causal = path_graph(4), path_graph(4, causal=True)
    assert pairs(graph) == {(0, 1): 0, (1, 2): 0, (2, 3): 0, (1, 0): 1, (2, 1): 1, (3, 2): 1}
    assert graph.triangles is None and not graph.causal
    assert pairs(path_graph(4, typed=False)) == dict.fromkeys(pairs(graph), 0)
    assert pairs(causal) == {(0, 1): 0, (1, 2): 0, (2, 3): 0} and causal.causal
    assert path_graph(5, triangles=True).triangles.T.tolist() == [[0, 1, 2], [1, 2, 3], [2, 3, 4]]


@pytest.mark.parametrize("length", [1, 2])
def test_a_short_path_is_a_graph(length):
    graph = path_graph(length, typed=False, triangles=True)
    assert graph.edges.shape == (2, 2 * (length - 1)) and graph.triangles.shape == (3, 0)
    h = vectors()[:, :length]
    assert_close(passing(triangles=True)(h, graph)[:, :1] == h[:, :1],
                 torch.full((2, 1, WIDTH), length == 1))
