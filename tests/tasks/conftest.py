"""A stand-in for the library that reads corpora from the network."""

import sys
from types import ModuleType

import pytest

from geolab.tasks import text


@pytest.fixture
def datasets(monkeypatch):
    """Its corpora are lists of rows, and one can't be reached. The value lists its calls."""
    calls = []

    def load_dataset(path, name=None, *, split, streaming, revision=None):
        calls.append((path, name, split, streaming))
        if path.startswith("HuggingFaceFW"):
            raise ConnectionError("no route to host")
        field = "sentence" if path.startswith("ptb") else "text"
        return [{field: f"{split} {row}"} for row in range(1000)]

    library = ModuleType("datasets")
    library.load_dataset = load_dataset
    monkeypatch.setitem(sys.modules, "datasets", library)
    text.read_bytes.cache_clear()
    yield calls
    text.read_bytes.cache_clear()
