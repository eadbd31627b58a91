"""Text as bytes and as words: what the tokens are, and where a corpus comes from."""

import math
import sys
from importlib.resources import files

import pytest

from geolab.tasks import Stream, Text, Words
from geolab.tasks import text as module
from geolab.tasks import words as of_words


def decode(tokens):
    return bytes(tokens.flatten().tolist()).decode(errors="replace")


def spelled(task, tokens):
    words = task.words()
    return " ".join(words[token] for token in tokens.tolist())


def test_the_sample_is_parted_in_two_as_bytes_and_as_words():
    train, validation = module.sample_text("train"), module.sample_text("validation")
    path = files("geolab.tasks") / "data" / "jargon.txt"
    assert train + validation == path.read_bytes()
    assert len(validation) == math.ceil(len(train + validation) / 10)
    opening = decode(Text().sample("train").inputs[0])
    assert opening.startswith("Chapter 1. Hacker Slang and Hacker Culture\n\nThis document is")
    opening = spelled(Words(), Words().sample("train").inputs[0])
    assert opening.startswith("chapter 1 . hacker slang and hacker culture <eos> <eos> this")
    assert Words().words()[1] == "<eos>"  # the most frequent one


def test_a_changed_sample_is_refused(monkeypatch):
    monkeypatch.setattr(module, "SAMPLE_SHA256", "0" * 64)
    module.read_bytes.cache_clear()
    message = r"jargon.txt has SHA-256 da3b2bd7\w+, expected 0{64}: the file was changed"
    with pytest.raises(ValueError, match=message):
        Text().sample("train")
    module.read_bytes.cache_clear()


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_a_folder_in_another_encoding_is_refused_by_its_file(tmp_path, encoding):
    (tmp_path / "ü b.txt").write_bytes("schöne Grüße\n".encode(encoding) * 9000)
    with pytest.raises(ValueError, match="ü b.txt must be text in UTF-8, got"):
        Text(corpus=str(tmp_path), context=8).sample("train")


def test_a_folder_of_one_short_file_has_nothing_to_train_on_and_says_so(tmp_path):
    (tmp_path / "a.txt").write_text("Grüße\n" * 500, encoding="utf-8")
    (tmp_path / "folder.txt").mkdir()
    task = Text(corpus=str(tmp_path), context=8)
    assert len(task.sample("validation").inputs)
    with pytest.raises(ValueError, match="than the 0 tokens .*first documents .* for validation"):
        task.sample("train")


# ---------------------------------------------------------------- words

@pytest.fixture
def rhyme(monkeypatch):
    """A corpus of two lines stands in for one on the network."""
    text = {"train": b"The cat sat. The cat isn't <unk>!\nThe dog sat; my DOG\n",
            "validation": b"The cow sat.\nThe cat\n"}
    monkeypatch.setattr(of_words, "read_bytes", lambda corpus, split, size: text[split])
    of_words.split_words.cache_clear()
    yield
    of_words.split_words.cache_clear()


def test_numbers_go_by_frequency_and_the_rest_is_unknown(rhyme):
    task = Words(types=100, context=10, corpus="ptb")
    opening = spelled(task, task.sample("train").inputs[0])
    assert opening == "the cat sat . the cat isn't <unk> ! <eos>"
    task = Words(types=3, context=4, corpus="ptb")
    # Four words occur twice; the first two of them in the text have numbers.
    assert task.words() == ["<unk>", "the", "cat", "sat"] and task.vocabulary == 4
    assert task.sample("train").inputs[:2].tolist() == [[1, 2, 3, 0], [1, 2, 0, 0]]
    assert task.sample("validation").inputs[0].tolist() == [1, 0, 3, 0]


def test_the_baselines_of_a_small_text_by_hand(rhyme):
    task = Words(types=2, context=2, corpus="ptb")
    # The numbers are 1 for "the", 2 for "cat" and 0 for every other word.
    train, (inputs, targets) = task.sample("train"), task.sample("validation")
    assert train.targets.flatten().tolist() == [2, 0, 0, 1, 2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]
    assert inputs.flatten().tolist() == [1, 0, 0, 0, 0, 1]
    assert targets.flatten().tolist() == [0, 0, 0, 0, 1, 2]
    unigram = [13 / 19, 3 / 19, 3 / 19]                       # (12, 2, 2) + 1
    after_the = [(1 + 2 * unigram[0]) / 5, (2 + 2 * unigram[2]) / 5]         # another word, cat
    after_other = [(9 + 2 * unigram[0]) / 13, (2 + 2 * unigram[1]) / 13]     # another word, the
    chances = {"unigram": [unigram[word] for word in (0, 0, 0, 0, 1, 2)],
               "bigram": [after_the[0], *3 * [after_other[0]], after_other[1], after_the[1]]}
    scores = task.baselines()
    for name, of in chances.items():
        assert scores[name] == pytest.approx(-sum(map(math.log, of)) / 6)
    assert task.most_frequent() == ("<unk>", 4 / 6)


# ---------------------------------------------------------------- from the network or a folder

@pytest.mark.parametrize("corpus, split, call", [
    ("wikitext-2", "train", ("Salesforce/wikitext", "wikitext-2-raw-v1", "train", True)),
    ("wikitext-103", "validation",
     ("Salesforce/wikitext", "wikitext-103-raw-v1", "validation", True)),
    ("ptb", "train", ("ptb-text-only/ptb_text_only", None, "train", True))])
def test_a_corpus_with_a_validation_split(datasets, corpus, split, call):
    inputs, _ = Text(corpus, context=20, size=1010).sample(split)
    assert datasets == [call]
    assert inputs.shape == ((1010 if split == "train" else 101) // 20, 20)
    assert decode(inputs[0]).startswith(f"{split} 0\n{split} 1"[:20])
    assert next(Stream(corpus).documents(split)) == f"{split} 0"


def test_a_corpus_without_one_holds_its_first_texts_out(datasets):
    task = Text("openwebtext", context=10, size=200)
    assert decode(task.sample("validation").inputs[0]) == "train 0\ntr"
    # The first three texts hold the 20 bytes of validation.
    assert decode(task.sample("train").inputs[0]) == "train 3\ntr"
    stream = Stream("openwebtext", context=4, validation=3)
    assert [next(stream.documents(split)) for split in ("validation", "train")] == ["train 0",
                                                                                  "train 2"]


@pytest.mark.parametrize("task", [Text("fineweb-edu"), Stream("fineweb-edu")])
def test_without_a_network_or_the_library_the_error_says_what_to_do(datasets, monkeypatch, task):
    message = (r"'fineweb-edu' could not be read from the network: no route to host\. "
               r'The corpus "sample", or a folder, needs neither the library nor a network')
    with pytest.raises(ConnectionError, match=message):
        task.sample("train")
    monkeypatch.setitem(sys.modules, "datasets", None)  # as if not installed
    with pytest.raises(ImportError, match=r'datasets library: pip install "geolab\[text\]"'):
        task.sample("train")
