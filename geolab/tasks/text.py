"""Text, byte by byte: predict the next byte. The file also reads the corpora of all tasks on text.

    documents of a split  →  tokens, end to end  →  windows of context + 1 tokens
    inputs b_0 … b_{T−1},   targets b_1 … b_T,   loss −ln p(b_{t+1} | b_0 … b_t) in nats per byte

A corpus is "sample", which is part of the package (public-domain English, see data/README.md), a
name in CORPORA, or a folder with .txt files. The corpora by name are those that the papers train
on. The `datasets` library (`pip install "geolab[text]"`) reads them from the network. The tokens of
`Text` are bytes for every corpus, so its losses don't compare with those of the papers, which are
in nats per token of the corpus's own tokenizer.
"""

import hashlib
import math
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from geolab.tasks.base import Classification, Pairs, log_loss, next_step, require_split, unigram

SAMPLE_SHA256 = "da3b2bd7f29bebc0eb3410a0bd59a064f464807757d64324094744dc88635def"
PIECE = 2**16  # characters; each piece of a longer file is a document

CORPORA = {  # name: arguments of load_dataset, the field with the text, is there a validation split
    "wikitext-2": ({"path": "Salesforce/wikitext", "name": "wikitext-2-raw-v1"}, "text", True),
    "wikitext-103": ({"path": "Salesforce/wikitext", "name": "wikitext-103-raw-v1"}, "text", True),
    "ptb": ({"path": "ptb-text-only/ptb_text_only", "revision": "refs/convert/parquet"},
            "sentence", True),
    "openwebtext": ({"path": "Skylion007/openwebtext"}, "text", False),
    "fineweb-edu": ({"path": "HuggingFaceFW/fineweb-edu", "name": "sample-100BT"}, "text", False),
}

Encode = Callable[[str], np.ndarray]  # a document -> its tokens, with one that ends it


class Corpus(Classification):
    """The base of the tasks on text: a corpus, and windows of `context` tokens in it."""

    corpus: str
    context: int

    def __post_init__(self):
        self.require_counts(context=1)
        named = isinstance(self.corpus, str) and self.corpus  # Path("") is the present folder
        if not named or self.corpus not in ("sample", *CORPORA) and not text_files(self.corpus):
            names = ", ".join(map(repr, ("sample", *CORPORA)))
            raise ValueError(f"corpus must be one of {names}, or a folder with .txt files, "
                             f"got {self.corpus!r}")

    @abstractmethod
    def tokens(self, split: str) -> np.ndarray:
        """(length,): the tokens of a split, end to end."""

    def sample(self, split: str, seed: int | None = None) -> Pairs:
        """Windows that lie side by side; with a seed, as many windows that start at random.

        Side by side, the last target of a window is the first input of the next one.

        Raises: ValueError for a context that is as long as the text; ImportError without the
            `datasets` library; ConnectionError where the network doesn't give the corpus.
        """
        require_split(split)
        tokens = self.tokens(split)
        count = (len(tokens) - 1) // self.context
        if count < 1:
            whose = "" if self.corpus == "sample" else (
                f"; the first documents of {self.corpus!r}, each a file or {PIECE} characters of "
                "one, are for validation, and training has the others")
            raise ValueError(f"context must be shorter than the {len(tokens)} tokens of the text, "
                             f"got {self.context}{whose}")
        start = self.context * np.arange(count)
        if seed is not None:
            start = np.random.RandomState(seed).randint(len(tokens) - self.context, size=count)
        windows = tokens[start[:, None] + np.arange(self.context + 1)]
        return next_step(torch.from_numpy(windows.astype(np.int64)))

    def bayes_floor(self) -> float:
        """0, a lower bound, since a cross-entropy of tokens is not negative.

        Nobody knows the entropy rate of English.
        """
        return 0.0


@dataclass(frozen=True)
class Text(Corpus):
    """The text task: (N, context) bytes in, the next bytes out, loss in nats per byte."""

    corpus: str = "sample"    # or a name in CORPORA, or a folder with .txt files
    context: int = 128        # bytes that a model reads
    size: int = 1_000_000     # training bytes of another corpus; validation reads a tenth as many

    vocabulary = 256

    def __post_init__(self):
        super().__post_init__()
        self.require_counts(size=1)

    def tokens(self, split: str) -> np.ndarray:
        return np.frombuffer(read_bytes(self.corpus, split, self.size), np.uint8)

    def baselines(self) -> dict[str, float]:
        """Counts of bytes and of pairs of bytes in the training text, one added to each count."""
        train, (inputs, targets) = self.sample("train"), self.sample("validation")
        bigram = pair_counts(train, 256).double() + 1
        bigram /= bigram.sum(1, keepdim=True)
        return {"uniform": math.log(256),
                "unigram": log_loss(unigram(train.targets, 256)[targets]),
                "bigram": log_loss(bigram[inputs, targets])}


