"""A class's seed is made once, a teacher's changes stay, and no archive holds a course."""

import re
import shutil
import sys
from types import SimpleNamespace

import pytest
from nbconvert.exporters import HTMLExporter
from nbformat.v4 import new_markdown_cell, new_notebook
from nbgrader.converters import GenerateFeedback
from nbgrader.coursedir import CourseDirectory
from nbgrader.server_extensions.formgrader.formgrader import FormgradeExtension
from traitlets.config.loader import PyFileConfigLoader

import class_kit
import grade_marks
from class_questions import ROOT, chosen, save, session

NAMES = ["02_delta_operator", "12_commutator", "20_roofline"]


def run(monkeypatch, *words) -> None:
    monkeypatch.setattr(sys, "argv", ["class_kit.py", *map(str, words)])
    class_kit.main()


def test_a_seed_is_made_once_for_its_owner_alone(tmp_path):
    path = tmp_path / "new/class.seed"
    seed = class_kit.class_seed(path)
    assert class_kit.class_seed(path) == seed and path.stat().st_mode & 0o077 == 0
    assert class_kit.class_seed(tmp_path / "other") != seed
    path.write_text("a shopping list")
    with pytest.raises(SystemExit, match="--seed must be a file"):
        class_kit.class_seed(path)
    assert path.read_text() == "a shopping list"


@pytest.mark.parametrize("option", ["--seed", "--bank"])
def test_what_students_must_not_have_lies_outside_of_the_clone(monkeypatch, option, tmp_path):
    with pytest.raises(SystemExit, match="outside of the clone"):
        run(monkeypatch, "--out", tmp_path, option, class_kit.ROOT / "classes")


@pytest.mark.parametrize("name", class_kit.PRIVATE)
def test_a_release_is_never_made_in_a_course(monkeypatch, tmp_path, name):
    (tmp_path / name).mkdir()
    with pytest.raises(SystemExit, match=f"without a course.*{name}"):
        run(monkeypatch, "--practice", "--out", tmp_path)


def test_what_a_teacher_has_changed_stays(monkeypatch, tmp_path):
    path = tmp_path / "source/02_delta_operator/02_delta_operator.ipynb"
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    (tmp_path / "keys").mkdir()
    made = f"02_delta_operator {class_kit.fingerprint(path)}\n"
    (tmp_path / class_kit.SOURCES).write_text(made)
    assert not class_kit.changed(NAMES, tmp_path)
    path.write_text('{"cells": "a cell of mine"}')
    with pytest.raises(SystemExit, match="has changed source/02_delta_operator.*FORCE=1"):
        run(monkeypatch, "--only", "2", "--out", tmp_path, "--seed", tmp_path / "seed")
    assert "a cell of mine" in path.read_text()


@pytest.mark.parametrize("variants", ["", "A,B", "AA", "../A"])
def test_a_variant_has_a_letter_of_its_own(monkeypatch, tmp_path, variants):
    with pytest.raises(SystemExit, match="--variants must be letters, each once"):
        run(monkeypatch, "--out", tmp_path, "--variants", variants)


def test_who_has_handed_in_is_not_graded_by_other_questions(monkeypatch, tmp_path):
    name, seeds = "02_delta_operator", (tmp_path / "seed", tmp_path / "another")
    (tmp_path / "keys").mkdir()
    save(session(name, class_kit.class_seed(seeds[0])), tmp_path / f"keys/{name}.json")
    (tmp_path / f"submitted/anna/{name}").mkdir(parents=True)
    for seed, said in zip(seeds, ("no built book", "have handed in 02.*FORCE=1"), strict=True):
        with pytest.raises(SystemExit, match=said):
            run(monkeypatch, "--only", "2", "--out", tmp_path, "--seed", seed,
                "--site", tmp_path / "none")


def test_an_interruption_leaves_files_of_the_kit_as_they_were(monkeypatch, tmp_path):
    def cut(*_, **__):
        raise KeyboardInterrupt

    path = tmp_path / "a.html"
    class_kit.put(path, "before")
    monkeypatch.setattr("geolab.files.os.replace", cut)
    for write in (lambda: class_kit.put(path, "after"),
                  lambda: grade_marks.table(path, ["name"], [["Anna"]])):
        with pytest.raises(KeyboardInterrupt):
            write()
        assert [one.name for one in tmp_path.iterdir()] == ["a.html"]
        assert path.read_text() == "before"


def test_no_tool_of_the_class_writes_a_file_in_place():
    """They write by `put` or by `whole`, and nbgrader writes the rest."""
    for path in ROOT.glob("tools/*.py"):
        if path.stem.startswith(("class_", "grade", "leader")):
            for line in path.read_text().splitlines():
                if re.search(r"write_text|write_bytes|nbformat\.write|\.open\(.w|\.save\(", line):
                    assert "partial" in line, f"{path.name}: {line}"


def test_a_session_has_three_names_and_an_unknown_one_is_named():
    for wanted in ("2", "02", "02_delta_operator"):
        assert chosen(NAMES, [wanted]) == ["02_delta_operator"]
    for wanted in ("", "0", "3", "delta", "022"):
        with pytest.raises(SystemExit, match=f"got {wanted}"):
            chosen(NAMES, [wanted])


FORMULAS = "/* sets {{formulas}} and 5 % */"


@pytest.fixture
def course(tmp_path):
    """A course's folder with its settings and the script of its formulas."""
    shutil.copy(class_kit.ROOT / "classes/nbgrader_config.py", tmp_path)
    class_kit.formulas(FORMULAS, tmp_path)
    return tmp_path


def needs_a_network(page: str) -> bool:
    return bool(re.search(r"<(?:script|link|img)[^>]*(?:src|href)=.https?:", page))


def test_formulas_of_feedback_need_no_network(course):
    """nbgrader takes the course's macro for MathJax, and the page shows questions alone."""
    config = PyFileConfigLoader("nbgrader_config.py", path=str(course)).load_config()
    course = CourseDirectory(config=config, root=str(course))
    feedback = HTMLExporter(config=GenerateFeedback(coursedir=course, config=config).config)
    known = {"notebook": "02", "student": "anna", "score": 1, "max_score": 2, "late_penalty": 0}
    cells = [new_markdown_cell("A chapter."), new_markdown_cell("**Question.** A $x$.")]
    page, _ = feedback.from_notebook_node(new_notebook(cells=cells), resources={"nbgrader": known})
    assert page.count(FORMULAS) == 1 and not needs_a_network(page)
    assert "A $x$." in page and "A chapter." not in page
    assert 'inlineMath: [["$", "$"], ["\\\\(", "\\\\)"]]' in page and "(Score: 1" in page


def test_formulas_of_formgrader_need_no_network(course, monkeypatch):
    """Its server extension, started in the course's folder, takes the same macro."""
    monkeypatch.chdir(course)
    formgrader, server = FormgradeExtension(), SimpleNamespace(settings={})
    formgrader.root_dir = str(course)
    formgrader.initialize([])
    formgrader.init_tornado_settings(server)
    page, _ = server.settings["nbgrader_exporter"].from_notebook_node(
        new_notebook(cells=[new_markdown_cell("A $x$.")]),
        resources={"base_url": "", "notebook_id": "02", "index": 0, "total": 1})
    assert page.count(FORMULAS) == 1 and not needs_a_network(page)
    assert "Submission 1 / 1" in page
