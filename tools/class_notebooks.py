"""From a chapter and its file in classes/ to the notebook of a session, in nbgrader's format.

The notebook is the teacher's: its solutions and answers stand in cells that nbgrader empties for
the students. Marks of solutions say where exercises are, and checks say which exercise they
follow, so that a chapter can change freely. A check whose exercise is gone moves to the end.
An exercise with a rubric is a question for the teacher. The others are practice, without marks.
"""

import ast
import copy
import itertools
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from class_questions import Check, Session, rubric
from class_text import MARK, Plain

ROOT = Path(__file__).resolve().parent.parent
HELPER = (ROOT / "tools/class_checks.py").read_text().strip()
READ = "**In words, {} points.** *Your teacher reads this answer.*"
PRACTICE = "*Your answer, if you like. This exercise is practice, and nobody marks it.*"
ABOUT = """\
*This is the notebook of a session. Run its cells from the top. Write into the cells that ask for \
an answer and leave the others' order as it is. Below an answer stands its check: run it as often \
as you like. A few answers in words and proofs have no check: they say so, and your teacher reads \
them. Other exercises are practice.*

*Text and figures: CC BY 4.0. Code: MIT.*"""
MORE = "## More to answer"
QUIZ = "## Quiz\n\nGive a letter for each question, for example `my_quiz = [\"a\", \"b\", \"c\"]`."


def parts(cells: list[dict]) -> Iterator[tuple[str, str | dict]]:
    """(label, text or code cell) in order. The label names the exercise whose solution it is part
    of, and is empty outside of solutions."""
    label = ""
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code":
            yield label, cell
            continue
        place = 0
        for mark in MARK.finditer(source):
            yield label, source[place:mark.start()]
            label, place = mark[1] or "", mark.end()
        yield label, source[place:]


def notebook(of: Session, chapter: dict, plain: Plain) -> NotebookNode:
    """The teacher's notebook of a session.

    Arguments:
        of: the session.
        chapter: its notebook, as stored.
        plain: turns the book's Markdown into one that every notebook program shows.
    """
    cells, left = [], {check.name: check for check in of.checks}
    for label, group in itertools.groupby(parts(chapter["cells"]), key=lambda part: part[0]):
        found = [part for _, part in group]
        texts = [plain(part) for part in found if isinstance(part, str)]
        codes = [part for part in found if not isinstance(part, str)]
        if not label:
            cells += [new_markdown_cell(plain(part)) if isinstance(part, str) else kept(part)
                      for part in found if not isinstance(part, str) or plain(part)]
            continue
        marks = of.words.get(label, [])
        if marks:
            cells.append(new_markdown_cell(READ.format(len(marks))))
            solved = "\n\n".join([*filter(None, texts), rubric(marks)])
            cells.append(graded(new_markdown_cell(solved), label, grade=True, solution=True,
                                points=len(marks)))
        else:
            cells.append(new_markdown_cell(PRACTICE))
        if codes and marks:
            source = "\n\n".join("".join(cell["source"]) for cell in codes)
            begun = "# Code for your answer, if you like."
            cells.append(answer_cell(f"{label}-code", begun, source))
        for check in [check for check in left.values() if check.after == label]:
            cells += asked(left.pop(check.name), of.exam)
    if left:
        cells.append(new_markdown_cell(MORE))
        for check in left.values():
            cells += asked(check, of.exam)
    cells += [new_markdown_cell(QUIZ), *asked(of.quiz_check, of.exam)]
    first = next(k for k, cell in enumerate(cells) if cell.cell_type == "code")  # fetches the code
    helper = graded(new_code_cell(HELPER), "helper", locked=True)
    helper.metadata["jupyter"] = {"source_hidden": True}
    cells[first + 1:first + 1] = [new_markdown_cell(ABOUT), helper]
    made = nbformat.v4.new_notebook(cells=cells, metadata=copy.deepcopy(chapter["metadata"]))
    for k, cell in enumerate(made.cells):
        cell.id = f"cell-{k:03}"
    return made


def kept(cell: dict) -> NotebookNode:
    """Return a code cell of the chapter, folded if the page folds it."""
    made = new_code_cell("".join(cell["source"]), metadata=copy.deepcopy(cell["metadata"]))
    if {"hide-input", "remove-cell"} & set(cell["metadata"].get("tags", [])):
        made.metadata["jupyter"] = {"source_hidden": True}
    return made


def asked(check: Check, exam: bool) -> list[NotebookNode]:
    """A question, the cell for its answer, and its check."""
    return [new_markdown_cell(f"**Question.** {check.ask}"),
            answer_cell(f"{check.name}-answer", check.begun, check.answer),
            graded(new_code_cell(check.code(exam)), check.name, grade=True, locked=True, points=1)]


def answer_cell(name: str, begun: str, answer: str) -> NotebookNode:
    """A code cell whose answer nbgrader takes out."""
    source = f"{begun}\n### BEGIN SOLUTION\n{answer.strip()}\n### END SOLUTION"
    return graded(new_code_cell(source), name, solution=True)


def graded(cell: NotebookNode, name: str, points: int = 0, **kinds: bool) -> NotebookNode:
    """Give the cell the metadata that nbgrader needs."""
    known = {"schema_version": 3, "grade_id": name, "task": False, "grade": False,
             "solution": False, "locked": False, **kinds}
    cell.metadata["nbgrader"] = known | ({"points": points} if known["grade"] else {})
    return cell


def names_of(source: str) -> set[str]:
    """The names that a piece of code uses or sets."""
    return {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
