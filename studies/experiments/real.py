"""The residual stream of a real network, SmolLM2-135M, over windows of three texts."""

from collections.abc import Callable, Mapping
from functools import partial
from statistics import mean

import torch

from studies.engine.measurement import Measurement
from studies.engine.results import interval
from studies.experiments.real_changes import causes, order
from studies.experiments.real_network import LENGTH, network, short, windows
from studies.experiments.real_stream import attention, slopes, stream


def parts(_: Mapping[str, dict]) -> dict[str, Callable[[], dict]]:
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
    """Return for each measurement its mean over windows, and the half width of the interval.

    This holds for numbers and lists of numbers, which also get their least and largest value. Other
    measurements keep the value of each window.
    """
    return {"network": network("trained")[2], "windows": list(windows()), "tokens": LENGTH,
            **over_windows(found)}


def over_windows(found: dict[str, dict]) -> dict[str, object]:
    """{"kind/window": finding} -> {kind: its numbers over windows}, as `arrange` has them."""
    kinds = dict.fromkeys(key.partition("/")[0] for key in found)
    return {kind: _over_windows([one for key, one in found.items()
                                 if key.partition("/")[0] == kind]) for kind in kinds}


def _over_windows(rows: list) -> object:
    first = next(row for row in rows if row is not None)
    if isinstance(first, dict):
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: _over_windows([row.get(name) for row in rows]) for name in names}
    if isinstance(first, list) and isinstance(first[0], list):     # a matrix: its mean is enough
        return [[short(mean(cell)) for cell in zip(*row, strict=True)]
                for row in zip(*rows, strict=True)]
    there = [row for row in rows if row is not None]
    if isinstance(first, list) and not isinstance(first[0], str):
        each = [interval(values) for values in zip(*there, strict=True)]
        return {"mean": [short(a) for a, _ in each], "half width": [short(b) for _, b in each],
                "least": [min(values) for values in zip(*there, strict=True)],
                "most": [max(values) for values in zip(*there, strict=True)]}
    if isinstance(first, float):
        half = interval(there)
        return {"mean": short(half[0]), "half width": short(half[1]),
                "windows": [short(value) for value in there]}
    return rows


STUDY = Measurement("real", "What does the residual stream of a real network look like, who writes "
                    "it and who erases it?", parts, arrange, __file__)
