"""What a real network shows: the residual stream of SmolLM2-135M, over windows of three texts.

Sublayers are A0, F0, …, A29, F29: attention and MLP of thirty blocks. x_l is the state behind the
l-th of them, x_0 what the embedding gives. Losses are nats per token; the first token's own
prediction has nothing to go by and doesn't count. "Others" are all tokens but the first.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache, partial, reduce
from importlib.resources import files
from pathlib import Path
from statistics import mean

import torch
import torch.nn.functional as F
from torch import Tensor

from geolab.graft import ResidualStream, Sublayer, residual_stream
from geolab.models.pretrained import pretrained, untrained
from geolab.probes import (
    between_writes,
    commutator_energy,
    commutator_factors,
    delta_rate,
    effective_rank,
    share_along,
    token_jacobian,
)
from studies.engine.measurement import Measurement
from studies.engine.results import interval

NAME, LENGTH, SHORTER, CONTEXT = "smollm2-135m", 256, 128, 32
TEXTS = {"genesis": Path(__file__).parent / "windows" / "genesis.txt",
         "jargon": files("geolab.tasks") / "data" / "jargon.txt",
         "code": Path(__file__).parent / "windows" / "code.txt"}
WINDOWS = 8                      # of each text
OTHERS = slice(1, None)          # all tokens but the first
BLOCKS = slice(None, None, 2)    # of the states: x_0 and those behind each block
Step = Callable[[Tensor], Tensor]


# ------------------------------------------------------------ the network and its windows

@cache
def network(kind: str):
    """The trained network, or a twin with the weights that its library starts from."""
    model, tokenizer, source = pretrained(NAME)
    return (model if kind == "trained" else untrained(model)), tokenizer, source


@cache
def windows() -> dict[str, Tensor]:
    """{"genesis 0": (1, 256), …}: tokens from lines that lie evenly in each text."""
    tokenizer, found = network("trained")[1], {}
    for name, path in TEXTS.items():
        lines = path.read_text().splitlines(keepends=True)
        for window in range(WINDOWS):
            start = window * len(lines) // (WINDOWS + 1)
            text = "".join(lines[start:start + 120]).lstrip()
            found[f"{name} {window}"] = tokenizer(text, return_tensors="pt").input_ids[:, :LENGTH]
    return found


def loss(stream: ResidualStream, tokens: Tensor, x: Tensor) -> float:
    """Nats per token where the last state is x, without the first token's prediction."""
    logits = stream.head(x)[0, 1:-1]
    return F.cross_entropy(logits, tokens[0, 2:]).item()


@torch.no_grad()
def end(x: Tensor, steps: Iterable[Step]) -> Tensor:
    return reduce(lambda x, step: step(x), steps, x)


# ------------------------------------------------------------ what one window shows

