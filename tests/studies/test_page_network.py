"""The networks of a page: trained, rounded to 8 bits, written to files, and read again."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from geolab.models import TransformerConfig
from geolab.tasks.text import sample_text
from geolab.training import Budget
from studies.engine.results import read, record
from studies.engine.run import run_study
from studies.experiments.page_model import LINE, Pieces, build, tokenizer
from studies.experiments.page_network import CONFIG, RESIDUALS, STUDY, TASK, million
from studies.experiments.page_weights import as_text, quantised, read_text, sha256, write

TINY = TransformerConfig.ddl(width=8, layers=1, heads=2, hidden=8, max_length=64)


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Pieces:
    """Two files of the sample: the first is held out, since it is as long as that."""
    folder = tmp_path_factory.mktemp("text")
    for name, split, length in (("a", "validation", 3000), ("b", "train", 20_000)):
        (folder / f"{name}.txt").write_text(sample_text(split)[:length].decode())
    return Pieces(vocabulary=270, corpus=str(folder), held_out=3000)


def small_study(small):
    arms = partial(million, small, TINY, Budget(steps=4, batch=2, evaluate_every=4))
    return replace(STUDY, sizes={"cpu": lambda: [
        replace(arm, protocol=replace(arm.protocol, rates=(1e-2,))) for arm in arms()]})


@pytest.fixture(scope="module")
def made(tmp_path_factory, small):
    """The result of a tiny study, and the folder of its checkpoints."""
    folder = tmp_path_factory.mktemp("page")
    study = small_study(small)
    found = run_study(study, folder=folder / "runs", reason="made by this test")
    record(folder / "result.json", study.question, found)
    return study, folder


def test_a_file_for_each_residual_has_the_measured_weights(made):
    study, folder = made
    files = write(study, folder / "result.json", folder / "runs", folder / "files")
    runs = {run["model"]: run for run in read(folder / "result.json")["runs"]}
    assert [file.name for file in files] == [f"network_{name}.js" for name in RESIDUALS]
    for file, (name, run) in zip(files, runs.items(), strict=True):
        assert file.read_text().startswith(f'geolabNetwork.take("{name}",')
        assert run["measured"]["loss at 8 bits"] == pytest.approx(run["validation_loss"][-1],
                                                                  abs=0.01)
        for spoken in run["measured"]["speaks"].values():
            assert len(spoken["next"]) == 5 and LINE not in spoken["goes on"]


def test_the_checkpoint_of_another_run_is_refused(made):
    study, folder = made
    content = read(folder / "result.json")
    content["runs"][0]["measured"]["sha256"] = "0" * 64
    other = folder / "other.json"
    record(other, study.question, {key: value for key, value in content.items()
                                   if key not in ("sha256", "experiment")})
    with pytest.raises(ValueError, match="give the --folder of its checkpoints"):
        write(study, other, folder / "runs", folder / "refused")
    assert not (folder / "refused").exists()


def test_the_result_says_what_trivial_predictors_lose(made):
    found = read(made[1] / "result.json")
    losses = found["baselines"]
    assert losses["bigram"] < losses["unigram"] < losses["uniform"]
    assert 1 < found["bytes per piece"] < 3


@pytest.mark.parametrize("residual", RESIDUALS)
def test_a_weight_moves_by_half_a_step_of_its_row_and_a_vector_not_at_all(residual, small):
    torch.manual_seed(0)
    model = build(TINY, small.vocabulary, residual, RESIDUALS[residual])
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p))
    text = as_text(model, tokenizer(small))
    again = read_text(text)
    for (name, one), other in zip(model.state_dict().items(), again.state_dict().values(),
                                  strict=True):
        step = one.abs().amax(-1, keepdim=True) / 127 if one.ndim == 2 else 0 * one
        assert ((one - other).abs() <= 0.501 * step).all(), name
    assert sha256(text) == sha256(as_text(model, tokenizer(small)))


def test_a_row_of_zeros_stays_zero():
    whole, scale = quantised(torch.tensor([[0.0, 0.0], [1.0, -0.5]]))
    assert whole.tolist() == [[0, 0], [127, -64]] and scale[0] > 0


def test_the_text_comes_back_from_its_pieces_and_held_out_text_is_not_learned_from(small):
    for split in ("train", "validation"):
        assert tokenizer(small).decode(small.tokens(split).tolist()) == small.text(split)
    assert small.text("validation")[:200] not in small.text("train")


def test_a_file_of_the_study_is_at_most_one_and_a_half_megabytes():
    """In base64, four characters hold three bytes; the pieces take twenty thousand."""
    for arm in STUDY.arms():
        count = sum(p.numel() for p in arm.build().parameters())
        assert count > 0.7e6 and count * 4 / 3 + 1e5 < 1.5e6
    assert CONFIG.max_length == TASK.context
