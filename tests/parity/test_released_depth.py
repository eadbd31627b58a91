"""What the rows of residuals that look back rest on: each of their options."""

from dataclasses import replace

import pytest

from studies.parity.installed import installed_agreement
from studies.parity.released_depth import INKLING, ROWS, Ours


def test_each_of_the_three_inputs_counts():
    def turned(weights):
        return {name: weight.roll(1, 0) if name.endswith("query") and weight.ndim == 2 else weight
                for name, weight in ROWS[0].translate(weights).items()}

    assert installed_agreement(replace(ROWS[0], translate=turned)).output > 1e-4


@pytest.mark.parametrize("changed", [
    {"values": "plain"}, {"scaled": False}, {"block": 2}, {"read": "sum"}, {"eps": 1e-2}], ids=str)
def test_each_option_of_ours_counts(changed):
    row = replace(ROWS[0], build=lambda: Ours(**INKLING | changed))
    assert installed_agreement(row).output > 1e-4
