"""The guide's sessions speak of what their chapters and notebooks have."""

import re

import pytest

from class_questions import ROOT, session

GUIDE = (ROOT / "book/teaching.md").read_text()
TALK = (r"^### (Session [A-Z]): .*?\n\n"
        r"Chapter: \{doc\}`\.\./notebooks/(\w+)`(.*?)(?=^##)")
TALKS = re.findall(TALK, GUIDE, re.M | re.S)


@pytest.mark.parametrize("name, chapter, text", TALKS, ids=[talk[0] for talk in TALKS])
def test_a_session_names_exercises_sections_and_questions_that_are_there(name, chapter, text):
    stored, of = (ROOT / f"notebooks/{chapter}.ipynb").read_text(), session(chapter)
    exercises = re.findall(r"exercises? (.+?) \|", text)
    for title in re.findall(r'"([^"]+)"', " ".join(exercises)):
        assert re.search(rf"\*\*Exercise \d+\.\d+ \({re.escape(title)}\)", stored), title
    for section in re.findall(r"\*([A-Z][^*]+)\*", text):
        assert re.search(rf"#+ {re.escape(section)}\\n", stored), section
    homework = re.search(r"^Homework: (.+)$", text, re.M)[1]
    assert set(re.findall(r"`(my_\w+)`", homework)) <= {check.name for check in of.checks}
    for title in re.findall(r'"([^"]+)" in words', homework):
        label = re.search(rf'id=\\"(ex-[\w-]+)\\"[^<]*?\*\*Exercise [\d.]+ \({re.escape(title)}\)',
                          stored)
        assert label and label[1] in of.words, title


def test_there_are_four_sessions():
    assert len(TALKS) == 4
