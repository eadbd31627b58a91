"""Copy (MGT's copy task): repeat a sequence of random tokens after a separator.

    a_1 … a_K | b_1 … b_K,   a_i uniform on V tokens,
    b_i = a_i, or with probability p a uniform token

The paper describes the task in one sentence: the second half must reproduce the first. The
length, the alphabet, the sizes and the noise p are our choice; p = 0 is the copy task. Only the
second half is scored.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from geolab.checks import require_number
from geolab.tasks.base import IGNORED, Classification, Pairs, log_loss, next_step


@dataclass(frozen=True)
class Copy(Classification):
    """The copy task: (N, 2 · half) tokens in, the next tokens out, loss in nats per token."""

    half: int = 16            # K
    alphabet: int = 64        # V
    train: int = 10_000
    validation: int = 1000
    noise: float = 0.0        # p
    seed: int = 42
    validation_seed: int = 1042

    def __post_init__(self):
        self.require_counts(half=1, alphabet=1, train=0, validation=0)
        require_number("noise", self.noise, low=0, high=1)

    @property
    def vocabulary(self) -> int:
        """The number of tokens: those of the alphabet, and the separator as the last one."""
        return self.alphabet + 1

    def sample(self, split: str, seed: int | None = None) -> Pairs:
        rng, count = self.draw(split, seed)
        first = rng.randint(self.alphabet, size=(count, self.half))
        replaced = rng.rand(count, self.half) < self.noise
        second = np.where(replaced, rng.randint(self.alphabet, size=first.shape), first)
        separator = np.full((count, 1), self.alphabet)
        inputs, targets = next_step(torch.from_numpy(np.hstack([first, separator, second])))
        position = torch.arange(2 * self.half)
        return Pairs(inputs, targets.where(position >= self.half, IGNORED))

    def bayes_floor(self) -> float:
        """The entropy of one noisy token, −Σ q ln q. It is exact, and zero without noise.

        A model has read a_1 … a_K before b_i, and b_i depends on a_i alone. It is a_i with
        probability q = 1 − p + p/V, and each other token with probability p/V.
        """
        other = self.noise / self.alphabet
        chances = [1 - self.noise + other] + (self.alphabet - 1) * [other]
        return sum(q * math.log(1 / q) for q in chances if q > 0)

    def baselines(self) -> dict[str, float]:
        """A uniform guess, and the best predictor that knows the first half without its order.

        The second gives each token its share of the first half, mixed with the noise.
        """
        inputs, targets = self.sample("validation")
        first, second = inputs[:, :self.half], targets[:, self.half:]
        bag = F.one_hot(first, self.alphabet).double().sum(1) / self.half
        chance = (1 - self.noise) * bag + self.noise / self.alphabet
        return {"uniform": math.log(self.alphabet),
                "bag of the first half": log_loss(chance.gather(1, second))}
