"""The courses by weeks name chapters that exist, and their minutes are the chapters' own."""

import json
import re

import pytest
import yaml
from geolab_syllabus import MARK, PAGE, ROOT, Plan, chapters, data, plan, put

COURSES = pytest.mark.parametrize("course", data()["courses"], ids=lambda course: course["name"])
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
           "eleven", "twelve")
SUMMARY = "<summary>The plan of this chapter: about 7 minutes</summary>\n"
EXERCISES = "| Exercises | 20 | choose two |\n"


def drawn(number: int) -> bool:
    """Whether a class gets numbers of its own in a chapter's questions."""
    path = next(ROOT.glob(f"classes/{number:02}_*.yml"))
    return any("draw" in check for check in yaml.safe_load(path.read_text())["checks"])


@COURSES
def test_a_graded_sheet_is_of_a_chapter_that_was_read_and_has_numbers_of_the_class(course):
    weeks = course["plan"]
    read = [chapter for week in weeks for chapter in week["chapters"]]
    assert len(set(read)) == len(read) and set(read) <= set(chapters())
    sheets = [week for week in weeks if "sheet" in week]
    assert all(week["sheet"] in week["chapters"] and drawn(week["sheet"]) for week in sheets)
    assert course["grading"].lower().startswith(f"{NUMBERS[len(sheets)]} graded sheets")
    assert course["name"].lower() == f"{NUMBERS[len(weeks)]} weeks"


@COURSES
def test_what_a_chapter_needs_comes_before_it(course):
    """The chapters that a chapter names are read by then, if the course has them at all."""
    order = [chapter for week in course["plan"] for chapter in week["chapters"]]
    for k, chapter in enumerate(order):
        told = re.search(r"chapters? ([\d, and]+)", data()["before"][chapter])
        needed = set(map(int, re.findall(r"\d+", told[1]))) if told else set()
        assert needed & set(order) <= set(order[:k + 1]), chapter


@pytest.mark.parametrize("text, found", [
    (SUMMARY + EXERCISES, Plan(7, 20)), (SUMMARY, None), (EXERCISES, None)])
def test_a_plan_is_read_from_the_chapter_or_the_chapter_is_named(tmp_path, text, found):
    path = tmp_path / "99_new.ipynb"
    path.write_text(json.dumps({"cells": [{"cell_type": "markdown", "source": text}]}))
    if found:
        assert plan(path) == found
    else:
        with pytest.raises(ValueError, match="99_new.ipynb has no plan"):
            plan(path)


def test_the_page_gets_the_tables_in_the_place_of_the_mark():
    source = [f"before\n{MARK}\nbehind"]
    put(None, "book/other", source)
    assert MARK in source[0]
    put(None, PAGE, source)
    assert MARK in (ROOT / f"{PAGE}.md").read_text() and MARK not in source[0]
    for number, path in chapters().items():
        row, = re.findall(rf"^\| {{doc}}`../notebooks/{path.stem}` \|.*$", source[0], re.M)
        assert row.endswith(f"| {plan(path).reading} | {plan(path).exercises} |"), number
    assert list(data()["before"]) == list(chapters())