@torch.no_grad()
def stream(kind: str, tokens: Tensor) -> dict:
    """Lengths, ranks, cosines, and who writes and erases what, by depth."""
    model, tokenizer, _ = network(kind)
    s = residual_stream(model, tokens)
    states, writes = s.states(), s.writes()
    blocks = states[BLOCKS]
    lengths = torch.stack([x[0].norm(dim=-1) for x in states])            # (61, T)
    loudest = int(lengths[:, 0].argmax())
    coordinate = int(states[loudest][0, 0].abs().argmax())
    without = [x[0, OTHERS] for x in blocks]
    found = {
        "loss": loss(s, tokens, states[-1]),
        "tokens": tokenizer.convert_ids_to_tokens(tokens[0][:2]),
        "length of the first": _numbers(lengths[:, 0]),
        "length of the others": _numbers(lengths[:, OTHERS].median(1).values),
        "loudest": loudest, "coordinate": coordinate,
        "share of the first": _numbers([(n[0] ** 2 / n.square().sum()) for n in lengths]),
        "share of the coordinate": _numbers([x[0, 0, coordinate] ** 2 / x.square().sum()
                                             for x in states]),
        "rank": _numbers([effective_rank(x[0]) for x in blocks]),
        "rank of the others": _numbers([effective_rank(x) for x in without]),
        "rank of the others, centred": _numbers([effective_rank(x, center=True) for x in without]),
        "rank without the coordinate": _numbers([effective_rank(_cleared(x[0], coordinate))
                                                 for x in blocks]),
        "cosine of the others": _numbers([_mean_cosine(x) for x in without]),
        "squared mean over mean square": _numbers([(x.mean(-1) ** 2 / x.square().mean(-1)).mean()
                                                   for x in without]),
        **_erasers(s, states, writes[1:], coordinate, _first_the(tokenizer, tokens)),
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


def _first_the(tokenizer, tokens: Tensor) -> int | None:
    """Where the first " the" stands behind the first token."""
    places = (tokens[0] == tokenizer(" the").input_ids[0]).nonzero().flatten().tolist()
    return next((place for place in places if place > 0), None)


def _erasers(s: ResidualStream, states: list[Tensor], writes: list[Tensor], coordinate: int,
             the: int | None) -> dict:
    """β of each sublayer along the loudest coordinate and along its own write, at two tokens."""
    found = {}
    k = F.one_hot(torch.tensor(coordinate), states[0].shape[-1]).to(states[0])
    for name, place in (("first", 0), ("the", the)):
        if place is not None:
            pairs = [(x[0, place], write[0, place])
                     for x, write in zip(states, writes, strict=False)]
            found |= {f"coordinate of {name}": _numbers([x[0, place, coordinate] for x in states]),
                      f"beta of {name}": _numbers([delta_rate(x, w, k) for x, w in pairs]),
                      f"beta of {name}, along the write":
                          _numbers([delta_rate(x, w) for x, w in pairs])}
    median = [x[0, OTHERS, coordinate].abs().median() for x in states]
    return found | {"coordinate of the others": _numbers(median)}


def _against_the_state(states: list[Tensor], writes: list[Tensor]) -> dict:
    """How many of the others' writes point against their state, and by how much."""
    centred = [x[0, OTHERS] - x[0, OTHERS].mean(0) for x in states]
    against = [share_along(x, w[0, OTHERS] - w[0, OTHERS].mean(0))
               for x, w in zip(centred, writes, strict=False)]
    plain = torch.stack([share_along(x[0, OTHERS], w[0, OTHERS])
                         for x, w in zip(states, writes, strict=False)])
    return {"against the centred state": _numbers([(a < 0).double().mean() for a in against]),
            "share along the centred state": _numbers([a.median() for a in against]),
            "against the state": float((plain < 0).double().mean()),
            "factor": float(1 + plain.median())}


def _pairs(writes: list[Tensor]) -> dict:
    """The map of who wrote and who erased, and its means by kind of pair."""
    cosine = between_writes(writes).cosine
    attention, mlp = slice(1, None, 2), slice(2, None, 2)
    kinds = {"MLP after attention": cosine[mlp, attention],
             "attention after attention": cosine[attention, attention],
             "MLP after MLP": cosine[mlp, mlp], "attention after MLP": cosine[attention, mlp]}
    kept = {name: part[part.isfinite()] for name, part in kinds.items()}
    return {"cosine of writes": [_numbers(row) for row in cosine.nan_to_num(0)],
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
    places = {"first": 0, "the": _first_the(tokenizer, tokens)}
    return {f"attention to {name}": _numbers([w[0, :, place + 1:, place].mean() for w in weights])
            for name, place in places.items() if place is not None}


# ------------------------------------------------------------ what a window says when it is changed

def silenced(step: Sublayer, places: slice) -> Sublayer:
    """The sublayer, whose update is 0 at some positions."""
    def update(x: Tensor) -> Tensor:
        found = step.update(x).clone()
        found[:, places] = 0
        return found
    return replace(step, update=update)


def one_number(step: Sublayer, coordinate: int) -> Sublayer:
    """The sublayer, which writes a single coordinate of the first token's update."""
    def update(x: Tensor) -> Tensor:
        found = step.update(x).clone()
        kept = found[:, 0, coordinate].clone()
        found[:, 0] = 0
        found[:, 0, coordinate] = kept
        return found
    return replace(step, update=update)


def side_by_side(*steps: Sublayer) -> Step:
    """x ↦ x + Σ F(x): all read the same x."""
    return lambda x: x + sum(step.update(x) for step in steps)


def causes(tokens: Tensor) -> dict:
    """What the other tokens' predictions lose when one sublayer is silent somewhere."""
    s = residual_stream(network("trained")[0], tokens)
    states = s.states()
    steps = list(s.sublayers)
    loudest = int(torch.stack([x[0, 0].norm() for x in states]).argmax())
    writer = max(range(len(steps)),
                 key=lambda i: float((states[i + 1] - states[i])[0, 0].norm()))
    coordinate = int(states[loudest][0, 0].abs().argmax())
    first, last = slice(0, 1), len(steps)
    base = loss(s, tokens, states[-1])

    def lost(changed: dict[int, Step]) -> float:
        run = [changed.get(i, step) for i, step in enumerate(steps)]
        start = min(changed)
        return loss(s, tokens, end(states[start], run[start:])) - base

    return {"loss": base, "writer": steps[writer].name, "coordinate": coordinate, "lost": {
        "silent at the first token": lost({writer: silenced(steps[writer], first)}),
        "silent at the others": lost({writer: silenced(steps[writer], OTHERS)}),
        "one number at the first token": lost({writer: one_number(steps[writer], coordinate)}),
        "no erasure at the end": lost({i: silenced(steps[i], first)
                                       for i in (last - 3, last - 1)})}}


def order(tokens: Tensor) -> dict:
    """Nats lost by each block when its sublayers run side by side, swapped, or not at all."""
    tokens = tokens[:, :SHORTER]
    s = residual_stream(network("trained")[0], tokens)
    states = s.states()
    base, count = loss(s, tokens, states[-1]), len(s.sublayers) // 2
    pairs = [s.sublayers[2 * i:2 * i + 2] for i in range(count)]

    def lost(start: int, stop: int, changed: Sequence[Step]) -> float:
        x = end(states[2 * start], [*changed, *s.sublayers[2 * stop:]])
        return loss(s, tokens, x) - base

    def ways(start: int, stop: int) -> dict[str, float]:
        inside = pairs[start:stop]
        return {"side by side": lost(start, stop, [side_by_side(*pair) for pair in inside]),
                "swapped": lost(start, stop, [step for a, f in inside for step in (f, a)]),
                "dropped": lost(start, stop, [])}

    blocks = [ways(i, i + 1) for i in range(count)]
    found = {name: _numbers([block[name] for block in blocks]) for name in blocks[0]}
    found["swapped with the next block"] = _numbers(
        [lost(i, i + 2, [*pairs[i + 1], *pairs[i]]) for i in range(count - 1)])
    factors = [commutator_factors(a, f, x, tokens=OTHERS)
               for (a, f), x in zip(pairs, states[BLOCKS], strict=False)]
    with torch.no_grad():
        energies = {name: [commutator_energy(a, f, x, tokens=which)
                           for (a, f), x in zip(pairs, states[BLOCKS], strict=False)]
                    for name, which in (("energy of the others", OTHERS),
                                        ("energy", slice(None)))}
    several = {f"{a} to {b - 1}": ways(a, b)
               for a, b in ((1, 10), (10, 20), (20, count - 1), (0, count))}
    return {"loss": base, "lost": found, "several": several,
            "asymmetry": _numbers([f.asymmetry for f in factors]),
            **{name: _numbers(values) for name, values in energies.items()}}


def slopes(tokens: Tensor) -> dict:
    """The singular values of each update's Jacobian at one token in its context.

    "slope" is the largest, "above 1" how many are larger than 1, "smallest of the step" the least
    singular value of I + J. For MLPs, whose update sees one token, the slope at the first token and
    at the first " the" stands beside it.
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
    for name, there in (("first", 0), ("the", _first_the(tokenizer, tokens))):
        if there is not None:
            found[f"MLP slope at {name}"] = [torch.linalg.matrix_norm(_alone(step, x, there), ord=2)
                                             for step, x in mlps]
            found[f"length at {name}"] = [x[0, there].norm() for _, x in mlps]
    return {"token": tokenizer.decode(tokens[0, place]),
            "length": _numbers([x[0, place].norm() for x in states]),
            **{name: _numbers(values) for name, values in found.items()}}


def _alone(mlp: Sublayer, x: Tensor, place: int) -> Tensor:
    """The Jacobian of an MLP's update at one token: it reads no other."""
    return token_jacobian(mlp.update, x[:, place:place + 1], 0)


# ------------------------------------------------------------ the study

def parts() -> dict[str, Callable[[], dict]]:
    found: dict[str, Callable[[], dict]] = {}
    tokenizer = network("trained")[1]
    for name, tokens in windows().items():
        start = torch.tensor([[tokenizer.bos_token_id]])
        found |= {f"stream/{name}": partial(stream, "trained", tokens),
                  f"bos/{name}": partial(stream, "trained",
                                         torch.cat([start, tokens[:, :-1]], dim=1)),
                  f"untrained/{name}": partial(stream, "untrained", tokens),
                  f"attention/{name}": partial(attention, tokens),
                  f"causes/{name}": partial(causes, tokens)}
    found |= {f"order/{name}": partial(order, tokens) for name, tokens in windows().items()}
    found |= {f"slopes/{name}": partial(slopes, tokens) for name, tokens in windows().items()}
    return found


def arrange(found: dict[str, dict]) -> dict:
    """By measurement: the mean over windows, and the half width of its interval, where it is a
    number or a list of numbers, of which the least and the most stand beside it; else what each
    window gave.
    """
    kinds = dict.fromkeys(key.partition("/")[0] for key in found)
    return {"network": network("trained")[2], "windows": list(windows()), "tokens": LENGTH,
            **{kind: _over_windows([one for key, one in found.items()
                                    if key.partition("/")[0] == kind]) for kind in kinds}}


def _over_windows(rows: list) -> object:
    first = next(row for row in rows if row is not None)
    if isinstance(first, dict):
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: _over_windows([row.get(name) for row in rows]) for name in names}
    if isinstance(first, list) and isinstance(first[0], list):     # a matrix: its mean is enough
        return [[_short(mean(cell)) for cell in zip(*row, strict=True)]
                for row in zip(*rows, strict=True)]
    there = [row for row in rows if row is not None]
    if isinstance(first, list) and not isinstance(first[0], str):
        each = [interval(values) for values in zip(*there, strict=True)]
        return {"mean": [_short(a) for a, _ in each], "half width": [_short(b) for _, b in each],
                "least": [min(values) for values in zip(*there, strict=True)],
                "most": [max(values) for values in zip(*there, strict=True)]}
    if isinstance(first, float):
        half = interval(there)
        return {"mean": _short(half[0]), "half width": _short(half[1]),
                "windows": [_short(value) for value in there]}
    return rows


def _numbers(values: Iterable) -> list[float]:
    return [_short(float(value)) for value in values]


def _short(value: float) -> float:
    return float(f"{value:.4g}")


STUDY = Measurement("real", "What does the residual stream of a real network look like, who writes "
                    "it and who erases it?", parts, arrange, __file__)
