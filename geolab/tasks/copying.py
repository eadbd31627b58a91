"""Copy (MGT's copy task): repeat a sequence of random tokens after a separator.

    a_1 … a_K | b_1 … b_K,   a_i uniform on V tokens,   b_i = a_i, or with probability p a uniform token instead

The paper gives one sentence (the second half must reproduce the first). Length, alphabet, sizes and the noise p are ours;
p = 0 is the copy task. Only the second half is scored.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from geolab.tasks.base import Pairs, require_counts, require_split

IGNORED = -100  # a target that the loss leaves out


@dataclass(frozen=True)
class Copy:
    """The copy task: (N, 2 · half) tokens in and next tokens out, loss in nats a token of the second half."""

    half: int = 16            # K
    alphabet: int = 64        # V
    train: int = 10_000
    validation: int = 1000
    noise: float = 0.0        # p
    seed: int = 42
    validation_seed: int = 1042

    def __post_init__(self):
        require_counts(self, half=1, alphabet=1, train=0, validation=0)
        if not 0 <= self.noise <= 1:
            raise ValueError(f"noise is a probability from 0 to 1, got {self.noise}")

    @property
    def vocabulary(self) -> int:
        """The tokens of a model: the alphabet, and the separator as the last."""
        return self.alphabet + 1

    def sample(self, split: str, seed: int | None = None) -> Pairs:
        require_split(split)
        default, count = (self.seed, self.train) if split == "train" else (self.validation_seed, self.validation)
        rng = np.random.RandomState(default if seed is None else seed)
        first = rng.randint(self.alphabet, size=(count, self.half))
        replaced = rng.rand(count, self.half) < self.noise
        second = np.where(replaced, rng.randint(self.alphabet, size=first.shape), first)
        tokens = torch.from_numpy(np.hstack([first, np.full((count, 1), self.alphabet), second]))
        targets = tokens[:, 1:].clone()
        targets[:, :self.half] = IGNORED
        return Pairs(tokens[:, :-1], targets)

    def loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(prediction.flatten(0, 1), target.flatten(), ignore_index=IGNORED)

    def accuracy(self, prediction: Tensor, target: Tensor) -> Tensor:
        """(half,): the share of right tokens at each position of the second half."""
        return (prediction.argmax(-1) == target)[:, self.half:].double().mean(0)

    def bayes_floor(self) -> float:
        """The entropy of one noisy token: −Σ q ln q, with q = 1 − p + p/V for a_i and p/V for each other token.

        Exact: given a_1 … a_K, which a model has read, b_i depends on a_i alone. Zero without noise.
        """
        other = self.noise / self.alphabet
        chances = [1 - self.noise + other] + (self.alphabet - 1) * [other]
        return sum(q * math.log(1 / q) for q in chances if q > 0)

    def baselines(self) -> dict[str, float]:
        """Predictors blind to order give every token that occurred in the first half its share, mixed with the noise."""
        inputs, targets = self.sample("validation")
        first, second = inputs[:, :self.half], targets[:, self.half:]
        bag = F.one_hot(first, self.alphabet).double().sum(1) / self.half
        chance = (1 - self.noise) * bag + self.noise / self.alphabet
        return {"uniform": math.log(self.alphabet),
                "bag of the first half": -chance.gather(1, second).log().mean().item()}
