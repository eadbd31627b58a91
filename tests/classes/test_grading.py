"""A term in a minute: about thirty students hand in, and each gets what the answers deserve.

The session is one whose answers need no PyTorch, so that students' processes start quickly.
"""

import csv
import json
import shutil
import socket
from dataclasses import dataclass
from unicodedata import normalize

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

import class_kit
import grade
from class_kit import ROOT
from class_notebooks import notebook
from class_questions import save, session
from class_text import Plain
from grade_marks import Person, opened, register, roster, written
from grade_read import read
from grade_walls import Limits, stand
from grade_walls import student as process_of

NAME, LABEL = "17_semigroup", "ex-semigroup-ddim"
OF = session(NAME, "a class of the tests")
CHAPTER = {"metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3",
                                       "language": "python"}},
           "cells": [{"cell_type": kind, "source": [source], "metadata": {}} for kind, source in [
               ("markdown", "# A chapter of one exercise"), ("code", "import math"),
               ("markdown", f'<div class="exercise" id="{LABEL}">\n\n**Exercise 17.1 (Steps).**\n\n'
                            "How long?\n\n</div>\n\n"
                            f"**Solution of [Exercise 17.1](#{LABEL}).**\n\nA solution in words."
                            "\n\n<!-- The solution ends here. -->")]]}
RIGHT = {check.name: check.answer for check in OF.every}
ENDS, SPREADS, FLOW, QUIZ = RIGHT
LIMITS = Limits(cell=3, total=40, memory=1.5)
WALLS = not stand([ROOT / "classes"])  # some machines allow none
HOSTILE = {
    "rebound": "check_answer = check_code = lambda *a, **k: print('right')\n"
               "import builtins, sys, math\nbuiltins.print = builtins.round = lambda *a: 1\n"
               "sys.modules['torch'] = sys.modules['json'] = math",
    "equal": "class Same(float):\n    __eq__ = lambda *a: True\n    __hash__ = None\n"
             "    __abs__ = __sub__ = __round__ = lambda *a: 0\n"
             f"{ENDS} = [Same(7)] * 3\n{SPREADS} = Same(7)\n{QUIZ} = ['b'] * 3",
    "forger": "import os, json\nfor pipe in range(3, 20):\n    try:\n"
              "        os.write(pipe, (json.dumps({'answers': {name: {'value': 1} for name in "
              "'abc'}}) + '\\n').encode())\n    except OSError:\n        pass",
    "table": "import math, random\ntimes = set()\nfor seed in range(20):  # those of the check\n"
             "    draw = random.Random(seed)\n    draw.uniform(1, 2)\n"
             "    times |= {draw.uniform(0.8, 1), draw.uniform(0.3, 0.6)}\n"
             f"def {FLOW}(x, t, u):\n    assert t in times\n    return x * math.exp(u - t)",
}
STOPPED = {  # what each does to its own process; the other answers still count
    "loop": "while True:\n    pass",
    "exit": "import os\nos._exit(0)",
    "flood": "import os\nfor pipe in range(3, 20):\n    try:\n"
             "        os.write(pipe, b'x' * 9_000_000)\n    except OSError:\n        pass",
}
HARMLESS = {
    "printer": "print('x' * 9_000_000)",
    "hungry": "hog = bytearray(3_000_000_000)",
    "forker": "import os\nfor _ in range(200):\n    if not os.fork():\n        os._exit(0)",
    "leaver": "import sys\nsys.exit()",
    "syntax": "this is no Python",
    "magic": "%%time\nspent = 1",
    "json": "import json\njson.dumps = json.loads = lambda *a, **k: '{}'",
    "Zoë O'Brien + 李": "",
}


@dataclass
class Paper:
    """A submission: answers, a cell before them, one behind them, and what becomes of the file."""

    answers: dict
    before: str = ""
    after: str = ""
    change: object = None
    name: str = f"{NAME}.ipynb"


def copied(book: dict) -> None:
    """A student has copied an answer's cell before writing, and its check."""
    places = [k for k, cell in enumerate(book["cells"])
              if name_of(cell) in (f"{ENDS}-answer", ENDS)]
    for k in reversed(places):
        stub = dict(book["cells"][k], source=f"{ENDS} = ...  # your answer in place of the dots")
        book["cells"].insert(k, stub)


def name_of(cell: dict) -> str:
    return cell["metadata"].get("nbgrader", {}).get("grade_id", "")


def without(*names: str):
    def change(book: dict) -> None:
        book["cells"] = [cell for cell in book["cells"] if name_of(cell) not in names]
    return change


