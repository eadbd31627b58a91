"""The real network of the book, and the windows of text that it reads.

Sublayers are A0, F0, …, A29, F29: attention and MLP of thirty blocks. x_l is the state behind the
l-th of them, and x_0 the output of the embedding. Losses are nats per token, without the prediction
of the first token, which has no context. "Others" are all tokens but the first.
"""

from collections.abc import Callable, Iterable
from functools import cache, reduce
from importlib.resources import files
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from geolab.graft import ResidualStream
from geolab.models.pretrained import pretrained, untrained

NAME, LENGTH = "smollm2-135m", 256
TEXTS = {"genesis": Path(__file__).parent / "windows" / "genesis.txt",
         "jargon": files("geolab.tasks") / "data" / "jargon.txt",
         "code": Path(__file__).parent / "windows" / "code.txt"}
WINDOWS = 8                      # of each text
OTHERS = slice(1, None)          # all tokens but the first
BLOCKS = slice(None, None, 2)    # of the states: x_0 and those behind each block
Map = Callable[[Tensor], Tensor]


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
def end(x: Tensor, steps: Iterable[Map]) -> Tensor:
    return reduce(lambda x, step: step(x), steps, x)


def loudest(states: list[Tensor]) -> tuple[int, int]:
    """The place where the first token's state is longest, and its largest coordinate there."""
    index = int(torch.stack([x[0, 0].norm() for x in states]).argmax())
    return index, int(states[index][0, 0].abs().argmax())


def first_the(tokenizer, tokens: Tensor) -> int | None:
    """Return the position of the first " the" behind the first token."""
    places = (tokens[0] == tokenizer(" the").input_ids[0]).nonzero().flatten().tolist()
    return next((place for place in places if place > 0), None)


def numbers(values: Iterable) -> list[float]:
    return [short(float(value)) for value in values]


def short(value: float) -> float:
    return float(f"{value:.4g}")
