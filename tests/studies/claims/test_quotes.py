"""A row that quotes its source has the source's own words, short."""

import re
from pathlib import Path

import pytest

from studies import ledger
from studies.claims.hypothesis import BOOK, HYPOTHESES

SEEDS = Path(__file__).parents[4] / "shared" / "seeds"   # where the sources lie beside a checkout
QUOTED = [row for row in HYPOTHESES if row.quote]


def plain(text: str) -> str:
    """The text without white space, and with one kind of each mark."""
    return re.sub(r"\s+", "", text.replace("’", "'").replace("“", '"').replace("”", '"')
                  .replace("—", "-").replace("–", "-"))


def unknown(quotes: list[str], sources: list[str]) -> list[str]:
    texts = [plain(source) for source in sources]
    return [quote for quote in quotes if not any(plain(quote) in text for text in texts)]


def test_words_that_no_source_has_are_found_out():
    assert unknown(["a “gain” of", "a loss"], ['They see a "gain"\n of 2.']) == ["a loss"]


def test_a_quote_is_its_source_s_own_words():
    """Where the sources are at hand."""
    sources = [path.read_text() for path in sorted(SEEDS.glob("*.txt"))]
    if sources:
        assert unknown([row.quote for row in QUOTED], sources) == []


@pytest.mark.parametrize("row", QUOTED, ids=lambda row: row.label)
def test_a_quote_is_short_and_of_another_s_claim(row):
    assert row.source != BOOK and len(row.quote.split()) <= 25
    assert not set("$`") & set(row.quote)   # a page would show them as they are
    assert "<q" in ledger.entry(row)
