import pytest

from geolab.show import ask

REPLIES = {"It shrinks < 1": "No.", "It is mirrored": "Yes, at β = 2."}


def test_every_answer_opens_its_reply():
    page = ask("What happens?", REPLIES).data
    assert page.count("<details>") == 2
    assert "<summary>It is mirrored</summary><p>Yes, at β = 2.</p>" in page
    assert "It shrinks &lt; 1" in page and 'aria-label="What happens?"' in page


def test_apostrophes_and_quotation_marks_are_those_of_print():
    page = ask('Why can\'t it say "no"?', {"It's (\"shy\")": "No.", "The rows' sums": "Yes."}).data
    assert "Why can’t it say “no”?" in page
    assert "It’s (“shy”)" in page and "The rows’ sums" in page
    assert "&#x27;" not in page and "&quot;" not in page


@pytest.mark.parametrize("replies, message", [
    ({"only": "Yes."}, "at least two answers, got 1"),
    ({"a": "Yes.", "b": " "}, "the answer 'b' needs a reply")])
def test_a_question_without_choice_or_reply_is_refused(replies, message):
    with pytest.raises(ValueError, match=message):
        ask("Why?", replies)
