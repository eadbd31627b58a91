"""What a program grades: a right answer passes, a wrong one fails, and so does an empty one."""

import json
from contextlib import redirect_stdout
from io import StringIO

import pytest
import torch

from class_checks import check_answer
from class_notebooks import HELPER, ROOT, names_of, parts

CHAPTERS = sorted(path.stem for path in ROOT.glob("notebooks/*.ipynb"))


# what a student's cell may bind, by a star import or by hand
REBOUND = ("", "from numpy import *", "from torch import *", "from sympy import *",
           "round = len = 3", "list = float = tuple = 0.5", "math = hashlib = None",
           "name = answer = hint = 'x'",
           "isinstance = str = print = enumerate = range = all = abs = sum = max = 0")


def passes(of, given: str, after: str = "") -> bool:
    """Whether the check lets an answer pass, which is code, and where other code follows it."""
    space = {"torch": torch}  # as every chapter imports it
    exec(HELPER, space)
    exec(given, space)
    exec(after, space)
    said = StringIO()
    try:
        with redirect_stdout(said):
            exec(of.code(), space)
    except Exception:  # a check that raises anything doesn't call the answer right
        return False
    return said.getvalue() == f"{of.name} is right.\n"


def test_every_chapter_has_a_session(session):
    assert session.name in CHAPTERS
    assert len(list((ROOT / "classes").glob("*.yml"))) == len(CHAPTERS)


@pytest.mark.parametrize("after", REBOUND)
def test_right_passes_and_wrong_and_empty_fail_whatever_a_cell_binds(session, after):
    for of in session.every:
        if after and "def " in of.answer:
            continue  # its own code reads what the cell binds anew
        assert passes(of, f"{of.begun}\n{of.answer}", after), of.name
        assert not passes(of, of.begun, after), f"{of.name}: empty"
        for wrong in of.mistakes[:1] if after else of.mistakes:
            assert not passes(of, wrong, after), f"{of.name}: {wrong}"


def test_every_check_has_wrong_answers(session):
    assert len(session.checks) >= 2
    assert all(len(of.wrong) >= 2 for of in session.checks)


def test_a_check_does_not_contain_its_answer(session):
    for of in session.checks:
        last = of.answer.strip().splitlines()[-1].strip()
        assert last not in of.code() and last not in of.begun


def test_names_are_the_students_own(session):
    chapter = json.loads((ROOT / f"notebooks/{session.name}.ipynb").read_text())
    used = set().union(*(names_of("".join(part["source"])) for _, part in parts(chapter["cells"])
                         if not isinstance(part, str)))
    names = [of.name for of in session.checks]
    assert len(set(names)) == len(names) and all(name.startswith("my_") for name in names)
    assert not used & {*names, "check_answer", "scrambled", "spellings"}


def test_each_question_of_the_quiz_has_one_right_answer(session):
    assert len(session.quiz) == len(session.letters) >= 3
    for question in session.quiz:
        assert question["ask"].endswith("?") and len(question["answers"]) >= 3
        assert sum(reply.startswith("Yes") for reply in question["answers"].values()) == 1
    assert len(set(session.letters)) > 1, "the right answer must not stand in one place"


@pytest.mark.parametrize("answer, said", [
    ([1, 2], "needs 1 entries"), ("a", "isn't right yet"),
    (float("nan"), "isn't right yet. A hint.")])
def test_what_a_student_reads(answer, said):
    with pytest.raises(AssertionError, match=said):
        check_answer("my_number", answer, [1], ["0" * 12], "A hint.")


def test_run_all_goes_past_every_empty_answer_and_says_so(session, capsys):
    space = {"torch": torch}
    exec(HELPER, space)
    for of in session.every:
        exec(of.begun, space)
        exec(of.code(), space)
        left = "isn't complete" if "[" in of.begun else "has no answer yet"
        assert f"{of.name} {left}" in capsys.readouterr().out


def test_an_exam_tells_nothing(session, capsys):
    for of in session.every:
        if not of.test:
            space = {}
            exec(HELPER, space)
            exec(f"{of.mistakes[0] if of.wrong else of.answer}\n{of.code(exam=True)}", space)
            assert "has all its entries" in capsys.readouterr().out
            assert "right" not in of.code(exam=True).split("None", 1)[0]
