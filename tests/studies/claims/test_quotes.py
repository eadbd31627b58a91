"""Every row of another's claim has the words of its own source, short."""

import re
from pathlib import Path

import pytest

from studies import ledger
from studies.claims.hypothesis import BOOK, HYPOTHESES

SEEDS = Path(__file__).parents[4] / "shared" / "seeds"   # where the texts lie beside a checkout
HEADS = {"GEOMETRIC AND DYNAMIC SCALING": "MGT", "The E-MHC-Geo Transformer": "E-MHC-Geo",
         "Deep Delta Learning": "DDL", "几何稳定性": "Survey", "Analysis of the Geometric": "GT"}
NOTEBOOK = {"gt-regimes-hint", "gt-drop"}   # words of the course's notebook, which slides lack
ROWS = [row for row in HYPOTHESES if row.source != BOOK]
ONE_KIND = str.maketrans({"’": "'", "“": '"', "”": '"', "—": "-", "–": "-", "（": "(", "）": ")",
                          "$": "", "*": "", "ﬁ": "fi", "ﬂ": "fl"})


def plain(text: str) -> str:
    """The text without white space and marks of type, and with one kind of each other mark."""
    return re.sub(r"\s+|</?u>", "", text.translate(ONE_KIND))


def is_in(quote: str, text: str) -> bool:
    """Whether the text has the pieces of the quote, in their order."""
    return re.search(".*".join(map(re.escape, plain(quote).split("…"))), plain(text)) is not None


def texts() -> dict[str, str]:
    """Return the sources beside this checkout, by their short names."""
    found = [path.read_text(encoding="utf-8") for path in sorted(SEEDS.glob("*.txt"))]
    return {name: text for text in found for head, name in HEADS.items()
            if text.lstrip("# \n").startswith(head)}


def test_a_quote_is_the_words_of_its_own_source():
    """The texts of the papers are read where they lie beside the checkout."""
    found = texts()
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
