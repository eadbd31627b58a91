"""What the rows of residuals with several streams rest on: their options, and a transposition."""

from dataclasses import replace
from functools import partial

import pytest

from studies.parity.installed import installed_agreement
from studies.parity.released_streams import BUILT, ROWS, Ours

ROW = {row.label: row for row in ROWS}


@pytest.mark.parametrize("label, changed", [
    ("deepseek-v4", {"eps": 0.0}), ("deepseek-v4", {"norm_eps": 0.0}),
    ("deepseek-v4", {"order": "row-column"}), ("deepseek-v4", {"iterations": 2}),
    ("deepseek-v4", {"write_eps": 1e-2}), ("glm-5.3-flash", {"eps": 0.0}),
    ("hy4", {"eps": 0.0}), ("hy4", {"write_eps": 0.0}), ("qwen4-exp", {"eps": 0.0}),
], ids=str)
def test_each_option_of_ours_counts(label, changed):
    row = replace(ROW[label], build=partial(Ours, **BUILT[label] | changed))
    found = installed_agreement(row)
    assert max(found.output, found.gradient) > 1e-4


def test_the_transposition_of_the_released_matrix_counts():
    def untransposed(weights):
        found = ROW["deepseek-v4"].translate(weights)
        for k, site in enumerate(("attn_hc", "ffn_hc")):
            found[f"residuals.{k}.maps.bias"] = weights[f"layers.0.{site}.base"]
        return found

    assert installed_agreement(replace(ROW["deepseek-v4"], translate=untransposed)).output > 1e-4
