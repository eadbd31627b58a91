"""The text and the network of the study `page_network`, and nothing that only measures or writes.

    text  →  words of letters, and runs of other signs, each with the space before it
    a word  →  its bytes  →  pieces, by the merges that byte-pair encoding learned (Sennrich 2016)

Every text has pieces, since all 256 bytes are among them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from tokenizers import Regex, Tokenizer
from tokenizers.decoders import ByteLevel as Bytes
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split
from tokenizers.trainers import BpeTrainer

from geolab.models import TokenModel, Transformer, TransformerConfig
from geolab.tasks.base import log_loss, unigram
from geolab.tasks.corpora import PUBLISHED, folder
from geolab.tasks.text import Corpus, documents, encode_bytes, pair_counts

LINE = "\n"   # a verse begins behind it, and so does what a reader types
# letters of ASCII alone, since tables of all letters differ between libraries
WORDS = r" ?[A-Za-z]+| ?[^A-Za-z \n]+|[ \n]"


@dataclass(frozen=True)
class Pieces(Corpus):
    """Text in pieces: (N, context) pieces in, the next ones out, loss in nats per piece.

    A text without a validation part of its own gives its first `held_out` bytes, up to the end of
    their document. The pieces are learned from the rest.
    """

    vocabulary: int = 1500       # pieces; 256 of them are the bytes
    context: int = 64            # pieces that a model reads
    corpus: str = "king-james"   # a key of corpora.PUBLISHED, or as for `Text`
    held_out: int = 60_000

    def __post_init__(self):
        if self.corpus not in PUBLISHED:
            super().__post_init__()
        self.require_counts(context=1, vocabulary=257, held_out=1)

    def text(self, split: str) -> str:
        """Raises: FileNotFoundError for a published text that isn't on this machine."""
        place = str(folder(self.corpus)) if self.corpus in PUBLISHED else self.corpus
        return "".join(documents(place, split, self.held_out, encode_bytes))

    def tokens(self, split: str) -> np.ndarray:
        return encoded(self, split)

    def baselines(self) -> dict[str, float]:
        """Counts in the training text, smoothed as those of `Words`."""
        train, (inputs, targets) = self.sample("train"), self.sample("validation")
        alone, pairs = unigram(train.targets, self.vocabulary), pair_counts(train, self.vocabulary)
        followers = (pairs > 0).sum(1).clamp(min=1)
        bigram = pairs[inputs, targets] + followers[inputs] * alone[targets]
        return {"uniform": math.log(self.vocabulary), "unigram": log_loss(alone[targets]),
                "bigram": log_loss(bigram / (pairs.sum(1) + followers)[inputs])}


@cache
def tokenizer(task: Pieces) -> Tokenizer:
    """The pieces of a task, learned from its training text."""
    found = Tokenizer(BPE())
    found.pre_tokenizer = Sequence([Split(Regex(WORDS), "isolated"),
                                    ByteLevel(add_prefix_space=False, use_regex=False)])
    found.decoder = Bytes()
    found.train_from_iterator(task.text("train").splitlines(keepends=True), BpeTrainer(
        vocab_size=task.vocabulary, initial_alphabet=ByteLevel.alphabet(), show_progress=False))
    return found


@cache
def encoded(task: Pieces, split: str) -> np.ndarray:
    return np.array(tokenizer(task).encode(task.text(split)).ids)


def build(config: TransformerConfig, vocabulary: int, residual: str,
          options: Mapping[str, object]) -> TokenModel:
    return TokenModel(Transformer(config, residual, **options), vocabulary)
