import math
from collections import Counter

import pytest
import torch

from geolab.tasks import Words
from geolab.tasks import words as module


@pytest.fixture
def rhyme(monkeypatch):
    """A corpus of two lines stands in for one on the network."""
    text = {"train": b"The cat sat. The cat isn't <unk>!\nThe dog sat; my DOG\n",
            "validation": b"The cow sat.\nThe cat\n"}
    monkeypatch.setattr(module, "read_bytes", lambda corpus, split, size: text[split])
    module.split_words.cache_clear()
    yield
    module.split_words.cache_clear()


def decode(task, tokens):
    words = task.words()
    return " ".join(words[token] for token in tokens.tolist())


def test_words_are_lower_case_marks_stand_alone_and_lines_end(rhyme):
    task = Words(types=100, context=4, corpus="ptb")
    expected = ["the", "cat", "sat", ".", "the", "cat", "isn't", "<unk>", "!", "<eos>", "the"]
    assert module.split_words("ptb", "train", 0)[:11] == expected
    assert decode(task, task.sample("train").inputs[0]) == "the cat sat ."


def test_numbers_go_by_frequency_and_the_rest_is_unknown(rhyme):
    task = Words(types=3, context=4, corpus="ptb")
    # Four words occur twice; the first two of them in the text have numbers.
    assert task.words() == ["<unk>", "the", "cat", "sat"] and task.vocabulary == 4
    inputs, targets = task.sample("train")
    assert inputs[:2].tolist() == [[1, 2, 3, 0], [1, 2, 0, 0]]
    assert task.sample("validation").inputs[0].tolist() == [1, 0, 3, 0]


def test_the_sample_in_words():
    task = Words()
    train, validation = task.sample("train"), task.sample("validation")
    assert train.inputs.shape == (898, 64) and validation.inputs.shape == (102, 64)
    assert train.inputs.dtype == torch.int64
    assert train.inputs.min() >= 0 and train.inputs.max() < task.vocabulary == 2001
    opening = "chapter 1 . hacker slang and hacker culture <eos> <eos> this document is"
    assert decode(task, train.inputs[0]).startswith(opening)
    count = Counter(module.split_words("sample", "train", 1_000_000))
    assert count.most_common(1)[0][0] == "<eos>" == task.words()[1]


@pytest.mark.parametrize("seed", [None, 3])
def test_the_target_is_the_next_word(seed):
    inputs, targets = Words(context=16).sample("validation", seed)
    assert torch.equal(inputs[:, 1:], targets[:, :-1])
    if seed is None:
        assert torch.equal(inputs[1:, 0], targets[:-1, -1])  # side by side


def test_the_baselines_of_a_small_text_by_hand(rhyme):
    task = Words(types=2, context=2, corpus="ptb")
    train, validation = task.sample("train"), task.sample("validation")
    # The numbers are 1 for "the", 2 for "cat" and 0 for every other word.
    assert train.inputs.flatten().tolist() == [1, 2, 0, 0, 1, 2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0]
    assert train.targets.flatten().tolist() == [2, 0, 0, 1, 2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]
    assert validation.inputs.flatten().tolist() == [1, 0, 0, 0, 0, 1]
    assert validation.targets.flatten().tolist() == [0, 0, 0, 0, 1, 2]
    unigram = [13 / 19, 3 / 19, 3 / 19]                       # (12, 2, 2) + 1
    scores, targets = task.baselines(), (0, 0, 0, 0, 1, 2)
    assert scores["unigram"] == pytest.approx(-sum(math.log(unigram[w]) for w in targets) / 6)
    after_the = [(1 + 2 * unigram[0]) / 5, (2 + 2 * unigram[2]) / 5]         # another word, cat
    after_other = [(9 + 2 * unigram[0]) / 13, (2 + 2 * unigram[1]) / 13]     # another word, the
    chances = [after_the[0], *3 * [after_other[0]], after_other[1], after_the[1]]
    assert task.baselines()["bigram"] == pytest.approx(-sum(map(math.log, chances)) / 6)
    assert task.most_frequent() == ("<unk>", 4 / 6)


def test_the_accuracy_that_costs_nothing():
    task = Words()
    word, accuracy = task.most_frequent()
    assert (word, round(accuracy, 4)) == ("<unk>", 0.1828)
    _, targets = task.sample("validation")
    always = torch.nn.functional.one_hot(torch.zeros_like(targets), 3).double()
    assert task.accuracy(always, targets).item() == accuracy
    loss = task.loss(torch.zeros(*targets.shape, 2001), targets)
    assert loss.item() == pytest.approx(math.log(2001), rel=1e-6)


def test_baselines_are_above_the_bound_and_in_order():
    scores = Words().baselines()
    assert Words().bayes_floor() == 0 < scores["bigram"] < scores["unigram"] < scores["uniform"]
    assert scores["uniform"] == math.log(2001)
