"""The courses by weeks name chapters that exist, and their minutes are the chapters' own."""

import json
import re

import pytest
import yaml
from geolab_syllabus import MARK, PAGE, ROOT, Plan, chapters, data, plan, put, tables

COURSES = data()["courses"]


def drawn(number: int) -> bool:
    """Whether a class gets numbers of its own in a chapter's questions."""
    path = next(ROOT.glob(f"classes/{number:02}_*.yml"))
    return any("draw" in check for check in yaml.safe_load(path.read_text())["checks"])


def test_there_are_courses_of_four_eight_and_twelve_weeks():
    assert [len(of["plan"]) for of in COURSES] == [4, 8, 12]
    assert [of["name"] for of in COURSES] == ["Four weeks", "Eight weeks", "Twelve weeks"]


@pytest.mark.parametrize("of", COURSES, ids=lambda of: of["name"])
def test_a_graded_sheet_is_of_a_chapter_that_was_read_and_has_numbers_of_the_class(of):
    read = []
    for week in of["plan"]:
        read += week["chapters"]
        assert "sheet" not in week or (week["sheet"] in week["chapters"] and drawn(week["sheet"]))
    assert len(set(read)) == len(read) and set(read) <= set(chapters())
    sheets = sum("sheet" in week for week in of["plan"])
    words = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight")
    assert of["grading"].lower().startswith(f"{words[sheets]} graded sheets")


@pytest.mark.parametrize("of", COURSES, ids=lambda of: of["name"])
def test_what_a_chapter_needs_comes_before_it(of):
    """The chapters that a chapter names are read by then, if the course has them at all."""
    read = {chapter for week in of["plan"] for chapter in week["chapters"]}
    seen = set()
    for week in of["plan"]:
        for chapter in week["chapters"]:
            seen.add(chapter)
            told = re.search(r"chapters? ([\d, and]+)", data()["before"][chapter])
            needed = set(map(int, re.findall(r"\d+", told[1]))) if told else set()
            assert needed & read <= seen, f"chapter {chapter} before {needed & read - seen}"


def test_the_minutes_are_read_from_the_plans():
    assert list(data()["before"]) == list(chapters())
    for number, path in chapters().items():
        found, text = plan(path), path.read_text()
        assert f"about {found.reading} minutes" in text and 0 < found.exercises < 100
        row = next(line for line in tables().splitlines()
                   if line.startswith(f"| {{doc}}`../notebooks/{path.stem}`"))
        assert row.endswith(f"| {found.reading} | {found.exercises} |"), number


def test_a_chapter_without_a_plan_is_named(tmp_path):
    path = tmp_path / "99_new.ipynb"
    summary = "<summary>The plan of this chapter: about 7 minutes</summary>\n\n"
    cell = {"cell_type": "markdown", "source": summary + "| Exercises | 20 | choose two |\n"}
    path.write_text(json.dumps({"cells": [cell]}))
    assert plan(path) == Plan(7, 20)
    path.write_text(json.dumps({"cells": []}))
    with pytest.raises(ValueError, match="99_new.ipynb has no plan"):
        plan(path)


def test_the_page_gets_the_tables_in_the_place_of_the_mark():
    text = (ROOT / f"{PAGE}.md").read_text()
    source = [text]
    put(None, PAGE, source)
    assert MARK in text and MARK not in source[0] and "## Twelve weeks" in source[0]
    other = [text]
    put(None, "book/other", other)
    assert other == [text]
