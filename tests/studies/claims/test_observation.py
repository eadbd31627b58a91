"""What was seen in one real network: each row is read off the stored file, and says its border."""

import pytest

from studies import ledger
from studies.claims.observation import OBSERVATIONS, Observation
from studies.engine import results
from studies.engine.results import ROOT

CONTENT = {"a": {"b": {"mean": [0.5, 2.0, 3.0], "half width": [0.1, 0.2, 2.5]},
                 "c": {"mean": 1.0, "half width": 0.2, "windows": [0.9, 1.1, 1.0]},
                 "d": {"mean": 0.5, "half width": 0.2, "windows": [0.4, 0.7, 0.4]}}}
ROW = {"label": "real-x", "statement": "A.", "chapter": "stream"}


@pytest.mark.parametrize("of, border, measured, verdict", [
    ("a/b/1", {"above": 1.5}, (2.0, 0.2), "seen"),
    ("a/b/1", {"above": 2.1}, (2.0, 0.2), "open"),
    ("a/b/1", {"above": 2.3}, (2.0, 0.2), "not seen"),
    ("a/b/1", {"below": 2.3}, (2.0, 0.2), "seen"),
    ("a/c", {"below": 0.7}, (1.0, 0.2), "not seen"),
    (["a/c", "a/d"], {"above": 0}, (0.5, 0.248), "seen"),
])
def test_a_row_compares_an_interval_with_a_border(of, border, measured, verdict):
    row = Observation(of=of, **ROW, **border)
    assert row.measured(CONTENT) == pytest.approx(measured, abs=1e-3)
    assert row.verdict(CONTENT) == verdict


def test_a_count_takes_what_lies_above_with_its_interval():
    row = Observation(of="a/b", count=1.0, above=0, **ROW)
    assert row.measured(CONTENT) == (1.0, 0.0)   # 2.0 ± 0.2 counts, 3.0 ± 2.5 doesn't


@pytest.mark.parametrize("row", OBSERVATIONS, ids=lambda row: row.label)
def test_every_row_has_its_number_in_the_stored_file_and_its_chapter_says_it(row):
    mean, half = row.measured(results.stored(row.study))
    assert half >= 0 and mean == mean
    assert ledger.verdict(row.label) in ("seen", "not seen", "open")
    assert f'id="{row.label}"' in ledger.observed()
    if row.chapter[0].isdigit():
        text = (ROOT / "notebooks" / f"{row.chapter}.ipynb").read_text(encoding="utf-8")
        assert f"[ledger](../book/hypotheses.ipynb#{row.label})" in text
