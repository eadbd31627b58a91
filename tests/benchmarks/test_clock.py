"""A stored table of times has a spread in every row and a contender that meets itself."""

import json

import pytest
from shared_clock import lacks

from studies.engine.results import FOLDER

BENCHMARKS = ("kernels_", "steps_", "profile_", "tokens_", "mixes_", "cayley_", "layouts")
STORED = sorted(path.name for path in FOLDER.glob("*.json") if path.name.startswith(BENCHMARKS))
# Measured before a table had such a contender. The first file was put together from what a run had
# printed, and its rows have no spread either. A new measurement takes its name from this list.
WITHOUT = {"steps_h100.json", "steps_cpu.json", "steps_table5_cpu.json", "cayley_cpu.json",
           *(name for name in STORED if name.startswith("kernels_h100."))}


@pytest.mark.parametrize("name", STORED)
def test_a_stored_table_lacks_nothing_unless_it_is_known_to(name):
    assert bool(lacks(json.loads((FOLDER / name).read_text()))) == (name in WITHOUT)
