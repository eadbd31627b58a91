"""What the book says of released models: its numbers are the library's, its costs are computed."""

import re
from dataclasses import replace

import pytest

from studies.claims import released
from studies.claims.released import PARITY, READ, REPORTED, Released, table
from studies.parity import RELEASED
from studies.parity.models import MODELS, configuration, models

BY_LABEL = {row.label: row for row in MODELS}


@pytest.mark.parametrize("row", [row for row in MODELS if row.module], ids=lambda row: row.label)
def test_the_keys_of_a_configuration_are_the_library_s(row):
    config = configuration(row)
    assert {key: getattr(config, key) for key in row.keys} == row.keys
    assert getattr(config, row.width) > 0 and getattr(config, row.layers) > 0
    streams = {"hc_mult", "hc_count", "altup_num_inputs"} & row.keys.keys()
    assert [row.keys[key] for key in streams] == ([row.streams] if row.streams > 1 else [])
    assert row.keys.get("n_layers_per_attn_res_block", 0) == row.block


def test_every_row_of_parity_has_its_model_here_and_no_name_stands_twice():
    assert all(BY_LABEL[row.label].module == row.module for row in RELEASED)
    assert len(BY_LABEL) == len({row.name for row in MODELS}) == len(MODELS)


@pytest.mark.parametrize("label, kept, moved", [
    ("granite", 1, 4), ("deepseek-v4", 4, 14), ("hy4", 4, 14), ("deepseek-v4.1", 4, 10),
    ("gemma-3n", 4, None), ("inkling-2", 9, 12), ("muddformer", 49, None),
    ("resformer", 2, None)])
def test_what_a_row_costs_by_hand(label, kept, moved):
    """14 and 10 are the two phases and the floor of chapter 20; 48 layers are 8 blocks of 6."""
    row = BY_LABEL[label]
    assert (row.kept(48), row.moved(48)) == (kept, moved)
    assert row.kept_bytes(48, 1024) == kept * 2048
    if label == "inkling-2":  # a block that has begun is kept
        assert [replace(row, block=5).kept(depth) for depth in (5, 6, 10)] == [2, 3, 3]


def test_evidence_is_graded():
    row = BY_LABEL["beam"]
    assert row.evidence({"beam"}) == PARITY and row.evidence({"doge"}) == READ
    assert BY_LABEL["kimi-k3"].evidence({"kimi-k3"}) == REPORTED
    assert BY_LABEL["muddformer"].evidence(set()) == READ


def test_the_table_has_a_box_per_model_and_no_wide_cell():
    page = models()
    assert re.findall(r'<details id="([^"]+)"', page) == list(BY_LABEL)
    assert page.count("<p style=") == len({row.section for row in MODELS})
    assert "<table" not in page and "nowrap" not in page
    for row in MODELS:
        assert (f"<strong>{row.name}</strong> ("
                f"{row.evidence({row.label for row in RELEASED})})") in page


def test_the_table_says_the_bytes():
    row = Released("a", "A", "2026", "S", "x", "r", "w", "m", "s", "streams", reported="B <i>",
                   streams=3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(released, "RELEASED", [row])
        page = table({"a": (1000, 2)}, ())
    assert "3 D kept between sublayers, 11 D moved per sublayer" in page
    assert "6,000 bytes kept per token" in page and "Source: B &lt;i&gt;" in page
