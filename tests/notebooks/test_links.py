"""A notebook's sentences show no roles, and what stands in their links is true."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from geolab_links import LINK, NUMBERED, roles, works

from class_text import cited, markdown

ROOT = Path(__file__).resolve().parents[2]
STATEMENT = re.compile(r"^(?:`{3,}|:{3,})\{(?:prf:)?(theorem|proposition|lemma|corollary|definition"
                       r"|exercise)\}.*\n(?::.*\n)*?:label: *(\S+)", re.M)


@pytest.fixture(scope="module")
def numbers() -> dict[str, str]:
    """label -> "Theorem 2.1": the first theorem of chapter 2."""
    found = {}
    for path in ROOT.glob("notebooks/*.ipynb"):
        so_far = Counter()
        for kind, label in STATEMENT.findall(markdown(json.loads(path.read_text()))):
            so_far[kind] += 1
            found[label] = f"{kind.capitalize()} {int(path.stem[:2])}.{so_far[kind]}"
    return found


def test_a_sentence_shows_no_role(notebook):
    found = re.findall(r"\{[\w:]+\}`[^`]*`", notebook.text)
    assert not found, "book/_ext/geolab_links.py says which links stand for roles"


def test_the_number_in_a_link_is_that_of_its_target(notebook, numbers):
    wrong = [link[0] for link in LINK.finditer(notebook.text)
             if NUMBERED.fullmatch(link[1]) and link[1] != numbers[link[3]]]
    assert not wrong, numbers


def test_a_citation_names_its_authors(notebook):
    for link in LINK.finditer(notebook.text):
        if works().issuperset(keys := link[3].split(",")):
            for key in keys:
                assert cited(key).rsplit(" ", 1)[0] in link[1], link[0]


@pytest.mark.parametrize("link, role", [
    ("[Theorem 2.1](#a-b)", "{prf:ref}`a-b`"),
    ("[Exercise 2.1](#ex-a)", "{ref}`ex-a`"),
    ("[an exercise](#ex-a)", "[an exercise](#ex-a)"),
    ("[(eq-a)](#eq-a)", "{eq}`eq-a`"),
    ("[Su and You](#su2026mgt)", "{footcite:t}`su2026mgt`"),
    ("[(Su and You, 2026)](#su2026mgt)", "{footcite:p}`su2026mgt`"),
    ("[ledger](../book/hypotheses.ipynb#a)", "{row}`a`"),
    ("[a table](../book/hypotheses.ipynb#a)", "[a table](../book/hypotheses.ipynb#a)")])
def test_the_page_has_a_role_for_a_link(link, role):
    assert roles(f"So {link}.") == f"So {role}."
