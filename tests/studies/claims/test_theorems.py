"""Every statement of the registry is in its chapter: stated, proved, asserted."""

import ast
import json
import re
from pathlib import Path

import pytest
from geolab_plain import myst
from pybtex.database import parse_file

from studies.claims import SOURCES, TABLES, THEOREMS, Theorem

ROOT = Path(__file__).resolve().parents[3]
CHAPTERS = sorted(ROOT.glob("notebooks/*.ipynb"))
PROVED = [theorem for theorem in THEOREMS if theorem.verdict != "measured"]
STATEMENTS = ("prf:theorem", "prf:lemma", "prf:proposition", "prf:corollary")
FIELDS = {"source": "DDL", "number": "theorem 0", "statement": "A = A.",
          "chapter": "02_delta_operator", "label": "same",
          "verdict": "holds"}


def cells(chapter: str, kind: str) -> list[str]:
    notebook = json.loads((ROOT / f"notebooks/{chapter}.ipynb").read_text())
    found = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == kind]
    return [myst(text) for text in found] if kind == "markdown" else found


def directives(chapter: str) -> list[tuple[str, str | None]]:
    """The chapter's definitions, statements and proofs in order: (name, label)."""
    found = re.findall(r"^[:`]{3,}\{(prf:\w+)\}.*\n((?::.*\n)*)",
                       "\n\n".join(cells(chapter, "markdown")) + "\n", re.M)
    labels = [re.search(r"^:label: *(\S+)", options, re.M) for _, options in found]
    return [(name, label[1] if label else None) for (name, _), label in zip(found, labels)]


def asserted(chapter: str) -> dict[str, list[str]]:
    """label -> the code cells that say `# asserts <label>`."""
    found: dict[str, list[str]] = {}
    for source in cells(chapter, "code"):
        for label in re.findall(r"^# asserts (\S+)$", source, re.M):
            found.setdefault(label, []).append(source)
    return found


def can_fail(source: str) -> bool:
    """The cell compares computed things: by an assert with a name in it, or by assert_close."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assert) and any(isinstance(part, ast.Name)
                                                for part in ast.walk(node.test)):
            return True
        if isinstance(node, ast.Call) and isinstance(node.func,
                                                     ast.Attribute) and node.func.attr.startswith(
                                                         "assert_"):
            return True
    return False


def name(theorem: Theorem) -> str:
    return f"{theorem.source} {theorem.number}"


@pytest.mark.parametrize("theorem", THEOREMS, ids=name)
class TestInItsChapter:
    def test_it_is_stated_under_its_label(self, theorem):
        labelled = [kind for kind, label in directives(theorem.chapter) if label == theorem.label]
        assert len(labelled) == 1 and labelled[0] in STATEMENTS

    def test_a_cell_asserts_it(self, theorem):
        sources = asserted(theorem.chapter).get(theorem.label, [])
        assert sources, f"no cell of {theorem.chapter} says: # asserts {theorem.label}"
        for source in sources:
            assert can_fail(source), f"nothing here can fail:\n{source}"


@pytest.mark.parametrize("theorem", PROVED, ids=name)
def test_its_proof_follows(theorem):
    order = directives(theorem.chapter)
    [at] = [k for k, (_, label) in enumerate(order) if label == theorem.label]
    assert order[at + 1:at + 2] == [("prf:proof", None)]


@pytest.mark.parametrize("chapter", [path.stem for path in CHAPTERS])
class TestChapter:
    def test_what_a_cell_asserts_is_stated(self, chapter):
        stated = {label for kind, label in directives(chapter) if kind in STATEMENTS}
        assert set(asserted(chapter)) <= stated

    def test_what_is_stated_has_a_label_of_its_own(self, chapter):
        labels = [label for kind, label in directives(chapter) if kind in STATEMENTS]
        assert all(labels) and len(set(labels)) == len(labels)


def test_no_statement_stands_twice():
    assert len({(theorem.source, theorem.number) for theorem in THEOREMS}) == len(THEOREMS)


def test_a_label_belongs_to_one_chapter():
    chapters = {theorem.label: theorem.chapter for theorem in THEOREMS}
    assert all(chapters[theorem.label] == theorem.chapter for theorem in THEOREMS)


@pytest.mark.parametrize("theorem", THEOREMS, ids=name)
def test_a_verdict_short_of_holds_says_why(theorem):
    assert theorem.remark or theorem.verdict == "holds"


def test_every_source_is_in_the_bibliography():
    assert set(SOURCES.values()) <= set(parse_file(ROOT / "book/references.bib").entries)


def test_every_source_is_used():
    assert ({theorem.source for theorem in THEOREMS} | {table.source for table in TABLES.values()}
            == set(SOURCES))


def test_the_fields_of_a_theorem_are_checked():
    assert Theorem(**FIELDS).remark == ""
    with pytest.raises(ValueError, match="source must be one of MGT, .*, got 'Euclid'"):
        Theorem(**{**FIELDS, "source": "Euclid"})
    with pytest.raises(ValueError, match="verdict must be one of holds, .*, got 'maybe'"):
        Theorem(**{**FIELDS, "verdict": "maybe"})
