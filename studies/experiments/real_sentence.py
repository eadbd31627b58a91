"""One sentence in SmolLM2-135M: the lengths of its states, their causes, and the next word.

The chapter "What a residual stream looks like" opens with it, and the others come back to it.
"""

from collections.abc import Callable, Mapping
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from geolab.graft import ResidualStream, residual_stream
from geolab.probes import delta_rate
from studies.engine.measurement import Measurement
from studies.experiments.real_changes import scaled
from studies.experiments.real_network import Map, end, loudest, network

SENTENCE = "When the rain stopped, the children ran into the"
ALIKE = ("My brother says no, my sister says", "My uncle says yes, my aunt says",
         "The first door is red, the second door is", "He likes tea, and she likes",
         "In summer it is hot, in winter it is")
SENSES = {"river": ("He sat down on the grassy bank", "The boat was tied to the muddy bank",
                    "They fished all day from the bank"),
          "money": ("She opened an account at the bank", "The loan was refused by the bank",
                    "He put his savings in the bank")}


def tokens_of(text: str) -> Tensor:
    return network("trained")[1](text, return_tensors="pt").input_ids


def _table(rows: list[Tensor]) -> list[list[float]]:
    return [[float(f"{value:.4g}") for value in row.tolist()] for row in rows]


def lengths(kind: str, text: str) -> dict:
    """Return the length of every token's state, behind every sublayer."""
    model, tokenizer, _ = network(kind)
    tokens = tokens_of(text)
    stream = residual_stream(model, tokens)
    states = stream.states()
    lengths = [x[0].norm(dim=-1) for x in states]
    coordinate = loudest(states)[1]
    writes = stream.writes()[1:]
    return {"text": text, "tokens": [tokenizer.decode(token) for token in tokens[0]],
            "sublayers": [step.name for step in stream.sublayers],
            "lengths": _table(lengths), "coordinate": coordinate,
            "on the coordinate": _table([x[0, :, coordinate] for x in states]),
            "written": _table([write[0].norm(dim=-1) for write in writes]),
            "beta": _table([delta_rate(x[0], write[0])
                            for x, write in zip(states, writes, strict=False)])}


def lens(text: str) -> dict:
    """Return the head's predictions from the last token's state behind each sublayer."""
    model, tokenizer, _ = network("trained")
    tokens = tokens_of(text)
    stream = residual_stream(model, tokens)
    said = torch.stack([stream.head(x)[0, -1].softmax(-1) for x in stream.states()])   # (61, V)
    five = said[-1].topk(5).indices
    return {"text": text, "answers": [tokenizer.decode(one) for one in five],
            "probabilities": _table(list(said[:, five])),
            "first": [tokenizer.decode(row.argmax()) for row in said]}


def silence(text: str) -> dict:
    """Return the nats that the most likely next word loses without one update of one token.

    Beside them, what is said instead without the five updates that are missed most.
    """
    model, tokenizer, _ = network("trained")
    tokens = tokens_of(text)
    stream = residual_stream(model, tokens)
    states, steps = stream.states(), list(stream.sublayers)
    answer = int(stream.head(states[-1])[0, -1].argmax())

    def says(x: Tensor) -> float:
        return float(stream.head(x)[0, -1].log_softmax(-1)[answer])

    whole = says(states[-1])
    lost = torch.tensor([[whole - says(_without(stream, states, i, slice(t, t + 1)))
                          for t in range(tokens.shape[1])] for i in range(len(steps))])
    instead = []
    for place in lost.flatten().topk(5).indices.tolist():
        i, t = divmod(place, tokens.shape[1])
        said = stream.head(_without(stream, states, i, slice(t, t + 1)))[0, -1].softmax(-1)
        words = [tokenizer.decode(word) for word in said.topk(3).indices]
        instead.append({"sublayer": steps[i].name, "token": t, "says": words,
                        "probabilities": _table([said.topk(3).values])[0],
                        "answer": float(f"{said[answer]:.4g}")})
    return {"text": text, "answer": tokenizer.decode(answer), "says": whole,
            "lost": _table(list(lost)), "instead": instead}


def one_number(text: str) -> dict:
    """The nats that the next word loses if an update lacks one number, or is this number alone.

    The updates are those that write and erase most: F11 at the first token, F10 at the last one.
    """
    model = network("trained")[0]
    tokens = tokens_of(text)
    stream = residual_stream(model, tokens)
    states, steps = stream.states(), list(stream.sublayers)
    answer = int(stream.head(states[-1])[0, -1].argmax())
    at = F.one_hot(torch.tensor(loudest(states)[1]), states[0].shape[-1])

    def lost(i: int, place: int, kept: Tensor) -> float:
        run: list[Map] = list(steps)
        run[i] = scaled(steps[i], slice(place, place + 1), kept)
        said = [stream.head(x)[0, -1].log_softmax(-1)[answer]
                for x in (states[-1], end(states[i], run[i:]))]
        return float(f"{said[0] - said[1]:.4g}")

    names = [step.name for step in steps]
    return {f"{name} at token {place}": {"without it": lost(names.index(name), place, 1 - at),
                                         "it alone": lost(names.index(name), place, at),
                                         "without all": lost(names.index(name), place, 0 * at)}
            for name, place in (("F11", 0), ("F10", tokens.shape[1] - 1))}


def _without(stream: ResidualStream, states: list[Tensor], i: int, places: slice) -> Tensor:
    run: list[Map] = list(stream.sublayers)
    run[i] = scaled(stream.sublayers[i], places, 0)
    return end(states[i], run[i:])


def senses() -> dict:
    """The cosine of the states of "bank" in sentences of one sense and of two, by block."""
    model = network("trained")[0]
    states = {}
    for sense, texts in SENSES.items():
        for text in texts:
            x = residual_stream(model, tokens_of(text)).states()[::2]
            states[sense, text] = torch.stack([state[0, -1] for state in x])
    kinds: dict[str, list[Tensor]] = {"same": [], "other": []}
    nearest = []
    for (sense, text), mine in states.items():
        others = {key: F.cosine_similarity(mine, theirs, dim=-1)
                  for key, theirs in states.items() if key[1] != text}
        for (theirs, _), cosine in others.items():
            kinds["same" if theirs == sense else "other"].append(cosine)
        best = torch.stack(list(others.values())).argmax(0)
        nearest.append(torch.tensor([list(others)[i][0] == sense for i in best]))
    return {**{name: _table([torch.stack(cosines).mean(0)])[0]
               for name, cosines in kinds.items()},
            "told apart": torch.stack(nearest).sum(0).tolist(), "sentences": len(states)}


def parts(_: Mapping[str, dict]) -> dict[str, Callable[[], dict]]:
    return {"trained": partial(lengths, "trained", SENTENCE),
            "untrained": partial(lengths, "untrained", SENTENCE),
            "lens": partial(lens, SENTENCE), "silence": partial(silence, SENTENCE),
            "one number": partial(one_number, SENTENCE),
            "senses": senses,
            **{f"lens {i}": partial(lens, text) for i, text in enumerate(ALIKE)}}


def arrange(found: dict[str, dict]) -> dict:
    return {"network": network("trained")[2], **found}


STUDY = Measurement("real_sentence", "What happens to one sentence in a real network, and which "
                    "update does its next word need?", parts, arrange, __file__)
