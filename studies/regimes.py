"""The lecture's causal regimes on random tokens and on words: who reads the next token, and why the predictive hint drops late.

    random      all of them on tokens that nobody can predict, with what can be read of the next one on the way
    frozen …    the predictive hint made of weights that don't learn; louder, fainter; with more tokens
    words       all of them on text
    notebook    the notebook's own leakage test
"""

from copy import deepcopy
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from studies.runner.study import Comparison, Experiment, Plan
from studies.runner.watch import on_the_way, watch
from geolab.models import REGIMES, RegimeModel
from geolab.probes import linear_readout
from geolab.tasks import RandomTokens, Words
from geolab.training import Budget

RANDOM, MANY = RandomTokens(validation=400), RandomTokens(vocabulary=256, validation=400)
EVERY = 50   # steps between two looks
HINT = "GT-PredictiveHint"


class Hinted(RegimeModel):
    """A regime with a changed hint.

    Arguments:
        scale: of the hint.
        frozen: make the hint with copies of the output and the embedding as they are at the start.
    """

    def __init__(self, name: str, vocabulary: int, max_length: int, dropout: float = 0.0, scale: float = 1.0, frozen: bool = False):
        super().__init__(name, vocabulary, max_length=max_length, dropout=dropout)
        self.scale = scale
        self.start = torch.nn.ModuleList(deepcopy((self.output, self.embedding))).requires_grad_(False) if frozen else None

    @torch.no_grad()
    def hint(self, h: Tensor) -> Tensor:
        output, embedding = self.start or (self.output, self.embedding)
        expected = self.scale * output(h).softmax(dim=-1) @ embedding.weight
        return F.pad(expected[:, :-1], (0, 0, 1, 0)) if self.regime.geometry == "last hint" else expected


COLUMNS = ("output right", "read in hint", "read in last state", "hint deviation", "own weight", "tap at t + 1")


def watched(name: str, task: RandomTokens, evaluations: int, **changes) -> Hinted:
    """Keeps what can be read of the next token at the start and at each evaluation. Columns: COLUMNS."""
    return watch(Hinted(name, task.vocabulary, task.length, **changes), readings, task, evaluations + 1, len(COLUMNS), start=True)


def readings(model: Hinted, tokens: Tensor) -> Tensor:
    """The share of next tokens that the output names, that a linear map reads in the next position's hint at the first block, and in
    the last state; deviation of that hint; its weight on its own token; root mean square of the convolutions' taps at t + 1."""
    *_, last = on_the_way(model, [model.output], tokens, lambda _, state: state)  # hints go through the output before
    following, h = tokens[:, 1:].flatten(), model.embedding(tokens) + model.position.weight[:tokens.shape[1]]
    hint, state = model.hint(h)[:, 1:].flatten(0, 1), last[:, :-1].flatten(0, 1)
    own = model.output(h).softmax(-1).gather(-1, tokens[..., None])
    taps = [block.steps["C"].f.conv.conv.weight[:, 0, 2] for block in model.blocks if "C" in block.steps]
    return torch.stack([
        (model.output(last)[:, :-1].argmax(-1).flatten() == following).double().mean(), linear_readout(hint, following),
        linear_readout(state, following), (hint - hint.mean(0)).square().mean().sqrt().double(), own.double().mean(),
        torch.cat(taps).square().mean().sqrt().double() if taps else model.seen.new_zeros(())])


def profile(model: Hinted) -> dict:
    return {name: [float(f"{x:.4g}") for x in column] for name, column in zip(COLUMNS, model.seen.T.tolist())}


# ------------------------------------------------------------ plans

def constant(steps: int, batch: int = 32) -> Budget:
    """AdamW at one rate throughout, torch's own weight decay."""
    return Budget(steps=steps, batch=batch, lr_end=1.0, warmup=0, weight_decay=0.01, evaluate_every=EVERY)


def watching(models: dict[str, tuple[str, dict]], steps: int, task: RandomTokens = RANDOM) -> Comparison:
    """`models`: what to call it -> its name in the zoo and its changes."""
    arms = {shown: partial(watched, name, task, steps // EVERY, **changes) for shown, (name, changes) in models.items()}
    return Comparison(arms, task, constant(steps), rates=(1e-3,), measure=profile)


def on_random_tokens(steps: int) -> Plan:
    """The zoo and the frozen hint for as long as asked, each other change for as long as its drop takes."""
    once = {name: partial(RegimeModel, name, RANDOM.vocabulary, layers=1, max_length=RANDOM.length) for name in (HINT, "GT-AugGeom")}
    return {"random": watching({name: (name, {}) for name in REGIMES}, steps),
            "frozen": watching({"frozen": (HINT, {"frozen": True})}, steps),
            "louder": watching({"4": (HINT, {"scale": 4.0})}, 300),
            "fainter": watching({"0.5": (HINT, {"scale": 0.5})}, 900),
            "many": watching({HINT: (HINT, {})}, 1050, MANY),
            "notebook": Comparison(once, RANDOM, constant(250, batch=64), rates=(3e-4,))}


def on_words(task: Words) -> dict[str, partial]:
    """The size and dropout of the lecture's notebook."""
    return {name: partial(RegimeModel, name, task.vocabulary, max_length=task.context, dropout=0.1) for name in REGIMES}


def small() -> Plan:
    """The last comparison is of the one model whose short search chose another rate than the other causal ones."""
    task, budget = Words(types=500, context=32), Budget(steps=400, evaluate_every=EVERY)
    rates = (2e-3, 5e-3)
    one = {"GT-CausalGeom": on_words(task)["GT-CausalGeom"]}
    return on_random_tokens(600) | {
        "words": Comparison(on_words(task), task, budget, rates, search_steps=120, search_seeds=(0,)),
        "words, higher rate": Comparison(one, task, budget, rates[-1:])}


def medium() -> Plan:
    """The zoo on random tokens for 3000 steps, and the notebook's size and 5000 steps on the shipped text, with the 3500 words that
    it has more than once, the predictive hint frozen as well.

    A step launches some 200 kernels, so it takes about 4 ms however small it is. On words eight arms have six runs each, 240 000
    steps; on random tokens there are 80 000. That is 22 minutes one after another, and less than 10 with `--jobs 4`.
    """
    task = Words(types=3500, context=128)
    frozen = {HINT + ", frozen": partial(Hinted, HINT, task.vocabulary, task.context, dropout=0.1, frozen=True)}
    budget = Budget(steps=5000, batch=24, warmup=100, evaluate_every=100)
    return on_random_tokens(3000) | {"words": Comparison(on_words(task) | frozen, task, budget, rates=(3e-4, 1e-3, 3e-3, 1e-2),
                                                         search_steps=budget.steps, search_seeds=(0,))}


def paper() -> Plan:
    """The size of the lecture's notebook as far as it is stated; its learning rate isn't, and its 5000 steps are 10 000 here."""
    task = Words(types=10_000, context=128, corpus="wikitext-2", size=11_000_000)
    budget = Budget(steps=10_000, batch=24, warmup=100, evaluate_every=250)
    return on_random_tokens(3000) | {"words": Comparison(on_words(task), task, budget, rates=(3e-4, 1e-3, 3e-3), search_steps=2000,
                                                         search_seeds=(0,))}


EXPERIMENT = Experiment("Which of the lecture's causal models read the next token, and why does the predictive hint drop late?",
                        {"cpu": small, "gpu": medium, "paper": paper})
