"""Make results/regimes_small.json: `python results/regimes_small.py`, about a quarter of an hour on one core.

The lecture's causal zoo on random tokens and on words, and why its predictive hint drops late. An interrupted run goes on where
it stopped, from checkpoints in runs/. FULL takes the size of the lecture's notebook as far as it is stated: a GPU, WikiText-2
through the network, hours.
"""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from geolab import Budget
from geolab.compare import compare, record
from geolab.models import REGIMES, RegimeModel
from geolab.probes import linear_readout
from geolab.tasks import RandomTokens, Words

FULL = False
OUT = Path(__file__).with_suffix(".full.json" if FULL else ".json")
RUNS = Path("runs") / OUT.stem
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SEEDS, EVERY = (0, 1, 2), 50
RANDOM, MANY = RandomTokens(validation=400), RandomTokens(vocabulary=256, validation=400)
if FULL:
    WORDS, DROPOUT, STEPS = Words(types=10_000, context=128, corpus="wikitext-2", size=11_000_000), 0.1, 3000
    TEXT = Budget(steps=10_000, batch=24, warmup=100, evaluate_every=250)
    RATES, SEARCH_STEPS = (3e-4, 1e-3, 3e-3), 2000
else:
    WORDS, DROPOUT, STEPS = Words(types=500, context=32), 0.1, 600
    TEXT = Budget(steps=400, batch=16, evaluate_every=50)
    RATES, SEARCH_STEPS = (2e-3, 5e-3), 120
HINT, REPAIRED = "GT-PredictiveHint", "GT-PredictiveHint, causal"


def constant(steps: int) -> Budget:
    """AdamW at 0.001 throughout, 32 sequences a step, torch's own weight decay."""
    return Budget(steps=steps, batch=32, lr=1e-3, lr_end=1.0, warmup=0, weight_decay=0.01, evaluate_every=EVERY)


class Watched(RegimeModel):
    """Keeps what can be read of the next token at the start and at each evaluation; a checkpoint holds it.

    Columns: share of next tokens that the output names, that a linear map reads in the next position's hint at the first block,
    and in the last state; deviation of that hint; its weight on its own token; root mean square of the convolutions' taps at t + 1.

    Arguments:
        scale: of the hint.
        frozen: make the hint with copies of the output and the embedding as they are at the start.
    """

    def __init__(self, name: str, task: RandomTokens, evaluations: int, scale: float = 1.0, frozen: bool = False):
        super().__init__(name, task.vocabulary, max_length=task.length, dropout=0.0)
        self.scale, self.task = scale, task
        self.start = torch.nn.ModuleList(deepcopy((self.output, self.embedding))).requires_grad_(False) if frozen else None
        self.register_buffer("seen", torch.zeros(evaluations + 1, 6, dtype=torch.double))
        self.register_buffer("count", torch.tensor(0))

    @torch.no_grad()
    def hint(self, h: Tensor) -> Tensor:
        output, embedding = self.start or (self.output, self.embedding)
        expected = self.scale * output(h).softmax(dim=-1) @ embedding.weight
        return torch.nn.functional.pad(expected[:, :-1], (0, 0, 1, 0)) if self.regime.geometry == "last hint" else expected

    def forward(self, tokens: Tensor) -> Tensor:
        if self.count == 0 and self.training:  # the weights are still those of the start
            self.watch(self.task.sample("validation").inputs.to(tokens.device))
        return super().forward(tokens) if self.training else self.watch(tokens)

    @torch.no_grad()
    def watch(self, tokens: Tensor) -> Tensor:
        read = {}
        hook = self.output.register_forward_pre_hook(lambda _, inputs: read.update(last=inputs[0]))
        logits = super().forward(tokens)
        hook.remove()
        if self.count < len(self.seen):
            following, h = tokens[:, 1:].flatten(), self.embedding(tokens) + self.position.weight[:tokens.shape[1]]
            hint, state = self.hint(h)[:, 1:].flatten(0, 1), read["last"][:, :-1].flatten(0, 1)
            own = self.output(h).softmax(-1).gather(-1, tokens[..., None])
            taps = [block.steps["C"].f.conv.conv.weight[:, 0, 2] for block in self.blocks if "C" in block.steps]
            self.seen[self.count] = torch.stack([
                (logits[:, :-1].argmax(-1).flatten() == following).double().mean(), linear_readout(hint, following),
                linear_readout(state, following), (hint - hint.mean(0)).square().mean().sqrt().double(), own.double().mean(),
                torch.cat(taps).square().mean().sqrt().double() if taps else torch.tensor(0.0).double()])
            self.count += 1
        return logits


COLUMNS = ("output right", "read in hint", "read in last state", "hint deviation", "own weight", "tap at t + 1")


def profile(model: Watched) -> dict:
    return {name: [float(f"{x:.4g}") for x in column] for name, column in zip(COLUMNS, model.seen.T.tolist())}


def main() -> None:
    if OUT.exists():
        raise SystemExit(f"{OUT} is there; move it away to measure again")

    def watched(models: dict, task: RandomTokens, steps: int, folder: str) -> dict:
        """`models`: what to call it -> its name in the zoo and its options."""
        build = {shown: lambda name=name, options=options: Watched(name, task, steps // EVERY, **options).to(DEVICE)
                 for shown, (name, options) in models.items()}
        return compare(build, task, constant(steps), seeds=SEEDS, rates=(1e-3,), folder=RUNS / folder, measure=profile)

    found = {"random": watched({name: (name, {}) for name in REGIMES}, RANDOM, STEPS, "random"),
             "frozen": watched({"frozen": (HINT, {"frozen": True})}, RANDOM, STEPS, "frozen"),
             "louder": watched({"4": (HINT, {"scale": 4.0})}, RANDOM, 300, "louder"),
             "fainter": watched({"0.5": (HINT, {"scale": 0.5})}, RANDOM, 900, "fainter"),
             "many": watched({HINT: (HINT, {})}, MANY, 1050, "many")}
    models = {name: lambda name=name: RegimeModel(name, WORDS.vocabulary, max_length=WORDS.context, dropout=DROPOUT).to(DEVICE)
              for name in REGIMES}
    found["words"] = compare(models, WORDS, TEXT, seeds=SEEDS, rates=RATES, search_steps=SEARCH_STEPS, search_seeds=(0,),
                             folder=RUNS / "words")
    found["words, higher rate"] = compare({"GT-CausalGeom": models["GT-CausalGeom"]}, WORDS, TEXT, seeds=SEEDS, rates=RATES[-1:],
                                          folder=RUNS / "words")  # the one whose search chose another rate than the other causal ones
    once = {name: lambda name=name: RegimeModel(name, 64, layers=1, max_length=24).to(DEVICE) for name in (HINT, "GT-AugGeom")}
    found["notebook"] = compare(once, RANDOM, replace(constant(250), batch=64), seeds=SEEDS, rates=(3e-4,), folder=RUNS / "notebook")
    record(OUT, "the causal zoo of the Geometric Transformer lecture, small: random tokens with what can be read of the next one, "
           "changed hints, words, the notebook's own leakage test", found)


if __name__ == "__main__":
    main()
