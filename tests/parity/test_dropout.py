"""Dropout by a rule: two forms of one model agree under it, and another place or share is seen."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from studies.parity import lecture
from studies.parity.dropout import PERIOD, dropout_by_rule
from studies.parity.lecture_models import LECTURE
from studies.parity.public import Public, agreement

ROWS = {public.label: public for public in lecture.PUBLIC}


def test_a_call_drops_every_fifth_feature_from_its_number_on():
    drop, x = nn.Dropout(0.2), torch.randn(3, 4, 7)
    with dropout_by_rule():
        for call in range(3):
            kept = torch.tensor([(i + call) % PERIOD > 0 for i in range(7)])
            assert_close(drop(x), x * kept / 0.8)
            assert torch.equal(F.dropout(x, 0.5, training=False), x)   # doesn't count
            assert torch.equal(F.dropout(x, 0.0), x)                   # neither


@pytest.mark.parametrize("mask", ["none", "boolean", "of numbers", "causal"])
def test_attention_drops_weights_the_same_in_both_of_torchs_ways(mask):
    attention = nn.MultiheadAttention(8, 2, dropout=0.3, batch_first=True)
    x, ahead = torch.randn(3, 6, 8), torch.ones(6, 6, dtype=torch.bool).triu(1)
    given = {"none": None, "of numbers": torch.zeros(6, 6).masked_fill(ahead, -torch.inf)}
    options = {"attn_mask": given.get(mask, ahead), "is_causal": mask == "causal"}
    found = []
    for need_weights in (True, False):
        with dropout_by_rule():
            found.append(attention(x, x, x, need_weights=need_weights, **options)[0])
    assert_close(*found)
    assert (found[0] - attention.eval()(x, x, x, **options)[0]).abs().max() > 1e-3


# what another option would do to a model whose public form agrees with ours
@pytest.mark.parametrize("key, change", [
    ("lite", {"dropout": 0.2}), ("lite", {"dropout_at": ("hidden", "A")}),
    ("full", {"dropout_at": ("weights", "A")}),
    ("moe", {"dropout_at": ("weights", "hidden", "A")}),
    ("decoder", {"dropout_at": ("weights", "hidden", "A")}),
    ("sudoku-gt", {"dropout_at": ("weights", "hidden", "A")}),
    ("sudoku-transformer", {"activation": "relu"}),
    ("words-gt", {"masked": False, "causal": True}),
    ("words-transformer", {"positions": "none"})], ids=str)
def test_another_option_is_seen(key, change):
    public = ROWS[f"gt-{key}"]
    sizes = public.build.keywords
    other = Public(public.label, public.source, public.name, public.ours,
                   lambda: LECTURE[key].make(**sizes | change), public.translate)
    assert agreement(other).output > 1e-3
