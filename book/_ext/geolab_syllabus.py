"""The page of syllabuses: courses of some weeks, whose minutes come from the chapters' own plans.

classes/course/syllabus.yml says which chapters a week has. A page with the line MARK gets the
tables in its place, anew at each build, so that no minute is written twice.
"""

import json
import re
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import yaml

ROOT = Path(find_spec("studies").origin).parents[1]
PAGE = "book/syllabus"
MARK = "<!-- the courses -->"
ABOUT = re.compile(r"<summary>The plan of this chapter: about (\d+) minutes")
EXERCISES = re.compile(r"^\| Exercises \| (\d+) \|", re.M)


class Plan(NamedTuple):
    reading: int      # minutes, without what is optional
    exercises: int    # minutes


def chapters() -> dict[int, Path]:
    return {int(path.name[:2]): path for path in sorted(ROOT.glob("notebooks/[0-9]*.ipynb"))}


def plan(path: Path) -> Plan:
    """A chapter's minutes. Raises ValueError for a chapter whose plan doesn't state them."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    found = [pattern.search(text) for pattern in (ABOUT, EXERCISES)]
    if not all(found):
        raise ValueError(f"{path.name} has no plan with minutes")
    return Plan(*(int(one[1]) for one in found))


def data() -> dict:
    return yaml.safe_load((ROOT / "classes/course/syllabus.yml").read_text(encoding="utf-8"))


def tables() -> str:
    """All courses and the list of chapters, as MyST."""
    found, known = chapters(), data()
    plans = {number: plan(path) for number, path in found.items()}
    links = {number: f"{{doc}}`../notebooks/{path.stem}`" for number, path in found.items()}
    made = [course(of, plans, links) for of in known["courses"]]
    rows = "\n".join(f"| {links[number]} | {before} | {plans[number].reading} | "
                     f"{plans[number].exercises} |" for number, before in known["before"].items())
    return "\n\n".join([*made, "## All chapters", "| Chapter | To know before | Reading, minutes | "
                        f"Exercises, minutes |\n|---|---|---|---|\n{rows}"])


def course(of: dict, plans: dict[int, Plan], links: dict[int, str]) -> str:
    """One course: its goals, what it asks for, its weeks, and the sums of its minutes."""
    rows, reading, exercises = "", 0, 0
    for number, week in enumerate(of["plan"], start=1):
        read, work = (sum(plans[k][field] for k in week["chapters"]) for field in (0, 1))
        reading, exercises = reading + read, exercises + work
        graded = f"sheet\u00a0{week['sheet']}" if "sheet" in week else week.get("hand in", "")
        read_first = "<br>".join(links[k] for k in week["chapters"])
        rows += f"| {number} | {read_first}<br>{week['goal']} | {read}, {work} | {graded} |\n"
    goals = "\n".join(f"- {goal}" for goal in of["goals"])
    return (f"## {of['name']}\n\n**Afterwards students can**\n\n{goals}\n\n"
            f"**Prerequisites:** {of['prerequisites']}\n\n"
            "| Week | Chapters, and the goal | Minutes: reading, exercises | To hand in |\n"
            f"|---|---|---|---|\n{rows}\n"
            f"In all: {90 * len(of['plan'])} minutes in the room, {reading} of reading, and "
            f"{exercises} of exercises. {of['grading']}")


def put(app, page, source):
    if page == PAGE:
        source[0] = source[0].replace(MARK, tables())


def setup(app):
    app.connect("source-read", put)
    app.connect("env-get-outdated", lambda app, env, added, changed, removed: [PAGE])
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
