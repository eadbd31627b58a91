"""Text, byte by byte: predict the next byte. A real sample lies in the package, larger corpora come from the network.

    inputs b_0 … b_{T−1},   targets b_1 … b_T,   loss −ln p(b_{t+1} | b_0 … b_t) in nats a byte

The sample is public-domain English, see data/README.md. The corpora that the papers train on are read by name through
the `datasets` library (`pip install "geolab[text]"`). Bytes stand for every corpus's own tokens: losses of the papers,
in nats a token, do not compare.
"""

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from geolab.tasks.base import Pairs, require_counts, require_split

SAMPLE_SHA256 = "da3b2bd7f29bebc0eb3410a0bd59a064f464807757d64324094744dc88635def"

CORPORA = {  # name: what load_dataset takes, the field with the text, and whether there is a validation split
    "wikitext-2": ({"path": "Salesforce/wikitext", "name": "wikitext-2-raw-v1"}, "text", True),
    "wikitext-103": ({"path": "Salesforce/wikitext", "name": "wikitext-103-raw-v1"}, "text", True),
    "ptb": ({"path": "ptb-text-only/ptb_text_only", "revision": "refs/convert/parquet"}, "sentence", True),
    "openwebtext": ({"path": "Skylion007/openwebtext"}, "text", False),
    "fineweb-edu": ({"path": "HuggingFaceFW/fineweb-edu", "name": "sample-100BT"}, "text", False),
}


@dataclass(frozen=True)
class Text:
    """The text task: (N, context) bytes in and next bytes out, as int64; `Text.vocabulary` is a model's size."""

    corpus: str = "sample"    # or a name in CORPORA
    context: int = 128        # bytes a model reads
    size: int = 1_000_000     # bytes to read of another corpus for training; a tenth as many for validation

    vocabulary = 256

    def __post_init__(self):
        if self.corpus != "sample" and self.corpus not in CORPORA:
            raise ValueError(f"corpus must be one of 'sample', {', '.join(map(repr, CORPORA))}, got {self.corpus!r}")
        require_counts(self, context=1, size=1)

    def sample(self, split: str, seed: int | None = None) -> Pairs:
        """Windows side by side, the first byte of one the last target of the one before; a seed starts them at random."""
        require_split(split)
        return windows(np.frombuffer(read(self.corpus, split, self.size), np.uint8), self.context, seed)

    def decode(self, tokens: Tensor) -> str:
        """(T,) bytes as text."""
        return bytes(tokens.tolist()).decode(errors="replace")

    def loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(prediction.flatten(0, 1), target.flatten())

    def bayes_floor(self) -> float:
        """0, a lower bound: a cross-entropy of bytes is not negative. The entropy rate of English is not known."""
        return 0.0

    def baselines(self) -> dict[str, float]:
        """Counts of the training text, one added to each, as probabilities of a byte and of a byte after another."""
        train, (inputs, targets) = self.sample("train"), self.sample("validation")
        pairs = torch.bincount((256 * train.inputs + train.targets).flatten(), minlength=256**2).view(256, 256).double()
        unigram, bigram = pairs.sum(0) + 1, pairs + 1
        unigram, bigram = unigram / unigram.sum(), bigram / bigram.sum(1, keepdim=True)
        return {"uniform": math.log(256),
                "unigram": -unigram[targets].log().mean().item(),
                "bigram": -bigram[inputs, targets].log().mean().item()}


def windows(data: np.ndarray, context: int, seed: int | None = None) -> Pairs:
    """Windows of a sequence of tokens and what comes next; side by side, or started at random by a seed.

    Raises: ValueError for a context that the sequence can't fill.
    """
    count = (len(data) - 1) // context
    if count < 1:
        raise ValueError(f"context must be shorter than the {len(data)} tokens of the text, got {context}")
    if seed is None:
        start = context * np.arange(count)
    else:
        start = np.random.RandomState(seed).randint(len(data) - context, size=count)
    cut = torch.from_numpy(data[start[:, None] + np.arange(context + 1)].astype(np.int64))
    return Pairs(cut[:, :-1], cut[:, 1:])


def read(corpus: str, split: str, size: int) -> bytes:
    """The text of a split: of the shipped sample, or the first `size` bytes of a corpus by name."""
    return _sample(split) if corpus == "sample" else _online(corpus, split, size)


@cache
def _sample(split: str) -> bytes:
    """The first nine tenths, or the last."""
    path = files("geolab.tasks") / "data" / "jargon.txt"
    data = path.read_bytes()
    _require_hash(data, SAMPLE_SHA256, str(path))
    cut = 9 * len(data) // 10
    return data[:cut] if split == "train" else data[cut:]


def _require_hash(data: bytes, expected: str, path: str) -> None:
    got = hashlib.sha256(data).hexdigest()
    if got != expected:
        raise ValueError(f"{path} has SHA-256 {got}, expected {expected}: the file was changed; restore or reinstall it")


@cache
def _online(corpus: str, split: str, size: int) -> bytes:
    """The first bytes of a corpus. One without a validation split gives its first texts to validation, the next to training."""
    has_validation = CORPORA[corpus][2]
    texts = online(corpus, split if has_validation else "train")
    held_out = _read(texts, size // 10) if split == "validation" or not has_validation else b""
    return held_out if split == "validation" else _read(texts, size)


def online(corpus: str, split: str) -> Iterator[str]:
    """The texts of a corpus by name, as the network gives them.

    Raises: ImportError without datasets; ConnectionError where the network doesn't give the corpus.
    """
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise ImportError(f"corpus {corpus!r} is read with the datasets library: pip install \"geolab[text]\". "
                          "Text(\"sample\"), and Stream of a folder, need neither it nor a network") from error
    arguments, field, _ = CORPORA[corpus]
    try:
        for row in load_dataset(**arguments, split=split, streaming=True):
            yield row[field]
    except OSError as error:  # what the library and the network raise, ConnectionError among them
        raise ConnectionError(f"corpus {corpus!r} could not be read from the network: {error}. "
                              "Text(\"sample\"), and Stream of a folder, need no network") from error


def _read(texts, size: int) -> bytes:
    """Whole texts, a line break after each, until there are `size` bytes; the rest of the last one is dropped."""
    data = bytearray()
    while len(data) < size and (text := next(texts, None)) is not None:
        data += text.encode() + b"\n"
    return bytes(data[:size])
