import sys
from itertools import islice
from types import ModuleType

import pytest
import torch

from geolab.tasks import Stream
from geolab.tasks.text import PIECE


@pytest.fixture
def task(tmp_path):
    for number in range(30):
        document = f"document {number}, " * (1 + 7 * number % 5) + "and its énd"
        (tmp_path / f"{number:02}.txt").write_text(document)
    (tmp_path / "notes.md").write_text("not read")
    return Stream(str(tmp_path), context=10, validation=12)


def taken(task, batches, batch=8, steps=0, rank=0, world=1):
    found = islice(task.batches(batch, steps, rank, world), batches)
    return torch.stack([pairs.inputs for pairs in found])


@pytest.mark.parametrize("world", [2, 8])
def test_any_number_of_processes_reads_the_same_windows_also_where_one_goes_on_later(task, world):
    alone = taken(task, 20)
    for rank in range(world):
        assert torch.equal(taken(task, 20, rank=rank, world=world), alone[:, rank::world])
        later = taken(task, 5, steps=15, rank=rank, world=world)
        assert torch.equal(later, alone[15:, rank::world])


@pytest.mark.parametrize("stream", [0, 5, 63])
def test_a_stream_is_every_64th_document_end_to_end_and_starts_over(task, stream):
    pairs = list(islice(task.batches(64, 0, 0, 1), 40))
    inputs, targets = (torch.cat([pair[which][stream] for pair in pairs]) for which in (0, 1))
    assert torch.equal(inputs[1:], targets[:-1])
    documents = list(task.documents("train"))
    passes = 64 * 40 * 10 // len(documents)
    whole = "".join(document + "\n" for document in (documents * passes)[stream::64])
    assert bytes(inputs.tolist()) == whole.encode()[:400]


def test_documents_are_trained_on_or_validated_on(task):
    training, validation = list(task.documents("train")), list(task.documents("validation"))
    assert not set(training) & set(validation) and len(training) + len(validation) == 30
    inputs, _ = task.sample("validation")
    assert inputs.shape == (12, 10) and validation[0].startswith("document 0,")
    assert bytes(inputs.flatten().tolist()) == ("\n".join(validation) + "\n").encode()[:120]
    with pytest.raises(ValueError, match="no document left to train on"):
        taken(Stream(task.corpus, validation=10_000, context=4), 1)


def test_a_file_larger_than_a_piece_is_read_whole(tmp_path):
    (tmp_path / "large.txt").write_text("é" * (2 * PIECE + 3))
    pieces = list(Stream(str(tmp_path), validation=1, context=1).documents("train"))
    assert [len(piece) for piece in pieces] == [PIECE, 3]  # the first piece is for validation


def test_gpt2_tokens_end_a_document_with_their_own(monkeypatch, task):
    """A stand-in for the library gives one token per word."""
    library = ModuleType("tiktoken")
    library.get_encoding = lambda name: library
    library.encode_ordinary, library.eot_token = lambda text: list(range(len(text.split()))), 50256
    monkeypatch.setitem(sys.modules, "tiktoken", library)
    task = Stream(task.corpus, tokenizer="gpt2")
    assert task.encode("three words here").tolist() == [0, 1, 2, 50256] and task.vocabulary == 50257
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    with pytest.raises(ImportError, match="pip install tiktoken"):
        task.encode("a")
