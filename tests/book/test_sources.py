"""The table of contents, the bibliography and links to files of the repository fit together."""

import json
import re
from pathlib import Path

import pytest
from geolab_plain import myst
from pybtex.database import parse_file

import paper

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = [*sorted(ROOT.glob("notebooks/*.ipynb")), *sorted(ROOT.glob("book/*.ipynb"))]
PAGES = [*NOTEBOOKS, *sorted(ROOT.glob("book/*.md"))]
READ_ON_GITHUB = sorted(ROOT.glob("*.md"))
LINKS = {"doi": r"10\.\d{4,}/\S+", "eprint": r"\d{4}\.\d{4,5}", "url": r"https://\S+"}
WITHOUT_LINK = {
    "birkhoff1946",       # we know of no copy that is free to read
    "kaczmarz1937",       # the same
    "kucera1967",         # a printed book
    "perfect1965doubly",  # the journal is online, but we found no confirmed address of the paper
    "survey2026streams",  # neither its author nor its address is known
}
names = pytest.mark.parametrize("path", [*PAGES, *READ_ON_GITHUB],
                                ids=lambda path: str(path.relative_to(ROOT)))


def text(path: Path) -> str:
    if path.suffix != ".ipynb":
        return path.read_text()
    cells = json.loads(path.read_text())["cells"]
    return "\n\n".join(myst("".join(cell["source"])) for cell in cells
                       if cell["cell_type"] == "markdown")


def toc() -> list[str]:
    return [name for name, _ in paper.contents()]


def test_the_answer_about_bytes_is_the_stored_count():
    rows = json.loads((ROOT / "results/schedule.json").read_text())["rows"]
    vectors = {row["schedule"]: row["vectors"] for row in rows if row["n"] == 4}
    told = (ROOT / "book/questions.md").read_text()
    for schedule in ("two phases, joined", "a sublayer alone", "floor, joined"):
        assert "{:.0f} + {:.0f}".format(*vectors[schedule]) in told


def test_every_page_is_in_the_table_of_contents_once_and_every_entry_exists():
    assert sorted(toc()) == sorted(str(path.relative_to(ROOT).with_suffix("")) for path in PAGES)


def test_chapters_are_in_the_order_of_their_numbers():
    chapters = [page for page in toc() if page.startswith("notebooks/")]
    assert chapters == sorted(chapters)


@names
def test_every_citation_is_in_the_bibliography(path):
    roles = re.findall(r"\{(?:foot)?cite(?::\w+)?\}`([^`]+)`", text(path))
    cited = {key.strip() for keys in roles for key in keys.split(",")}
    assert cited <= set(parse_file(ROOT / "book/references.bib").entries)


def test_every_entry_of_the_bibliography_can_be_cited():
    for key, entry in parse_file(ROOT / "book/references.bib").entries.items():
        assert entry.persons.get("author"), key
        assert entry.fields.get("title") and entry.fields.get("year"), key


def test_a_reader_can_open_the_source_behind_every_entry_of_the_bibliography():
    without = set()
    for key, entry in parse_file(ROOT / "book/references.bib").entries.items():
        links = {kind: entry.fields[kind] for kind in LINKS if kind in entry.fields}
        assert all(re.fullmatch(LINKS[kind], link) for kind, link in links.items()), key
        if not links:
            without.add(key)
    assert without == WITHOUT_LINK


@pytest.mark.parametrize("path", READ_ON_GITHUB, ids=lambda path: path.name)
def test_every_relative_link_names_a_file(path):
    linked = re.findall(r"\]\((?!https?:|mailto:|#)([^)\s#]+)", path.read_text())
    assert not [name for name in linked if not (path.parent / name).exists()]

