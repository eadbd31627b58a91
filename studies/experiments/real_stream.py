"""Measurements of one window in the real network: lengths, ranks, writes, erasures and slopes."""

import torch
import torch.nn.functional as F
from torch import Tensor

from geolab.graft import ResidualStream, Sublayer, residual_stream
from geolab.probes import (
    between_writes,
    delta_rate,
    effective_rank,
    share_along,
    token_jacobian,
)
from studies.experiments.real_network import (
    BLOCKS,
    OTHERS,
    first_the,
    loss,
    loudest,
    network,
    numbers,
)

CONTEXT = 32   # the tokens that a slope is taken in


@torch.no_grad()
def stream(kind: str, tokens: Tensor) -> dict:
    """Return by depth: lengths, ranks, cosines, and the writes and erasures of sublayers."""
    model, tokenizer, _ = network(kind)
    s = residual_stream(model, tokens)
    states, writes = s.states(), s.writes()
    blocks = states[BLOCKS]
    lengths = torch.stack([x[0].norm(dim=-1) for x in states])            # (61, T)
    longest, coordinate = loudest(states)
    without = [x[0, OTHERS] for x in blocks]
    found = {
        "loss": loss(s, tokens, states[-1]),
        "tokens": tokenizer.convert_ids_to_tokens(tokens[0][:2]),
        "length of the first": numbers(lengths[:, 0]),
        "length of the others": numbers(lengths[:, OTHERS].median(1).values),
        "loudest": longest, "coordinate": coordinate,
        "share of the first": numbers([(n[0] ** 2 / n.square().sum()) for n in lengths]),
        "share of the coordinate": numbers([x[0, 0, coordinate] ** 2 / x.square().sum()
                                             for x in states]),
        "rank": numbers([effective_rank(x[0]) for x in blocks]),
        "rank of the others": numbers([effective_rank(x) for x in without]),
        "rank of the others, centred": numbers([effective_rank(x, center=True) for x in without]),
        "rank without the coordinate": numbers([effective_rank(_cleared(x[0], coordinate))
                                                 for x in blocks]),
        "cosine of the others": numbers([_mean_cosine(x) for x in without]),
        "squared mean over mean square": numbers([(x.mean(-1) ** 2 / x.square().mean(-1)).mean()
                                                   for x in without]),
        **_erasers(s, states, writes[1:], coordinate, first_the(tokenizer, tokens)),
        **_against_the_state(states, writes[1:]),
        **_pairs([write[:, OTHERS] for write in writes])}
    return found


def _cleared(x: Tensor, coordinate: int) -> Tensor:
    x = x.clone()
    x[0, coordinate] = 0
    return x


def _mean_cosine(x: Tensor) -> Tensor:
    """The mean cosine of two different vectors of (N, D)."""
    unit = F.normalize(x, dim=-1)
    return (unit.sum(0).square().sum() - len(x)) / (len(x) * (len(x) - 1))


def _erasers(s: ResidualStream, states: list[Tensor], writes: list[Tensor], coordinate: int,
             the: int | None) -> dict:
    """β of each sublayer along the loudest coordinate and along its own write, at two tokens."""
    found = {}
    k = F.one_hot(torch.tensor(coordinate), states[0].shape[-1]).to(states[0])
    for name, place in (("first", 0), ("the", the)):
        if place is not None:
            pairs = [(x[0, place], write[0, place])
                     for x, write in zip(states, writes, strict=False)]
            found |= {f"coordinate of {name}": numbers([x[0, place, coordinate] for x in states]),
                      f"beta of {name}": numbers([delta_rate(x, w, k) for x, w in pairs]),
                      f"beta of {name}, along the write":
                          numbers([delta_rate(x, w) for x, w in pairs])}
    median = [x[0, OTHERS, coordinate].abs().median() for x in states]
    return found | {"coordinate of the others": numbers(median)}


