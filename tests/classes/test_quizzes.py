"""What a learning platform imports has the right answers and the formulas, read back."""

import html
import re
import zipfile
from xml.etree import ElementTree

import pytest

from class_pages import LICENCE
from class_questions import Check, Session
from class_quizzes import gift, items, moodle, qti, write

CANVAS = re.compile(r'data-equation-content="([^"]*)"')
CHOICE = {"$2 < 3$: 50 % & {a} ~ “b” = #1": "Yes. $\\beta \\neq 1$.", "No: é\\n": "No. Count."}
SMALL = Session("99_small", [
    Check("my_sum", "What is $\\begin{pmatrix} 1 & t \\\\ t & 1 \\end{pmatrix}$ and 7?",
          "Sum: $1$.", "my_sum = [13, -0.25]", [], step=[0.5, 0.004]),
    Check("my_function", "Write one.", "", "def my_function(): ...", [], test="pass")],
    [{"ask": "Is $1 < 2$ for β = 1?", "answers": CHOICE}])
FORMULAS = ["1 < 2", "2 < 3", "\\beta \\neq 1",
            *["\\begin{pmatrix} 1 & t \\\\ t & 1 \\end{pmatrix}"] * 2]


def words(text: str) -> str:
    """HTML as a reader sees it, with formulas as they are typed."""
    text = re.sub(r'<img [^>]*data-equation-content="([^"]*)"[^>]*>', r"$\1$", text)
    text = re.sub(r"\\\((.*?)\\\)", r"$\1$", text)
    text = html.unescape(re.sub(r"<[^>]+>", "", text)).replace("’", "'")  # text2qti sets them
    return " ".join(text.split())


def from_moodle(text: str) -> list[tuple]:
    """(name, question, right answer, wrong answers, within) of each question."""
    found = []
    for question in ElementTree.fromstring(text.encode()).findall("question"):
        if question.get("type") == "category":
            continue
        answers = {words(answer.findtext("text")): int(answer.get("fraction"))
                   for answer in question.findall("answer")}
        (right,) = [answer for answer, score in answers.items() if score == 100]
        found.append((question.findtext("name/text"), words(question.findtext("questiontext/text")),
                      right, {answer for answer in answers if answer != right},
                      question.findtext("answer/tolerance")))
    return found


def from_gift(text: str) -> list[tuple]:
    """The same. As Moodle does, it puts escaped characters away before it looks for the others."""
    for k, mark in enumerate("\\~=#{}:"):
        text = text.replace(f"\\{mark}", chr(0xE000 + k))

    def back(text: str) -> str:
        for k, mark in enumerate("\\~=#{}:"):
            text = text.replace(chr(0xE000 + k), mark)
        return words(text)

    found = []
    for name, asked, inside in re.findall(r"::(.*?)::\[html\](.*?)\{(.*?)\n\}", text, re.S):
        inside = inside.partition("####")[0].strip()
        if inside.startswith("#"):
            right, within = inside[1:].split(":")
            found.append((back(name), back(asked), right, set(), within))
            continue
        answers = re.findall(r"^\s*([=~])(.*?)#", inside, re.M)
        (right,) = [back(answer) for mark, answer in answers if mark == "="]
        found.append((back(name), back(asked), right,
                      {back(answer) for mark, answer in answers if mark == "~"}, None))
    return found


def from_qti(package) -> list[tuple]:
    """The same, of QTI 1.2."""
    space, found = "{http://www.imsglobal.org/xsd/ims_qtiasiv1p2}", []
    for item in ElementTree.fromstring(package.assessment.encode()).iter(f"{space}item"):
        asked = words(item.find(f".//{space}mattext").text)
        labels = item.findall(f".//{space}response_lid//{space}response_label")
        choices = {label.get("ident"): words(label.find(f".//{space}mattext").text)
                   for label in labels}
        scored = next(one for one in item.iter(f"{space}respcondition")
                      if one.find(f"{space}setvar") is not None)
        right = scored.find(f".//{space}varequal").text
        if choices:
            right = choices.pop(right)
            found.append((item.get("title"), asked, right, set(choices.values()), None))
            continue
        low, high = (float(scored.find(f".//{space}{of}").text) for of in ("vargte", "varlte"))
        found.append((item.get("title"), asked, f"{float(right):g}", set(),
                      f"{(high - low) / 2:.4g}"))
    return found


FORMATS = {"moodle": lambda found: from_moodle(moodle("A / title", found)),
           "gift": lambda found: from_gift(gift("A / title", found)),
           "qti": lambda found: from_qti(qti("A / title", found))}


@pytest.mark.parametrize("kind", FORMATS)
def test_every_session_comes_back(kind, session):
    found = FORMATS[kind](items(session))
    assert len(found) == len({name for name, *_ in found}) == len(items(session))
    for item, (name, asked, right, wrong, within) in zip(items(session), found):
        assert name == item.name and asked and "$$" not in asked
        if item.answers:
            said, = [said for said, reply in item.answers.items() if reply.startswith("Yes")]
            assert right == " ".join(said.split())
            assert len(wrong) == len(item.answers) - 1 and within is None
        else:
            # GIFT and XML have six digits, and Canvas keeps four decimals
            assert abs(float(right) - item.number) <= max(1e-5 * abs(item.number), 6e-5), name
            assert 0.9 < float(within) / item.within < 1.1


@pytest.mark.parametrize("kind", FORMATS)
def test_odd_marks_and_formulas_come_back(kind):
    quiz, one, two = FORMATS[kind](items(SMALL))
    (right, _), (wrong, _) = CHOICE.items()
    assert quiz[1:4] == ("Is $1 < 2$ for β = 1?", right, {wrong})
    assert [one[0], two[0]] == ["99_small my_sum 1", "99_small my_sum 2"]
    assert one[2:] == ("13", set(), "0.5") and two[2:] == ("-0.25", set(), "0.004")
    assert FORMULAS[-1] in one[1] and one[1].endswith("Here: number 1 of 2.")


def test_formulas_stand_in_the_marks_that_each_platform_reads():
    found = items(SMALL)
    for text in (moodle("A", found), gift("A", found)):
        assert "$1" not in text.replace("$course$", "") and "<img" not in text
    typed = re.findall(r"\\\((.*?)\\\)", html.unescape(html.unescape(moodle("A", found))))
    assert [formula for formula in typed if formula != "1"] == FORMULAS
    drawn = CANVAS.findall(html.unescape(qti("A", found).assessment))
    assert {html.unescape(html.unescape(formula)) for formula in drawn} >= set(FORMULAS)


def test_the_files_say_whose_they_are_and_hold_no_pictures_of_their_own(tmp_path, session):
    write(session, "A title", tmp_path)
    for ending in ("xml", "gift"):
        assert LICENCE in (tmp_path / f"{session.name}.{ending}").read_text()
    with zipfile.ZipFile(tmp_path / f"{session.name}.zip") as package:
        assert not [name for name in package.namelist() if "images" in name]
        texts = [package.read(name).decode() for name in package.namelist()]
    assert sum(LICENCE in text for text in texts) == 2 and "Private" not in "".join(texts)
