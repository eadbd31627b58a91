"""Rows of claims: others' words are theirs, and what was observed is read off the stored file."""

import re
from pathlib import Path

import pytest

from studies import ledger
from studies.claims.hypothesis import BOOK, HYPOTHESES
from studies.claims.observation import OBSERVATIONS, Observation
from studies.engine import results

SEEDS = Path(__file__).parents[4] / "shared" / "seeds"   # where the texts lie beside a checkout
HEADS = {"GEOMETRIC AND DYNAMIC SCALING": "MGT", "The E-MHC-Geo Transformer": "E-MHC-Geo",
         "Deep Delta Learning": "DDL", "几何稳定性": "Survey", "Analysis of the Geometric": "GT"}
NOTEBOOK = {"gt-regimes-hint", "gt-drop"}   # words of the course's notebook, which slides lack
ROWS = [row for row in HYPOTHESES if row.source != BOOK]
ONE_KIND = str.maketrans({"’": "'", "“": '"', "”": '"', "—": "-", "–": "-", "（": "(", "）": ")",
                          "$": "", "*": "", "ﬁ": "fi", "ﬂ": "fl"})


# ---------------------------------------------------------------- quotes

def plain(text: str) -> str:
    """The text without white space and marks of type, and with one kind of each other mark."""
    return re.sub(r"\s+|</?u>", "", text.translate(ONE_KIND))


def is_in(quote: str, text: str) -> bool:
    """Whether the text has the pieces of the quote, in their order."""
    return re.search(".*".join(map(re.escape, plain(quote).split("…"))), plain(text)) is not None


def test_a_quote_is_the_words_of_its_own_source():
    """The texts of the papers are read where they lie beside the checkout."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(SEEDS.glob("*.txt"))]
    found = {name: text for text in texts for head, name in HEADS.items()
             if text.lstrip("# \n").startswith(head)}
    assert not SEEDS.is_dir() or set(found) == set(HEADS.values()) <= {row.source for row in ROWS}
    for name, text in found.items():
        lacks = {row.label for row in ROWS if row.source == name and not is_in(row.quote, text)}
        assert lacks == (NOTEBOOK if name == "GT" else set())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.label)
def test_a_quote_is_short_prose_and_stands_on_the_page_in_its_language(row):
    assert len(row.quote.split()) <= 25 and len(row.quote) <= 180
    assert not set("$`*") & set(row.quote)   # a page would show them as they are
    language = "en" if row.source != "Survey" else "zh"
    assert f'<q lang="{language}">' in ledger.entry(row)
    assert row.quote != row.statement


# ---------------------------------------------------------------- one real network

CONTENT = {"a": {"b": {"mean": [0.5, 2.0, 3.0], "half width": [0.1, 0.2, 2.5]},
                 "c": {"mean": 1.0, "half width": 0.2, "windows": [0.9, 1.1, 1.0]},
                 "d": {"mean": 0.5, "half width": 0.2, "windows": [0.4, 0.7, 0.4]}}}


@pytest.mark.parametrize("of, border, measured, verdict", [
    ("a/b/1", {"above": 1.5}, (2.0, 0.2), "seen"),
    ("a/b/1", {"above": 2.1}, (2.0, 0.2), "open"),
    ("a/b/1", {"above": 2.3}, (2.0, 0.2), "not seen"),
    ("a/b/1", {"below": 2.3}, (2.0, 0.2), "seen"),
    ("a/c", {"below": 0.7}, (1.0, 0.2), "not seen"),
    (["a/c", "a/d"], {"above": 0}, (0.5, 0.248), "seen"),
    # 2.0 ± 0.2 counts, 3.0 ± 2.5 doesn't
    ("a/b", {"above": 0, "count": 1.0}, (1.0, 0.0), "seen")])
def test_a_row_compares_an_interval_with_a_border(of, border, measured, verdict):
    row = Observation("real-x", "A.", of, "stream", **border)
    assert row.measured(CONTENT) == pytest.approx(measured, abs=1e-3)
    assert row.verdict(CONTENT) == verdict


@pytest.mark.parametrize("row", OBSERVATIONS, ids=lambda row: row.label)
def test_every_row_has_its_number_in_the_stored_file_and_its_chapter_says_it(row):
    mean, half = row.measured(results.stored(row.study))
    assert half >= 0 and mean == mean
    assert ledger.verdict(row.label) in ("seen", "not seen", "open")
    assert f'id="{row.label}"' in ledger.observed([row])
    if row.chapter[0].isdigit():
        text = (results.ROOT / f"notebooks/{row.chapter}.ipynb").read_text(encoding="utf-8")
        assert f"[ledger](../book/hypotheses.ipynb#{row.label})" in text
