"""Claims are data: their files have the form of the schema."""

import json

import jsonschema
import pytest

from studies.claims import files
from studies.claims.files import HERE, entries, read
from studies.claims.hypothesis import hypothesis
from studies.claims.table import table

SCHEMA = json.loads((HERE / "schema.json").read_text())
NAMES = [path.relative_to(HERE).with_suffix("").as_posix() for path in sorted(HERE.glob("*/*.yml"))]
ROW = {"label": "a-b", "source": "DDL", "number": "table 1", "statement": "A.",
       "chapter": "02_delta_operator"}


@pytest.mark.parametrize("name", NAMES)
def test_a_file_has_the_form_of_the_schema(name):
    kind = name.partition("/")[0]
    jsonschema.validate(read(name), SCHEMA | {"$ref": f"#/$defs/{kind}"})


def test_a_rows_own_entry_counts_more_than_its_groups(monkeypatch):
    rows = [ROW, ROW | {"unit": "γ"}]
    monkeypatch.setattr(files, "read", lambda name: [{"unit": "nats", "quote": "A", "rows": rows}])
    assert [row.unit for row in entries("room", ["a"], hypothesis)] == ["nats", "γ"]


def test_a_table_has_a_number_for_each_column():
    given = {"source": "DDL", "number": "table 1", "origin": "the text", "unit": "nats"}
    found = table(columns=["a", 2], rows={"x": "1.5±.5 2e3", "y": "1 2"}, scale=2, **given)
    assert found.rows["x"] == {"a": (3.0, 1.0), "2": (4000.0, None)}
