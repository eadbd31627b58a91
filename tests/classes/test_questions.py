"""Every question of every session: a right answer passes, a wrong one fails, and none is told."""

import json
import re
from contextlib import redirect_stdout
from io import StringIO

import pytest
import torch

from class_checks import check_answer
from class_notebooks import HELPER, ROOT, names_of, parts
from class_questions import Check, save, saved
from class_questions import session as read

CHAPTERS = sorted(path.stem for path in ROOT.glob("notebooks/*.ipynb"))
SHORT = ("02", "05", "09", "19")  # the sessions of the short course, which are drawn whole
# what a student's cell may bind, by a star import or by hand
REBOUND = ("from numpy import *", "from torch import *", "from sympy import *",
           "round = len = 3", "list = float = tuple = 0.5", "math = hashlib = None",
           "name = answer = hint = 'x'",
           "isinstance = str = print = enumerate = range = all = abs = sum = max = 0")


def passes(of, given: str, after: str = "") -> bool:
    """Whether the check and the hidden draws let an answer pass, after which other code has run."""
    space = {"torch": torch}  # as every chapter imports it
    exec(HELPER, space)
    exec(given, space)
    exec(after, space)
    said, found = StringIO(), []
    hidden = [{of.name: space.get(of.name), "seed": seed} for seed in range(1000, 1003) if of.test]
    for code, names in ((of.code(), space), *((of.test, names) for names in hidden)):
        try:
            with redirect_stdout(said):
                exec(code, names)
            found.append(True)
        except Exception:  # what raises anything doesn't call the answer right
            found.append(False)
    found[0] = said.getvalue() == f"{of.name} is right.\n"
    assert len(set(found)) == 1, f"{of.name}: the check and the grading differ on {given}"
    return found[0]


# ---------------------------------------------------------------- laws over the sessions

@pytest.mark.parametrize("seed, after", [("", ""), ("one class", ""), ("another", ""),
                                         *(("", after) for after in REBOUND)])
def test_right_passes_and_wrong_and_empty_fail_whatever_a_cell_binds(session, seed, after):
    for of in read(session.name, seed).every:
        if after and "def " in of.answer:
            continue  # its own code reads what the cell binds anew
        assert passes(of, f"{of.begun}\n{of.answer}", after), of.name
        assert not passes(of, of.begun, after), f"{of.name}: empty"
        for wrong in of.mistakes[:1] if after else of.mistakes:
            assert not passes(of, wrong, after), f"{of.name}: {wrong}"


def test_a_session_of_every_chapter_asks_and_tells_no_answer(session):
    assert session.name in CHAPTERS
    assert len(list((ROOT / "classes").glob("*.yml"))) == len(CHAPTERS)
    assert len(session.checks) >= 2
    for of in session.checks:
        assert len(of.wrong) >= 2
        last = of.answer.strip().splitlines()[-1].strip()
        assert last not in of.code() and last not in of.begun


def test_names_are_the_students_own(session):
    chapter = json.loads((ROOT / f"notebooks/{session.name}.ipynb").read_text())
    used = set().union(*(names_of("".join(part["source"])) for _, part in parts(chapter["cells"])
                         if not isinstance(part, str)))
    names = [of.name for of in session.checks]
    assert len(set(names)) == len(names) and all(name.startswith("my_") for name in names)
    assert not used & {*names, "check_answer", "check_code"}


def test_each_question_of_the_quiz_has_one_right_answer_in_no_fixed_place(session):
    assert len(session.quiz) == len(session.letters) >= 3
    assert len(set(session.letters)) > 1
    for question in session.quiz:
        assert len(question["answers"]) >= 3
        assert sum(reply.startswith("Yes") for reply in question["answers"].values()) == 1


def test_a_question_in_words_has_a_rubric_and_a_program_marks_more_than_half(session):
    text = (ROOT / f"notebooks/{session.name}.ipynb").read_text()
    assert 1 <= len(session.words) <= 2
    for label, marks in session.words.items():
        assert f'id=\\"{label}\\"' in text and 2 <= len(marks) <= 4, label
    assert sum(map(len, session.words.values())) < len(session.every)


def test_run_all_goes_past_every_empty_answer_and_an_exam_tells_nothing(session, capsys):
    space = {"torch": torch}
    exec(HELPER, space)
    for of in session.every:
        exec(f"{of.begun}\n{of.code()}", space)
        left = "isn't complete" if "[" in of.begun else "has no answer yet"
        assert f"{of.name} {left}" in capsys.readouterr().out
        if not of.test:
            exec(f"{of.mistakes[0] if of.wrong else of.answer}\n{of.code(exam=True)}", space)
            assert "has all its entries" in capsys.readouterr().out
            assert "right" not in of.code(exam=True).split("None", 1)[0]


class Table:
    """What a function returns, by heart."""

    def __init__(self, function):
        self.function, self.known = function, {}

    def noted(self, *given):
        return self.known.setdefault(repr(given), self.function(*given))

    def told(self, *given):
        return self.known[repr(given)]


def test_a_table_of_what_students_see_passes_no_hidden_draw(session):
    for of in session.checks:
        if not of.start.startswith("def"):
            continue
        right = {"torch": torch}
        exec(of.answer, right)
        table = Table(right[of.name])
        for seed in range(20):
            exec(of.test, {of.name: table.noted, "seed": seed})
        exec(of.test, {of.name: table.told, "seed": 0})
        for seed in (1000, 1001):
            with pytest.raises(KeyError):
                exec(of.test, {of.name: table.told, "seed": seed})


def test_a_class_has_numbers_of_its_own(session):
    drawn = [read(session.name, f"class {k}").checks for k in range(30)]
    assert read(session.name, "class 0").checks == drawn[0], "one seed makes one class"
    for checks in zip(*drawn):
        assert not any(re.search(r"@[a-z]", of.ask + of.hint + of.start) for of in checks)
        if session.name[:2] in SHORT:
            assert len({of.answer for of in checks}) > 2, checks[0].name


def test_what_was_asked_is_kept(tmp_path, session):
    save(session, tmp_path / "key.json")
    assert saved(tmp_path / "key.json") == session


# ---------------------------------------------------------------- what else a check says

@pytest.mark.parametrize("answer, said", [
    ([1, 2], "needs 1 entries"), ("a", "must be a number"), (2, "isn't right yet. A hint.")])
def test_what_a_student_reads(answer, said):
    with pytest.raises(AssertionError, match=said):
        check_answer("my_number", answer, [1], ["0" * 12], "A hint.")


def test_a_number_that_is_not_drawn_is_named():
    of = Check("my_sum", "What is @one + @two?", "", "my_sum = one + two", [1, 2],
               draw={"one": [1]})
    with pytest.raises(KeyError, match="two"):
        of.drawn(None)


def test_a_teachers_own_questions_replace_and_add(tmp_path):
    (tmp_path / "02_delta_operator.yml").write_text(
        "checks:\n- {name: my_gate, ask: 'Own?', hint: '', answer: my_gate = 1, wrong: [2, 3]}\n"
        "- {name: my_own, ask: 'New?', hint: '', answer: my_own = 1, wrong: [2, 3]}\n")
    book, own = read("02_delta_operator"), read("02_delta_operator", bank=tmp_path)
    assert [of.name for of in own.checks] == [*(of.name for of in book.checks), "my_own"]
    assert own.checks[2].ask == "Own?" and own.quiz == book.quiz
