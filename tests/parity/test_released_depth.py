"""Residuals that look back compute what the installed transformers compute."""

from dataclasses import replace

import pytest

from studies.parity.installed import installed_agreement
from studies.parity.released_depth import INKLING, ROWS, Ours

EACH = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.label)


@EACH
def test_ours_computes_what_the_library_computes(row):
    found = installed_agreement(row)
    assert found.output < 1e-5 and found.gradient < 1e-5, found


@pytest.mark.parametrize("changed", [
    {"values": "plain"}, {"scaled": False}, {"block": 2}, {"read": "sum"}, {"eps": 1e-2}], ids=str)
def test_each_option_of_ours_counts(changed):
    row = replace(ROWS[0], build=lambda: Ours(**INKLING | changed))
    assert installed_agreement(row).output > 1e-4