def edited(book: dict) -> None:
    for cell in book["cells"]:
        if name_of(cell) in RIGHT:
            cell["source"] = "print('right')"


def old(book: dict) -> None:
    for cell in book["cells"]:
        if "nbgrader" in cell["metadata"]:
            cell["metadata"]["nbgrader"] = {"grade_id": name_of(cell), "schema_version": 1}


def other_kernel(book: dict) -> None:
    book["metadata"] = {"kernelspec": {"name": "julia", "display_name": "Julia"}}


ALL, NONE = dict.fromkeys(RIGHT, 1.0) | {SPREADS: 2.0}, dict.fromkeys(RIGHT, 0.0)
WRONG = {check.name: check.mistakes[0] for check in OF.checks} | {QUIZ: f"{QUIZ} = ['x'] * 3"}
UNREAD = {"noJSON": b"This is no notebook.", "nocells": b'{"cells": 3}', "empty file": b"",
          "other": b'{"cells": [{"cell_type": "code", "source": "1", "metadata": {}}]}',
          "deep": b"[" * 100_000}
PAPERS = {
    "right": (Paper(RIGHT), ALL), "wrong": (Paper(WRONG), NONE), "empty": (Paper({}), NONE),
    "colab": (Paper(RIGHT, name=f"Copy of {NAME}.ipynb"), ALL),
    "copied": (Paper(RIGHT, change=copied), ALL), "old": (Paper(RIGHT, change=old), ALL),
    "gone": (Paper(RIGHT, change=without(ENDS, SPREADS)), ALL),
    "half": (Paper(RIGHT, change=without(f"{ENDS}-answer", ENDS)), ALL | {ENDS: 0.0}),
    "edited": (Paper({}, change=edited), NONE),
    "kernel": (Paper(RIGHT, change=other_kernel), ALL),
    "bom": (Paper(RIGHT, change="utf-8-sig"), ALL),
    "latin": (Paper(RIGHT, before="word = 'é\x81'", change="latin-1"), ALL),
    "slow": (Paper(RIGHT | {FLOW: f"def {FLOW}(x, t, u):\n    while True:\n        pass"}),
             ALL | {FLOW: 0.0}),
    "arrays": (Paper(RIGHT | {ENDS: f"{RIGHT[ENDS]}\nimport numpy\n"
                              f"{ENDS} = [numpy.array([end]) for end in {ENDS}]"}), ALL),
    **{name: (Paper(RIGHT | {SPREADS: f"import numpy\n{SPREADS} = {value}"}), ALL | {SPREADS: 0.0})
       for name, value in (("complex", "numpy.ones(2) + 1j"), ("huge", "[0.5] * 2_000_000"),
                           ("letters", "numpy.array(['a', 'b'])"))},
    **{name: (Paper({}, after=code), NONE) for name, code in HOSTILE.items()},
    **{name: (Paper(RIGHT, before=code), ALL) for name, code in (STOPPED | HARMLESS).items()},
}


def handed_in(paper: Paper, handed: str) -> bytes:
    book = json.loads(handed)
    for cell in book["cells"]:
        name = name_of(cell).removesuffix("-answer")
        if name in paper.answers and name_of(cell).endswith("-answer"):
            cell["source"] = paper.answers[name]
    for place, code in ((2, paper.before), (len(book["cells"]), paper.after)):
        if code:
            book["cells"].insert(place, {"cell_type": "code", "source": code, "metadata": {},
                                         "outputs": [], "execution_count": None})
    if callable(paper.change):
        paper.change(book)
    text = json.dumps(book, ensure_ascii=False)
    return text.encode(paper.change if isinstance(paper.change, str) else "utf-8", "replace")


