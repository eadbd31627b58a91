"""The students' notebooks have no solution in them, whatever the chapters look like."""

import json
import re

import pytest
from nbgrader.preprocessors import ClearHiddenTests, ClearSolutions
from traitlets.config import Config

from class_notebooks import ROOT, notebook, parts
from class_questions import Check, Session, quiz_text
from class_text import Plain

CLEARING = Config({"ClearSolutions": {"code_stub": {"python": ""}, "text_stub": "*Your answer.*"}})
EXERCISE = ('<div class="exercise" id="ex-{0}">\n\n**Exercise 1.1 ({0}).**\n\nWhat is {0}?\n\n'
            "</div>\n\n")
START = "**Solution of [Exercise 1.1](#ex-{0}).**\n\nSECRET words"
END = "<!-- The solution ends here. -->\n\n"


def cell(kind: str, source: str) -> dict:
    return {"cell_type": kind, "source": source.splitlines(keepends=True), "metadata": {}}


def chapter(*sources: tuple[str, str]) -> dict:
    setup = [("markdown", "# Title"), ("code", "import math")]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"cells": [cell(*source) for source in [*setup, *sources]],
            "metadata": {"kernelspec": kernel}}


def released(of: Session, stored: dict):
    made = notebook(of, stored, Plain(stored))
    for step in (ClearSolutions, ClearHiddenTests):
        made, _ = step(config=CLEARING).preprocess(made, {})
    return made


def grades(made) -> list[str | None]:
    return [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in made.cells]


SMALL = Session("small", [
    Check("my_sum", "What is 6 + 7?", "Count.", "my_sum = 13", [12, 14], after="ex-one"),
    Check("my_lost", "What is 1 + 1?", "Count.", "my_lost = 2", [1, 3], after="ex-gone")],
    [{"ask": "Is it?", "answers": {"a": "Yes.", "b": "No.", "c": "No."}}],
    words={"ex-one": ["Say SECRET.", "Say why."]})


# An exercise and its solution share a cell, or don't; a solution has code, or none.
@pytest.mark.parametrize("sources", [
    [("markdown", EXERCISE.format("one") + START.format("one")),
     ("code", "secret = 1"), ("markdown", END + "## After")],
    [("markdown", EXERCISE.format("one")), ("markdown", START.format("one") + "\n" + END),
     ("markdown", "## After")],
    [("markdown", EXERCISE.format("one") + START.format("one") + "\n\n" + END
      + "## After")],
], ids=["with code", "cells of their own", "one cell"])
def test_solutions_are_found_by_their_marks(sources):
    made = released(SMALL, chapter(*sources))
    text = "\n".join(cell.source for cell in made.cells)
    assert "SECRET" not in text and "secret" not in text and "<!--" not in text
    kinds = grades(made)
    assert kinds.index("ex-one") < kinds.index("my_sum-answer") < kinds.index("my_sum")
    after = next(k for k, cell in enumerate(made.cells) if cell.source == "## After")
    assert kinds.index("my_sum") < after < kinds.index("my_lost")   # its exercise is gone
    assert made.cells[0].source == "# Title" and made.cells[1].source == "import math"


def pieces(text: str) -> set[str]:
    """Sentences and lines of code that are long enough to give something away."""
    found = re.split(r"\n|(?<=[.?!])\s", text)
    return {piece.strip() for piece in found if len(piece.strip()) > 30}


def test_no_solution_is_left(session):
    stored = json.loads((ROOT / f"notebooks/{session.name}.ipynb").read_text())
    solved, told = set(), set()
    for label, part in parts(stored["cells"]):
        text = Plain(stored)(part) if isinstance(part, str) else "".join(part["source"])
        (solved if label else told).update(pieces(text))
    made = released(session, stored)
    left = "\n".join(cell.source for cell in made.cells)
    assert solved and not (solved - told) & pieces(left)
    assert "For the teacher" not in left and "SOLUTION" not in left
    assert not re.search(r"\]\([^):]*(#|\.ipynb|\.md)", left), "a link into the book is left"
    ids = [name for name in grades(made) if name]
    assert {*(check.name for check in session.checks), "my_quiz"} <= set(ids)
    assert len(set(ids)) == len(ids)


def test_links_into_the_book_are_words():
    stored = chapter(("markdown", "$$\na = b\n$$ (eq-x-one)"))
    text = Plain(stored)("By [(eq-x-one)](#eq-x-one), [chapter 2](02_delta_operator.ipynb), "
                         "[Su and You](#su2026mgt) [ledger](../book/hypotheses.ipynb#a-b).")
    assert text == "By (1), chapter 2, Su and You [a-b]."
    assert r"\tag{1}" in Plain(stored)("$$\na = b\n$$ (eq-x-one)")


def test_a_quiz_as_text_keeps_its_replies_to_itself():
    text = quiz_text(SMALL.quiz)
    assert text == "1. Is it?\n   - **a** a\n   - **b** b\n   - **c** c" and "Yes" not in text
