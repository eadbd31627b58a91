"""nbgrader hands out a session and grades a right, a wrong and an empty submission.

The session is one whose answers need no PyTorch, so that kernels start quickly.
"""

import re
import shutil

import nbformat
import pytest

import class_kit
from class_notebooks import ROOT, notebook, session
from class_text import Plain

NAME, LABEL = "17_semigroup", "ex-semigroup-ddim"
CHAPTER = {"metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3",
                                       "language": "python"}},
           "cells": [{"cell_type": kind, "source": [source], "metadata": {}} for kind, source in [
               ("markdown", "# A chapter of one exercise"), ("code", "import math"),
               ("markdown", f'<div class="exercise" id="{LABEL}">\n\n**Exercise 17.1 (Steps).**\n\n'
                            "How long?\n\n</div>\n\n"
                            f"**Solution of [Exercise 17.1](#{LABEL}).**\n\nA solution in words."
                            "\n\n<!-- The solution ends here. -->")]]}


@pytest.fixture(scope="module")
def marks(tmp_path_factory):
    """What nbgrader's gradebook says of each student, and the notebook that they got."""
    from nbgrader.apps import NbGraderAPI
    from traitlets.config import Config

    out, of = tmp_path_factory.mktemp("course"), session(NAME)
    shutil.copy(ROOT / "classes/nbgrader_config.py", out)
    folder = out / "source" / NAME
    folder.mkdir(parents=True)
    nbformat.write(notebook(of, CHAPTER, Plain(CHAPTER)), folder / f"{NAME}.ipynb")
    class_kit.release([NAME], out)
    handed = (out / "release" / NAME / f"{NAME}.ipynb").read_text()

    config = Config()
    config.CourseDirectory.root = str(out)
    course = NbGraderAPI(config=config)
    every = [*of.checks, of.quiz_check]
    given = {"right": {check.name: check.answer for check in every}, "empty": {},
             "wrong": {check.name: wrong(check) for check in every}}
    found = {}
    for student, answers in given.items():
        submitted = nbformat.reads(handed, as_version=4)
        for cell in submitted.cells:
            name = cell.metadata.get("nbgrader", {}).get("grade_id", "")
            cell.source = answers.get(name.removesuffix("-answer"), cell.source) \
                if name.endswith("-answer") else cell.source
        place = out / "submitted" / student / NAME
        place.mkdir(parents=True)
        nbformat.write(submitted, place / f"{NAME}.ipynb")
        graded = course.autograde(NAME, student)
        assert graded["success"], graded["log"]
        with course.gradebook as book:
            grades = book.find_submission_notebook(NAME, NAME, student).grades
            found[student] = {grade.name: grade.score for grade in grades}
    return handed, found


def wrong(check) -> str:
    first = check.wrong[0] if check.wrong else ["x"] * 3
    return first if check.test else f"{check.name} = {first!r}"


def test_students_get_no_answer(marks):
    handed, _ = marks
    assert "A solution in words" not in handed and "SOLUTION" not in handed
    assert not re.search(r"my_ends = (?!\.\.\.)", handed)


@pytest.mark.parametrize("student, points", [("right", 1), ("wrong", 0), ("empty", 0)])
def test_a_submission_gets_what_it_deserves(marks, student, points):
    _, found = marks
    scores = {name: score for name, score in found[student].items() if name != LABEL}
    expected = {check.name for check in session(NAME).checks} | {"my_quiz"}
    assert scores == dict.fromkeys(expected, points)


def test_nobody_but_the_teacher_grades_words(marks):
    _, found = marks
    assert found["right"][LABEL] == 0