@pytest.fixture(scope="module")
def term(tmp_path_factory):
    """The course after one homework, and what grading said of each student."""
    out = tmp_path_factory.mktemp("course")
    for folder in ("source", "keys"):
        (out / folder).mkdir()
    (out / "nbgrader_config.py").write_text((ROOT / "classes/nbgrader_config.py").read_text())
    class_kit.formulas("", out)
    folder = out / "source" / NAME
    folder.mkdir()
    source = notebook(OF, CHAPTER, Plain(CHAPTER))
    for cell in source.cells:
        if name_of(cell) == SPREADS:  # a teacher counts a question twice
            cell.metadata.nbgrader.points = 2
    nbformat.write(source, folder / f"{NAME}.ipynb")
    save(OF, out / f"keys/{NAME}.json")
    class_kit.release([NAME], out)
    handed = (out / f"release/{NAME}/{NAME}.ipynb").read_text()
    files = {student: (paper.name, handed_in(paper, handed))
             for student, (paper, _) in PAPERS.items()}
    files |= {student: (f"{NAME}.ipynb", data) for student, data in UNREAD.items()}
    for student, (name, data) in files.items():
        place = out / "submitted" / normalize("NFD", student) / NAME  # as macOS writes names
        place.mkdir(parents=True)
        (place / name).write_bytes(data)
    people = [*files, "absent"]
    (out / "roster.csv").write_text("\ufeffid;name;email\n" + "".join(
        f"{one};The {one};{one}@school\n" for one in people), encoding="utf-8")
    results = grade.grade(out, NAME, limits=LIMITS, walls=WALLS, jobs=2)
    written(out)
    for one in ("right", "wrong"):
        done = opened(out).generate_feedback(NAME, one)
        assert done["success"], done["log"]
    return out, {result.name: result for result in results}


@pytest.mark.parametrize("student", PAPERS)
def test_each_gets_what_the_answers_deserve(term, student):
    out, results = term
    deserved = PAPERS[student][1]
    with opened(out).gradebook as book:
        grades = book.find_submission_notebook(NAME, NAME, student).grades
        found = {one.name: one.auto_score for one in grades if one.name != LABEL}
    assert found == deserved, results[student].line


def test_marks_hold_what_was_set_and_what_cannot_be_read_has_none(term):
    out, results = term
    rows = {row["id"]: row for row in csv.DictReader((out / "grades.csv").open(encoding="utf-8"))}
    assert set(rows) == {*PAPERS, *UNREAD, "absent"}
    assert rows["right"]["name"] == "The right" and rows["right"]["email"] == "right@school"
    assert rows["right"][f"{NAME} {ENDS}"] == "1" and rows["wrong"][f"{NAME} {ENDS}"] == "0"
    for one in ("absent", *UNREAD):
        assert {rows[one][column] for column in rows[one] if NAME in column} == {""}, one
    for one in UNREAD:
        assert results[one].notebook is None and results[one].notes, one
    assert not [column for column in rows["right"] if column[:2].isdigit() and NAME not in column]
    with (out / "grades-canvas.csv").open(encoding="utf-8") as file:
        head, most, *_ = csv.reader(file)
    assert head == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", NAME]
    assert most[0].strip() == "Points Possible" and most[-1] == "8"


def test_students_get_no_answer_and_feedback_says_what_is_right_and_what_is_wrong(term):
    out, _ = term
    handed = (out / f"release/{NAME}/{NAME}.ipynb").read_text()
    assert not any(said in handed for said in ("A solution in words", "SOLUTION", "math.cos"))
    right, wrong = ((out / f"feedback/{one}/{NAME}/{NAME}.html").read_text()
                    for one in ("right", "wrong"))
    assert f"{SPREADS} is right." in right and f"{SPREADS} is right." not in wrong
    # the questions by name, and not the chapter
    assert f">{SPREADS}</a>" in right and f"{LABEL}, in words" in right
    assert "A chapter of one exercise" not in right and "def check_answer" not in right
    assert "3 of 3 entries are wrong" in wrong


def test_marks_are_kept_at_once_and_nothing_takes_away_a_teachers(term, tmp_path, monkeypatch):
    """Not an interruption, and neither a damaged file that comes later."""
    out = shutil.copytree(term[0], tmp_path / "course")
    with opened(out).gradebook as book:
        book.find_grade(LABEL, NAME, NAME, "right").manual_score = 2
        book.db.commit()

    def verdicts(notebook, *_):
        if monkeypatch.seen.append(notebook) or monkeypatch.seen[1:]:
            raise KeyboardInterrupt
        return dict.fromkeys(RIGHT, "it is wrong now")

    monkeypatch.seen = []
    monkeypatch.setattr(grade, "verdicts", verdicts)
    with pytest.raises(KeyboardInterrupt):
        grade.grade(out, NAME, ["right", "wrong"], walls=False, jobs=1)
    (out / f"submitted/right/{NAME}/{NAME}.ipynb").write_text("no notebook")
    result, = grade.grade(out, NAME, ["right"], walls=False)
    assert result.notebook is None and result.notes[-1] == "the marks of an earlier file stay"
    assert (out / f"checked/right/{NAME}/{NAME}.ipynb").exists()
    with opened(out).gradebook as book:
        grades = book.find_submission_notebook(NAME, NAME, "right").grades
        assert {one.name: one.score for one in grades} == NONE | {LABEL: 2.0}


