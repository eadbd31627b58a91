"""Claims are data: their files have the form of the schema, and what is wrong is named."""

import json

import jsonschema
import pytest

from studies.claims import files
from studies.claims.files import HERE, entries, read
from studies.claims.hypothesis import hypothesis
from studies.claims.table import table
from studies.claims.theorem import Theorem

SCHEMA = json.loads((HERE / "schema.json").read_text())
NAMES = [path.relative_to(HERE).with_suffix("").as_posix() for path in sorted(HERE.glob("*/*.yml"))]
GOOD = {"label": "a-b", "source": "DDL", "number": "table 1", "statement": "A.",
        "chapter": "02_delta_operator"}


@pytest.mark.parametrize("name", NAMES)
def test_a_file_has_the_form_of_the_schema(name):
    kind = name.partition("/")[0]
    jsonschema.validate(read(name), SCHEMA | {"$ref": f"#/$defs/{kind}"})


@pytest.mark.parametrize("source, quote, valid", [
    ("DDL", {"quote": "a loss"}, True), ("DDL", {}, False),
    ("this book", {}, True), ("this book", {"quote": "a loss"}, False)])
def test_the_schema_wants_the_words_of_every_other_source(source, quote, valid):
    row = {"label": "a", "source": source, "number": "", "statement": "A."} | quote
    form = jsonschema.Draft202012Validator(SCHEMA | {"$ref": "#/$defs/hypotheses"})
    assert form.is_valid([{"chapter": "02_delta", "rows": [row]}]) == valid


@pytest.mark.parametrize("make, changes, message", [
    (hypothesis, {"source": "nobody"}, "source must be one of .*got 'nobody'"),
    (hypothesis, {"quantity": "beauty"}, "quantity must be one of .*got 'beauty'"),
    (hypothesis, {"contrasts": {}}, "unexpected keyword argument 'contrasts'"),
    (hypothesis, {}, "quote must be the words of DDL, got none"),
    (hypothesis, {"source": "this book", "quote": "so"}, "quote must be empty .*got 'so'"),
    (Theorem, {"verdict": "true"}, "verdict must be one of .*got 'true'")])
def test_a_wrong_row_is_named_with_its_file(monkeypatch, make, changes, message):
    monkeypatch.setattr(files, "read", lambda name: [{"rows": [GOOD | changes]}])
    with pytest.raises(ValueError, match=f"claims/room/a.yml, row 'a-b': .*{message}"):
        list(entries("room", ["a"], make))


def test_a_rows_own_entry_counts_more_than_its_groups(monkeypatch):
    rows = [GOOD, GOOD | {"unit": "γ"}]
    monkeypatch.setattr(files, "read", lambda name: [{"unit": "nats", "quote": "A", "rows": rows}])
    assert [row.unit for row in entries("room", ["a"], hypothesis)] == ["nats", "γ"]


def test_a_table_has_a_number_for_each_column():
    given = {"source": "DDL", "number": "table 1", "origin": "the text", "unit": "nats"}
    found = table(columns=["a", 2], rows={"x": "1.5±.5 2e3", "y": "1 2"}, scale=2, **given)
    assert found.rows["x"] == {"a": (3.0, 1.0), "2": (4000.0, None)}
