"""What a model refuses, by name."""

import re
from dataclasses import replace

import pytest
import torch

from geolab.models import (
    ContinuousModel,
    GeometricConfig,
    GeometricDecoder,
    GeometricTransformer,
    MessagePassing,
    PointModel,
    RelationGraph,
    TokenModel,
    Transformer,
    TransformerConfig,
    path_graph,
)
from geolab.models.reflectors import JPmHCReflector, MHCReflector, StreamHybridReflector
from geolab.models.regimes import REGIMES, RegimeModel


def trunk():
    return Transformer(TransformerConfig.ddl(width=16, layers=2, heads=2, max_length=16))


def geometric(kind, make=GeometricTransformer, **changes):
    return make(GeometricConfig(**{"width": 8, "heads": 2, "hidden": 12} | changes), kind)


EDGE = torch.tensor([[0], [1]])
ZERO = torch.tensor([0])


def edges(*numbers, relation=0):
    return RelationGraph(torch.tensor([[number] for number in numbers]), torch.tensor([relation]))


SHAPE = "input must be (batch, positions, width), with at least 1 position, got shape "
SIZES = {"width": 8, "heads": 2}
OPTIONS = {  # a configuration -> options, and what it says of them
    TransformerConfig: [
        *(({name: "no"}, f"{name} must be one of .*, got 'no'")
          for name in ("norm", "norm_at", "positions", "mlp")),
        *(({name: 0}, f"{name} must be at least 1, got 0")
          for name in ("width", "layers", "heads", "hidden", "max_length")),
        ({"width": 10, "heads": 4}, "width must be divisible by heads, got width 10 and heads 4"),
        ({"width": 12, "heads": 4}, "rope needs an even number of features per head, got 3")],
    GeometricConfig: [
        *(({name: "no"}, f"{name} must be one of .*, got 'no'")
          for name in ("norm_at", "positions", "activation")),
        *(({name: 0}, f"{name} must be at least 1, got 0")
          for name in ("width", "layers", "heads", "hidden", "experts", "relations", "depth",
                       "max_length")),
        ({"width": 10, "heads": 4}, "heads must divide width, got width 10 and heads 4"),
        *(({"top_k": k}, f"top_k must be from 1 to experts = 4, got {k}") for k in (0, 5)),
        ({"dropout": 1.0}, r"dropout must be in \[0, 1\), got 1.0"),
        ({"dropout_at": ("A", "B")}, "dropout_at must be one of 'weights', .*, 'X', got 'B'")],
}
GRAPHS = [  # graphs that don't fit a layer, and what it says
    *((edges(0, 1, relation=r), f"relations must be from 0 to 2, got {r} to {r}") for r in (-1, 3)),
    (edges(0, 6), "edges must be from 0 to 5, got 0 to 6"),
    (RelationGraph(EDGE, ZERO, torch.tensor([[0], [1], [9]])),
     "triangles must be from 0 to 5, got 0 to 9"),
    (edges(0, 1), "triangles=True needs a graph with triangles, got one without")]
NO_GRAPHS = [  # arguments that make no graph
    ((EDGE.T, ZERO), r"edges must be int64 of shape \(2, any\), got torch.int64 of shape \(1, 2\)"),
    ((EDGE, ZERO, EDGE), r"triangles must be int64 of shape \(3, any\), .*"),
    ((EDGE, ZERO, None, False, torch.tensor([0.0])), r"domains must be int64 of shape \(1,\), .*"),
    ((EDGE, torch.tensor([0, 0])), r"relations must be int64 of shape \(1,\), .*"),
    ((EDGE.flip(0), ZERO, None, True), "edges of a causal graph must have .* in rising order"),
    ((EDGE, ZERO, torch.tensor([[0], [2], [1]]), True),
     "triangles of a causal graph must have vertices in rising order")]
REFUSED = [
    *((lambda graph=graph, triangles="triangles" in message: MessagePassing(
        5, 3, triangles=triangles)(torch.randn(2, 6, 5), graph), message)
      for graph, message in GRAPHS),
    *((lambda given=given: RelationGraph(*given), message) for given, message in NO_GRAPHS),
    *((lambda config=config, given=given: config(**SIZES | given), message)
      for config, rows in OPTIONS.items() for given, message in rows),
    *((lambda shape=shape: trunk()(torch.zeros(shape)), re.escape(SHAPE + str(shape)))
      for shape in ((), (5, 16), (2, 3, 5, 16), (2, 0, 16))),
    (lambda: trunk()(torch.randn(1, 5, 8)), "input must have 16 features along its last axis, .*"),
    (lambda: Transformer(TransformerConfig(width=16, heads=2, norm_at="post"), "delta-matrix"),
     r"norm_at='post' .* of 'delta-matrix' has shape \(1, 1, 16, 4\); use norm_at='pre'"),
    (lambda: TokenModel(trunk(), 0), "vocabulary must be at least 1, got 0"),
    (lambda: ContinuousModel(trunk(), 0), "dim must be at least 1, got 0"),
    (lambda: PointModel(trunk(), 0, 1), "inputs must be at least 1, got 0"),
    (lambda: PointModel(trunk(), 1, 0), "outputs must be at least 1, got 0"),
    *((lambda kind=kind: geometric(kind), f"kind must be one of 'transformer', .*, got '{kind}'")
      for kind in ("heavy", "", "AA", "AX", "Af")),
    (lambda: geometric("AFC", GeometricDecoder), "kind must be one of .*, got 'AFC'"),
    (lambda: geometric("lite", positions="learned", max_length=6)(torch.randn(3, 7, 8)),
     "sequence of 7 positions is longer than max_length = 6"),
    (lambda: geometric("lite")(torch.randn(3, 7, 8), path_graph(7)),
     "graph is read by kind 'full', got one for 'lite'"),
    (lambda: RegimeModel("GT", 11), "name must be one of 'AR-Base', .* got 'GT'"),
    (lambda: replace(REGIMES["AR-Base"], temperature=0), "temperature must be above 0, got 0"),
    (lambda: RegimeModel("AR-Base", 11, heads=3), "heads must divide width, .* and heads 3"),
    (lambda: RegimeModel("AR-Base", 11, max_length=9)(torch.zeros(4, 10, dtype=torch.int64)),
     "sequence of 10 positions is longer than max_length = 9"),
    (lambda: MessagePassing(5, 3)(torch.randn(2, 6, 4), path_graph(6)),
     r"h must be \(B, L, 5\), got shape \(2, 6, 4\)"),
    (lambda: MessagePassing(5, 0), "relations must be at least 1, got 0"),
    (lambda: path_graph(0), "length must be at least 1, got 0"),
    (lambda: MHCReflector(6), "dim must be divisible by 4, got 6"),
    (lambda: StreamHybridReflector(6), "dim must be divisible by 4, got 6"),
    (lambda: JPmHCReflector(4, start="zero"), "start must be one of .*, got 'zero'"),
]


@pytest.mark.parametrize("call, message", REFUSED, ids=[message for _, message in REFUSED])
def test_it_is_refused(call, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        call()
