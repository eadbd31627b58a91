"""The leaderboard reads data and no programs, changes no network, and shares ranks in the noise."""

import json
import math

import pytest
import torch

from leaderboard import Entry, baselines, cut, losses, read, table

COUNT = 6
WHOLE = Entry("all", list(range(COUNT)), [1.0] * COUNT)


@pytest.fixture(scope="module")
def model(transformers):
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=50, hidden_size=16, intermediate_size=32, num_hidden_layers=COUNT,
        num_attention_heads=2, initializer_range=0.5)).eval()


@pytest.fixture(scope="module")
def texts():
    draw = torch.Generator().manual_seed(0)
    return [torch.randint(50, (1, 12), generator=draw) for _ in range(3)]


def test_a_score_is_that_of_the_network_so_cut_which_stays_what_it_was(model, texts):
    alone = [torch.nn.functional.cross_entropy(model(text).logits[0, 1:-1], text[0, 2:]).item()
             for text in texts]
    assert losses(model, WHOLE, texts) == pytest.approx(alone, rel=1e-5)
    layers, kept = model.model.layers, [0, 1, 2, 4, 5]
    found = losses(model, Entry("five", kept, [1.0] * 5), texts)
    assert model.model.layers is layers and model.config.num_hidden_layers == COUNT
    assert losses(model, WHOLE, texts) == pytest.approx(alone, rel=1e-5)
    muted = Entry("muted", list(range(COUNT)), [1.0, 1.0, 1.0, 0.0, 1.0, 1.0])
    assert losses(model, muted, texts) == pytest.approx(found, rel=1e-5)
    assert found != pytest.approx(alone, rel=1e-5)


@pytest.mark.parametrize("text, said", [
    ("print('mine')", "isn't a JSON file"), ("[1, 2]", "isn't a JSON file"),
    ("[" * 100_000, "isn't a JSON file"), ('{"team": "baseline", "blocks": [0]}', "must be a name"),
    ('{"team": " ", "blocks": [0]}', "must be a name"),
    *((f'{{"team": "a", "blocks": {blocks}}}', "1 to 5 numbers from 0 to 5")
      for blocks in ("[0, 1, 2, 3, 4, 5]", "[6]", "[]", "[true]", '"01"')),
    *((f'{{"team": "a", "blocks": [0], "scales": {scales}}}', "scales must be")
      for scales in ("[NaN]", "[1, 1]", "[1e9]"))])
def test_a_wrong_file_is_named(tmp_path, text, said):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ValueError, match=said):
        read(tmp_path / "a.json", COUNT)


def test_a_right_file_is_read_and_so_are_the_baselines(tmp_path):
    for team, blocks, scales in (("Ä", [5, 0], [1, 2]), *(entry for entry in baselines(COUNT)
                                                         if len(entry.blocks) < COUNT)):
        team = team.replace("baseline", "like")  # a team has another name
        data = {"team": team, "blocks": blocks, "scales": scales}
        (tmp_path / "a.json").write_text(json.dumps(data))
        assert read(tmp_path / "a.json", COUNT) == Entry(team, blocks, list(map(float, scales)))
        assert len(set(blocks)) == (2 if team == "Ä" else 5)


def test_a_name_is_one_cell_of_the_table_and_an_editor_may_have_marked_its_encoding(tmp_path):
    (tmp_path / "a.json").write_text('\ufeff{"team": "Ä | 1\\nB", "blocks": [0]}', "utf-8")
    assert read(tmp_path / "a.json", COUNT).team == "Ä 1 B"
    (tmp_path / "b.json").mkdir()
    with pytest.raises(ValueError, match="b.json isn't a JSON file"):
        read(tmp_path / "b.json", COUNT)


def test_teams_whose_networks_overflow_come_last_and_share_a_rank():
    rows = table({"Ann": (4, [math.inf, 2.0]), "Bo": (4, [1.1, 1.9]), "Cy": (4, [math.inf] * 2)})
    assert [row[:8] for row in rows.splitlines()[2:]] == ["| 1 | Bo", "| 2 | An", "| 2 | Cy"]
    assert rows.count("| inf | inf |") == 2


def test_equal_teams_share_a_rank():
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
