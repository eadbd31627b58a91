import math
import sys
from importlib.resources import files
from types import ModuleType

import pytest
import torch

from geolab.tasks import Text
from geolab.tasks import text as module


@pytest.fixture
def library(monkeypatch):
    """A stand-in for `datasets`, whose corpora are lists of rows. The value lists its calls."""
    calls = []

    def load_dataset(path, name=None, *, split, streaming, revision=None):
        calls.append((path, name, split, streaming))
        if path.startswith("HuggingFaceFW"):
            raise ConnectionError("no route to host")
        field = "sentence" if path.startswith("ptb") else "text"
        return [{field: f"{split} {row}"} for row in range(1000)]

    stand_in = ModuleType("datasets")
    stand_in.load_dataset = load_dataset
    monkeypatch.setitem(sys.modules, "datasets", stand_in)
    module.read_bytes.cache_clear()
    yield calls
    module.read_bytes.cache_clear()


def decode(tokens):
    return bytes(tokens.tolist()).decode(errors="replace")


def test_the_sample_is_english_in_bytes():
    task = Text()
    train, validation = task.sample("train"), task.sample("validation")
    assert train.inputs.shape == (1943, 128) and validation.inputs.shape == (215, 128)
    assert train.inputs.dtype == torch.int64
    assert train.inputs.min() >= 0 and train.inputs.max() < Text.vocabulary
    opening = "Chapter 1. Hacker Slang and Hacker Culture\n\nThis document is"
    assert decode(train.inputs[0]).startswith(opening)


@pytest.mark.parametrize("seed", [None, 3])
def test_the_target_is_the_next_byte(seed):
    inputs, targets = Text(context=32).sample("validation", seed)
    assert torch.equal(inputs[:, 1:], targets[:, :-1])
    if seed is None:
        assert torch.equal(inputs[1:, 0], targets[:-1, -1])  # side by side


def test_the_splits_part_the_file_in_two():
    train, validation = module.sample_text("train"), module.sample_text("validation")
    path = files("geolab.tasks") / "data" / "jargon.txt"
    assert train + validation == path.read_bytes()
    assert len(validation) == math.ceil(len(train + validation) / 10)


def test_a_changed_sample_is_refused(monkeypatch):
    monkeypatch.setattr(module, "SAMPLE_SHA256", "0" * 64)
    module.read_bytes.cache_clear()
    message = r"jargon.txt has SHA-256 da3b2bd7\w+, expected 0{64}: the file was changed"
    with pytest.raises(ValueError, match=message):
        Text().sample("train")
    module.read_bytes.cache_clear()


def test_baselines_by_hand():
    task = Text(context=8)
    scores = task.baselines()
    assert task.bayes_floor() == 0 < scores["bigram"] < scores["unigram"] < scores["uniform"]
    assert scores["uniform"] == math.log(256)
    train, (inputs, targets) = task.sample("train"), task.sample("validation")
    total = train.targets.numel()
    count = torch.bincount(train.targets.flatten(), minlength=256).double()
    expected = -((count[targets] + 1) / (total + 256)).log().mean().item()
    assert scores["unigram"] == pytest.approx(expected, rel=1e-12)
    after_e = train.targets[train.inputs == ord("e")]
    seen = (inputs == ord("e")) & (targets == ord(" "))
    chance = ((after_e == ord(" ")).sum() + 1) / (len(after_e) + 256)
    assert seen.any() and 0.2 < chance < 0.6
    logits = torch.zeros(*inputs.shape, 256)
    assert task.loss(logits, targets).item() == pytest.approx(scores["uniform"], rel=1e-6)


@pytest.mark.parametrize("corpus, split, path", [
    ("wikitext-2", "train", ("Salesforce/wikitext", "wikitext-2-raw-v1", "train", True)),
    ("wikitext-103", "validation",
     ("Salesforce/wikitext", "wikitext-103-raw-v1", "validation", True)),
    ("ptb", "train", ("ptb-text-only/ptb_text_only", None, "train", True)),
])
def test_a_corpus_with_a_validation_split(library, corpus, split, path):
    task = Text(corpus, context=20, size=1010)
    inputs, _ = task.sample(split)
    assert library == [path]
    assert inputs.shape == ((1010 if split == "train" else 101) // 20, 20)
    assert decode(inputs[0]).startswith(f"{split} 0\n{split} 1"[:20])


def test_a_corpus_without_one_holds_its_first_texts_out(library):
    task = Text("openwebtext", context=10, size=200)
    assert decode(task.sample("validation").inputs[0]) == "train 0\ntr"
    # The first three texts hold the 20 bytes of validation.
    assert decode(task.sample("train").inputs[0]) == "train 3\ntr"


def test_a_folder_of_text_holds_its_first_files_out(tmp_path):
    for number in range(9):
        (tmp_path / f"{number}.txt").write_text(f"file {number} of nine")
    task = Text(str(tmp_path), context=8, size=100)
    assert decode(task.sample("validation").inputs[0]) == "file 0 o"
    train = task.sample("train").inputs
    assert train.shape == (12, 8) and decode(train[0]) == "file 1 o"


def test_without_a_network_the_error_says_so(library):
    message = (r"'fineweb-edu' could not be read from the network: no route to host\. "
               r'The corpus "sample", or a folder, needs neither the library nor a network')
    with pytest.raises(ConnectionError, match=message):
        Text("fineweb-edu").sample("train")


def test_without_the_library_the_error_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)  # as if not installed
    module.read_bytes.cache_clear()
    with pytest.raises(ImportError, match=r'datasets library: pip install "geolab\[text\]"'):
        Text("wikitext-2").sample("train")


def test_bad_arguments_are_refused():
    message = "corpus must be one of 'sample', 'wikitext-2'.*got 'wikipedia'"
    with pytest.raises(ValueError, match=message):
        Text("wikipedia")
    with pytest.raises(ValueError, match="context must be at least 1, got 0"):
        Text(context=0)
    message = "context must be shorter than the 27643 tokens of the text, got 30000"
    with pytest.raises(ValueError, match=message):
        Text(context=30_000).sample("validation")
