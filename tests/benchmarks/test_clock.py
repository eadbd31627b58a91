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


def test_a_table_without_a_spread_or_without_a_contender_that_meets_itself_is_seen():
    row = {"residual": "mhc", "ratio": 1.1, "ratio_deciles": [1.0, 1.2], "again": 1.001}
    failed = {"residual": "mhc", "failed": "out of memory"}
    assert lacks({"rows": [row, failed]}) == []
    for missing, said in (("ratio_deciles", "no spread"), ("again", "nothing meets itself")):
        rest = {key: value for key, value in row.items() if key != missing}
        assert said in lacks({"rows": [rest, failed]})[0]
    assert lacks({"rows": [row | {"again": 1.0}, {"residual": "hyper", "ms": 3.0}]})
    twice = [{"contender": who, "us": {}, "us_low": {}} for who in ("kernel", "kernel again")]
    assert lacks({"rows": twice}) == [] and lacks({"rows": twice[:1]})
