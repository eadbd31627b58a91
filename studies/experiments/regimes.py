"""The lecture's causal regimes on random tokens and on words.

Which of them read the next token, and why does the predictive hint's loss drop late?

    random      all regimes on unpredictable tokens, with probes that read the next one
    frozen …    the predictive hint with weights that don't learn; louder, fainter; with more tokens
    words       all regimes on text
    notebook    the notebook's own leakage test
"""

from copy import deepcopy
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from geolab.models.regimes import REGIMES, RegimeModel
from geolab.probes import linear_readout
from geolab.tasks import RandomTokens, Words
from geolab.training import Budget
from studies.engine.arm import Arm, comparison
from studies.engine.protocol import Protocol
from studies.engine.run import Study
from studies.engine.watch import on_the_way, watch

RANDOM, MANY = RandomTokens(validation=400), RandomTokens(vocabulary=256, validation=400)
EVERY = 50   # steps between two looks
AT_ONE_RATE = Protocol.stated(1e-3, range(8))
HINT = "GT-PredictiveHint"


class Hinted(RegimeModel):
    """A regime with a changed hint.

    Arguments:
        scale: the factor of the hint.
        frozen: make the hint with copies of the output and the embedding as they are at the start.
    """

    def __init__(self, name: str, vocabulary: int, max_length: int, dropout: float = 0.0,
                 scale: float = 1.0, frozen: bool = False):
        super().__init__(name, vocabulary, max_length=max_length, dropout=dropout)
        self.scale = scale
        copies = deepcopy((self.output, self.embedding)) if frozen else None
        self.start = torch.nn.ModuleList(copies).requires_grad_(False) if copies else None

    @torch.no_grad()
    def hint(self, h: Tensor) -> Tensor:
        output, embedding = self.start or (self.output, self.embedding)
        expected = self.scale * output(h).softmax(dim=-1) @ embedding.weight
        if self.regime.geometry == "last hint":
            return F.pad(expected[:, :-1], (0, 0, 1, 0))
        return expected


COLUMNS = ("output right", "read in hint", "read in last state", "hint deviation", "own weight",
           "tap at t + 1")


def watched(name: str, task: RandomTokens, evaluations: int, **changes) -> Hinted:
    """Build a model that notes COLUMNS at the start and at each evaluation.
    """
    model = Hinted(name, task.vocabulary, task.length, **changes)
    return watch(model, readings, task, evaluations + 1, len(COLUMNS), start=True)


def readings(model: Hinted, tokens: Tensor) -> Tensor:
    """Return one number per column of COLUMNS.

    The first three are shares of next tokens: those that the output names, those that a linear map
    reads in the next position's hint at the first block, and those that it reads in the last state.
    The others are the deviation of that hint, its weight on its own token, and the root mean square
    of the convolutions' taps at t + 1.
    """
    # hints pass through the output layer too, before the last state does
    *_, last = on_the_way(model, [model.output], tokens, lambda _, state: state)
    following = tokens[:, 1:].flatten()
    h = model.embedding(tokens) + model.position.weight[:tokens.shape[1]]
    hint, state = model.hint(h)[:, 1:].flatten(0, 1), last[:, :-1].flatten(0, 1)
    own = model.output(h).softmax(-1).gather(-1, tokens[..., None])
    taps = [block.steps["C"].f.conv.conv.weight[:, 0, 2]
            for block in model.blocks if "C" in block.steps]
    right = model.output(last)[:, :-1].argmax(-1).flatten() == following
    at_next = torch.cat(taps).square().mean().sqrt().double() if taps else model.seen.new_zeros(())
    return torch.stack([
        right.double().mean(), linear_readout(hint, following), linear_readout(state, following),
        (hint - hint.mean(0)).square().mean().sqrt().double(), own.double().mean(), at_next])


def profile(model: Hinted) -> dict:
    return {name: [float(f"{x:.4g}") for x in column]
            for name, column in zip(COLUMNS, model.seen.T.tolist(), strict=True)}


# ------------------------------------------------------------ sizes

def constant(steps: int, batch: int = 32) -> Budget:
    """AdamW at one rate throughout, with torch's own weight decay."""
    return Budget(steps=steps, batch=batch, lr_end=1.0, warmup=0, weight_decay=0.01,
                  evaluate_every=EVERY)


def watching(part: str, models: dict[str, tuple[str, dict]], steps: int,
             task: RandomTokens = RANDOM) -> list[Arm]:
    """Return a comparison. `models`: label -> name of the regime, and its changes."""
    builds = {shown: partial(watched, name, task, steps // EVERY, **changes)
              for shown, (name, changes) in models.items()}
    return comparison(part, builds, task, constant(steps), AT_ONE_RATE, measure=profile)


def on_random_tokens(steps: int) -> list[Arm]:
    """Train the regimes and the frozen hint for `steps`, and each other change until its drop."""
    once = {name: partial(RegimeModel, name, RANDOM.vocabulary, layers=1, max_length=RANDOM.length)
            for name in (HINT, "GT-AugGeom")}
    return [*watching("random", {name: (name, {}) for name in REGIMES}, steps),
            *watching("frozen", {"frozen": (HINT, {"frozen": True})}, steps),
            *watching("louder", {"4": (HINT, {"scale": 4.0})}, 300),
            *watching("fainter", {"0.5": (HINT, {"scale": 0.5})}, 900),
            *watching("many", {HINT: (HINT, {})}, 1050, MANY),
            *comparison("notebook", once, RANDOM, constant(250, batch=64),
                         Protocol.stated(3e-4, range(8)))]


def on_words(task: Words) -> dict[str, partial]:
    """The size and dropout of the lecture's notebook."""
    return {name: partial(RegimeModel, name, task.vocabulary, max_length=task.context, dropout=0.1)
            for name in REGIMES}


def small() -> list[Arm]:
    task = Words(types=500, context=32)
    return [*on_random_tokens(600),
            *comparison("words", on_words(task), task, Budget(steps=400, evaluate_every=EVERY),
                        Protocol())]


def medium() -> list[Arm]:
    """Train the regimes on random tokens for 3000 steps, and on the text as in the notebook.

    The text has 3500 words that occur more than once. There the predictive hint is also frozen. A
    step launches some 200 kernels, so even a small one takes about 4 ms. One after another, the
    runs take 20 minutes.
    """
    task = Words(types=3500, context=128)
    frozen = {HINT + ", frozen": partial(Hinted, HINT, task.vocabulary, task.context, dropout=0.1,
                                         frozen=True)}
    return [*on_random_tokens(3000), *as_in_the_notebook(task, on_words(task) | frozen)]


def paper() -> list[Arm]:
    """Train on the notebook's words, which need a network; --corpus replaces the text."""
    task = Words(types=10_000, context=128, corpus="wikitext-2", size=11_000_000)
    return [*on_random_tokens(3000), *as_in_the_notebook(task, on_words(task))]


def as_in_the_notebook(task: Words, models: dict[str, partial]) -> list[Arm]:
    """Train 5000 steps at one rate. The notebook's dropout ends after the first evaluation."""
    budget = Budget(steps=5000, batch=24, lr_end=1.0, warmup=0, weight_decay=1e-5,
                    evaluate_every=100)
    return comparison("words", models, task, budget, Protocol.stated(3e-4, (0, 1, 2)))


STUDY = Study(
    "regimes",
    "Which of the lecture's causal models read the next token, and why does the predictive hint "
    "drop late?",
    {"cpu": small, "gpu": medium, "paper": paper})
