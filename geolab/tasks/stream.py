"""Text that doesn't fit in memory: any number of processes read it while they train on it.

    document d goes to row d mod 64, and is laid end to end with the others there
    a row is cut into windows of context + 1 tokens
    window i of the stream is the next one of row i mod 64, and belongs to process i mod world

So the windows and their order don't depend on the number of processes, which must divide 64, and
each process turns only its own documents into tokens. The position of a run in the stream is the
number of windows that it has read: steps × batch. A run resumes by reading from the first
document up to there, without the model.

Folders of .txt files need no library. Corpora by name need `datasets`, and the tokens of GPT-2
need `tiktoken`.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, islice

import numpy as np
import torch
from torch import Tensor

from geolab.checks import require_option
from geolab.tasks.base import Pairs, next_step
from geolab.tasks.text import Corpus, documents, encode_bytes, first_tokens, reading

ROWS = 64


@dataclass(frozen=True)
class Stream(Corpus):
    """Streamed text: (N, context) tokens in, the next tokens out, loss in nats per token.

    A folder, or a corpus without a validation split, gives its first documents to validation.
    Training reads all others, and starts again after the last one.

    Raises: ValueError for an unknown corpus or an unknown tokenizer.
    """

    corpus: str
    context: int = 128
    tokenizer: str = "bytes"   # or "gpt2"
    validation: int = 256      # windows

    def __post_init__(self):
        require_option("tokenizer", self.tokenizer, ("bytes", "gpt2"))
        super().__post_init__()
        self.require_counts(validation=1)

    @property
    def vocabulary(self) -> int:
        return 256 if self.tokenizer == "bytes" else 50257

    def encode(self, document: str) -> np.ndarray:
        """The tokens of a document and one that ends it: a line break, or <|endoftext|> of GPT-2.

        Raises: ImportError without tiktoken; ConnectionError where its table can't be read.
        """
        if self.tokenizer == "bytes":
            return encode_bytes(document)
        tokenizer = _gpt2()
        return np.array([*tokenizer.encode_ordinary(document), tokenizer.eot_token])

    def documents(self, split: str) -> Iterator[str]:
        """One pass over the documents of a split; see `text.documents`."""
        return documents(self.corpus, split, self._read(), self.encode)

    def tokens(self, split: str) -> np.ndarray:
        """The tokens of the first `validation` windows of a split."""
        return first_tokens(self.documents(split), self._read(), self.encode)

    def _read(self) -> int:
        """The number of tokens in the windows of validation."""
        return self.validation * self.context + 1

    def batches(self, batch: int, steps: int, rank: int, world: int) -> Iterator[Pairs]:
        """The share of process `rank` of `world` in every batch after the first `steps`, endlessly.

        Raises: ValueError when `world` does not divide 64, or no document is left to train on.
        """
        if ROWS % world:
            raise ValueError(f"the number of processes must divide {ROWS}, got {world}")
        share = batch // world
        own = islice(self._windows(rank, world), steps * share, None)
        while True:
            yield next_step(torch.stack(list(islice(own, share))))

    def _windows(self, rank: int, world: int) -> Iterator[Tensor]:
        """(context + 1,): windows rank, rank + world, rank + 2 world, … of the stream, int64."""
        rows = {row: np.empty(0, np.int64) for row in range(rank, ROWS, world)}
        texts = enumerate(self._endless())
        for row in cycle(rows):
            while len(rows[row]) <= self.context:
                number, text = next(texts)
                if (its := number % ROWS) in rows:
                    rows[its] = np.append(rows[its], self.encode(text))
            yield torch.from_numpy(rows[row][:self.context + 1])
            rows[row] = rows[row][self.context:]

    def _endless(self) -> Iterator[str]:
        while True:
            texts = self.documents("train")
            first = next(texts, None)
            if first is None:
                raise ValueError(f"corpus {self.corpus!r} has no document left to train on: its "
                                 f"first ones are the {self.validation} windows of validation")
            yield first
            yield from texts

    def baselines(self) -> dict[str, float]:
        return {"uniform": math.log(self.vocabulary)}


def _gpt2():
    with reading("tokenizer 'gpt2'", "tiktoken: pip install tiktoken",
                 "Tokenizer 'bytes' needs neither the library nor a network"):
        import tiktoken
        return tiktoken.get_encoding("gpt2")
