"""The table of contents, the bibliography, links to files, forms and rubrics fit together."""

import json
import re
from pathlib import Path

import pytest
import yaml
from pybtex.database import parse_file

import paper
from leaderboard import read

ROOT = Path(__file__).resolve().parents[2]
PAGES = [path for pattern in ("notebooks/*.ipynb", "book/*.ipynb", "book/*.md")
         for path in ROOT.glob(pattern)]
READ_ON_GITHUB = sorted(ROOT.glob("*.md"))
FORMS = [path for path in sorted(ROOT.glob(".github/ISSUE_TEMPLATE/*.yml"))
         if path.stem != "config"]
KINDS = {"input", "textarea", "dropdown", "checkboxes", "markdown"}
LINKS = {"doi": r"10\.\d{4,}/\S+", "eprint": r"\d{4}\.\d{4,5}", "url": r"https://\S+"}
WITHOUT_LINK = {
    "birkhoff1946",       # we know of no copy that is free to read
    "kaczmarz1937",       # the same
    "kucera1967",         # a printed book
    "perfect1965doubly",  # the journal is online, but we found no confirmed address of the paper
    "survey2026streams",  # neither its author nor its address is known
}


def test_every_page_is_in_the_table_of_contents_once_and_chapters_are_in_order():
    contents = [name for name, _ in paper.contents()]
    assert sorted(contents) == sorted(str(path.relative_to(ROOT).with_suffix("")) for path in PAGES)
    chapters = [page for page in contents if page.startswith("notebooks/")]
    assert chapters == sorted(chapters)


def test_every_entry_of_the_bibliography_can_be_cited_and_opened():
    without = set()
    for key, entry in parse_file(ROOT / "book/references.bib").entries.items():
        assert entry.persons.get("author"), key
        assert entry.fields.get("title") and entry.fields.get("year"), key
        links = {kind: entry.fields[kind] for kind in LINKS if kind in entry.fields}
        assert all(re.fullmatch(LINKS[kind], link) for kind, link in links.items()), key
        if not links:
            without.add(key)
    assert without == WITHOUT_LINK


@pytest.mark.parametrize("path", READ_ON_GITHUB, ids=lambda path: path.name)
def test_every_relative_link_names_a_file(path):
    linked = re.findall(r"\]\((?!https?:|mailto:|#)([^)\s#]+)", path.read_text())
    assert not [name for name in linked if not (path.parent / name).exists()]


def test_the_answer_about_bytes_is_the_stored_count():
    rows = json.loads((ROOT / "results/schedule.json").read_text())["rows"]
    vectors = {row["schedule"]: row["vectors"] for row in rows if row["n"] == 4}
    told = (ROOT / "book/questions.md").read_text()
    for schedule in ("two phases, joined", "a sublayer alone", "floor, joined"):
        assert "{:.0f} + {:.0f}".format(*vectors[schedule]) in told


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_is_one_that_github_reads(path):
    form = yaml.safe_load(path.read_text())
    assert set(form) == {"name", "description", "title", "labels", "body"}
    assert len({part["id"] for part in form["body"]}) == len(form["body"]) > 1
    for part in form["body"]:
        assert part["type"] in KINDS and part["attributes"]["label"]
        assert set(part.get("validations", {})) <= {"required"}


def test_a_project_has_a_rubric_of_twenty_points_and_its_sample_can_be_handed_in(tmp_path):
    text = (ROOT / "book/projects.md").read_text()
    _, *projects = re.split(r"^## ", text, flags=re.M)
    assert projects
    for project in projects:
        rows = [[cell.strip() for cell in row.strip("|").split("|")]
                for row in project.splitlines() if row.startswith("|")][2:]
        assert sum(int(points) for _, points, *_ in rows) == 20
        assert all(len(row) == 4 and all(row) for row in rows)
    (tmp_path / "a.json").write_text(re.search(r"```json\n(.*?)```", text, re.S)[1])
    entry = read(tmp_path / "a.json", 30)
    assert len(entry.blocks) == len(entry.scales)
