"""Words: the text of `Text`, word by word; predict the next one.

    inputs w_0 … w_{T−1},   targets w_1 … w_T,   loss −ln p(w_{t+1} | w_0 … w_t) in nats a word

As in the language notebooks of the Geometric Transformer lecture: lower case, the most frequent words of the training text, <unk>
for the others, <eos> at the end of a line. A word is a run of letters, digits and apostrophes; every other mark stands alone.
<unk> counts as a word, so losses of two vocabularies don't compare.
"""

import math
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from geolab.tasks.base import Pairs, require_counts, require_split
from geolab.tasks.text import Text, read, windows

UNKNOWN, LINE_END = "<unk>", "<eos>"
WORD = re.compile(r"<unk>|[\w']+|[^\w\s]|\n")  # some corpora hold <unk> already


class MostFrequent(NamedTuple):
    """The most frequent word of the training text, and the share of right answers of whoever always says it."""

    word: str
    accuracy: float


@dataclass(frozen=True)
class Words:
    """The words task: (N, context) words in and next words out, as int64; `vocabulary` is a model's size."""

    types: int = 2000         # words with a number of their own
    context: int = 64         # words a model reads
    corpus: str = "sample"    # or another that `Text` knows by name
    size: int = 1_000_000     # bytes to read of another corpus for training; a tenth as many for validation

    def __post_init__(self):
        Text(self.corpus, self.context, self.size)  # refuses what it can't read
        require_counts(self, types=1)

    @property
    def vocabulary(self) -> int:
        """The numbers of a model: <unk> is 0, then the types, the most frequent first."""
        return self.types + 1

    def sample(self, split: str, seed: int | None = None) -> Pairs:
        """Windows side by side, the first word of one the last target of the one before; a seed starts them at random."""
        require_split(split)
        number = {word: i for i, word in enumerate(self.words())}
        return windows(np.array([number.get(token, 0) for token in _tokens(self.corpus, split, self.size)]), self.context, seed)

    def words(self) -> list[str]:
        """What each number means."""
        count = Counter(_tokens(self.corpus, "train", self.size))
        del count[UNKNOWN]
        return [UNKNOWN] + [word for word, _ in count.most_common(self.types)]

    def decode(self, tokens: Tensor) -> str:
        """(T,) words as text, a blank between two, a line break for <eos>."""
        words = self.words()
        return " ".join(words[token] for token in tokens.tolist()).replace(LINE_END, "\n")

    def loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(prediction.flatten(0, 1), target.flatten())

    def accuracy(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Scalar: the share of right words."""
        return (prediction.argmax(-1) == target).double().mean()

    def bayes_floor(self) -> float:
        """0, a lower bound: a cross-entropy of words is not negative. The entropy rate of English is not known."""
        return 0.0

    def most_frequent(self) -> MostFrequent:
        """What accuracy costs nothing."""
        word = torch.bincount(self.sample("train").targets.flatten()).argmax()
        return MostFrequent(self.words()[word], (self.sample("validation").targets == word).double().mean().item())

    def baselines(self) -> dict[str, float]:
        """Counts of the training text. The unigram adds one to each; the bigram leans on it, as Witten and Bell (1991) do:

            p(w | v) = (c(v, w) + n(v) u(w)) / (c(v) + n(v)),   n(v) the number of different words seen after v
        """
        train, (inputs, targets) = self.sample("train"), self.sample("validation")
        pairs = torch.bincount((self.vocabulary * train.inputs + train.targets).flatten(), minlength=self.vocabulary**2)
        pairs = pairs.view(self.vocabulary, self.vocabulary)
        unigram = pairs.sum(0).double() + 1
        unigram /= unigram.sum()
        followers = (pairs > 0).sum(1).clamp(min=1)  # a word that no other follows: the unigram alone
        bigram = (pairs[inputs, targets] + followers[inputs] * unigram[targets]) / (pairs.sum(1) + followers)[inputs]
        return {"uniform": math.log(self.vocabulary),
                "unigram": -unigram[targets].log().mean().item(),
                "bigram": -bigram.log().mean().item()}


@cache
def _tokens(corpus: str, split: str, size: int) -> list[str]:
    """The words of a text, before any of them is replaced."""
    text = read(corpus, split, size).decode(errors="replace").lower()
    return [LINE_END if word == "\n" else word for word in WORD.findall(text)]