def pair_counts(pairs: Pairs, vocabulary: int) -> Tensor:
    """(vocabulary, vocabulary): how often each token (column) follows each token (row), int64."""
    both = (vocabulary * pairs.inputs + pairs.targets).flatten()
    return torch.bincount(both, minlength=vocabulary**2).view(vocabulary, vocabulary)


def encode_bytes(document: str) -> np.ndarray:
    """The bytes of a document in UTF-8 and a line break, uint8."""
    return np.frombuffer(document.encode() + b"\n", np.uint8)


def documents(corpus: str, split: str, held_out: int, encode: Encode) -> Iterator[str]:
    """One pass over the documents of a split.

    Where a corpus has no validation split, its first documents, up to the one with token number
    `held_out`, are for validation and the others are for training.

    Raises: as `Corpus.sample`.
    """
    require_split(split)
    if corpus == "sample":
        yield sample_text(split).decode()
    elif corpus in CORPORA and CORPORA[corpus][2]:
        yield from _online(corpus, split)
    else:
        texts = _online(corpus, "train") if corpus in CORPORA else _folder(Path(corpus))
        while held_out > 0 and (text := next(texts, None)) is not None:
            held_out -= len(encode(text))
            if split == "validation":
                yield text
        if split == "train":
            yield from texts


def first_tokens(texts: Iterator[str], count: int, encode: Encode) -> np.ndarray:
    """(at most count,): the first tokens of documents laid end to end. It reads no more of them."""
    parts, missing = [np.empty(0, np.uint8)], count
    while missing > 0 and (text := next(texts, None)) is not None:
        parts.append(encode(text))
        missing -= len(parts[-1])
    return np.concatenate(parts)[:count]


@cache
def read_bytes(corpus: str, split: str, size: int) -> bytes:
    """The sample, or the first `size` bytes of another corpus; a tenth of them for validation."""
    if corpus == "sample":
        return sample_text(split)
    texts = documents(corpus, split, size // 10, encode_bytes)
    return first_tokens(texts, size if split == "train" else size // 10, encode_bytes).tobytes()


def sample_text(split: str) -> bytes:
    """The first nine tenths of the text in the package, for training, or the last tenth.

    Raises: ValueError where the file was changed.
    """
    path = files("geolab.tasks") / "data" / "jargon.txt"
    data = path.read_bytes()
    if (got := hashlib.sha256(data).hexdigest()) != SAMPLE_SHA256:
        raise ValueError(f"{path} has SHA-256 {got}, expected {SAMPLE_SHA256}: the file was "
                         "changed; restore or reinstall it")
    cut = 9 * len(data) // 10
    return data[:cut] if split == "train" else data[cut:]


def text_files(folder: str | Path) -> list[Path]:
    """The .txt files of a folder and the folders inside it, by name."""
    return sorted(path for path in Path(folder).rglob("*.txt") if not path.is_dir())


def _folder(folder: Path) -> Iterator[str]:
    """The text of the files, by name. Long files come in pieces, so they need not fit in memory.

    Raises: ValueError for a file in another encoding than UTF-8.
    """
    for path in text_files(folder):
        with path.open(encoding="utf-8", newline="") as file:
            try:
                while piece := file.read(PIECE):
                    yield piece
            except UnicodeDecodeError as error:
                raise ValueError(f"{path} must be text in UTF-8, got {error}") from error


@contextmanager
def reading(what: str, library: str, instead: str) -> Generator[None, None, None]:
    """Turn the error of a missing library or of the network into one that says what to do."""
    try:
        yield
    except ImportError as error:
        raise ImportError(f"{what} needs {library}. {instead}") from error
    except OSError as error:  # from the library or the network; ConnectionError is one
        raise ConnectionError(f"{what} could not be read from the network: {error}. "
                              f"{instead}") from error


def _online(corpus: str, split: str) -> Iterator[str]:
    """The texts of a corpus by name, as the network gives them."""
    arguments, field, _ = CORPORA[corpus]
    with reading(f"corpus {corpus!r}", 'the datasets library: pip install "geolab[text]"',
                 'The corpus "sample", or a folder, needs neither the library nor a network'):
        from datasets import load_dataset
        for row in load_dataset(**arguments, split=split, streaming=True):
            yield row[field]
