"""The guide's sessions name exercises, sections and questions that are there."""

import re

import pytest

from class_questions import ROOT, session

GUIDE = (ROOT / "book/teaching.md").read_text()
TALKS = re.findall(r"^### (Session [A-Z]): .*?\n\nChapter: \{doc\}`\.\./notebooks/(\w+)`(.*?)"
                   r"(?=^##)", GUIDE, re.M | re.S)


@pytest.mark.parametrize("name", [f"Session {letter}" for letter in "ABCD"])
def test_what_a_session_names_is_there(name):
    (chapter, text), = [(chapter, text) for found, chapter, text in TALKS if found == name]
    stored, of = (ROOT / f"notebooks/{chapter}.ipynb").read_text(), session(chapter)
    homework = re.search(r"^Homework: (.+)$", text, re.M)[1]
    exercises = " ".join(re.findall(r"exercises? (.+?) \|", text))
    for title in re.findall(r'"([^"]+)"', exercises):
        assert re.search(rf"\*\*Exercise \d+\.\d+ \({re.escape(title)}\)", stored), title
    for section in re.findall(r"\*([A-Z][^*]+)\*", text):
        assert re.search(rf"#+ {re.escape(section)}\\n", stored), section
    assert set(re.findall(r"`(my_\w+)`", homework)) <= {check.name for check in of.checks}
    for title in re.findall(r'"([^"]+)" in words', homework):
        label = re.search(rf'id=\\"(ex-[\w-]+)\\"[^<]*?\*\*Exercise [\d.]+ \({re.escape(title)}\)',
                          stored)
        assert label and label[1] in of.words, title
