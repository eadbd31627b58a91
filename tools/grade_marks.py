"""The marks of a course: a list of students in, and tables for Moodle and Canvas out.

`roster.csv` has the columns name, id and email; id is the name of a student's folder. A mark that
nobody has set, neither a program nor a teacher, stays blank: it is no zero.
"""

import csv
import os
import sys
import warnings
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from geolab.files import whole
from grade_read import Unreadable, composed, decoded

COLUMNS = ("name", "id", "email")
PATTERN = set("/\\*?[]")  # what no id may have: nbgrader looks for students by patterns
CANVAS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")


@dataclass(frozen=True)
class Person:
    """A student."""

    name: str
    id: str
    email: str


def opened(course: Path) -> Any:
    """The course in nbgrader.

    Raises: SystemExit for a folder that is no course, or whose settings run students' code.
    """
    from nbgrader.apps import NbGraderAPI
    from traitlets.config.loader import PyFileConfigLoader

    if not (course / "nbgrader_config.py").exists():
        raise SystemExit(f"--course must be a folder that `make class` has made, got {course}")
    warnings.filterwarnings("ignore", module="nbgrader.api")  # of its own way with SQLAlchemy
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # alembic
    config = PyFileConfigLoader("nbgrader_config.py", path=str(course)).load_config()
    steps = [*config.Autograde.get("sanitize_preprocessors", ["Execute"]),
             *config.Autograde.get("autograde_preprocessors", ["Execute"])]
    if any(str(step).endswith(("Execute", "ClearOutput")) for step in steps) \
            or config.CourseDirectory.get("submitted_directory") != "checked":
        raise SystemExit(f"{course}/nbgrader_config.py must leave running to grade.py and read "
                         "checked/, as classes/nbgrader_config.py says")
    config.CourseDirectory.root = str(course.resolve())
    return NbGraderAPI(config=config)


def roster(path: Path) -> list[Person]:
    """The students of a list that a spreadsheet has written, in whichever encoding and with
    whichever separator.

    Raises: ValueError for a missing column, and for an id that is empty, double or no folder name.
    """
    text = composed(decoded(path)[0])
    first = text.partition("\n")[0]
    rows = list(csv.DictReader(StringIO(text, newline=""), skipinitialspace=True,
                               delimiter=max(",;\t", key=first.count)))
    rows = [row for row in rows if any(row.values())]
    missing = [column for column in COLUMNS if rows and column not in rows[0]]
    if missing or not rows:
        raise ValueError(f"{path} must have the columns {', '.join(COLUMNS)} and a row for each "
                         f"student, got {first.strip() or 'nothing'}")
    people = [Person(*((row[column] or "").strip() for column in COLUMNS)) for row in rows]
    for person in people:
        if not person.id or PATTERN & set(person.id) or person.id.startswith("."):
            raise ValueError(f"an id of {path} must be a name of a folder without "
                             f"{''.join(sorted(PATTERN))}, got {person.id!r}")
    ids = [person.id for person in people]
    if double := sorted({one for one in ids if ids.count(one) > 1}):
        raise ValueError(f"an id of {path} must be one student's, got {', '.join(double)} twice")
    return people


def register(course: Path, book: Any) -> list[Person]:
    """Carry the list of students into the gradebook. Without a list, its students are there.

    Raises: SystemExit for a file that is no such list.
    """
    if (path := course / "roster.csv").exists():
        try:
            people = roster(path)
        except (ValueError, Unreadable) as why:
            raise SystemExit(str(why)) from None
        for person in people:
            book.update_or_create_student(person.id, last_name=person.name, email=person.email)
        return people
    return [Person(student.last_name or student.id, student.id, student.email or "")
            for student in book.students]


def scores(book: Any) -> dict[str, dict[str, dict[str, float | None]]]:
    """Points by session, student and question. None is a mark that nobody has set."""
    found: dict[str, dict[str, dict[str, float | None]]] = {}
    for assignment in book.assignments:
        for submission in assignment.submissions:
            found.setdefault(assignment.name, {})[submission.student.id] = {
                grade.name: points(grade) for notebook in submission.notebooks
                for grade in notebook.grades}
    return found


def points(grade: Any) -> float | None:
    """The mark of one question: a teacher's before a program's."""
    given = grade.auto_score if grade.manual_score is None else grade.manual_score
    return None if given is None else given + (grade.extra_credit or 0)


def written(course: Path) -> list[Path]:
    """Write grades.csv and grades-canvas.csv, and return their paths.

    grades.csv has the roster's columns, one for each question and one for each session; Moodle's
    import takes it, with email or id as the column that identifies. grades-canvas.csv has the
    five columns that Canvas asks for and one for each session. A session's sum is blank until all
    of its questions have a mark.
    """
    with opened(course).gradebook as book:
        people, found = register(course, book), scores(book)
        most = {assignment.name: assignment.max_score for assignment in book.assignments}
    listed = {person.id for person in people}
    people += [Person(student, student, "") for student in sorted(
        {student for session in found.values() for student in session} - listed)]
    asked = {session: list(dict.fromkeys(name for one in students.values() for name in one))
             for session, students in sorted(found.items())}
    sums = {session: {student: None if None in given.values() else sum(given.values())
                      for student, given in students.items()}
            for session, students in found.items()}
    head = [*COLUMNS, *(f"{session} {name}".rstrip() for session, names in asked.items()
                        for name in [*names, ""])]
    rows = [[person.name, person.id, person.email, *(
        value for session, names in asked.items()
        for value in [*(found[session].get(person.id, {}).get(name) for name in names),
                      sums[session].get(person.id)])] for person in people]
    canvas = [["    Points Possible", *[""] * 4, *(most[session] for session in asked)]]
    canvas += [[person.name, "", person.id, person.email, "",
                *(sums[session].get(person.id) for session in asked)] for person in people]
    return [table(course / "grades.csv", head, rows),
            table(course / "grades-canvas.csv", [*CANVAS, *asked], canvas)]


def table(path: Path, head: list[str], rows: list[list]) -> Path:
    """Write rows. Points are short, None is blank."""
    with whole(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(head)
        writer.writerows([f"{value:g}" if isinstance(value, float) else value for value in row]
                         for row in rows)
    return path
