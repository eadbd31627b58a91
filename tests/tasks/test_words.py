import math
from collections import Counter

import pytest
import torch

from geolab.tasks import Words
from geolab.tasks import words as module


@pytest.fixture
def rhyme(monkeypatch):
    """A corpus of two lines, instead of one on the network."""
    text = {"train": b"The cat sat. The cat isn't <unk>!\nThe dog sat; my DOG\n", "validation": b"The cow sat.\nThe cat\n"}
    monkeypatch.setattr(module, "read", lambda corpus, split, size: text[split])
    module._tokens.cache_clear()
    yield
    module._tokens.cache_clear()


def test_words_are_lower_case_marks_stand_alone_and_lines_end(rhyme):
    task = Words(types=100, context=4, corpus="ptb")
    assert module._tokens("ptb", "train", 0)[:11] == ["the", "cat", "sat", ".", "the", "cat", "isn't", "<unk>", "!", "<eos>", "the"]
    assert task.decode(task.sample("train").inputs[0]) == "the cat sat ."


def test_numbers_go_by_frequency_and_the_rest_is_unknown(rhyme):
    task = Words(types=3, context=4, corpus="ptb")
    assert task.words() == ["<unk>", "the", "cat", "sat"] and task.vocabulary == 4    # of four with two each, the first seen
    inputs, targets = task.sample("train")
    assert inputs[:2].tolist() == [[1, 2, 3, 0], [1, 2, 0, 0]]
    assert task.sample("validation").inputs[0].tolist() == [1, 0, 3, 0]


def test_a_corpus_that_holds_unknowns_has_no_second_number_for_them(rhyme):
    assert Words(types=100, context=4, corpus="ptb").words().count("<unk>") == 1


def test_the_sample_in_words():
    task = Words()
    train, validation = task.sample("train"), task.sample("validation")
    assert train.inputs.shape == (898, 64) and validation.inputs.shape == (102, 64) and train.inputs.dtype == torch.int64
    assert 0 <= train.inputs.min() and train.inputs.max() < task.vocabulary == 2001
    assert task.decode(train.inputs[0]).startswith("chapter 1 . hacker slang and hacker culture \n \n this document is")
    assert Counter(module._tokens("sample", "train", 1_000_000)).most_common(4)[0][0] == "<eos>" == task.words()[1]


@pytest.mark.parametrize("seed", [None, 3])
def test_the_target_is_the_next_word(seed):
    inputs, targets = Words(context=16).sample("validation", seed)
    assert torch.equal(inputs[:, 1:], targets[:, :-1])
    if seed is None:
        assert torch.equal(inputs[1:, 0], targets[:-1, -1])  # side by side


def test_a_seed_decides_all():
    task = Words(context=16)
    drawn = task.sample("validation", seed=1)
    assert torch.equal(drawn.inputs, task.sample("validation", seed=1).inputs)
    assert not torch.equal(drawn.inputs, task.sample("validation", seed=2).inputs)


def test_the_baselines_of_a_small_text_by_hand(rhyme):
    task = Words(types=2, context=2, corpus="ptb")
    train, validation = task.sample("train"), task.sample("validation")
    # 1 = the, 2 = cat, 0 = every other word
    assert train.inputs.flatten().tolist() == [1, 2, 0, 0, 1, 2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0]
    assert train.targets.flatten().tolist() == [2, 0, 0, 1, 2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]
    assert validation.inputs.flatten().tolist() == [1, 0, 0, 0, 0, 1]
    assert validation.targets.flatten().tolist() == [0, 0, 0, 0, 1, 2]
    unigram = [13 / 19, 3 / 19, 3 / 19]                       # (12, 2, 2) + 1
    assert task.baselines()["unigram"] == pytest.approx(-sum(math.log(unigram[w]) for w in (0, 0, 0, 0, 1, 2)) / 6)
    after_the = [(1 + 2 * unigram[0]) / 5, (2 + 2 * unigram[2]) / 5]                          # another word, cat
    after_other = [(9 + 2 * unigram[0]) / 13, (2 + 2 * unigram[1]) / 13]                      # another word, the
    chances = [after_the[0], after_other[0], after_other[0], after_other[0], after_other[1], after_the[1]]
    assert task.baselines()["bigram"] == pytest.approx(-sum(map(math.log, chances)) / 6)
    assert task.most_frequent() == ("<unk>", 4 / 6)


def test_baselines_are_above_the_bound_and_in_order():
    scores = Words().baselines()
    assert Words().bayes_floor() == 0 < scores["bigram"] < scores["unigram"] < scores["uniform"] == math.log(2001)


def test_the_accuracy_that_costs_nothing():
    task = Words()
    word, accuracy = task.most_frequent()
    assert (word, round(accuracy, 4)) == ("<unk>", 0.1828)
    _, targets = task.sample("validation")
    always = torch.nn.functional.one_hot(torch.zeros_like(targets), 3).double()
    assert task.accuracy(always, targets).item() == accuracy
    assert task.loss(torch.zeros(*targets.shape, 2001), targets).item() == pytest.approx(math.log(2001), rel=1e-6)


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="corpus must be one of 'sample', 'wikitext-2'.*got 'wikipedia'"):
        Words(corpus="wikipedia")
    with pytest.raises(ValueError, match="types must be at least 1, got 0"):
        Words(types=0)
    with pytest.raises(ValueError, match="context must be at least 1, got 0"):
        Words(context=0)
    with pytest.raises(ValueError, match=r"context must be shorter than the \d+ tokens of the text, got 30000"):
        Words(context=30_000).sample("validation")
