"""Random tokens: predict the next of independent uniform tokens, which is impossible.

    b_0 … b_T uniform on V tokens,   inputs b_0 … b_{T−1},   targets b_1 … b_T

A model whose loss is below ln V has read the token that it predicts. This is the leakage test of
a notebook of the Geometric Transformer lecture, with its V = 64 and 25 tokens. The notebook draws
64 fresh sequences at each of 250 steps. Our training set is as large, so a run of that length has
little to memorise.
"""

import math
from dataclasses import dataclass

import torch

from geolab.tasks.base import Classification, Pairs, Score, log_loss, next_step, unigram


@dataclass(frozen=True)
class RandomTokens(Classification):
    """The leakage task: (N, length) tokens in, the next tokens out, loss in nats per token."""

    vocabulary: int = 64      # V
    length: int = 24          # T, predictions in a sequence
    train: int = 16_000
    validation: int = 1000
    seed: int = 42
    validation_seed: int = 1042

    def __post_init__(self):
        self.require_counts(vocabulary=1, length=1, train=0, validation=0)

    def sample(self, split: str, seed: int | None = None) -> Pairs:
        rng, count = self.draw(split, seed)
        tokens = rng.randint(self.vocabulary, size=(count, self.length + 1))
        return next_step(torch.from_numpy(tokens))

    def bayes_floor(self) -> float:
        """ln V: the tokens b_0 … b_t say nothing about b_{t+1}."""
        return math.log(self.vocabulary)

    def peek(self) -> Score:
        """The best score of a model whose output at t reads b_{t+1}.

        Only the last target lies outside its inputs: loss ln(V)/T, accuracy (T − 1 + 1/V)/T.
        """
        V, T = self.vocabulary, self.length
        return Score(math.log(V) / T, (T - 1 + 1 / V) / T)

    def baselines(self) -> dict[str, float]:
        chance = unigram(self.sample("train").targets, self.vocabulary)
        return {"uniform": math.log(self.vocabulary),
                "unigram": log_loss(chance[self.sample("validation").targets])}