@pytest.mark.parametrize("student, said", [
    ("file", "is a file"), ("nested", f"holds '{NAME}'"), ("a[1]", "nbgrader looks for others"),
    ("Zo\udceb", "is no UTF-8")])
def test_a_folder_that_cannot_be_graded_is_named(tmp_path, student, said):
    place = tmp_path / student / NAME
    (place / NAME if student == "nested" else place.parent).mkdir(parents=True)
    if student == "file":
        place.write_text("")
    result = grade.examined(place, OF, new_notebook(), [], LIMITS, False)
    assert result.notebook is None and said in result.line and result.line.isprintable()


def test_half_a_character_loses_no_notebook_and_a_second_file_is_named(tmp_path):
    cell = {"source": "word = '\udc00'", "cell_type": "code",
            "outputs": [{"text": ["\udc00"]}], "metadata": {"nbgrader": {"grade_id": "known"}}}
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": [cell]}))
    known = new_code_cell(metadata={"nbgrader": {"grade_id": "known", "locked": False}})
    (tmp_path / "a (1).ipynb").write_text("newer")
    made, notes = read(tmp_path, new_notebook(cells=[known]), "a")
    assert notes == ["'a (1).ipynb' beside it was not read"]
    nbformat.write(made, tmp_path / "b.ipynb")
    assert made.cells[0].source == "word = '?'"


SEEN = """
import os, socket
try:
    socket.create_connection(("127.0.0.1", PORT), 1)
    net = 1
except OSError:
    net = 0
processes = [name for name in os.listdir("/proc") if name.isdigit() and int(name) > 9]
files = [name for path in PATHS if os.path.exists(path) for name in os.listdir(path)]
my_view = [net, len(processes), len(files), os.getppid()]
"""


def test_nothing_is_seen_through_the_walls(term):
    """Neither the network, nor a process, nor the course, nor classes/."""
    out, _ = term
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        paths = [str(out), str(ROOT / "classes"), str(ROOT / "tests")]
        seen = SEEN.replace("PORT", str(port)).replace("PATHS", repr(paths))
        for walls in (True, False) if WALLS else (False,):
            with process_of([out], LIMITS, walls) as process:
                view = process.answers([(0, seen)], ["my_view"])[0]["my_view"]["value"]
            assert (view == [0, 0, 0, 0]) is walls, view


def test_without_walls_grading_refuses_unless_told(term, monkeypatch):
    out, _ = term
    monkeypatch.setattr(grade, "stand", lambda hidden: "unshare is refused")
    with pytest.raises(SystemExit, match="no walls can be built.*unshare is refused.*--no-walls"):
        grade.grade(out, NAME, ["right"])


def test_a_course_whose_settings_run_students_programs_is_refused(tmp_path):
    text = (ROOT / "classes/nbgrader_config.py").read_text()
    (tmp_path / "nbgrader_config.py").write_text(text.partition("c.Autograde")[0])
    with pytest.raises(SystemExit, match="must leave running to grade.py"):
        opened(tmp_path)


@pytest.mark.parametrize("text, said", [
    ("name,id\nAnna,anna\n", "must have the columns"), ("", "must have the columns"),
    ("name,id,email\nA,a,\nB,a,\n", "a twice"), ("name,id,email\nA,../b,\n", "name of a folder"),
    ("name,id,email\nA,,\n", "name of a folder"), ("name,id,email\nA,a*,\n", "without")])
def test_a_list_of_students_that_is_none_is_named(tmp_path, text, said):
    (tmp_path / "roster.csv").write_text(text)
    with pytest.raises(ValueError, match=said):
        roster(tmp_path / "roster.csv")
    with pytest.raises(SystemExit, match=said):
        register(tmp_path, None)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("mark", [",", ";", "\t", ", "])
def test_a_list_of_students_is_read_as_a_spreadsheet_writes_it(tmp_path, encoding, mark):
    rows = [("name", "id", "email"), ('"Müller\r\nZoë"', "zoë", "z@s"), [""] * 3, ("B", "b", "")]
    text = "\r\n".join(map(mark.join, rows))
    (tmp_path / "roster.csv").write_bytes(text.encode(encoding))
    assert roster(tmp_path / "roster.csv") == [
        Person("Müller\r\nZoë", "zoë", "z@s"), Person("B", "b", "")]
