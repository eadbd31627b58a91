"""Message passing over a graph with relations: what the geometric Transformer sends along edges, and over triangles.

    h_t <- h_t + Σ_{e = (s -> t, r)} W_out relu(W_in [h_s; h_t; onehot r] + b_in) + b_out

The lecture calls it simplicial, and its code reads edges only. Here triangles may speak as well: the mean of three vertices
goes through W_face, relu and the same W_out to each of them.

Legend: B batch, L vertices (positions), D width, E edges, R relations, K triangles.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class RelationGraph:
    """Directed edges, each with a relation, and triangles if there are any.

    Raises: ValueError for another shape or type, or for causal=True where an edge or a triangle isn't in rising order.
    """

    edges: Tensor                       # (2, E), whole numbers: source, target
    relations: Tensor                   # (E,), whole numbers
    triangles: Tensor | None = None     # (3, K), whole numbers
    causal: bool = False                # every message goes to a later vertex: a triangle speaks to its last one alone

    def __post_init__(self):
        for name, rows in (("edges", 2), ("triangles", 3)):
            got = getattr(self, name)
            if got is None and name == "triangles":
                continue
            if got.dtype != torch.int64 or got.ndim != 2 or len(got) != rows:
                raise ValueError(f"{name} must be int64 of shape ({rows}, any), got {got.dtype} of shape {tuple(got.shape)}")
            if self.causal and not (got[:-1] < got[1:]).all():
                raise ValueError(f"{name} of a causal graph must have vertices in rising order")
        if self.relations.dtype != torch.int64 or self.relations.shape != self.edges.shape[1:]:
            raise ValueError(f"relations must be int64 of shape {tuple(self.edges.shape[1:])}, got {self.relations.dtype} "
                             f"of shape {tuple(self.relations.shape)}")

    def to(self, device: torch.device) -> "RelationGraph":
        triangles = None if self.triangles is None else self.triangles.to(device)
        return replace(self, edges=self.edges.to(device), relations=self.relations.to(device), triangles=triangles)


def path_graph(length: int, *, causal: bool = False, skips: tuple[int, ...] = (), typed: bool = True,
               triangles: bool = False) -> RelationGraph:
    """Positions in a row, each joined to the next one.

    Arguments:
        length: L.
        causal: keep only the edges that go forward, from j to i > j.
        skips: further distances, from 2, at which positions are joined.
        typed: relation k is the k-th distance forward (1, then the skips), relation 1 + len(skips) + k the same backward.
            False: all edges have relation 0, as GT-Full is published.
        triangles: (i, i + 1, i + 2) for all i.
    Raises: ValueError for a length under 1, or skips under 2 or repeated.
    """
    if length < 1:
        raise ValueError(f"length must be at least 1, got {length}")
    if any(skip < 2 for skip in skips) or len(set(skips)) < len(skips):
        raise ValueError(f"skips must be different numbers from 2, got {skips}")
    forward = (1, *skips)
    position, edges, relations = torch.arange(length), [], []
    for relation, distance in enumerate(forward if causal else forward + tuple(-distance for distance in forward)):
        target = position[(position >= distance) & (position < length + distance)]
        edges.append(torch.stack([target - distance, target]))
        relations.append(torch.full_like(target, relation if typed else 0))
    first = position[:-2]
    return RelationGraph(torch.cat(edges, dim=1), torch.cat(relations),
                         torch.stack([first, first + 1, first + 2]) if triangles else None, causal)


class MessagePassing(nn.Module):
    """h -> h + messages: one layer of the lecture's `GeometricTransformerV2`, with PyTorch's own initialisation.

    W_in is cut into what it reads: source, target and relation. So it is applied once a vertex and not once an edge, and
    W_out to the sum of what reaches a vertex.

    Arguments:
        width: D.
        relations: R.
        triangles: let the graph's triangles speak; otherwise they are left alone.
        normalise: divide what reaches a vertex by the number of messages; the lecture takes the sum.
    """

    def __init__(self, width: int, relations: int, triangles: bool = False, normalise: bool = False):
        super().__init__()
        if relations < 1:
            raise ValueError(f"relations must be at least 1, got {relations}")
        self.width, self.relations, self.normalise = width, relations, normalise
        self.inside = nn.Linear(2 * width + relations, width)
        self.out = nn.Linear(width, width)
        self.face = nn.Linear(width, width) if triangles else None

    def extra_repr(self) -> str:
        return f"relations={self.relations}, normalise={self.normalise}"

    def forward(self, h: Tensor, graph: RelationGraph) -> Tensor:
        """(B, L, D) -> (B, L, D). Raises: as `messages`."""
        return h + self.messages(h, graph)

    def messages(self, h: Tensor, graph: RelationGraph) -> Tensor:
        """What reaches each vertex: (B, L, D) -> (B, L, D).

        Raises: ValueError for another width, a vertex or a relation that isn't there, or no triangles where they should speak.
        """
        self._check(h, graph)
        graph = graph.to(h.device)
        target, hidden = self._from_edges(h, graph)
        if self.face is not None:
            to, more = self._from_triangles(h, graph)
            target, hidden = torch.cat([target, to]), torch.cat([hidden, more], dim=1)
        total = hidden.new_zeros(h.shape).index_add(1, target, hidden)
        count = torch.bincount(target, minlength=h.shape[1]).to(total).unsqueeze(-1)     # (L, 1)
        reached = F.linear(total, self.out.weight) + count * self.out.bias               # b_out comes with every message
        return reached / count.clamp(min=1) if self.normalise else reached

    def _from_edges(self, h: Tensor, graph: RelationGraph) -> tuple[Tensor, Tensor]:
        """Targets (E,) and hidden activations (B, E, D)."""
        source, target = graph.edges
        of_source, of_target, of_relation = self.inside.weight.split([self.width, self.width, self.relations], dim=1)
        sent, met = F.linear(h, of_source), F.linear(h, of_target, self.inside.bias)
        return target, F.relu(sent[:, source] + met[:, target] + of_relation.T[graph.relations])

    def _from_triangles(self, h: Tensor, graph: RelationGraph) -> tuple[Tensor, Tensor]:
        """As `_from_edges`: three times K messages, or K in a causal graph."""
        receivers = graph.triangles[2:] if graph.causal else graph.triangles
        hidden = F.relu(self.face(h[:, graph.triangles].mean(dim=1)))                     # (B, K, D)
        return receivers.flatten(), hidden.repeat(1, len(receivers), 1)

    def _check(self, h: Tensor, graph: RelationGraph) -> None:
        if h.ndim != 3 or h.shape[-1] != self.width:
            raise ValueError(f"h must be (B, L, {self.width}), got shape {tuple(h.shape)}")
        if self.face is not None and graph.triangles is None:
            raise ValueError("triangles=True needs a graph with triangles, got one without")
        used = ("edges", "relations") if self.face is None else ("edges", "relations", "triangles")
        for name in used:
            got, count = getattr(graph, name), self.relations if name == "relations" else h.shape[1]
            if got.numel() and not 0 <= got.min() <= got.max() < count:
                raise ValueError(f"{name} must be from 0 to {count - 1}, got {got.min()} to {got.max()}")
