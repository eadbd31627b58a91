"""Message passing over a graph with relations, along edges and over triangles.

    h_t <- h_t + Σ_{e = (s -> t, r)} W_out relu(W_in [h_s; h_t; onehot r] + b_in) + b_out

The lecture's geometric Transformer sends these messages between positions. The lecture calls it
simplicial, but its code reads edges only. Here triangles may send messages as well: the mean of
three vertices goes through W_face, relu and the same W_out to each of them.

Legend: B batch, L vertices (positions), D width, E edges, R relations, K triangles.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from geolab.checks import require_count


@dataclass(frozen=True, eq=False)
class RelationGraph:
    """Directed edges, each with a relation, and possibly triangles.

    Raises: ValueError for another shape or type, or for causal=True with an edge or a triangle
        whose vertices aren't in rising order.
    """

    edges: Tensor                       # (2, E), int64: source, target
    relations: Tensor                   # (E,), int64
    triangles: Tensor | None = None     # (3, K), int64
    causal: bool = False                # messages go to later vertices: per triangle, to the last
    domains: Tensor | None = None       # (E,), int64: of edges; as published, nothing reads them

    def __post_init__(self):
        for name, rows in (("edges", 2), ("triangles", 3)):
            got = getattr(self, name)
            if got is None and name == "triangles":
                continue
            if got.dtype != torch.int64 or got.ndim != 2 or len(got) != rows:
                raise ValueError(f"{name} must be int64 of shape ({rows}, any), "
                                 f"got {got.dtype} of shape {tuple(got.shape)}")
            if self.causal and not (got[:-1] < got[1:]).all():
                raise ValueError(f"{name} of a causal graph must have vertices in rising order")
        one = self.edges.shape[1:]
        for name in ("relations", "domains"):
            got = getattr(self, name)
            if got is not None and (got.dtype != torch.int64 or got.shape != one):
                raise ValueError(f"{name} must be int64 of shape {tuple(one)}, "
                                 f"got {got.dtype} of shape {tuple(got.shape)}")

    def to(self, device: torch.device) -> "RelationGraph":
        return replace(self, **{name: value.to(device) for name, value in vars(self).items()
                                if isinstance(value, Tensor)})


def path_graph(length: int, *, causal: bool = False, typed: bool = True,
               triangles: bool = False) -> RelationGraph:
    """Positions in a row, each joined to the next one.

    Arguments:
        length: L.
        causal: keep only the edges that go forward, from i to i + 1.
        typed: the edges forward have relation 0, those backward relation 1. False gives all edges
            relation 0, as GT-Full is published.
        triangles: whether to add (i, i + 1, i + 2) for all i.
    Raises: ValueError for a length below 1.
    """
    require_count("length", length)
    position = torch.arange(length)
    forward = torch.stack([position[:-1], position[1:]])
    edges = forward if causal else torch.cat([forward, forward.flip(0)], dim=1)
    relations = torch.zeros_like(edges[0])
    if typed:
        relations[length - 1:] = 1
    corners = torch.stack([position[:-2], position[1:-1], position[2:]]) if triangles else None
    return RelationGraph(edges, relations, corners, causal)


class Affine(nn.Module):
    """W and b of a map whose parts are applied one by one. A call of the module returns both.

    It is a module because offloading and parametrisations act where a module is called. W and b
    start as in nn.Linear.
    """

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.empty(outputs))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.kaiming_uniform_(self.weight, a=5**0.5)
        nn.init.uniform_(self.bias, -self.weight.shape[1]**-0.5, self.weight.shape[1]**-0.5)

    def forward(self) -> tuple[Tensor, Tensor]:
        return self.weight, self.bias


class MessagePassing(nn.Module):
    """h -> h + messages: one layer of the lecture's `GeometricTransformerV2`.

    It has PyTorch's own initialisation. W_in is split by what it reads: source, target and
    relation. So it is applied once per vertex instead of once per edge, and W_out is applied once
    to the sum of the messages that reach a vertex.

    Arguments:
        width: D.
        relations: R.
        triangles: whether the graph's triangles send messages; otherwise they are ignored.
        normalise: whether to divide the sum at a vertex by the number of its messages. The lecture
            takes the sum.
    """

    def __init__(self, width: int, relations: int, triangles: bool = False,
                 normalise: bool = False):
        super().__init__()
        require_count("relations", relations)
        self.width, self.relations, self.normalise = width, relations, normalise
        self.inside = Affine(2 * width + relations, width)
        self.out = Affine(width, width)
        self.face = nn.Linear(width, width) if triangles else None

    def forward(self, h: Tensor, graph: RelationGraph) -> Tensor:
        """(B, L, D) -> (B, L, D). Raises: as `messages`."""
        return h + self.messages(h, graph)

    def messages(self, h: Tensor, graph: RelationGraph) -> Tensor:
        """The sum or mean of the messages that reach each vertex: (B, L, D) -> (B, L, D).

        Raises: ValueError for another width, a vertex or a relation that doesn't exist, or a graph
            without triangles where triangles=True.
        """
        self._check(h, graph)
        graph = graph.to(h.device)
        target, hidden = self._from_edges(h, graph)
        if self.face is not None:
            to, more = self._from_triangles(h, graph)
            target, hidden = torch.cat([target, to]), torch.cat([hidden, more], dim=1)
        total = hidden.new_zeros(h.shape).index_add(1, target, hidden)
        count = torch.bincount(target, minlength=h.shape[1]).to(total).unsqueeze(-1)     # (L, 1)
        weight, bias = self.out()
        reached = F.linear(total, weight) + count * bias  # b_out per message
        return reached / count.clamp(min=1) if self.normalise else reached

    def _from_edges(self, h: Tensor, graph: RelationGraph) -> tuple[Tensor, Tensor]:
        """Targets (E,) and hidden activations (B, E, D)."""
        source, target = graph.edges
        sizes = [self.width, self.width, self.relations]
        weight, bias = self.inside()
        of_source, of_target, of_relation = weight.split(sizes, dim=1)
        sent, met = F.linear(h, of_source), F.linear(h, of_target, bias)
        return target, F.relu(sent[:, source] + met[:, target] + of_relation.T[graph.relations])

    def _from_triangles(self, h: Tensor, graph: RelationGraph) -> tuple[Tensor, Tensor]:
        """The same for triangles: 3K messages, or K in a causal graph."""
        receivers = graph.triangles[2:] if graph.causal else graph.triangles
        hidden = F.relu(self.face(h[:, graph.triangles].mean(dim=1)))                # (B, K, D)
        return receivers.flatten(), hidden.repeat(1, len(receivers), 1)

    def _check(self, h: Tensor, graph: RelationGraph) -> None:
        if h.ndim != 3 or h.shape[-1] != self.width:
            raise ValueError(f"h must be (B, L, {self.width}), got shape {tuple(h.shape)}")
        if self.face is not None and graph.triangles is None:
            raise ValueError("triangles=True needs a graph with triangles, got one without")
        limits = {"edges": h.shape[1], "relations": self.relations}
        if self.face is not None:
            limits["triangles"] = h.shape[1]
        for name, count in limits.items():
            got = getattr(graph, name)
            if got.numel() and not 0 <= got.min() <= got.max() < count:
                raise ValueError(f"{name} must be from 0 to {count - 1}, "
                                 f"got {got.min()} to {got.max()}")
