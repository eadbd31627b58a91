"""Grade a session: read what came in, run each notebook within walls, compare, and set marks.

  python tools/grade.py 02 --course ~/class      grades submitted/NAME/02_…/ and writes the marks
  python tools/grade.py --course ~/class         writes the marks anew, after grading by hand

A student's program runs in a process of its own (grade_walls.py). This one takes its answers out
as plain data and compares them, functions on inputs that it draws now. So nothing counts that a
student's cell rebinds, prints or knows by heart. What it found goes to nbgrader's gradebook by
way of checked/, a sound copy of each notebook with the verdicts under the answers; nbgrader runs
nothing. A submission that can't be read gets no mark, and is named.
"""

import argparse
import secrets
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbgrader.utils import parse_utc

from class_checks import entries, passes, spellings
from class_questions import Check, Session, chosen, saved
from geolab.files import whole
from grade_marks import PATTERN, opened, register, written
from grade_read import Unreadable, composed, grade_id, read, writable
from grade_run import unpacked
from grade_walls import ROOT, Limits, Stopped, Student, stand, student

DRAWS = 12   # of inputs for a function
TRIES = 4    # runs of a notebook, each without the cell that stopped the one before


@dataclass
class Result:
    """The result of a student: for each question why it is wrong, or nothing where it is right."""

    name: str
    verdicts: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    notebook: NotebookNode | None = None

    @property
    def line(self) -> str:
        right = sum(not why for why in self.verdicts.values())
        got = f"{right} of {len(self.verdicts)}" if self.notebook else "no mark"
        return writable(f"{self.name:<24}{got:>10}  {'; '.join(self.notes)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("session", nargs="*", help="such as 02 or 02_delta_operator")
    parser.add_argument("--course", type=Path, default=ROOT / "_build/class", help="the class kit")
    parser.add_argument("--students", nargs="+", metavar="ID", help="only these")
    parser.add_argument("--jobs", type=int, default=2, help="notebooks at once")
    parser.add_argument("--cell", type=float, default=Limits.cell, help="seconds for a cell")
    parser.add_argument("--memory", type=float, default=Limits.memory, help="GB for a student")
    parser.add_argument("--no-walls", action="store_true",
                        help="run students' programs with your network and your files")
    given = parser.parse_args()
    if given.session:
        limits = Limits(cell=given.cell, memory=given.memory)
        known = [path.stem for path in sorted(given.course.glob("keys/*.json"))]
        for name in chosen(known, given.session):
            for result in grade(given.course, name, given.students, limits, not given.no_walls,
                                given.jobs):
                print(result.line)
    print("marks:", *written(given.course))
    return 0


def grade(course: Path, name: str, students: list[str] | None = None, limits: Limits | None = None,
          walls: bool = True, jobs: int = 2) -> list[Result]:
    """Grade what was handed in for a session, and set the marks in the course's gradebook.

    Arguments:
        course: the folder of the class kit, with submitted/STUDENT/name/.
        name: of the session.
        students: only these.
        limits: of a student's process.
        walls: whether it is kept from the network and from all files but the library's.
        jobs: processes at once.

    Raises: SystemExit where walls can't be built and are not given up.
    """
    limits, course = limits or Limits(), course.resolve()
    if walls and (why := stand([course])):
        raise SystemExit(f"no walls can be built around students' programs here ({why}). Grade "
                         "on a Linux machine or in a container that allows unshare, or say "
                         "--no-walls: then a program can read your files and use your network")
    key, api = saved(course / f"keys/{name}.json"), opened(course)
    handed = nbformat.read(course / f"release/{name}/{name}.ipynb", as_version=4)
    folders = [path for path in sorted(course.glob(f"submitted/*/{name}"))
               if not students or path.parent.name in students]
    if missing := set(students or ()) - {path.parent.name for path in folders}:
        raise SystemExit(f"--students must have handed in {name}, and "
                         f"{', '.join(sorted(missing))} have not")

    with api.gradebook as book:
        people = {person.id for person in register(course, book)}

    def one(folder: Path) -> Result:
        return examined(folder, key, handed, [course], limits, walls)

    results, pool = [], ThreadPoolExecutor(jobs)
    try:
        for folder, result in zip(folders, pool.map(one, folders), strict=True):
            if (course / "roster.csv").exists() and result.name not in people:
                result.notes.append("roster.csv doesn't have this id")
            record(course, folder, result, api)  # at once, so that an interruption keeps it
            results.append(result)
    finally:
        pool.shutdown(cancel_futures=True)
    return results


def examined(folder: Path, key: Session, handed: NotebookNode, hidden: list[Path],
             limits: Limits, walls: bool) -> Result:
    """Read and run what one student handed in."""
    result = Result(composed(folder.parent.name))
    try:
        if writable(result.name) != result.name or PATTERN & set(result.name):
            raise Unreadable("its folder's name is no UTF-8, or has a mark of "
                             f"{''.join(sorted(PATTERN))}, by which nbgrader looks for others")
        notebook, result.notes = read(folder, handed, key.name)
        result.verdicts = verdicts(notebook, key, hidden, limits, walls, result.notes)
    except (Unreadable, Stopped, OSError) as why:
        result.notes.append(str(why))
        return result
    for cell in notebook.cells:
        if (name := grade_id(cell)) in result.verdicts:
            cell.outputs = [verdict(name, result.verdicts[name])]
    result.notebook = notebook
    return result


def verdicts(notebook: NotebookNode, key: Session, hidden: list[Path], limits: Limits,
             walls: bool, notes: list[str]) -> dict[str, str]:
    """Say why each answer is wrong, or nothing where it is right.

    A cell that stops the process is left out and the rest runs anew. Raises: Stopped when that
    happens too often.
    """
    there = set(map(grade_id, notebook.cells))  # without what a teacher has taken out
    asked = {check.name: check for check in key.every if check.name in there}
    cells = [(place, cell.source) for place, cell in enumerate(notebook.cells)
             if cell.cell_type == "code" and grade_id(cell) not in asked]
    places = {grade_id(cell).removesuffix("-answer"): place
              for place, cell in enumerate(notebook.cells) if grade_id(cell) not in asked}
    found: dict[str, str] = {}
    for _ in range(TRIES):
        left = [name for name in asked if name not in found]
        with student(hidden, limits, walls) as process:
            try:
                answers, errors = process.answers(cells, left)
            except Stopped as stopped:
                why, place = stopped.args
                if place not in dict(cells):
                    raise Stopped(why) from None
                notes.append(f"cell {place} was left out: {why}")
                cells = [cell for cell in cells if cell[0] != place]
                continue
            for name in left:
                try:
                    found[name] = judged(asked[name], answers.get(name), process)
                except Stopped as stopped:  # while a function was called
                    found[name] = stopped.args[0]
                    break
                if found[name] and (why := errors.get(str(places.get(name)))):
                    found[name] += f" (its cell raised {why})"[:300]
        if len(found) == len(asked):
            return found
    raise Stopped(f"it was stopped {TRIES} times")


def judged(check: Check, said: object, process: Student) -> str:
    """Say why an answer is wrong, or nothing. Raises: Stopped when a call of a function stops."""
    if not isinstance(said, dict) or not {"value", "function"} & set(said):
        return str(said.get("error", "no answer"))[:300] if isinstance(said, dict) else "no answer"
    try:
        value = unpacked(said.get("value"))
        if not check.test:
            return compared(check, value)
        given = (lambda *inputs: process.call(check.name, *inputs)) \
            if "function" in said else value
        passes(check.name, given, check.test,
               [1000 + secrets.randbelow(2**31) for _ in range(DRAWS)])
        return ""
    except Stopped:
        raise
    except Exception as error:  # a test may raise anything about an answer of a wrong kind
        return f"{type(error).__name__}: {error or 'it is wrong'}"[:300]


def compared(check: Check, value: object) -> str:
    """Say why numbers or letters are wrong, or nothing."""
    given = entries(value)
    if len(given) != len(check.right):
        return f"it needs {len(check.right)} entries, not {len(given)}"
    same = [set(spellings(entry, step)) & set(spellings(right, step)[:1])
            for entry, right, step in zip(given, check.right, check.steps, strict=True)]
    wrong = sum(not one for one in same)
    return f"{wrong} of {len(given)} entries are wrong" if wrong else ""


def verdict(name: str, why: str) -> NotebookNode:
    """The output under an answer. nbgrader gives no point where it finds an error."""
    if not why:
        return nbformat.v4.new_output("stream", name="stdout", text=f"{name} is right.\n")
    return nbformat.v4.new_output("error", ename="Wrong", evalue=why, traceback=[why])


def record(course: Path, submitted: Path, result: Result, api) -> None:
    """Put a sound copy with its verdicts into checked/, and its marks into the gradebook.

    Marks of what a student handed in before stay where the new file can't be read.
    """
    name = submitted.name
    folder = course / "checked" / result.name / name
    if result.notebook is None:
        if folder.exists():
            result.notes.append("the marks of an earlier file stay")
        return
    folder.mkdir(parents=True, exist_ok=True)
    with whole(folder / f"{name}.ipynb") as partial:
        nbformat.write(result.notebook, partial)
    stamp = submitted / "timestamp.txt"
    (folder / stamp.name).unlink(missing_ok=True)
    if stamp.is_file() and not stamp.is_symlink():
        try:
            parse_utc(stamp.read_text().strip())
            shutil.copy(stamp, folder)
        except (ValueError, OverflowError):
            result.notes.append(f"{stamp.name} says no time")
    done = api.autograde(name, result.name)
    if not done["success"]:
        result.notes.append(f"nbgrader refuses it: {(done['error'] or done['log'])[-300:]}")
        result.notebook = None
        return
    with api.gradebook as book:
        grades = book.find_submission_notebook(name, name, result.name).grades
        set_ = {grade.name: (grade.auto_score, grade.max_score) for grade in grades}
    for question, why in result.verdicts.items():
        got, most = set_.get(question, (None, 1.0))
        if got != (want := 0.0 if why else most):
            raise RuntimeError(f"{result.name}: {question} must have {want} points in the "
                               f"gradebook, and has {got}")


if __name__ == "__main__":
    sys.exit(main())
