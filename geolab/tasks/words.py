"""Words: the text of `Text`, word by word; predict the next word.

    inputs w_0 … w_{T−1},   targets w_1 … w_T,   loss −ln p(w_{t+1} | w_0 … w_t) in nats per word

This follows the language notebooks of the Geometric Transformer lecture: words in lower case, the
most frequent words of the training text, <unk> for all others, and <eos> at the end of a line. A
word is a run of letters, digits and apostrophes; every other mark stands alone. <unk> counts as a
word, so losses with two vocabularies don't compare.
"""

import math
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from geolab.tasks.base import log_loss, unigram
from geolab.tasks.text import Corpus, pair_counts, read_bytes

UNKNOWN, LINE_END = "<unk>", "<eos>"
WORD = re.compile(r"<unk>|[\w']+|[^\w\s]|\n")  # some corpora already hold <unk>


class MostFrequent(NamedTuple):
    """The most frequent training word, and the share of right answers of always saying it."""

    word: str
    accuracy: float


@dataclass(frozen=True)
class Words(Corpus):
    """The words task: (N, context) words in, the next words out, loss in nats per word."""

    types: int = 2000         # words that have their own numbers
    context: int = 64         # words that a model reads
    corpus: str = "sample"    # or a name in CORPORA, or a folder with .txt files
    size: int = 1_000_000     # training bytes of another corpus; validation reads a tenth as many

    def __post_init__(self):
        super().__post_init__()
        self.require_counts(types=1, size=1)

    @property
    def vocabulary(self) -> int:
        """The size of a model's vocabulary: <unk> is 0, then come the types by frequency."""
        return self.types + 1

    def tokens(self, split: str) -> np.ndarray:
        number = {word: i for i, word in enumerate(self.words())}
        text = split_words(self.corpus, split, self.size)
        return np.array([number.get(word, 0) for word in text])

    def words(self) -> list[str]:
        """The word of each number. For a small text the list is shorter than `vocabulary`."""
        count = Counter(split_words(self.corpus, "train", self.size))
        del count[UNKNOWN]
        return [UNKNOWN] + [word for word, _ in count.most_common(self.types)]

    def most_frequent(self) -> MostFrequent:
        """The most frequent training word, and its accuracy on validation, which needs no model."""
        chance = unigram(self.sample("train").targets, self.vocabulary)
        word = int(chance.argmax())
        right = self.sample("validation").targets == word
        return MostFrequent(self.words()[word], right.double().mean().item())

    def baselines(self) -> dict[str, float]:
        """Counts in the training text. The unigram u adds one to each count.

        The bigram mixes its counts with the unigram, as Witten and Bell (1991) do:

            p(w | v) = (c(v, w) + n(v) u(w)) / (c(v) + n(v)),   n(v) different words follow v
        """
        train, (inputs, targets) = self.sample("train"), self.sample("validation")
        alone = unigram(train.targets, self.vocabulary)
        pairs = pair_counts(train, self.vocabulary)
        followers = (pairs > 0).sum(1).clamp(min=1)  # where no word follows: the unigram alone
        bigram = pairs[inputs, targets] + followers[inputs] * alone[targets]
        return {"uniform": math.log(self.vocabulary),
                "unigram": log_loss(alone[targets]),
                "bigram": log_loss(bigram / (pairs.sum(1) + followers)[inputs])}


@cache
def split_words(corpus: str, split: str, size: int) -> list[str]:
    """The words of a text, before <unk> replaces any of them."""
    text = read_bytes(corpus, split, size).decode(errors="replace").lower()
    return [LINE_END if word == "\n" else word for word in WORD.findall(text)]