def _against_the_state(states: list[Tensor], writes: list[Tensor]) -> dict:
    """Return the share of the others' writes that point against their state, and by how much."""
    centred = [x[0, OTHERS] - x[0, OTHERS].mean(0) for x in states]
    against = [share_along(x, w[0, OTHERS] - w[0, OTHERS].mean(0))
               for x, w in zip(centred, writes, strict=False)]
    plain = torch.stack([share_along(x[0, OTHERS], w[0, OTHERS])
                         for x, w in zip(states, writes, strict=False)])
    return {"against the centred state": numbers([(a < 0).double().mean() for a in against]),
            "share along the centred state": numbers([a.median() for a in against]),
            "against the state": float((plain < 0).double().mean()),
            "factor": float(1 + plain.median())}


def _pairs(writes: list[Tensor]) -> dict:
    """Return the matrix of writers and erasers, and its means by kind of pair."""
    cosine = between_writes(writes).cosine
    attention, mlp = slice(1, None, 2), slice(2, None, 2)
    kinds = {"MLP after attention": cosine[mlp, attention],
             "attention after attention": cosine[attention, attention],
             "MLP after MLP": cosine[mlp, mlp], "attention after MLP": cosine[attention, mlp]}
    kept = {name: part[part.isfinite()] for name, part in kinds.items()}
    return {"cosine of writes": [numbers(row) for row in cosine.nan_to_num(0)],
            "cosine": {name: float(part.mean()) for name, part in kept.items()},
            "negative": {name: float((part < 0).double().mean()) for name, part in kept.items()}}


@torch.no_grad()
def attention(tokens: Tensor) -> dict:
    """The share of later tokens' attention that the first token and the first " the" get."""
    model, tokenizer, _ = network("trained")
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        weights = model(tokens, output_attentions=True).attentions      # 30 of (1, heads, T, T)
    finally:
        model.set_attn_implementation(before)
    places = {"first": 0, "the": first_the(tokenizer, tokens)}
    return {f"attention to {name}": numbers([w[0, :, place + 1:, place].mean() for w in weights])
            for name, place in places.items() if place is not None}


def slopes(tokens: Tensor) -> dict:
    """Return singular values of each update's Jacobian at one token in its context.

    "slope" is the largest, "above 1" the number of those larger than 1, "smallest of the step" the
    least singular value of I + J. An MLP's update reads one token, so MLPs also have the slopes at
    the first token and at the first " the".
    """
    tokens, place = tokens[:, :CONTEXT], CONTEXT - 4
    model, tokenizer, _ = network("trained")
    s = residual_stream(model, tokens)
    states = s.states()
    found = {"slope": [], "above 1": [], "smallest of the step": []}
    for step, x in zip(s.sublayers, states, strict=False):
        J = _alone(step, x, place) if step.name.startswith("F") else \
            token_jacobian(step.update, x, place)
        values = torch.linalg.svdvals(J)
        found["slope"].append(values[0])
        found["above 1"].append((values > 1).sum())
        found["smallest of the step"].append(torch.linalg.svdvals(J + torch.eye(len(J)))[-1])
    mlps = list(zip(s.sublayers, states, strict=False))[1::2]
    for name, there in (("first", 0), ("the", first_the(tokenizer, tokens))):
        if there is not None:
            found[f"MLP slope at {name}"] = [torch.linalg.matrix_norm(_alone(step, x, there), ord=2)
                                             for step, x in mlps]
            found[f"length at {name}"] = [x[0, there].norm() for _, x in mlps]
    return {"token": tokenizer.decode(tokens[0, place]),
            "length": numbers([x[0, place].norm() for x in states]),
            **{name: numbers(values) for name, values in found.items()}}


def _alone(mlp: Sublayer, x: Tensor, place: int) -> Tensor:
    """The Jacobian of an MLP's update at one token: it reads no other."""
    return token_jacobian(mlp.update, x[:, place:place + 1], 0)
