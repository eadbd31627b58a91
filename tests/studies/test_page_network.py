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
from studies.experiments.page_network import RESIDUALS, STUDY, million
from studies.experiments.page_weights import as_text, read_text, write

TINY = TransformerConfig.ddl(width=8, layers=1, heads=2, hidden=8, max_length=64)


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Pieces:
    """Two files of the sample: the first is held out, since it is as long as that."""
    folder = tmp_path_factory.mktemp("text")
    for name, split, length in (("a", "validation", 3000), ("b", "train", 20_000)):
        (folder / f"{name}.txt").write_text(sample_text(split)[:length].decode())
    return Pieces(vocabulary=270, corpus=str(folder), held_out=3000)


@pytest.fixture(scope="module")
def made(tmp_path_factory, small):
    """A tiny study, and the folder of its result and of its checkpoints."""
    folder = tmp_path_factory.mktemp("page")
    arms = partial(million, small, TINY, Budget(steps=4, batch=2, evaluate_every=4))
    study = replace(STUDY, sizes={"cpu": lambda: [
        replace(arm, protocol=replace(arm.protocol, rates=(1e-2,))) for arm in arms()]})
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
    record(folder / "other.json", study.question,
           {key: value for key, value in content.items() if key not in ("sha256", "experiment")})
    with pytest.raises(ValueError, match="give the --folder of its checkpoints"):
        write(study, folder / "other.json", folder / "runs", folder / "refused")
    assert not (folder / "refused").exists()


@pytest.mark.parametrize("residual", RESIDUALS)
def test_a_weight_moves_by_half_a_step_of_its_row_and_a_vector_not_at_all(residual, small):
    model = build(TINY, small.vocabulary, residual, RESIDUALS[residual])
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p))
        model.embedding.weight[0] = 0   # a row without a largest number
    again = read_text(as_text(model, tokenizer(small))).state_dict()
    for name, one in model.state_dict().items():
        step = one.abs().amax(-1, keepdim=True) / 127 if one.ndim == 2 else 0 * one
        assert ((one - again[name]).abs() <= 0.501 * step).all(), name


def test_the_text_comes_back_from_its_pieces_and_held_out_text_is_not_learned_from(small):
    for split in ("train", "validation"):
        assert tokenizer(small).decode(small.tokens(split).tolist()) == small.text(split)
    assert small.text("validation")[:200] not in small.text("train")
