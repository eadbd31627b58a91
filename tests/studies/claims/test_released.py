"""What the book says of released models: its numbers are the library's, its costs are computed."""

from dataclasses import replace

import pytest

from studies.claims import released
from studies.claims.released import PARITY, READ, REPORTED, table
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


@pytest.mark.parametrize("label, kept, moved", [
    ("granite", 1, 4), ("deepseek-v4", 4, 14), ("deepseek-v4.1", 4, 10), ("gemma-3n", 4, None),
    ("inkling-2", 9, 12), ("muddformer", 49, None)])
def test_what_a_row_costs_by_hand(label, kept, moved):
    """14 and 10 are the two phases and the floor of chapter 20; 48 layers are 8 blocks of 6."""
    row = BY_LABEL[label]
    assert (row.kept(48), row.moved(48)) == (kept, moved)
    assert row.kept_bytes(48, 1024) == kept * 2048


def test_a_block_that_has_begun_is_kept():
    row = replace(BY_LABEL["inkling-2"], block=5)
    assert [row.kept(depth) for depth in (5, 6, 10)] == [2, 3, 3]


def test_the_table_has_a_box_per_model_with_its_evidence_and_bytes(monkeypatch):
    assert all(BY_LABEL[row.label].module == row.module for row in RELEASED)
    assert len(BY_LABEL) == len({row.name for row in MODELS}) == len(MODELS)
    page = models()
    assert page.count("<details id=") == len(MODELS) and "<table" not in page
    for label, evidence in (("beam", PARITY), ("muddformer", READ), ("kimi-k3", REPORTED)):
        assert f"<strong>{BY_LABEL[label].name}</strong> ({evidence})" in page
    row = replace(BY_LABEL["muddformer"], label="a", code="", reported="B <i>", scheme="streams",
                  block=0, streams=3)
    monkeypatch.setattr(released, "RELEASED", [row])
    page = table({"a": (1000, 2)}, ())
    assert "3 D kept between sublayers, 11 D moved per sublayer" in page
    assert "6,000 bytes kept per token" in page and "Source: B &lt;i&gt;" in page
