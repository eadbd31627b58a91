"""Text that does not fit in memory: read as it is trained on, by any number of processes.

    document d goes to lane d mod 64, end to end with the others there; a lane is cut into windows of context + 1 tokens
    window i of the stream is the next of lane i mod 64, and belongs to process i mod world

So the windows and their order do not depend on the number of processes, which must divide 64, and each process turns only
its own documents into tokens. Where a run stands in the stream is how many windows it has read: steps × batch. To resume is
to read on from the first document, without the model, up to there.

Folders of .txt files need no library; corpora by name need `datasets`, and tokens of GPT-2 need `tiktoken`.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from geolab.checks import require_option
from geolab.tasks.base import Pairs, require_counts, require_split
from geolab.tasks.text import CORPORA, online, windows

LANES = 64
PIECE = 2**16  # characters, of a file that is longer: its pieces are documents


@dataclass(frozen=True)
class Stream:
    """The text task on a stream: (N, context) tokens in and next tokens out, int64, loss in nats a token.

    A corpus without a validation split, and a folder, give their first documents to validation, the others to training,
    which starts over after the last one.

    Raises: ValueError for a corpus that is neither a name in CORPORA nor a folder with .txt files, or an unknown tokenizer.
    """

    corpus: str
    context: int = 128
    tokenizer: str = "bytes"   # or "gpt2"
    validation: int = 256      # windows

    def __post_init__(self):
        require_option("tokenizer", self.tokenizer, ("bytes", "gpt2"))
        require_counts(self, context=1, validation=1)
        if self.corpus not in CORPORA and next(Path(self.corpus).rglob("*.txt"), None) is None:
            raise ValueError(f"corpus must be one of {', '.join(map(repr, CORPORA))}, or a folder with .txt files, "
                             f"got {self.corpus!r}")

    @property
    def vocabulary(self) -> int:
        return 256 if self.tokenizer == "bytes" else 50257

    def encode(self, document: str) -> np.ndarray:
        """Its tokens and the one that ends a document: a line break among bytes, <|endoftext|> of GPT-2.

        Raises: ImportError without tiktoken; ConnectionError where its table can't be read for the first time.
        """
        if self.tokenizer == "bytes":
            return np.frombuffer(document.encode() + b"\n", np.uint8).astype(np.int64)
        tokenizer = _gpt2()
        return np.array(tokenizer.encode_ordinary(document) + [tokenizer.eot_token], np.int64)

    def documents(self, split: str) -> Iterator[str]:
        """One pass over a split.

        Raises: ImportError without datasets; ConnectionError where the network doesn't give a corpus.
        """
        require_split(split)
        if self.corpus in CORPORA and CORPORA[self.corpus][2]:
            yield from online(self.corpus, split)
            return
        texts = online(self.corpus, "train") if self.corpus in CORPORA else _folder(Path(self.corpus))
        wanted = self.validation * self.context + 1
        while wanted > 0 and (text := next(texts, None)) is not None:
            wanted -= len(self.encode(text))
            if split == "validation":
                yield text
        if split == "train":
            yield from texts

    def sample(self, split: str, seed: int | None = None) -> Pairs:
        """The first `validation` windows of a split, side by side; there is no other draw, and seed changes nothing."""
        wanted, tokens, documents = self.validation * self.context + 1, np.empty(0, np.int64), self.documents(split)
        while len(tokens) < wanted and (text := next(documents, None)) is not None:
            tokens = np.append(tokens, self.encode(text))
        return windows(tokens[:wanted], self.context)

    def batches(self, batch: int, steps: int, rank: int, world: int) -> Iterator[Pairs]:
        """One process's share of every batch, from the batch after `steps` of them, without end.

        Raises: ValueError when world does not divide 64, or there is no document to train on.
        """
        if LANES % world:
            raise ValueError(f"the number of processes must divide {LANES}, got {world}")
        share = batch // world
        own = islice(self._windows(rank, world), steps * share, None)
        while True:
            cut = torch.stack(list(islice(own, share)))
            yield Pairs(cut[:, :-1], cut[:, 1:])

    def _windows(self, rank: int, world: int) -> Iterator[Tensor]:
        """(context + 1,): windows rank, rank + world, rank + 2 world, … of the stream."""
        lanes = {lane: np.empty(0, np.int64) for lane in range(rank, LANES, world)}
        documents = enumerate(self._endless())
        for lane in cycle(lanes):
            while len(lanes[lane]) <= self.context:
                number, text = next(documents)
                if number % LANES in lanes:
                    lanes[number % LANES] = np.append(lanes[number % LANES], self.encode(text))
            yield torch.from_numpy(lanes[lane][:self.context + 1])
            lanes[lane] = lanes[lane][self.context:]

    def _endless(self) -> Iterator[str]:
        while True:
            documents = self.documents("train")
            first = next(documents, None)
            if first is None:
                raise ValueError(f"corpus {self.corpus!r} has no document left to train on: its first ones are the "
                                 f"{self.validation} windows of validation")
            yield first
            yield from documents

    def loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(prediction.flatten(0, 1), target.flatten())

    def bayes_floor(self) -> float:
        """0, a lower bound: a cross-entropy of tokens is not negative."""
        return 0.0

    def baselines(self) -> dict[str, float]:
        return {"uniform": math.log(self.vocabulary)}


def _folder(folder: Path) -> Iterator[str]:
    """The text of its files, by name; long ones in pieces, so that a file may be larger than memory."""
    for path in sorted(folder.rglob("*.txt")):
        with path.open(encoding="utf-8", errors="replace", newline="") as file:
            while piece := file.read(PIECE):
                yield piece


def _gpt2():
    try:
        import tiktoken
    except ImportError as error:
        raise ImportError("tokenizer 'gpt2' needs tiktoken: pip install tiktoken. Tokenizer 'bytes' needs nothing") from error
    try:
        return tiktoken.get_encoding("gpt2")
    except OSError as error:
        raise ConnectionError(f"tiktoken could not read the table of 'gpt2' from the network: {error}. "
                              "Tokenizer 'bytes' needs no network") from error
