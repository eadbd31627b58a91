"""Every statement of the registry is in its chapter: stated, proved, asserted."""

import ast
import json
import re
from functools import cache

import pytest
import torch
from geolab_plain import myst
from hypothesis import given
from hypothesis import strategies as st
from pybtex.database import parse_file
from torch.testing import assert_close

from studies.claims import SOURCES, TABLES, THEOREMS
from studies.claims.hypothesis import BOOK, HYPOTHESES
from studies.engine.results import ROOT

CHAPTERS = [path.stem for path in sorted(ROOT.glob("notebooks/*.ipynb"))]
STATEMENTS = ("prf:theorem", "prf:lemma", "prf:proposition", "prf:corollary")


@cache
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


def asserted(chapter: str) -> list[tuple[str, str]]:
    """(label, the code of a cell that says `# asserts <label>`)."""
    return [(label, source) for source in cells(chapter, "code")
            for label in re.findall(r"^# asserts (\S+)$", source, re.M)]


def can_fail(source: str) -> bool:
    """The cell compares computed things: by an assert with a name in it, or by assert_close."""
    nodes = list(ast.walk(ast.parse(source)))
    asserts = [node.test for node in nodes if isinstance(node, ast.Assert)]
    calls = [node.func for node in nodes if isinstance(node, ast.Call)]
    return (any(isinstance(part, ast.Name) for test in asserts for part in ast.walk(test))
            or any(isinstance(call, ast.Attribute) and call.attr.startswith("assert_")
                   for call in calls))


@pytest.mark.parametrize("theorem", THEOREMS, ids=lambda one: f"{one.source} {one.number}")
def test_it_is_stated_in_its_chapter_proved_and_asserted(theorem):
    order = directives(theorem.chapter)
    [at] = [k for k, (_, label) in enumerate(order) if label == theorem.label]
    assert order[at][0] in STATEMENTS
    if theorem.verdict != "measured":
        assert order[at + 1:at + 2] == [("prf:proof", None)]
    assert theorem.remark or theorem.verdict == "holds"   # it says why it falls short
    sources = [source for label, source in asserted(theorem.chapter) if label == theorem.label]
    assert sources, f"no cell of {theorem.chapter} says: # asserts {theorem.label}"
    for source in sources:
        assert can_fail(source), f"nothing here can fail:\n{source}"


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_what_is_stated_has_a_label_of_its_own_and_what_a_cell_asserts_is_stated(chapter):
    labels = [label for kind, label in directives(chapter) if kind in STATEMENTS]
    assert all(labels) and len(set(labels)) == len(labels)
    assert {label for label, _ in asserted(chapter)} <= set(labels)


def test_a_statement_stands_once_in_one_chapter():
    chapters = {theorem.label: theorem.chapter for theorem in THEOREMS}
    assert all(chapters[theorem.label] == theorem.chapter for theorem in THEOREMS)
    assert len({(theorem.source, theorem.number) for theorem in THEOREMS}) == len(THEOREMS)


def test_every_source_is_used_and_in_the_bibliography():
    used = {row.source for rows in (THEOREMS, TABLES.values(), HYPOTHESES) for row in rows}
    assert used - {BOOK} == set(SOURCES)
    assert set(SOURCES.values()) <= set(parse_file(ROOT / "book/references.bib").entries)


@given(st.integers(0, 2**31), st.integers(2, 9), st.integers(2, 5), st.data())
def test_predict_and_correct_is_a_hyper_connection(seed, d, n, data):
    """hyper-altup, which no cell asserts."""
    j = data.draw(st.integers(0, n - 1))
    generator = torch.Generator().manual_seed(seed)
    X, P, g, found = (torch.randn(*shape, generator=generator, dtype=torch.float64)
                      for shape in ((n, d), (n, n), (n,), (d,)))
    H = (torch.eye(n, dtype=torch.float64) - torch.outer(g, torch.eye(n).double()[j])) @ P
    predicted = P @ X
    assert_close(H @ X + torch.outer(g, found),
                 predicted + torch.outer(g, found - predicted[j]), rtol=1e-9, atol=1e-9)
    assert_close(torch.linalg.det(H), (1 - g[j]) * torch.linalg.det(P), rtol=1e-9, atol=1e-9)
