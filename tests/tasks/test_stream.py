import sys
from itertools import islice
from types import ModuleType

import pytest
import torch

from geolab.tasks import Stream
from geolab.tasks.text import PIECE


@pytest.fixture
def folder(tmp_path):
    for number in range(30):
        document = f"document {number}, " * (1 + 7 * number % 5) + "and its énd"
        (tmp_path / f"{number:02}.txt").write_text(document)
    (tmp_path / "notes.md").write_text("not read")
    return str(tmp_path)


@pytest.fixture
def task(folder):
    return Stream(folder, context=10, validation=12)


def taken(task, batches, batch=8, steps=0, rank=0, world=1):
    return [pairs.inputs for pairs in islice(task.batches(batch, steps, rank, world), batches)]


def text(tokens):
    return bytes(tokens.flatten().tolist()).decode(errors="replace")


@pytest.mark.parametrize("world", [2, 4, 8])
def test_any_number_of_processes_reads_the_same_windows(task, world):
    alone = taken(task, 20)
    shares = [taken(task, 20, rank=rank, world=world) for rank in range(world)]
    for number, whole in enumerate(alone):
        for rank in range(world):
            assert torch.equal(shares[rank][number], whole[rank::world])


@pytest.mark.parametrize("world", [1, 2])
def test_a_stream_opened_later_goes_on_where_the_run_stood(task, world):
    whole = taken(task, 40, rank=world - 1, world=world)
    rest = taken(task, 15, steps=25, rank=world - 1, world=world)
    assert all(torch.equal(a, b) for a, b in zip(whole[25:], rest, strict=True))


@pytest.mark.parametrize("lane", [0, 5, 63])
def test_a_lane_is_every_64th_document_end_to_end_and_starts_over(task, lane):
    pairs = list(islice(task.batches(64, 0, 0, 1), 40))
    inputs, targets = (torch.cat([pair[which][lane] for pair in pairs]) for which in (0, 1))
    assert torch.equal(inputs[1:], targets[:-1])
    documents = list(task.documents("train"))
    passes = 64 * 40 * 10 // len(documents)
    whole = "".join(document + "\n" for document in (documents * passes)[lane::64])
    assert text(inputs) == whole.encode()[:400].decode(errors="replace")


def test_documents_are_trained_on_or_validated_on(task):
    training, validation = list(task.documents("train")), list(task.documents("validation"))
    assert not set(training) & set(validation) and len(training) + len(validation) == 30
    inputs, targets = task.sample("validation")
    assert inputs.shape == targets.shape == (12, 10)
    assert text(inputs) == ("\n".join(validation) + "\n").encode()[:120].decode()
    assert validation[0].startswith("document 0,")


def test_a_file_larger_than_a_piece_is_read_whole(tmp_path):
    (tmp_path / "large.txt").write_text("é" * (2 * PIECE + 3))
    pieces = list(Stream(str(tmp_path), validation=1, context=1).documents("train"))
    assert [len(piece) for piece in pieces] == [PIECE, 3]  # the first piece is for validation


def test_a_corpus_by_name_is_read_row_by_row(monkeypatch):
    """A stand-in for the library shows how rows become documents, not what a corpus holds."""
    asked, library = [], ModuleType("datasets")

    def load_dataset(**arguments):
        asked.append(arguments)
        return ({"text": f"{arguments['split']} {number}"} for number in range(200))

    library.load_dataset = load_dataset
    monkeypatch.setitem(sys.modules, "datasets", library)
    wikitext, fineweb = (Stream(name, context=4, validation=3)
                         for name in ("wikitext-103", "fineweb-edu"))
    assert next(wikitext.documents("train")) == "train 0"
    assert next(wikitext.documents("validation")) == "validation 0"
    assert next(fineweb.documents("validation")) == "train 0"
    assert next(fineweb.documents("train")) == "train 2"
    assert all(arguments["streaming"] for arguments in asked)


@pytest.mark.parametrize("module, action, message", [
    ("datasets", lambda folder: next(Stream("fineweb-edu").documents("train")),
     'pip install "geolab'),
    ("tiktoken", lambda folder: Stream(folder, tokenizer="gpt2").encode("a"),
     "pip install tiktoken")])
def test_a_missing_library_is_named(monkeypatch, folder, module, action, message):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=message):
        action(folder)


def test_gpt2_tokens_end_a_document_with_their_own(monkeypatch, folder):
    """A stand-in for the library gives one token per word."""
    library = ModuleType("tiktoken")
    library.get_encoding = lambda name: library
    library.encode_ordinary, library.eot_token = lambda text: list(range(len(text.split()))), 50256
    monkeypatch.setitem(sys.modules, "tiktoken", library)
    task = Stream(folder, tokenizer="gpt2")
    assert task.encode("three words here").tolist() == [0, 1, 2, 50256] and task.vocabulary == 50257


def test_no_network_is_said_so(monkeypatch):
    library = ModuleType("datasets")

    def load_dataset(**arguments):
        raise ConnectionError("no route")

    library.load_dataset = load_dataset
    monkeypatch.setitem(sys.modules, "datasets", library)
    message = "'fineweb-edu' could not be read from the network: no route"
    with pytest.raises(ConnectionError, match=message):
        Stream("fineweb-edu").sample("train")


@pytest.mark.parametrize("options, message", [
    ({"corpus": "nowhere"}, "or a folder with .txt files, got 'nowhere'"),
    ({"tokenizer": "words"}, "tokenizer must be one of"),
    ({"context": 0}, "context must be at least 1, got 0"),
    ({"validation": 0}, "validation must be at least 1, got 0")])
def test_it_refuses_by_name(folder, options, message):
    with pytest.raises(ValueError, match=message):
        Stream(**{"corpus": folder, **options})


def test_it_refuses_processes_that_cannot_share_the_lanes_and_a_corpus_without_training(folder):
    with pytest.raises(ValueError, match="must divide 64, got 3"):
        taken(Stream(folder), 1, batch=3, world=3)
    with pytest.raises(ValueError, match="no document left to train on"):
        taken(Stream(folder, validation=10_000, context=4), 1)


def test_a_loss_of_nothing_known_is_that_of_the_uniform_guess(task):
    loss = task.loss(torch.zeros(2, 10, 256), torch.zeros(2, 10, dtype=torch.long))
    assert loss.item() == pytest.approx(task.baselines()["uniform"])
    assert task.bayes_floor() == 0
