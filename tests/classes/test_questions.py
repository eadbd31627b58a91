"""A question's numbers come from a class's seed, and a test's inputs from a seed of their own."""

import re

import pytest
import torch

from class_questions import ROOT, Check, save, saved
from class_questions import session as read

SHORT = ("02", "05", "09", "19")  # the sessions of the short course, which are drawn whole
SEEDS = ("", "one class", "another")


def entries(of: Check, code: str) -> list:
    """What a piece of code gives as the answer, in steps."""
    space = {}
    exec(code, space)
    given = space[of.name]
    given = given if isinstance(given, list) else [given]
    return [value if isinstance(value, str) else round(float(value) / step)
            for value, step in zip(given, of.steps)]


def passes(of: Check, given: str, seeds: range, after: str = "") -> bool:
    """Whether an answer passes the question's test on draws from the seeds."""
    space = {"torch": torch}
    exec(given, space)
    exec(after, space)
    try:
        for seed in seeds:
            exec(of.test, {of.name: space[of.name], "seed": seed})
    except Exception:  # a test that raises anything gives no point
        return False
    return True


@pytest.mark.parametrize("seed", SEEDS)
def test_wrong_answers_are_wrong_whatever_the_numbers_are(session, seed):
    for of in read(session.name, seed).checks:
        if of.test:
            assert passes(of, of.answer, range(1000, 1003)), of.name
            assert not any(passes(of, wrong, range(1000, 1003)) for wrong in of.mistakes), of.name
            continue
        right = entries(of, of.answer)
        for wrong in of.mistakes:
            given = entries(of, wrong)
            near = [a == b if isinstance(a, str) else abs(a - b) <= 1 for a, b in zip(given, right)]
            assert len(given) == len(right) and not all(near), f"{of.name}: {wrong}"


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


def test_a_class_has_numbers_of_its_own():
    for name in [path.stem for path in sorted(ROOT.glob("classes/*.yml"))]:
        for of, one, other in zip(*(read(name, seed).checks for seed in ("", "a", "a"))):
            assert one == other, "one seed makes one class"
            assert not re.search(r"@[a-z]", of.ask + of.hint + of.start), of.name
    for number in SHORT:
        path = next(ROOT.glob(f"classes/{number}*.yml"))
        drawn = [[check.answer for check in read(path.stem, f"class {k}").checks]
                 for k in range(30)]
        for answers in zip(*drawn):
            assert len(set(answers)) > 2, f"{number}: all classes are asked {answers[0]}"


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


def test_a_question_in_words_has_a_rubric_and_there_are_few(session):
    """What a program marks counts for more than half."""
    text = (ROOT / f"notebooks/{session.name}.ipynb").read_text()
    assert 1 <= len(session.words) <= 2
    for label, marks in session.words.items():
        assert f'id=\\"{label}\\"' in text and 2 <= len(marks) <= 4, label
        assert all(mark.endswith(".") and len(mark.split()) > 3 for mark in marks), label
    assert sum(map(len, session.words.values())) < len(session.every)


def test_what_was_asked_is_kept(tmp_path, session):
    save(session, tmp_path / "key.json")
    assert saved(tmp_path / "key.json") == session
