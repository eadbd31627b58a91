"""The leaderboard reads data and no programs, changes no network, and shares ranks in the noise."""

import json

import pytest
import torch

from geolab.models.pretrained import without_foreign_torchvision
from leaderboard import Entry, Scaled, baselines, cut, losses, read, table, tied

COUNT = 6


@pytest.fixture(scope="module")
def model():
    with without_foreign_torchvision():
        from transformers import LlamaConfig, LlamaForCausalLM
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=50, hidden_size=16, intermediate_size=32, num_hidden_layers=COUNT,
        num_attention_heads=2, initializer_range=0.5)).eval()


@pytest.fixture(scope="module")
def texts():
    draw = torch.Generator().manual_seed(0)
    return [torch.randint(50, (1, 12), generator=draw) for _ in range(3)]


def whole(scales: float = 1.0) -> Entry:
    return Entry("all", list(range(COUNT)), [scales] * COUNT)


def test_the_whole_network_scores_what_it_scores_alone(model, texts):
    alone = [torch.nn.functional.cross_entropy(model(text).logits[0, 1:-1], text[0, 2:]).item()
             for text in texts]
    assert losses(model, whole(), texts) == pytest.approx(alone, rel=1e-5)


def test_a_block_of_scale_zero_is_a_block_left_out(model, texts):
    without = Entry("five", [0, 1, 2, 4, 5], [1.0] * 5)
    muted = Entry("muted", list(range(COUNT)), [1.0, 1.0, 1.0, 0.0, 1.0, 1.0])
    found = losses(model, without, texts)
    assert losses(model, muted, texts) == pytest.approx(found, rel=1e-5)
    assert found != pytest.approx(losses(model, whole(), texts), rel=1e-5)


def test_the_network_is_afterwards_as_before(model, texts):
    before, layers = losses(model, whole(), texts), model.model.layers
    losses(model, Entry("two", [3, 3], [2.0, -1.0]), texts)
    assert model.model.layers is layers and model.config.num_hidden_layers == COUNT
    assert losses(model, whole(), texts) == before


def test_a_scale_multiplies_what_a_block_adds():
    x = torch.randn(2, 3)
    assert torch.allclose(Scaled(torch.nn.Tanh(), 0.5)(x), x + 0.5 * (x.tanh() - x))


@pytest.mark.parametrize("text, said", [
    ("print('mine')", "isn't a JSON file"), ("[1, 2]", "isn't a JSON file"),
    ('{"team": "a", "blocks": [0, 1, 2, 3, 4, 5]}', "1 to 5 numbers from 0 to 5"),
    ('{"team": "a", "blocks": [6]}', "1 to 5 numbers"), ('{"team": "a", "blocks": []}', "1 to 5"),
    ('{"team": "a", "blocks": [true]}', "1 to 5"), ('{"team": "a", "blocks": "01"}', "1 to 5"),
    ('{"team": "a", "blocks": [0], "scales": [NaN]}', "scales must be"),
    ('{"team": "a", "blocks": [0], "scales": [1, 1]}', "scales must be"),
    ('{"team": "a", "blocks": [0], "scales": [1e9]}', "scales must be")])
def test_a_wrong_file_is_named(tmp_path, text, said):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ValueError, match=said):
        read(tmp_path / "a.json", COUNT)


def test_a_right_file_is_read(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps({"team": "Ä", "blocks": [5, 0], "scales": [1, 2]}))
    assert read(tmp_path / "a.json", COUNT) == Entry("Ä", [5, 0], [1.0, 2.0])


def test_baselines_keep_to_the_rule():
    found = {entry.team: entry.blocks for entry in baselines(30)}
    assert len(found.pop("the whole network")) == 30
    assert all(len(set(blocks)) == 25 for blocks in found.values())


def test_equal_teams_share_a_rank():
    assert tied([1.0, 2.0, 3.0], [1.1, 1.9, 3.0]) and not tied([1.0, 2.0, 3.0], [2.0, 3.0, 4.1])
    rows = table({"Cy": (4, [2.0, 3.0, 4.1]), "Ann": (4, [1.0, 2.0, 3.0]),
                  "Bo": (4, [1.1, 1.9, 3.1]), "baseline: x": (4, [1.5, 2.5, 3.5])}).splitlines()
    assert [row.split(" | ")[0] + row.split(" | ")[1] for row in rows[2:]] == [
        "| 1Ann", "| 1Bo", "| –baseline: x", "| 3Cy"]


def test_a_text_must_be_long_enough():
    def tokenizer(text, return_tensors):
        return type("Ids", (), {"input_ids": torch.arange(len(text))[None]})

    made = cut("x" * 5000, tokenizer)
    assert len(made) == 8 and {window.shape for window in made} == {(1, 256)}
    assert made[0][0, 0] == 0 and made[-1][0, -1] == 4999
    with pytest.raises(ValueError, match="must have 2048 tokens, got 9"):
        cut("too short", tokenizer)
