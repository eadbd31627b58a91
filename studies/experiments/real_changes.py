"""The real network's predictions when an update is silent, moved or left out."""

from collections.abc import Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from geolab.graft import Sublayer, residual_stream
from geolab.probes import commutator_energy, commutator_factors
from studies.experiments.real_network import (
    BLOCKS,
    OTHERS,
    Map,
    end,
    loss,
    loudest,
    network,
    numbers,
)

SHORTER = 128   # tokens, since each block is changed in four ways


def scaled(step: Sublayer, places: slice, by: float | Tensor) -> Sublayer:
    """The sublayer, whose update at some positions is multiplied by a number, or by a mask."""
    def update(x: Tensor) -> Tensor:
        found = step.update(x).clone()
        found[:, places] *= by
        return found
    return replace(step, update=update)


def side_by_side(*steps: Sublayer) -> Map:
    """x ↦ x + Σ F(x): all read the same x."""
    return lambda x: x + sum(step.update(x) for step in steps)


def causes(tokens: Tensor) -> dict:
    """Return the nats that the others' predictions lose when one sublayer is silent somewhere."""
    s = residual_stream(network("trained")[0], tokens)
    states = s.states()
    steps = list(s.sublayers)
    writer = max(range(len(steps)),
                 key=lambda i: float((states[i + 1] - states[i])[0, 0].norm()))
    coordinate = loudest(states)[1]
    alone = F.one_hot(torch.tensor(coordinate), states[0].shape[-1])
    first, last = slice(0, 1), len(steps)
    base = loss(s, tokens, states[-1])

    def lost(changed: dict[int, Map]) -> float:
        run = [changed.get(i, step) for i, step in enumerate(steps)]
        start = min(changed)
        return loss(s, tokens, end(states[start], run[start:])) - base

    return {"loss": base, "writer": steps[writer].name, "coordinate": coordinate, "lost": {
        "silent at the first token": lost({writer: scaled(steps[writer], first, 0)}),
        "silent at the others": lost({writer: scaled(steps[writer], OTHERS, 0)}),
        "one number at the first token": lost({writer: scaled(steps[writer], first, alone)}),
        "no erasure at the end": lost({i: scaled(steps[i], first, 0)
                                       for i in (last - 3, last - 1)})}}


def order(tokens: Tensor) -> dict:
    """Return the nats lost when a block's sublayers run side by side, swapped, or not at all."""
    tokens = tokens[:, :SHORTER]
    s = residual_stream(network("trained")[0], tokens)
    states = s.states()
    base, count = loss(s, tokens, states[-1]), len(s.sublayers) // 2
    pairs = [s.sublayers[2 * i:2 * i + 2] for i in range(count)]

    def lost(start: int, stop: int, changed: Sequence[Map]) -> float:
        x = end(states[2 * start], [*changed, *s.sublayers[2 * stop:]])
        return loss(s, tokens, x) - base

    def ways(start: int, stop: int) -> dict[str, float]:
        inside = pairs[start:stop]
        return {"side by side": lost(start, stop, [side_by_side(*pair) for pair in inside]),
                "swapped": lost(start, stop, [step for a, f in inside for step in (f, a)]),
                "dropped": lost(start, stop, [])}

    blocks = [ways(i, i + 1) for i in range(count)]
    found = {name: numbers([block[name] for block in blocks]) for name in blocks[0]}
    found["swapped with the next block"] = numbers(
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
            "asymmetry": numbers([f.asymmetry for f in factors]),
            **{name: numbers(values) for name, values in energies.items()}}
