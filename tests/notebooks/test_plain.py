"""A notebook is Markdown that every program shows, and the numbers and names in it are right."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from geolab_plain import LINK, NUMBERED, SOLVED, STATEMENTS, myst, works

from class_text import cited

ROOT = Path(__file__).resolve().parents[2]
BOX = re.compile(rf'^<\w+ class="({"|".join(STATEMENTS)}|exercise)" id="([\w-]+)">\s+'
                 r"(?:\*\*|<summary>)(\w+ \d+(?:\.\d+)?)", re.M)
MARKUP = re.compile(r"\{[\w:]+\}`[^`]*`|^ *[:`]{3,}\{.*|^\([\w-]+\)=", re.M)


@pytest.fixture(scope="module")
def numbers() -> dict[str, str]:
    """label -> "Theorem 2.1" for the first theorem of chapter 2, "Theorem 1" on other pages."""
    found = {}
    for path in [*ROOT.glob("notebooks/*.ipynb"), *ROOT.glob("book/*.ipynb")]:
        chapter = f"{int(path.stem[:2])}." if path.stem[:2].isdigit() else ""
        so_far: Counter = Counter()
        cells = json.loads(path.read_text())["cells"]
        for kind, label, _ in BOX.findall("\n\n".join("".join(cell["source"]) for cell in cells)):
            so_far[kind] += 1
            found[label] = f"{kind.capitalize()} {chapter}{so_far[kind]}"
    return found


def test_no_directive_and_no_role_is_shown(notebook):
    assert not MARKUP.findall(notebook.plain), "book/_ext/geolab_plain.py has what stands for them"


def test_statements_and_exercises_are_numbered_in_order_and_links_have_their_numbers(
        notebook, numbers):
    for _, label, said in BOX.findall(notebook.plain):
        assert said == numbers[label], label
    for link in LINK.finditer(notebook.plain):
        words, _, label = link.groups()
        if NUMBERED.fullmatch(words):
            assert words == numbers[label], link[0]
        else:  # from another page, Sphinx finds a statement by its number alone
            assert numbers.get(label, "Exercise").startswith("Exercise"), link[0]


def test_a_citation_names_its_authors(notebook):
    for link in LINK.finditer(notebook.plain):
        if works().issuperset(keys := link[3].split(",")):
            for key in keys:
                assert cited(key).rsplit(" ", 1)[0] in link[1], link[0]


@pytest.mark.parametrize("plain, read", [
    ("By [Theorem 2.1](#a-b).", "By {prf:ref}`a-b`."),
    ("[Exercise 2.1](#ex-a)", "{ref}`ex-a`"),
    ("[an exercise](#ex-a)", "[an exercise](#ex-a)"),
    ("[(eq-a)](#eq-a)", "{eq}`eq-a`"),
    ("[Su and You](#su2026mgt)", "{footcite:t}`su2026mgt`"),
    ("[(Su and You, 2026)](#su2026mgt)", "{footcite:p}`su2026mgt`"),
    ("[ledger](../book/hypotheses.ipynb#a)", "{row}`a`"),
    ("[a table](../book/hypotheses.ipynb#a)", "[a table](../book/hypotheses.ipynb#a)"),
    ('<span id="a-b"></span>\n\n## Heading', "(a-b)=\n\n## Heading"),
    ('<div class="theorem" id="a">\n\n**Theorem 2.1 (A (name)).**\n\nText.\n\n</div>',
     ":::{prf:theorem} A (name)\n:label: a\n\nText.\n\n:::"),
    ('<details class="road">\n\n<details class="proof">\n<summary>Proof</summary>\n\n∎\n\n'
     "</details>\n\n</details>",
     '<details class="road">\n\n:::{prf:proof}\n:class: dropdown\n\n∎\n\n:::\n\n</details>'),
    ('<details class="tip">\n<summary>Hint</summary>\n\nThink.\n\n</details>',
     ":::{admonition} Hint\n:class: dropdown tip\n\nThink.\n\n:::"),
    (f"**Solution of [Exercise 2.1](#ex-a).**\n\nSo.\n\n{SOLVED}",
     ":::{solution-start} ex-a\n:class: dropdown\n:::\n\nSo.\n\n:::{solution-end}\n:::")])
def test_the_page_reads_it_as_myst(plain, read):
    assert myst(plain) == read == myst(read)


@pytest.mark.parametrize("box", ['<div class="theorem">\n\n**Theorem 2.1.**',
                                 '<div class="lemma" id="a">\n\n**A lemma.**',
                                 '<div class="tip">\n\nNo name'])
def test_a_box_without_its_name_or_number_is_refused(box):
    with pytest.raises(ValueError, match="name|number"):
        myst(box)
